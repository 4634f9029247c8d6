import LuaInterpreter

/// Commands about the connection and the server.
extension SimulatedRedis {
  /// Runs a command that is not on keys.
  func runOnSession(
    _ command: SimulatedRedisCommand, _ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64
  ) -> SimulatedRedisReply {
    switch command {
    case .ping:
      if words.count > 2 { return .error("ERR wrong number of arguments for 'ping' command") }
      return words.count == 2 ? .bulk(words[1]) : .status(Array("PONG".utf8))
    case .echo:
      return .bulk(words[1])
    case .auth:
      return authenticate(words.dropFirst(), session)
    case .hello:
      return greet(words, session)
    case .select:
      guard let number = SimulatedRedisNumber.integer(words[1]) else {
        return .error("ERR value is not an integer or out of range")
      }
      if cluster != nil, number != 0 { return .error("ERR SELECT is not allowed in cluster mode") }
      guard number >= 0, number < settings.databaseCount else { return .error("ERR DB index is out of range") }
      session.database = Int(number)
      return .ok
    case .role:
      switch role {
      case .primary: return .array([.bulk(Array("master".utf8)), .integer(0), .array([])])
      case .replica(let host, let port):
        return .array([
          .bulk(Array("slave".utf8)), .bulk(Array(host.utf8)), .integer(Int64(port)),
          .bulk(Array((isPrimaryDown ? "connect" : "connected").utf8)), .integer(isPrimaryDown ? -1 : 1),
        ])
      }
    case .time:
      return Self.time(unixMicroseconds(at: now))
    case .info:
      let roleName = role == .primary ? "master" : "slave"
      return .verbatim(
        Array("# Server\r\nredis_version:\(settings.version)\r\n\r\n# Replication\r\nrole:\(roleName)\r\n".utf8))
    case .client, .script, .cluster:
      return runSubcommand(command, words, session, now: now)
    case .asking:
      guard cluster != nil else { return .error("ERR This instance has cluster support disabled") }
      session.isAsking = true
      return .ok
    case .readonly, .readwrite:
      return cluster == nil ? .error("ERR This instance has cluster support disabled") : .ok
    case .quit:
      session.isClosing = true
      return .ok
    case .reset:
      session.version = 2
      session.database = 0
      session.name = []
      session.isAuthenticated = settings.password == nil
      return .status(Array("RESET".utf8))
    case .append, .bitcount, .bitfield, .decr, .del, .eval, .evalsha, .exists, .expire, .get, .getbit, .getrange, .hdel,
      .hexists, .hget, .hgetall, .hincrby, .hkeys, .hlen, .hmget, .hscan, .hset, .hsetnx, .hstrlen, .hvals, .incr,
      .incrby,
      .mget, .persist, .pexpire, .pexpireat, .psetex, .pttl, .sadd, .scard, .set, .setbit, .setex, .setrange,
      .sismember, .smembers, .srem, .sscan, .strlen, .ttl, .type, .unlink, .zadd, .zcard, .zcount, .zrange,
      .zrangebyscore,
      .zrem, .zremrangebyscore, .zrevrangebyscore, .zscan, .zscore:
      return unsupported(words)
    }
  }

  /// The answer to TIME.
  static func time(_ unixMicroseconds: Int64) -> SimulatedRedisReply {
    .array([
      .bulk(SimulatedRedisNumber.text(unixMicroseconds / 1_000_000)),
      .bulk(SimulatedRedisNumber.text(unixMicroseconds % 1_000_000)),
    ])
  }

  /// Reports a command that Redis has, and the simulation lacks.
  func unsupported(_ words: [[UInt8]]) -> SimulatedRedisReply {
    observe?(.unsupportedCommand(words))
    return .error("ERR the simulation cannot do that")
  }

