/// Commands on keys, with Redis' answers.
extension SimulatedRedisKeyspace {
  static let notANumber = SimulatedRedisReply.error("ERR value is not an integer or out of range")
  static let syntaxError = SimulatedRedisReply.error("ERR syntax error")
  static let wrongKind = SimulatedRedisReply.error(
    "WRONGTYPE Operation against a key holding the wrong kind of value")

  /// Runs a command with a valid number of words. nil: it is not a command on keys.
  func run(_ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int) -> SimulatedRedisReply? {
    switch command {
    case .get:
      return withString(words[1], database) { $0.map { .bulk($0) } ?? .null }
    case .strlen:
      return withString(words[1], database) { .integer(Int64($0?.count ?? 0)) }
    case .mget:
      return .array(
        words.dropFirst().map { key in
          if case .string(let bytes) = entry(key, database)?.value { .bulk(bytes) } else { .null }
        })
    case .set:
      return set(words, database)
    case .setex, .psetex:
      guard let time = SimulatedRedisNumber.integer(words[2]) else { return Self.notANumber }
      guard let endsAt = end(after: time, inSeconds: command == .setex) else { return invalidExpiry(of: command) }
      write(SimulatedRedisEntry(value: .string(words[3]), endsAt: endsAt), at: words[1], database)
      return .ok
    case .append:
      return withString(words[1], database) { bytes in
        let whole = (bytes ?? []) + words[2]
        write(
          SimulatedRedisEntry(value: .string(whole), endsAt: entry(words[1], database)?.endsAt), at: words[1], database)
        return .integer(Int64(whole.count))
      }
    case .incr, .decr, .incrby:
      guard let step = command == .incrby ? SimulatedRedisNumber.integer(words[2]) : command == .incr ? 1 : -1 else {
        return Self.notANumber
      }
      return withString(words[1], database) { bytes in
        guard let number = bytes.map(SimulatedRedisNumber.integer) ?? 0 else { return Self.notANumber }
        let (sum, isOver) = number.addingReportingOverflow(step)
        if isOver { return .error("ERR increment or decrement would overflow") }
        let endsAt = entry(words[1], database)?.endsAt
        write(
          SimulatedRedisEntry(value: .string(SimulatedRedisNumber.text(sum)), endsAt: endsAt), at: words[1], database)
        return .integer(sum)
      }
    case .del, .unlink:
      var count: Int64 = 0
      for key in words.dropFirst() where entry(key, database) != nil {
        write(nil, at: key, database)
        count += 1
      }
      return .integer(count)
    case .exists:
      return .integer(Int64(words.dropFirst().count { entry($0, database) != nil }))
    case .expire, .pexpire, .pexpireat:
      return expire(command, words, database)
    case .ttl, .pttl:
      guard let entry = entry(words[1], database) else { return .integer(-2) }
      guard let endsAt = entry.endsAt else { return .integer(-1) }
      let left = max(0, endsAt - clock)
      return .integer(command == .ttl ? (left + 500) / 1000 : left)
    case .type:
      switch entry(words[1], database)?.value {
      case .string: return .status(Array("string".utf8))
      case .hash: return .status(Array("hash".utf8))
      case .sortedSet: return .status(Array("zset".utf8))
      case .set: return .status(Array("set".utf8))
      case nil: return .status(Array("none".utf8))
      }
    case .persist:
      guard var entry = entry(words[1], database), entry.endsAt != nil else { return .integer(0) }
      entry.endsAt = nil
      write(entry, at: words[1], database)
      return .integer(1)
    case .hscan, .sscan, .zscan:
      return scan(command, words, database)
    case .bitcount, .bitfield, .getbit, .getrange, .setbit, .setrange:
      return runOnBits(command, words, database)
    case .hexists, .hget, .hgetall, .hkeys, .hlen, .hmget, .hstrlen, .hvals, .hset, .hsetnx, .hdel, .hincrby:
      return runOnHash(command, words, database)
    case .zadd, .zcard, .zcount, .zrem, .zscore, .zrange, .zrangebyscore, .zremrangebyscore,
      .zrevrangebyscore:
      return runOnSortedSet(command, words, database)
    case .sadd, .scard, .sismember, .smembers, .srem:
      return runOnSet(command, words, database)
    case .asking, .auth, .client, .cluster, .echo, .eval, .evalsha, .hello, .info, .ping, .quit, .readonly, .readwrite,
      .reset, .role,
      .script, .select, .time:
      return nil
    }
  }

