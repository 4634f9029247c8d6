/// EVAL and EVALSHA, and what the server's state allows a script.
extension SimulatedRedis {
  func runScript(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    guard let count = SimulatedRedisNumber.integer(words[2]) else {
      return .error("ERR value is not an integer or out of range")
    }
    if count > words.count - 3 { return .error("ERR Number of keys can't be greater than number of args") }
    if count < 0 { return .error("ERR Number of keys can't be negative") }
    let script: SimulatedRedisScript
    if words[0].count == 4 {
      guard let loaded = load(words[1]) else { return .error("ERR the simulation has no model of this script") }
      script = loaded
    } else {
      let digest = words[1].map { (65...90).contains($0) ? $0 + 32 : $0 }
      guard let loaded = self.script(digest) else { return .error("NOSCRIPT No matching script. Please use EVAL.") }
      script = loaded
    }
    if isPrimaryDown, role != .primary { return Self.primaryDown }
    let keys = Array(words[3..<3 + Int(count)])
    let arguments = Array(words[(3 + Int(count))...])
    let time = unixMicroseconds(at: now)
    var hasWritten = false
    let wasOutOfMemory = isOutOfMemory
    let database = session.database
    let isAsking = session.isAsking
    let call = SimulatedRedisScriptCall(
      keys: keys, arguments: arguments, unixMicroseconds: time, digest: script.digest
    ) { command, words in
      let rules = command.rules
      // Redis refuses no write after a script's first one.
      if rules.flags.contains(.write) {
        if !hasWritten, let refusal = self.writeRefusal { return refusal }
        if !hasWritten, wasOutOfMemory, rules.flags.contains(.denyOOM) { return Self.outOfMemory }
        hasWritten = true
      }
      if let cluster = self.cluster {
        let keys = rules.keys == .all ? Array(words.dropFirst()) : Array(words.dropFirst().prefix(1))
        if cluster.redirect(keys, isAsking: isAsking, from: self) != nil {
          return .error("ERR Script attempted to access a non local key in a cluster node")
        }
      }
      guard let reply = self.keyspace.run(command, words, database) else {
        preconditionFailure("a script runs commands on keys")
      }
      return reply
    }
    let reply: SimulatedRedisReply
    do throws(SimulatedRedisScriptFailure) {
      reply = try script.model(call)
    } catch {
      switch error {
      case .refused(let text):
        reply = .error(text)
      case .unmodelled(let why):
        observe?(.unmodelled(what: script.name, why: why))
        reply = .error("ERR the simulation's model of this script cannot do that: \(why)")
      }
    }
    if let observe {
      observe(
        .script(
          SimulatedRedisCall(
            connection: session.connection, database: database, keys: keys, arguments: arguments, reply: reply,
            unixMicroseconds: time), name: script.name))
    }
    return reply
  }
}
