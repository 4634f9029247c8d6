/// The keys of a simulated Redis. They expire by the reading server's clock, which may differ from that of the writing server.
///
/// Keeps recent changes, so that a failover can undo them. Nothing depends on the order of its tables.
final class SimulatedRedisKeyspace {
  private struct Change {
    let at: Int64
    let database: Int
    let key: [UInt8]
    let before: SimulatedRedisEntry?
  }

  let settings: SimulatedRedisSettings
  /// Orders what Redis returns in no defined order.
  let seed: UInt64
  private var databases: [[[UInt8]: SimulatedRedisEntry]]
  private var changes: [Change] = []
  private var oldest = 0
  /// The clock of the server in use, Unix milliseconds.
  private(set) var clock: Int64 = 0
  /// The world's clock, nanoseconds.
  private var now: Int64 = 0
  /// The server in use is a replica: it does not delete expired keys.
  private var isReplica = false

  init(settings: SimulatedRedisSettings, seed: UInt64) {
    self.settings = settings
    self.seed = seed
    databases = Array(repeating: [:], count: settings.databaseCount)
  }

  /// A copy for another server, without the writes of the last `forgotten` nanoseconds.
  func copy(forgetting forgotten: Int64, now: Int64) -> SimulatedRedisKeyspace {
    let copy = SimulatedRedisKeyspace(settings: settings, seed: seed)
    copy.databases = databases
    copy.changes = changes
    copy.oldest = oldest
    copy.forget(since: now - forgotten)
    return copy
  }

  /// Sets the server in use.
  func turn(clock: Int64, now: Int64, isReplica: Bool) {
    self.clock = clock
    self.now = now
    self.isReplica = isReplica
  }

  func entry(_ key: [UInt8], _ database: Int) -> SimulatedRedisEntry? {
    guard let entry = databases[database][key] else { return nil }
    guard let endsAt = entry.endsAt, clock > endsAt else { return entry }
    if !isReplica { write(nil, at: key, database) }
    return nil
  }

  func write(_ entry: SimulatedRedisEntry?, at key: [UInt8], _ database: Int) {
    let before = databases[database][key]
    databases[database][key] = entry
    guard settings.rememberedNanoseconds > 0 else { return }
    changes.append(Change(at: now, database: database, key: key, before: before))
    while changes[oldest].at < now - settings.rememberedNanoseconds { oldest += 1 }
    if oldest > 1024, oldest * 2 > changes.count {
      changes.removeFirst(oldest)
      oldest = 0
    }
  }

  /// Undoes the writes since this time of the world.
  func forget(since time: Int64) {
    while changes.count > oldest, let change = changes.last, change.at >= time {
      databases[change.database][change.key] = change.before
      changes.removeLast()
    }
  }

  /// All keys that have not expired, in byte order.
  func keys(_ database: Int) -> [[UInt8]] {
    databases[database].filter { $0.value.endsAt.map { clock <= $0 } ?? true }.keys
      .sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// Deletes expired keys: they stay deleted if the clock is set back.
  func removeEnded() {
    for database in databases.indices {
      let ended = databases[database].filter { $0.value.endsAt.map { clock > $0 } ?? false }.keys
      for key in ended.sorted(by: { $0.lexicographicallyPrecedes($1) }) { write(nil, at: key, database) }
    }
  }

  /// Empties all databases.
  func removeAll() {
    removeEnded()
    for database in databases.indices { for key in keys(database) { write(nil, at: key, database) } }
  }
}