  func withString(
    _ key: [UInt8], _ database: Int, _ body: ([UInt8]?) -> SimulatedRedisReply
  ) -> SimulatedRedisReply {
    switch entry(key, database)?.value {
    case .string(let bytes): body(bytes)
    case nil: body(nil)
    case .hash, .sortedSet, .set: Self.wrongKind
    }
  }

  /// The expiry, Unix milliseconds; nil: an invalid time.
  private func end(after time: Int64, inSeconds: Bool) -> Int64? {
    guard time > 0 else { return nil }
    let (milliseconds, isOver) = inSeconds ? time.multipliedReportingOverflow(by: 1000) : (time, false)
    if isOver || milliseconds > Int64.max - clock { return nil }
    return clock + milliseconds
  }

  private func invalidExpiry(of command: SimulatedRedisCommand) -> SimulatedRedisReply {
    .error("ERR invalid expire time in '\(command.rawValue)' command")
  }

  private func set(_ words: [[UInt8]], _ database: Int) -> SimulatedRedisReply {
    var time: (value: [UInt8], isSeconds: Bool)?
    var onlyNew = false
    var onlyKnown = false
    var index = 3
    while index < words.count {
      switch String(decoding: words[index], as: UTF8.self).uppercased() {
      case "NX" where !onlyKnown: onlyNew = true
      case "XX" where !onlyNew: onlyKnown = true
      case let unit where (unit == "EX" || unit == "PX") && time == nil && index + 1 < words.count:
        time = (words[index + 1], unit == "EX")
        index += 1
      default: return Self.syntaxError
      }
      index += 1
    }
    var endsAt: Int64?
    if let time {
      guard let number = SimulatedRedisNumber.integer(time.value) else { return Self.notANumber }
      guard let end = end(after: number, inSeconds: time.isSeconds) else { return invalidExpiry(of: .set) }
      endsAt = end
    }
    let isKnown = onlyNew || onlyKnown ? entry(words[1], database) != nil : false
    if onlyNew && isKnown || onlyKnown && !isKnown { return .null }
    write(SimulatedRedisEntry(value: .string(words[2]), endsAt: endsAt), at: words[1], database)
    return .ok
  }

  private func expire(
    _ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int
  ) -> SimulatedRedisReply {
    guard words.count == 3 else {
      return .error("ERR Unsupported option \(String(decoding: words[3], as: UTF8.self))")
    }
    guard let time = SimulatedRedisNumber.integer(words[2]) else { return Self.notANumber }
    let (milliseconds, isOver) = command == .expire ? time.multipliedReportingOverflow(by: 1000) : (time, false)
    let base = command == .pexpireat ? 0 : clock
    if isOver || milliseconds > Int64.max - base { return invalidExpiry(of: command) }
    guard var entry = entry(words[1], database) else { return .integer(0) }
    let endsAt = base + milliseconds
    entry.endsAt = endsAt
    write(endsAt <= clock ? nil : entry, at: words[1], database)
    return .integer(1)
  }

  /// HSCAN, SSCAN, ZSCAN: all at once, as Redis answers for small values. nil: not modelled.
  private func scan(_ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int) -> SimulatedRedisReply? {
    guard SimulatedRedisNumber.integer(words[2]) != nil else { return .error("ERR invalid cursor") }
    let values: [[UInt8]]
    switch (command, entry(words[1], database)?.value) {
    case (_, nil): return .array([.bulk([UInt8(ascii: "0")]), .array([])])
    case (.hscan, .hash(let hash)): values = hash.listed(seed: seed).flatMap { [$0, hash[$0] ?? []] }
    case (.sscan, .set(let set)): values = set.listed
    case (.zscan, .sortedSet(let set)):
      values = set.listed.flatMap { [$0.member, SimulatedRedisNumber.text(of: $0.score)] }
    default: return Self.wrongKind
    }
    if words.count > 3 {
      guard words.count == 5, words[3].map(SimulatedRedis.capital) == Array("COUNT".utf8) else { return nil }
      guard let count = SimulatedRedisNumber.integer(words[4]) else { return Self.notANumber }
      if count < 1 { return Self.syntaxError }
    }
    return .array([.bulk([UInt8(ascii: "0")]), .array(values.map { .bulk($0) })])
  }

