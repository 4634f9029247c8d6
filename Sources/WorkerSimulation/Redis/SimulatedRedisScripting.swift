import LuaInterpreter

/// EVAL and EVALSHA, and what the server's state allows a script.
extension SimulatedRedis {
  /// What the commands of one run share.
  private struct Run {
    let database: Int
    let isAsking: Bool
    let unixMicroseconds: Int64
    let wasOutOfMemory: Bool
    /// Redis refuses no write after a script's first one.
    var hasWritten = false
    /// The slot of the keys so far; only in a cluster.
    var slot: Int?
  }

  func runScript(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    guard let count = SimulatedRedisNumber.integer(words[2]) else {
      return .error("ERR value is not an integer or out of range")
    }
    if count > words.count - 3 { return .error("ERR Number of keys can't be greater than number of args") }
    if count < 0 { return .error("ERR Number of keys can't be negative") }
    let digest: [UInt8]
    if words[0].count == 4 {
      do throws(RedisLuaSyntaxError) { digest = try load(words[1]) } catch { return .error(error.text) }
    } else {
      digest = words[1].map { (65...90).contains($0) ? $0 + 32 : $0 }
      guard scripts[digest] != nil else { return .error("NOSCRIPT No matching script. Please use EVAL.") }
    }
    if isPrimaryDown, role != .primary { return Self.primaryDown }
    let keys = Array(words[3..<3 + Int(count)])
    let arguments = Array(words[(3 + Int(count))...])
    let time = unixMicroseconds(at: now)
    var run = Run(
      database: session.database, isAsking: session.isAsking, unixMicroseconds: time, wasOutOfMemory: isOutOfMemory,
      slot: keys.first.map(SimulatedRedisSlot.of))
    let result = lua.run(digest, keys: keys, arguments: arguments) { words in self.answer(words, &run).inScript }
    let reply: SimulatedRedisReply
    switch result {
    case .returned(let value): reply = SimulatedRedisReply(value)
    case .refused(let text): reply = .error(text)
    case .failed(let text):
      observe?(.failedScript(String(decoding: text, as: UTF8.self)))
      reply = .error(text)
    }
    if let observe, let script = scripts[digest] {
      observe(
        .script(
          SimulatedRedisCall(
            connection: session.connection, database: session.database, keys: keys, arguments: arguments, reply: reply,
            unixMicroseconds: time), script))
    }
    return reply
  }

  /// Runs a command of a script. Redis checks in this order.
  private func answer(_ words: [[UInt8]], _ run: inout Run) -> SimulatedRedisReply {
    guard let rules = SimulatedRedisCommand.byName[words[0].map(Self.capital)] else {
      observe?(.unsupportedCommand(words))
      return .error("ERR Unknown Redis command called from script")
    }
    if rules.arity > 0 ? words.count != rules.arity : words.count < -rules.arity {
      return .error("ERR Wrong number of args calling Redis command from script")
    }
    if rules.flags.contains(.noScript) { return .error("ERR This Redis command is not allowed from script") }
    if isPrimaryDown, role != .primary, !rules.flags.contains(.stale) {
      return .error("ERR Can not execute the command on a stale replica")
    }
    if rules.flags.contains(.write) {
      if !run.hasWritten, let writeRefusal { return writeRefusal }
      if !run.hasWritten, run.wasOutOfMemory, rules.flags.contains(.denyOOM) { return Self.outOfMemory }
      run.hasWritten = true
    }
    let keys = rules.keys(of: words)
    if let cluster, let first = keys.first {
      if cluster.redirect(keys, isAsking: run.isAsking, from: self) != nil {
        return .error("ERR Script attempted to access a non local key in a cluster node")
      }
      let slot = SimulatedRedisSlot.of(first)
      if slot != run.slot ?? slot {
        return .error("ERR Script attempted to access keys that do not hash to the same slot")
      }
      run.slot = slot
    }
    if rules.command == .time { return Self.time(run.unixMicroseconds) }
    if rules.command == .echo { return .bulk(words[1]) }
    return keyspace.run(rules.command, words, run.database) ?? unsupported(words)
  }
}
