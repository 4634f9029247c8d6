/// Models of the activity scripts.
enum SimulatedActivityModel {
  static func read(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var values: [SimulatedRedisReply] = []
    for at in stride(from: 1, through: call.arguments.count, by: 2) {
      let value = try call.text(.hget, key(call, at), call.argument(at + 1), line: 2)
      values.append(value.map { .bulk($0) } ?? .null)
    }
    return .array(values)
  }

  private static func key(
    _ call: SimulatedRedisScriptCall, _ at: Int
  ) throws(SimulatedRedisScriptFailure) -> [UInt8] { try call.key(Int(call.number(at))) }

  static func commit(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let chunkCount = Int(try call.number(5))
    let chunks = Array(call.arguments[5..<5 + chunkCount])
    let first = 7 + chunkCount
    let last = first + 4 * Int(try call.number(6 + chunkCount))
    for at in stride(from: first, to: last, by: 4) {
      let value = try call.text(.hget, key(call, at), call.argument(at + 1), line: 8) ?? []
      if try value != call.argument(at + 2) { return .integer(0) }
    }
    // Fails before the first write if a key is on another node.
    try call.call(.exists, call.key(1), call.key(2), line: 11)
    for at in stride(from: first, to: last, by: 4) {
      let (key, field) = (try key(call, at), try call.argument(at + 1))
      let (old, new) = (try call.argument(at + 2), try call.argument(at + 3))
      if new.isEmpty {
        try call.call(.hdel, key, field, line: 14)
      } else if new != old {
        try call.call(.hset, key, field, new, line: 14)
      }
    }
    for at in stride(from: last, through: call.arguments.count, by: 3) {
      try call.call(.hset, key(call, at), call.argument(at + 1), call.argument(at + 2), line: 16)
    }
    if !chunks.isEmpty, case .error(let text) = call.attempt(.sadd, [try call.key(2)] + chunks) {
      throw call.refusal(text, line: 17)
    }
    if try !call.argument(2).isEmpty {
      try call.call(.zadd, call.key(1), call.argument(2), call.argument(1), line: 19)
      try call.call(.zremrangebyscore, call.key(1), Array("-inf".utf8), call.argument(3), line: 20)
    }
    for key in call.keys.dropFirst() { try call.call(.pexpireat, key, call.argument(4), line: 22) }
    return .integer(1)
  }

  static func places(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let wanted = try call.number(1)
    var lists: [SimulatedRedisReply] = []
    var count = 0
    for key in call.keys {
      let reply = try call.call(.hkeys, key, line: 3)
      if case .array(let fields) = reply { count += fields.count }
      lists.append(reply)
      if Double(count) >= wanted { break }
    }
    return .array(lists)
  }
}