  private func authenticate(_ words: ArraySlice<[UInt8]>, _ session: SimulatedRedisSession) -> SimulatedRedisReply {
    if words.count > 2 { return .error("ERR syntax error") }
    let user = words.count == 2 ? words.first : Array(settings.user.utf8)
    if words.count == 1, settings.password == nil {
      return .error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
      )
    }
    // Without a configured password, any password is accepted.
    let isRight = settings.password.map { words.last == Array($0.utf8) } ?? true
    guard user == Array(settings.user.utf8), isRight else {
      return .error("WRONGPASS invalid username-password pair or user is disabled.")
    }
    session.isAuthenticated = true
    return .ok
  }

  private func greet(_ words: [[UInt8]], _ session: SimulatedRedisSession) -> SimulatedRedisReply {
    var version = session.version
    var name: [UInt8]?
    if words.count > 1 {
      guard let number = SimulatedRedisNumber.integer(words[1]) else {
        return .error("ERR Protocol version is not an integer or out of range")
      }
      guard number == 2 || number == 3 else { return .error("NOPROTO unsupported protocol version") }
      version = Int(number)
    }
    var index = 2
    while index < words.count {
      let option = words[index].map(Self.capital)
      if option == Array("AUTH".utf8), index + 2 < words.count {
        let reply = authenticate(words[index + 1...index + 2], session)
        if case .error = reply { return reply }
        index += 3
      } else if option == Array("SETNAME".utf8), index + 1 < words.count {
        name = words[index + 1]
        index += 2
      } else {
        return .error(
          Array("ERR Syntax error in HELLO option '".utf8) + words[index] + [39])
      }
    }
    guard session.isAuthenticated else {
      return .error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be "
          + "used to authenticate the client and select the RESP protocol version at the same time")
    }
    if let name { session.name = name }
    session.version = version
    func text(_ text: String) -> SimulatedRedisReply { .bulk(Array(text.utf8)) }
    return .map([
      text("server"), text("redis"), text("version"), text(settings.version), text("proto"), .integer(Int64(version)),
      text("id"), .integer(session.number), text("mode"), text(cluster == nil ? "standalone" : "cluster"), text("role"),
      text(role == .primary ? "master" : "replica"), text("modules"), .array([]),
    ])
  }

  // MARK: - CLIENT, SCRIPT, CLUSTER

  private func runSubcommand(
    _ command: SimulatedRedisCommand, _ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64
  ) -> SimulatedRedisReply {
    switch (command, String(decoding: words[1].map(Self.capital), as: UTF8.self)) {
    case (.client, "SETNAME"):
      guard words[2].allSatisfy({ (33...126).contains($0) }) else {
        return .error("ERR Client names cannot contain spaces, newlines or special characters.")
      }
      session.name = words[2]
      return .ok
    case (.client, "GETNAME"):
      return session.name.isEmpty ? .null : .bulk(session.name)
    case (.client, "ID"):
      return .integer(session.number)
    case (.client, "LIST"):
      return .verbatim(clientList(session, now: now))
    case (.script, "LOAD"):
      do throws(RedisLuaSyntaxError) { return .bulk(try load(words[2])) } catch { return .error(error.text) }
    case (.script, "FLUSH"):
      flushScripts()
      return .ok
    case (.script, _):
      return .array(words.dropFirst(2).map { .integer(scripts[$0] == nil ? 0 : 1) })
    case (.cluster, _) where cluster == nil:
      return .error("ERR This instance has cluster support disabled")
    case (.cluster, "SLOTS"):
      return cluster?.slots(for: self) ?? .null
    default:
      return .integer(Int64(SimulatedRedisSlot.of(words[2])))
    }
  }

  private func clientList(_ asking: SimulatedRedisSession, now: Int64) -> [UInt8] {
    var text: [UInt8] = []
    for connection in connections {
      guard let session = sessions[connection], session.isAuthenticated || settings.password == nil else { continue }
      let age = (now - session.openedAt) / 1_000_000_000
      let command = session === asking ? "client|list" : "NULL"
      text += Array(
        "id=\(session.number) addr=10.0.0.\(connection.number % 250):\(40_000 + connection.number % 20_000) ".utf8)
      text += Array("laddr=\(settings.host):\(settings.port) fd=\(session.number + 7) name=".utf8)
      text += session.name
      text += Array(
        (" age=\(age) idle=0 flags=N db=\(session.database) sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=20474 argv-mem=10 "
          + "multi-mem=0 rbs=1024 rbp=0 obl=0 oll=0 omem=0 tot-mem=22298 events=r cmd=\(command) user=default redir=-1 "
          + "resp=\(session.version)\n").utf8)
    }
    return text
  }
}
