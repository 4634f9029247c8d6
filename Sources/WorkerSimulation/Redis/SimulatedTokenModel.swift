/// Models of the provider token's scripts.
enum SimulatedTokenModel {
  private typealias Lua = SimulatedLuaBytes

  static func look(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let lock = try call.key(2)
    let owner = try call.argument(4)
    let known = try call.text(.get, call.key(1), line: 1)
    if let known {
      let now = Double(call.seconds)
      let age = now - (try made(known))
      let isNewer = try issued(known) > call.number(1)
      let isAhead = try issued(known) > now + call.number(3)
      let isYoung = try age < call.number(2)
      let isTooYoung = try age < call.number(3)
      if isNewer && !isAhead && isYoung || isTooYoung {
        if try call.text(.get, lock, line: 7) == owner { _ = call.attempt(.del, [lock]) }
        return .bulk(Array(Lua.sub(known, 21)))
      }
    }
    let holder = try call.text(.get, lock, line: 11)
    if let holder, holder != owner { return .integer(0) }
    let unit = Array("PX".utf8)
    if holder != nil {
      try call.call(.set, lock, owner, unit, call.argument(5), line: 13)
    } else if try call.call(.set, lock, owner, Array("NX".utf8), unit, call.argument(5), line: 14) == .null {
      return .integer(0)
    }
    return .integer(known == nil ? 1 : 2)
  }

  static func store(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let token = try call.key(1)
    let lock = try call.key(2)
    if try call.text(.get, lock, line: 1) != call.argument(1) { return .integer(0) }
    if let known = try call.text(.get, token, line: 2) {
      let isAhead = try issued(known) > Double(call.seconds) + call.number(3)
      let isNoNewer = try call.number(2) <= issued(known)
      let isTooSoon = try Double(call.seconds) - made(known) < call.number(3)
      if !isAhead && isNoNewer || isTooSoon {
        try call.call(.del, lock, line: 7)
        return .bulk(Array(Lua.sub(known, 21)))
      }
    }
    let value = try head(call.number(2), Double(call.seconds)) + call.argument(5)
    try call.call(.set, token, value, Array("EX".utf8), call.argument(4), line: 10)
    try call.call(.del, lock, line: 11)
    return try .bulk(call.argument(5))
  }

  static func keep(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let token = try call.key(1)
    let known = try call.text(.get, token, line: 1)
    var its = 0.0
    if let known { its = try issued(known) }
    let ours = try call.number(1)
    let now = Double(call.seconds)
    let isAhead = try ours > now + call.number(4)
    if its > ours || known != nil && isAhead && its < ours { return .bulk(Array(Lua.sub(known ?? [], 21))) }
    let age = try call.number(2)
    let life = try call.number(3) - age
    if its < ours, life > 0 {
      let value = head(ours, now - age) + (try call.argument(5))
      try call.call(.set, token, value, Array("EX".utf8), SimulatedRedisNumber.luaWhole(life), line: 8)
    }
    return .integer(0)
  }

  static func release(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let lock = try call.key(1)
    guard try call.text(.get, lock, line: 1) == call.argument(1) else { return .integer(0) }
    return .integer(try call.integer(.del, lock, line: 1))
  }

  /// `iat` of a stored token, Unix seconds.
  private static func issued(_ value: [UInt8]) throws(SimulatedRedisScriptFailure) -> Double {
    try SimulatedRedisScriptCall.number(Array(Lua.sub(value, 1, 10)))
  }

  /// When it was created by Redis' clock, Unix seconds.
  private static func made(_ value: [UInt8]) throws(SimulatedRedisScriptFailure) -> Double {
    try SimulatedRedisScriptCall.number(Array(Lua.sub(value, 11, 20)))
  }

  /// `string.format('%010d%010d', issued, made)`.
  private static func head(_ issued: Double, _ made: Double) -> [UInt8] {
    [issued, made].flatMap { number in
      let digits = SimulatedRedisNumber.text(SimulatedRedisNumber.luaInteger(number))
      let isNegative = digits.first == UInt8(ascii: "-")
      let zeros = Array(repeating: UInt8(ascii: "0"), count: max(0, 10 - digits.count))
      return isNegative ? [UInt8(ascii: "-")] + zeros + digits.dropFirst() : zeros + digits
    }
  }
}
