/// Models of the channel registry's scripts.
enum SimulatedChannelModel {
  private typealias Lua = SimulatedLuaBytes
  private static let yes = Array("1".utf8)
  private static let tab = UInt8(ascii: "\t")

  static func look(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (name, owner, lock) = (try call.argument(1), try call.argument(2), try call.key(4))
    let id = try call.text(.hget, call.key(1), name, line: 1)
    let holder = try call.text(.get, lock, line: 2)
    if let id {
      if holder == owner { try call.call(.del, lock, line: 4) }
      return .array([.integer(0), .bulk(id), .bulk(try call.text(.hget, call.key(2), id, line: 5) ?? [])])
    }
    if let holder, holder != owner { return .array([.integer(1)]) }
    if holder != nil {
      try call.call(.pexpire, lock, call.argument(3), line: 8)
    } else if try call.call(.set, lock, owner, Array("NX".utf8), Array("PX".utf8), call.argument(3), line: 9) == .null {
      return .array([.integer(1)])
    }
    let now = SimulatedRedisNumber.text(call.seconds * 1000 + call.microseconds / 1000)
    if let intent = try call.text(.hget, call.key(3), name, line: 12) {
      return .array([.integer(2), .bulk(intent), .bulk(now)])
    }
    if try call.argument(6) != yes {
      try call.call(.del, lock, line: 14)
      return .array([.integer(6)])
    }
    guard let text = try call.text(.get, call.key(5), line: 15) else { return .array([.integer(4)]) }
    let count = try SimulatedRedisScriptCall.number(text)
    if try count >= call.number(5) {
      try call.call(.del, lock, line: 17)
      return .array([.integer(5), .integer(SimulatedRedisNumber.luaInteger(count))])
    }
    let intent = try call.argument(4) + [tab] + now + [tab] + owner
    try call.call(.hset, call.key(3), name, intent, line: 18)
    return .array([.integer(3), .integer(SimulatedRedisNumber.luaInteger(count))])
  }

  static func store(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (name, id) = (try call.argument(1), try call.argument(3))
    if try call.text(.get, call.key(4), line: 1) != call.argument(2) { return .integer(0) }
    if let known = try call.text(.hget, call.key(2), id, line: 2),
      try call.argument(5) != yes || parts(known)?.name.isEmpty != true
    {
      return .integer(2)
    }
    try call.call(.hset, call.key(2), id, call.argument(4), line: 4)
    try call.call(.hset, call.key(1), name, id, line: 5)
    try call.call(.hdel, call.key(3), name, line: 6)
    try call.call(.del, call.key(4), line: 7)
    if try call.argument(5) == yes, try call.integer(.exists, call.key(5), line: 8) == 1 {
      try call.call(.incr, call.key(5), line: 8)
    }
    return .integer(1)
  }

  static func release(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    if try call.text(.get, call.key(2), line: 1) != call.argument(2) { return .integer(0) }
    if try call.argument(3) == yes { try call.call(.hdel, call.key(1), call.argument(1), line: 2) }
    if try call.argument(4) == yes { try call.call(.del, call.key(2), line: 3) }
    return .integer(1)
  }

  static func learn(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    if try call.argument(2) == yes, try call.integer(.hlen, call.key(2), line: 1) > 0 { return .integer(0) }
    let entry = try unknown(since: call.argument(1))
    var learned: Int64 = 0
    for id in call.arguments.dropFirst(2) { learned += try call.integer(.hsetnx, call.key(1), id, entry, line: 4) }
    return .integer(learned)
  }

  static func policy(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (ids, id, storage) = (try call.key(1), try call.argument(1), try call.argument(2))
    if let known = try call.text(.hget, ids, id, line: 1) {
      try call.call(.hset, ids, id, storage + known.drop { $0 != tab }, line: 2)
    } else if try call.integer(.hlen, call.key(2), line: 3) == 0 {
      try call.call(.hset, ids, id, storage + [tab] + call.argument(3) + [tab, tab], line: 4)
    }
    return .integer(0)
  }

  static func forget(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (names, id) = (try call.key(1), try call.argument(1))
    let known = try call.text(.hget, call.key(2), id, line: 1)
    try call.call(.zrem, call.key(3), id, line: 2)
    guard let known else { return .integer(0) }
    try dropName(of: known, id, names, line: 5, call)
    try call.call(.hdel, call.key(2), id, line: 6)
    if try call.integer(.exists, call.key(4), line: 7) == 1 { try call.call(.decr, call.key(4), line: 7) }
    return .integer(1)
  }

  static func claim(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let id = try call.argument(1)
    guard let known = try call.text(.hget, call.key(2), id, line: 1) else { return .integer(0) }
    guard let parts = parts(known) else { throw .unmodelled("an entry that is none") }
    let used = try call.text(.zscore, call.key(3), id, line: 4).map(number) ?? 0
    let created = try SimulatedRedisScriptCall.number(Array(parts.created)) / 1000
    if try max(used, created) > call.number(2) { return .integer(0) }
    try dropName(of: known, id, call.key(1), line: 6, call)
    return .integer(1)
  }

  static func take(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    if let known = try call.text(.hget, call.key(1), call.argument(1), line: 1) {
      return .integer(parts(known)?.name.isEmpty == true ? 1 : 0)
    }
    let entry = try unknown(since: call.argument(2))
    try call.call(.hset, call.key(1), call.argument(1), entry, line: 3)
    return .integer(1)
  }

  static func use(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let used = try call.key(1)
    for id in call.arguments.dropFirst() {
      let known = try call.text(.zscore, used, id, line: 2).map(number) ?? 0
      if try known < call.number(1) { try call.call(.zadd, used, call.argument(1), id, line: 3) }
    }
    return .integer(0)
  }

  private static func number(_ text: [UInt8]) -> Double { SimulatedRedisNumber.luaNumber(text) ?? 0 }

  /// The entry of a channel without a known owner.
  private static func unknown(since time: [UInt8]) -> [UInt8] { [UInt8(ascii: "?"), tab] + time + [tab, tab] }

  /// An entry's creation time and name; nil: malformed.
  private static func parts(_ entry: [UInt8]) -> (created: ArraySlice<UInt8>, name: ArraySlice<UInt8>)? {
    let parts = entry.split(separator: tab, maxSplits: 3, omittingEmptySubsequences: false)
    return parts.count == 4 ? (parts[1], parts[3]) : nil
  }

  /// Removes the channel's name, if the name points to the channel.
  private static func dropName(
    of entry: [UInt8], _ id: [UInt8], _ names: [UInt8], line: Int, _ call: SimulatedRedisScriptCall
  ) throws(SimulatedRedisScriptFailure) {
    guard let name = parts(entry).map({ Array($0.name) }) else { throw .unmodelled("an entry that is none") }
    if name.isEmpty { return }
    if try call.text(.hget, names, name, line: line) == id { try call.call(.hdel, names, name, line: line) }
  }
}
