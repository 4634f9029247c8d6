/// The keys of a simulated Redis. They end by the clock of who asks, which may be another one than that of who wrote.
///
/// Remembers for a while what was written, so that a failover can forget it. Nothing depends on the order of its tables.
final class SimulatedRedisKeyspace {
  private struct Change {
    let at: Int64
    let database: Int
    let key: [UInt8]
    let before: SimulatedRedisEntry?
  }

  let settings: SimulatedRedisSettings
  /// Orders what Redis gives in no order.
  let seed: UInt64
  private var databases: [[[UInt8]: SimulatedRedisEntry]]
  private var changes: [Change] = []
  private var oldest = 0
  /// The clock of who asks now, Unix milliseconds.
  private(set) var clock: Int64 = 0
  /// The world's clock, nanoseconds.
  private var now: Int64 = 0
  /// Who asks is a replica: it takes nothing away by itself.
  private var isReplica = false

  init(settings: SimulatedRedisSettings, seed: UInt64) {
    self.settings = settings
    self.seed = seed
    databases = Array(repeating: [:], count: settings.databaseCount)
  }

  /// As it is, for another server; `forgotten`: without the writes of the last so many nanoseconds.
  func copy(forgetting forgotten: Int64, now: Int64) -> SimulatedRedisKeyspace {
    let copy = SimulatedRedisKeyspace(settings: settings, seed: seed)
    copy.databases = databases
    copy.changes = changes
    copy.oldest = oldest
    copy.forget(since: now - forgotten)
    return copy
  }

  /// Says whose clock counts for what comes.
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

  /// Takes back what was written at this time of the world or later.
  func forget(since time: Int64) {
    while changes.count > oldest, let change = changes.last, change.at >= time {
      databases[change.database][change.key] = change.before
      changes.removeLast()
    }
  }

  /// All keys that did not end, in their order as bytes.
  func keys(_ database: Int) -> [[UInt8]] {
    databases[database].filter { $0.value.endsAt.map { clock <= $0 } ?? true }.keys
      .sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// Takes away what ended: it does not come back where the clock is set back.
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