  // MARK: - Hashes

  private func runOnHash(
    _ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int
  ) -> SimulatedRedisReply {
    let key = words[1]
    // Redis checks the number first.
    let step = command == .hincrby ? SimulatedRedisNumber.integer(words[3]) : 0
    guard let step else { return Self.notANumber }
    var entry = entry(key, database)
    var hash: SimulatedRedisHash
    switch entry?.value {
    case .hash(let known): hash = known
    case nil: hash = SimulatedRedisHash()
    case .string, .sortedSet, .set: return Self.wrongKind
    }
    func store() {
      entry = hash.count == 0 ? nil : SimulatedRedisEntry(value: .hash(hash), endsAt: entry?.endsAt)
      write(entry, at: key, database)
    }
    switch command {
    case .hget: return hash[words[2]].map { .bulk($0) } ?? .null
    case .hexists: return .integer(hash[words[2]] == nil ? 0 : 1)
    case .hstrlen: return .integer(Int64(hash[words[2]]?.count ?? 0))
    case .hlen: return .integer(Int64(hash.count))
    case .hmget: return .array(words.dropFirst(2).map { field in hash[field].map { .bulk($0) } ?? .null })
    case .hkeys: return .array(hash.listed(seed: seed).map { .bulk($0) })
    case .hvals: return .array(hash.listed(seed: seed).map { .bulk(hash[$0] ?? []) })
    case .hgetall: return .map(hash.listed(seed: seed).flatMap { [.bulk($0), .bulk(hash[$0] ?? [])] })
    case .hsetnx:
      if hash[words[2]] != nil { return .integer(0) }
      _ = hash.set(words[2], words[3], limits: settings)
      store()
      return .integer(1)
    case .hset:
      guard words.count % 2 == 0 else { return .error("ERR wrong number of arguments for 'hset' command") }
      var count: Int64 = 0
      for index in stride(from: 2, to: words.count, by: 2)
      where hash.set(words[index], words[index + 1], limits: settings) { count += 1 }
      store()
      return .integer(count)
    case .hincrby:
      guard let number = hash[words[2]].map(SimulatedRedisNumber.integer) ?? 0 else {
        return .error("ERR hash value is not an integer")
      }
      let (sum, isOver) = number.addingReportingOverflow(step)
      if isOver { return .error("ERR increment or decrement would overflow") }
      _ = hash.set(words[2], SimulatedRedisNumber.text(sum), limits: settings)
      store()
      return .integer(sum)
    case .hdel:
      var count: Int64 = 0
      for field in words.dropFirst(2) where hash.remove(field) { count += 1 }
      if count > 0 { store() }
      return .integer(count)
    default: preconditionFailure("no command on hashes")
    }
  }

  // MARK: - Sets

  private func runOnSet(_ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int) -> SimulatedRedisReply {
    let entry = entry(words[1], database)
    var set: SimulatedRedisSet
    switch entry?.value {
    case .set(let known): set = known
    case nil: set = SimulatedRedisSet()
    case .string, .hash, .sortedSet: return Self.wrongKind
    }
    switch command {
    case .scard: return .integer(Int64(set.count))
    case .sismember: return .integer(set.contains(words[2]) ? 1 : 0)
    case .smembers: return .members(set.listed.map { .bulk($0) })
    case .sadd:
      let count = words.dropFirst(2).count { set.insert($0) }
      write(SimulatedRedisEntry(value: .set(set), endsAt: entry?.endsAt), at: words[1], database)
      return .integer(Int64(count))
    case .srem:
      let count = words.dropFirst(2).count { set.remove($0) }
      if count > 0 {
        let left = set.count == 0 ? nil : SimulatedRedisEntry(value: .set(set), endsAt: entry?.endsAt)
        write(left, at: words[1], database)
      }
      return .integer(Int64(count))
    default: preconditionFailure("no command on sets")
    }
  }
}
