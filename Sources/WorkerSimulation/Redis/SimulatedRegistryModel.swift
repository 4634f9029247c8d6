/// Models of the scripts that read the registry of devices. Records and sets are opaque bytes to them.
enum SimulatedRegistryModel {
  static func find(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let keys = try SimulatedRegistryKeys(call)
    var found: [(ids: SimulatedRedisReply, tokens: SimulatedRedisReply, own: SimulatedRedisReply)] = []
    var wanted: [Int] = []
    for start in stride(from: 2, through: call.arguments.count, by: 6) {
      let ids = try members(call, keys, bucket: call.argument(start), word: call.argument(start + 1))
      let tokens = try members(call, keys, bucket: call.argument(start + 2), word: call.argument(start + 3))
      let ordinal = try call.argument(start + 4)
      let own = ordinal.isEmpty ? .null : try record(call, keys, UInt32(try call.number(start + 4)))
      let wish = try call.argument(start + 5)
      let isUnknown = if case .array(let values) = ids { values.first == .bulk([]) } else { false }
      if wish == [UInt8(ascii: "2")] || wish == [UInt8(ascii: "1")] && isUnknown { wanted.append(found.count) }
      found.append((ids, tokens, own))
    }
    var given: [Int: Int64] = [:]
    if !wanted.isEmpty {
      let ordinals = try give(call, keys, wanted.count)
      for (index, ordinal) in zip(wanted, ordinals) { given[index] = ordinal }
    }
    return .array(
      found.indices.map { index in
        .array([found[index].ids, found[index].tokens, found[index].own, given[index].map { .integer($0) } ?? .null])
      })
  }

  /// Unused ordinals: first those that are free the longest. They count as free until a device has them.
  private static func give(
    _ call: SimulatedRedisScriptCall, _ keys: SimulatedRegistryKeys, _ count: Int
  ) throws(SimulatedRedisScriptFailure) -> [Int64] {
    let now = SimulatedRedisNumber.text(call.seconds)
    try call.call(
      .set, keys.epoch, SimulatedRedisNumber.text(call.seconds * 1_000_000 + call.microseconds), Array("NX".utf8),
      line: 24)
    let until = SimulatedRedisNumber.text(call.seconds - Int64(try call.number(1)))
    let reply = try call.call(
      .zrangebyscore, keys.free, Array("-inf".utf8), until, Array("LIMIT".utf8), [UInt8(ascii: "0")],
      SimulatedRedisNumber.text(Int64(count)), line: 25)
    var ordinals: [Int64] = []
    if case .array(let values) = reply {
      for case .bulk(let text) in values {
        guard let ordinal = SimulatedRedisNumber.integer(text) else { throw .unmodelled("a free ordinal is no number") }
        ordinals.append(ordinal)
      }
    }
    let missing = Int64(count - ordinals.count)
    if missing > 0 {
      let last = try call.integer(.incrby, keys.next, SimulatedRedisNumber.text(missing), line: 26)
      ordinals += last - missing..<last
    }
    let words = ordinals.flatMap { [now, SimulatedRedisNumber.text($0)] }
    if case .error(let text) = call.attempt(.zadd, [keys.free] + words) { throw call.refusal(text, line: 32) }
    return ordinals
  }

  private static func record(
    _ call: SimulatedRedisScriptCall, _ keys: SimulatedRegistryKeys, _ ordinal: UInt32
  ) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let field = SimulatedRedisNumber.text(Int64(ordinal % 64))
    return try call.text(.hget, keys.group(ordinal / 64), field, line: 3).map { .bulk($0) } ?? .null
  }

  /// A set's ordinals and the record of each; null if it was not requested.
  private static func members(
    _ call: SimulatedRedisScriptCall, _ keys: SimulatedRegistryKeys, bucket: [UInt8], word: [UInt8]
  ) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    if bucket.isEmpty { return .null }
    let value = try call.text(.hget, keys.bucket(bucket), word, line: 7) ?? []
    var replies: [SimulatedRedisReply] = [.bulk(value)]
    for start in stride(from: 0, to: value.count - 3, by: 4) {
      replies.append(try record(call, keys, SimulatedRegistryKeys.ordinal(value, start)))
    }
    return .array(replies)
  }

  static func records(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let keys = try SimulatedRegistryKeys(call)
    let packed = try call.argument(1)
    let ordinals = stride(from: 0, to: packed.count, by: 4).map { SimulatedRegistryKeys.ordinal(packed, $0) }
    let epoch = try call.argument(2)
    if !epoch.isEmpty, try call.text(.get, keys.epoch, line: 3) != epoch {
      return .array(ordinals.map { _ in .null })
    }
    var replies: [SimulatedRedisReply] = []
    var next = 0
    while next < ordinals.count {
      let group = ordinals[next] / 64
      let fields = ordinals[next...].prefix { $0 / 64 == group }.map { SimulatedRedisNumber.text(Int64($0 % 64)) }
      next += fields.count
      switch call.attempt(.hmget, [keys.group(group)] + fields) {
      case .array(let values): replies += values
      case .error(let text): throw call.refusal(text, line: 9)
      default: throw .unmodelled("HMGET gave no list")
      }
    }
    return .array(replies)
  }

  static func words(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let reply = call.attempt(.hmget, [try SimulatedRegistryKeys(call).words] + call.arguments)
    if case .error(let text) = reply { throw call.refusal(text, line: 1) }
    return reply
  }

  static func mark(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try SimulatedRegistryKeys(call).named(call.argument(1))
    let known = try call.text(.get, key, line: 2)
    let isLater: Bool
    if let known {
      isLater = try SimulatedRedisScriptCall.number(known) < call.number(2)
    } else {
      isLater = true
    }
    if isLater { try call.call(.set, key, call.argument(2), Array("EX".utf8), call.argument(3), line: 3) }
    return .integer(0)
  }

  static func count(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let keys = try SimulatedRegistryKeys(call)
    let value = try call.text(.hget, keys.bucket(call.argument(1)), call.argument(2), line: 2) ?? []
    if value != SimulatedRegistryKeys.large { return .integer(Int64(value.count / 4)) }
    let last = try keys.lastChunk(call, line: 5)
    var count = 0
    for chunk in 0...last {
      let key = try keys.chunk(call.argument(3), SimulatedRedisNumber.text(chunk))
      count += SimulatedOrdinalSet(try call.text(.get, key, line: 7) ?? []).places.count
    }
    return .integer(Int64(count))
  }
}
