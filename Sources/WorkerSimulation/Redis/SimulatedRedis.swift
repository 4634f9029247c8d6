import LuaInterpreter

/// A Redis server of the simulated world: commands, scripts in Lua, a clock, and faults.
///
/// The world injects faults with the properties and methods below and those of `SimulatedRedisFront`; all are off at first.
/// `SimulatedRedisCluster` creates the nodes of a cluster.
package final class SimulatedRedis: SimulatedRedisFront {
  package enum Role: Hashable, Sendable {
    case primary
    /// Of the server at this address.
    case replica(host: String, port: UInt16)
  }

  package let settings: SimulatedRedisSettings
  /// A replica refuses writes.
  package var role = Role.primary
  var isPrimary: Bool { role == .primary }
  /// It loads its data set.
  package var isLoading = false
  /// Another client's script runs for too long.
  package var isBusy = false
  /// Over `maxmemory`, and nothing can be evicted.
  package var isOutOfMemory = false
  /// It could not save its data, and refuses writes.
  package var cannotSave = false
  /// Fewer replicas than `min-replicas-to-write`.
  package var lacksReplicas = false
  /// A replica that lost its primary and does not serve stale data (`replica-serve-stale-data no`).
  package var isPrimaryDown = false
  /// Receives everything that an auditor may need.
  package var observe: ((SimulatedRedisObservation) -> Void)?

  private(set) var keyspace: SimulatedRedisKeyspace
  private(set) weak var cluster: SimulatedRedisCluster?
  /// Its index in the cluster.
  private(set) var node = 0
  /// Runs the scripts.
  private(set) lazy var lua = RedisLua()
  /// The loaded scripts, by digest.
  private(set) var scripts: [[UInt8]: SimulatedRedisScript] = [:]
  /// Digests by script text, cached because each EVAL sends the text.
  private var digests: [[UInt8]: [UInt8]] = [:]
  /// The error of its clock, microseconds.
  private var clockOffset: Int64 = 0
  let seed: UInt64

  package init(settings: SimulatedRedisSettings = SimulatedRedisSettings(), seed: UInt64) {
    self.settings = settings
    self.seed = seed
    keyspace = SimulatedRedisKeyspace(settings: settings, seed: seed)
    super.init(seed: seed)
  }

  func join(_ cluster: SimulatedRedisCluster, as node: Int) {
    self.cluster = cluster
    self.node = node
  }

  // MARK: - Clock

  /// The server's clock at a time of the world, Unix microseconds.
  package func unixMicroseconds(at now: Int64) -> Int64 { settings.unixMicroseconds + now / 1000 + clockOffset }

  /// Sets the clock forward or back.
  package func jumpClock(byMicroseconds offset: Int64) { clockOffset += offset }

  func turn(now: Int64) {
    keyspace.turn(clock: unixMicroseconds(at: now) / 1000, now: now, isReplica: role != .primary)
  }

  // MARK: - Data faults

  /// `SCRIPT FLUSH`: unloads all scripts.
  package func flushScripts() {
    scripts.removeAll()
    lua.unloadAll()
  }

  /// Deletes expired keys, as Redis does now and then. Otherwise an expired key is deleted when it is accessed, and is valid again if
  /// the clock is set back before.
  package func removeEndedKeys(now: Int64) {
    turn(now: now)
    keyspace.removeEnded()
  }

  /// Deletes all keys.
  package func flush(now: Int64) {
    turn(now: now)
    keyspace.removeAll()
  }

  /// Evicts random keys, drawn from its seed. Returns them.
  @discardableResult
  package func evict(count: Int, now: Int64) -> [[UInt8]] {
    turn(now: now)
    var evicted: [[UInt8]] = []
    for database in 0..<settings.databaseCount where evicted.count < count {
      var keys = keyspace.keys(database)
      while !keys.isEmpty, evicted.count < count {
        let key = keys.remove(at: Int(random.next() % UInt64(keys.count)))
        keyspace.write(nil, at: key, database)
        evicted.append(key)
      }
    }
    return evicted
  }

  /// Evicts a key. Returns whether it existed.
  @discardableResult
  package func evict(_ key: [UInt8], database: Int = 0, now: Int64) -> Bool {
    turn(now: now)
    guard keyspace.entry(key, database) != nil else { return false }
    keyspace.write(nil, at: key, database)
    return true
  }

  /// Undoes the writes of the last `nanoseconds`, like a crash before they were saved.
  package func forgetWrites(ofLast nanoseconds: Int64, now: Int64) { keyspace.forget(since: now - nanoseconds) }

  /// Crashes: connections are reset; scripts and unsaved writes are lost.
  package func crash(forgetting nanoseconds: Int64, now: Int64) {
    crash()
    flushScripts()
    forgetWrites(ofLast: nanoseconds, now: now)
  }

  /// Becomes the primary with another server's data, without its writes of the last `nanoseconds`. The other one becomes its
  /// replica and shares its data from now on.
  package func takeOver(from other: SimulatedRedis, forgetting nanoseconds: Int64, now: Int64) {
    takeOver(keyspace: other.keyspace.copy(forgetting: nanoseconds, now: now))
    other.follow(self)
  }

  func takeOver(keyspace: SimulatedRedisKeyspace) {
    self.keyspace = keyspace
    role = .primary
    isPrimaryDown = false
  }

  /// Becomes a replica of another server, with its data.
  package func follow(_ primary: SimulatedRedis) {
    role = .replica(host: primary.settings.host, port: primary.settings.port)
    keyspace = primary.keyspace
  }

  // MARK: - For auditors

  /// All keys that have not expired, in byte order.
  package func keys(database: Int = 0, now: Int64) -> [[UInt8]] {
    turn(now: now)
    return keyspace.keys(database)
  }

  /// The value of a key, with its expiry.
  package func entry(_ key: [UInt8], database: Int = 0, now: Int64) -> SimulatedRedisEntry? {
    turn(now: now)
    return keyspace.entry(key, database)
  }

  /// Sets a value, like another client.
  package func set(_ key: [UInt8], _ value: [UInt8], endsAfterMilliseconds: Int64? = nil, now: Int64) {
    turn(now: now)
    let endsAt = endsAfterMilliseconds.map { keyspace.clock + $0 }
    keyspace.write(SimulatedRedisEntry(value: .string(value), endsAt: endsAt), at: key, 0)
  }

  /// Sets a field of a hash.
  package func set(_ key: [UInt8], field: [UInt8], _ value: [UInt8], now: Int64) {
    turn(now: now)
    _ = keyspace.run(.hset, [[], key, field, value], 0)
  }

  // MARK: - Scripts

  /// Loads a script's text. Returns its digest.
  func load(_ text: [UInt8]) throws(RedisLuaSyntaxError) -> [UInt8] {
    let digest = digests[text] ?? RedisLuaDigest.text(of: text)
    digests[text] = digest
    guard scripts[digest] == nil else { return digest }
    try lua.load(text, digest: digest)
    scripts[digest] = SimulatedRedisScript(digest: digest, text: text)
    return digest
  }

  // MARK: - Commands

  override var asksForPassword: Bool { settings.password != nil }

  override func heardNonsense(_ text: [UInt8], _ session: SimulatedRedisSession) {
    observe?(.protocolViolation(session.connection, text))
  }

  override func answer(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    let wasAsking = session.isAsking
    let reply = decide(words, session, now: now)
    if wasAsking { session.isAsking = false }
    return reply
  }

  private func decide(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    guard var rules = SimulatedRedisCommand.byName[words[0].map(Self.capital)] else {
      observe?(.unsupportedCommand(words))
      return Self.unknown(words)
    }
    var name = rules.command.rawValue
    if [.client, .script, .cluster].contains(rules.command), words.count > 1 {
      guard let its = rules.command.rules(of: words[1]) else {
        observe?(.unsupportedCommand(words))
        return .error(
          Array("ERR unknown subcommand '".utf8) + words[1].prefix(128)
            + Array("'. Try \(name.uppercased()) HELP.".utf8))
      }
      rules = its
      name += "|" + String(decoding: words[1], as: UTF8.self).lowercased()
    }
    if rules.arity > 0 ? words.count != rules.arity : words.count < -rules.arity {
      return .error("ERR wrong number of arguments for '\(name)' command")
    }
    turn(now: now)
    if !session.isAuthenticated, !rules.flags.contains(.noAuth) {
      return .error("NOAUTH Authentication required.")
    }
    let keys = rules.keys(of: words)
    if let cluster, !keys.isEmpty,
      let redirect = cluster.redirect(keys, isAsking: session.isAsking, from: self)
    {
      return redirect
    }
    if let refusal = refusal(of: rules) { return refusal }
    if rules.command == .eval || rules.command == .evalsha { return runScript(words, session, now: now) }
    if let reply = keyspace.run(rules.command, words, session.database) {
      if !keys.isEmpty { tell(keys, words, reply, session, now: now) }
      return reply
    }
    return runOnSession(rules.command, words, session, now: now)
  }

  private func tell(
    _ keys: [[UInt8]], _ words: [[UInt8]], _ reply: SimulatedRedisReply, _ session: SimulatedRedisSession, now: Int64
  ) {
    guard let observe else { return }
    observe(
      .command(
        SimulatedRedisCall(
          connection: session.connection, database: session.database, keys: keys, arguments: words, reply: reply,
          unixMicroseconds: unixMicroseconds(at: now))))
  }

  /// The error for the server's state, in the order in which Redis checks.
  private func refusal(of rules: SimulatedRedisCommand.Rules) -> SimulatedRedisReply? {
    if isOutOfMemory, rules.flags.contains(.denyOOM) { return Self.outOfMemory }
    if rules.flags.contains(.write) || rules.command == .ping, cannotSave, role == .primary { return Self.cannotSave }
    if rules.flags.contains(.write), let refusal = writeRefusal { return refusal }
    if isPrimaryDown, role != .primary, !rules.flags.contains(.stale) { return Self.primaryDown }
    if isLoading, !rules.flags.contains(.loading) {
      return .error("LOADING Redis is loading the dataset in memory")
    }
    if isBusy, !rules.flags.contains(.allowBusy) {
      return .error(
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
    }
    return nil
  }

  /// Why it refuses writes, apart from full memory.
  var writeRefusal: SimulatedRedisReply? {
    if role != .primary { return .error("READONLY You can't write against a read only replica.") }
    if cannotSave { return Self.cannotSave }
    if lacksReplicas { return .error("NOREPLICAS Not enough good replicas to write.") }
    return nil
  }

  static let outOfMemory = SimulatedRedisReply.error("OOM command not allowed when used memory > 'maxmemory'.")
  static let primaryDown = SimulatedRedisReply.error(
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
  private static let cannotSave = SimulatedRedisReply.error(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may "
      + "modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
      + "snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error."
  )

  static func capital(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte - 32 : byte
  }

  static func unknown(_ words: [[UInt8]]) -> SimulatedRedisReply {
    var text = Array("ERR unknown command '".utf8) + words[0].prefix(128) + Array("', with args beginning with: ".utf8)
    let start = text.count
    for word in words.dropFirst() where text.count - start < 128 {
      text.append(39)
      text += word.prefix(128 - (text.count - start))
      text += [39, 32]
    }
    for index in text.indices where text[index] == 13 || text[index] == 10 { text[index] = 32 }
    return .error(text)
  }
}
