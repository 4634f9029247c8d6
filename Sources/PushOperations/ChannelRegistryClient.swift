package import Logging
package import PushChannels
package import PushCore
package import PushCredentials
package import PushIO
package import PushSettings
package import PushStores

/// The channel registry for commands: one operation after another, on its own loop, with the provider token that the fleet shares.
package final class ChannelRegistryClient {
  /// The result of a reconciliation; a dry run changes nothing.
  package struct Reconciliation: Sendable {
    /// Channels at APNs.
    package var count = 0
    /// In the registry, and not at APNs: removed.
    package var gone: [(id: ChannelID, name: ChannelName?)] = []
    /// At APNs, and not in the registry: added without a name.
    package var unknown: [ChannelID] = []
    /// Creates without a known result, and the channel that was found for each.
    package var unfinished: [(name: ChannelName, adopted: ChannelID?)] = []
    /// Channels that had lost their name (an interrupted reap) and have it again.
    package var restored: [(id: ChannelID, name: ChannelName)] = []
  }

  /// A channel that was not used for a long time.
  package struct Reaped: Sendable {
    package let id: ChannelID
    package let name: ChannelName
    /// Unix seconds; nil: never.
    package let usedAt: Int64?
    /// Unix milliseconds.
    package let createdAt: Int64
    /// nil: deleted, or a dry run.
    package let failure: String?
    /// It is the channel of an activity, and stays.
    package let isInUse: Bool
  }

  private let loop: EventLoop
  private let client: ChannelClient
  private let redis: RedisClient
  private let registry: ChannelRegistry
  /// Of the devices' registry, where the activities are.
  private let activitiesRedis: RedisClient
  private let activities: ActivityRegistry
  private let tokenStore: RedisProviderTokenStore

  /// The minimum for a reap, because uses are stored only about once a minute.
  package static let reapSecondsMinimum: Int64 = 600
  /// A channel that was just created may be missing in APNs' list.
  private static let youngMilliseconds: Int64 = 10_000
  private static let waitMilliseconds = 50
  private static let closeMilliseconds: Int64 = 1_000

  /// Loads keys and certificates. Throws if something in the configuration is wrong.
  package convenience init(
    _ configuration: Configuration, logger: Logger, redisTimeoutMilliseconds: Int64 = 5_000
  ) throws {
    let tokenStore = try RedisProviderTokenStore(configuration, logger: logger)
    let credentials = try Credentials(
      configuration.credentials, for: configuration.apns, tokens: ProviderTokens(store: tokenStore))
    let redis = try RedisConfiguration(url: configuration.redis.url)
    let redisTLS = try configuration.redis.tls(redis)
    let activities = try RedisConfiguration(url: configuration.registryURL)
    let activitiesTLS = try configuration.redis.tls(activities)
    let wallClock = WallClock()
    RedisClient.teach(wallClock, redis, tls: redisTLS)
    let loop = try EventLoop(wallClock: wallClock)
    tokenStore.start(wallClock)
    self.init(
      loop, credentials, tokenStore, ChannelClientConfiguration(configuration.apns), redis: (redis, redisTLS),
      activities: (activities, activitiesTLS), prefix: configuration.redis.prefix,
      redisTimeoutMilliseconds: redisTimeoutMilliseconds, seed: UInt64.random(in: .min ... .max)
    ) { level, text in logger.log(level: level, "\(text)") }
  }

  /// - Parameters:
  ///   - tokenStore: started, and stopped by `close`.
  ///   - seed: of all its random numbers.
  package init(
    _ loop: EventLoop, _ credentials: Credentials, _ tokenStore: RedisProviderTokenStore,
    _ apns: ChannelClientConfiguration, redis address: (configuration: RedisConfiguration, tls: TLSContext?),
    activities registered: (configuration: RedisConfiguration, tls: TLSContext?), prefix: String,
    redisTimeoutMilliseconds: Int64 = 5_000, seed: UInt64, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.tokenStore = tokenStore
    var random = SeededRandom(seed: seed)
    var settings = apns
    settings.waitMilliseconds = settings.requestTimeoutMilliseconds
    client = ChannelClient(loop: loop, credentials: credentials, configuration: settings, seed: random.next())
    redis = RedisClient(
      loop: loop, configuration: address.configuration, tls: address.tls,
      timeoutMilliseconds: redisTimeoutMilliseconds, seed: random.next())
    registry = ChannelRegistry(
      loop: loop, redis: redis, manager: client, prefix: prefix,
      timing: ChannelEnsureState.Timing(requestMilliseconds: settings.requestTimeoutMilliseconds),
      seed: random.next(), notice: notice)
    activitiesRedis = RedisClient(
      loop: loop, configuration: registered.configuration, tls: registered.tls,
      timeoutMilliseconds: redisTimeoutMilliseconds, seed: random.next())
    activities = ActivityRegistry(loop: loop, redis: activitiesRedis, prefix: prefix)
    registry.inUse = { [activities] scope, then in
      activities.channelsInUse(scope) { then($0.mapError { .redis("\($0)") }) }
    }
  }

  /// Ends connections. Blocks for a moment.
  package func close() {
    client.close()
    redis.close()
    activitiesRedis.close()
    let deadline = loop.now.monotonic.adding(milliseconds: ChannelRegistryClient.closeMilliseconds)
    while !client.isClosed, loop.now.monotonic < deadline { turn() }
    loop.flush()
    tokenStore.stop()
  }

  // MARK: - One name

  /// The channel of a name; created if there is none.
  package func ensure(
    _ name: ChannelName, in scope: AppScope, _ storage: StoragePolicy, credential: String? = nil
  ) throws(ChannelRegistryFailure) -> ChannelEnsureState.Result {
    let result = try wait { registry.settle(name, in: scope, .ensure(storage), credential: credential, then: $0) }
    guard let result else { preconditionFailure("an ensure that does not fail has a channel") }
    return result
  }

  /// A channel was deleted in another way.
  package func forget(_ id: ChannelID, in scope: AppScope) throws(ChannelRegistryFailure) {
    _ = try wait { registry.forget(id, in: scope, then: $0) }
  }

  /// The registry's contents.
  package func snapshot(_ scope: AppScope) throws(ChannelRegistryFailure) -> ChannelRegistry.Snapshot {
    try wait { registry.snapshot(scope, then: $0) }
  }

  // MARK: - All

  /// Deletes named channels that were not used since then. Channels without a name belong to others, and stay; so do those of
  /// activities.
  package func reap(
    _ scope: AppScope, unusedForSeconds: Int64, credential: String? = nil, isDryRun: Bool, tell: (Reaped) -> Void
  ) throws(ChannelRegistryFailure) {
    let unusedSince = loop.now.unixSeconds - unusedForSeconds
    let snapshot = try snapshot(scope)
    let keys = registry.keys(scope)
    // Those that activities take from here on count as used.
    let inUse = try wait { then in
      activities.channelsInUse(scope) { then($0.mapError { .redis("\($0)") }) }
    }
    for (id, entry) in snapshot.entries.sorted(by: {
      ($0.value.createdAt, $0.key.text) < ($1.value.createdAt, $1.key.text)
    }) {
      guard let name = entry.name else { continue }
      let usedAt = snapshot.used[id]
      guard max(usedAt ?? 0, entry.createdAt / 1000) <= unusedSince else { continue }
      let isInUse = inUse.contains(id)
      func reaped(_ failure: String? = nil) -> Reaped {
        Reaped(
          id: id, name: name, usedAt: usedAt, createdAt: entry.createdAt, failure: failure, isInUse: isInUse)
      }
      if isDryRun || isInUse {
        tell(reaped())
        continue
      }
      // From now on nobody is given it; a channel that was used meanwhile stays.
      let claimed = try wait {
        registry.eval(
          ChannelScript.claim, [keys.names, keys.ids, keys.used], [id.text, String(unusedSince)], then: $0)
      }
      guard claimed == .integer(1) else { continue }
      do throws(ChannelRegistryFailure) {
        _ = try wait { registry.delete(id, in: scope, credential: credential, then: $0) }
        tell(reaped())
      } catch {
        if case .apns(let failure) = error, failure.isUnknownChannel {
          tell(reaped())
        } else {
          try restore(id, name, scope)
          tell(reaped("\(error)"))
        }
      }
    }
  }

  /// Compares the registry with APNs' list, and repairs the registry.
  package func reconcile(
    _ scope: AppScope, credential: String? = nil, isDryRun: Bool
  ) throws(ChannelRegistryFailure) -> Reconciliation {
    var found = Reconciliation()
    // Read before the list: an entry that exists now and is not in the list is gone.
    let snapshot = try snapshot(scope)
    let youngest = loop.now.unixMilliseconds - ChannelRegistryClient.youngMilliseconds
    let listed = try wait { registry.list(scope, credential: credential, then: $0) }.ids
    found.count = listed.count
    let atAPNs = Set(listed)
    for name in snapshot.intents.keys.sorted(by: { $0.text < $1.text }) {
      var adopted: ChannelID?
      if !isDryRun {
        adopted = try wait { registry.settle(name, in: scope, .recover, credential: credential, then: $0) }?.id
      }
      found.unfinished.append((name, adopted))
    }
    for (id, entry) in snapshot.entries.sorted(by: { $0.key.text < $1.key.text }) {
      if !atAPNs.contains(id) {
        guard entry.createdAt < youngest else { continue }
        found.gone.append((id, entry.name))
        if !isDryRun { _ = try wait { registry.forget(id, in: scope, then: $0) } }
      } else if let name = entry.name, snapshot.names[name] == nil {
        found.restored.append((id, name))
        if !isDryRun { try restore(id, name, scope) }
      }
    }
    found.unknown = try wait { registry.unknown(listed, in: scope, then: $0) }
    if !isDryRun { _ = try wait { registry.learn(found.unknown, in: scope, isForced: false, then: $0) } }
    return found
  }

  private func restore(_ id: ChannelID, _ name: ChannelName, _ scope: AppScope) throws(ChannelRegistryFailure) {
    let key = registry.keys(scope).names
    _ = try wait { registry.ask(["HSETNX", key, name.text, id.text], key: key, then: $0) }
  }

  // MARK: - The loop

  private func turn(waitMilliseconds: Int = ChannelRegistryClient.waitMilliseconds) {
    loop.poll(maximumWaitMilliseconds: waitMilliseconds)
    advance()
  }

  private func advance() {
    client.turn()
    redis.turn()
    activitiesRedis.turn()
    loop.flush()
  }

  /// Turns the loop until the operation is answered, which takes bounded time.
  private func wait<Value>(
    _ ask: (@escaping ChannelRegistry.Then<Value>) -> Void
  ) throws(ChannelRegistryFailure) -> Value {
    var answer: Result<Value, ChannelRegistryFailure>?
    // The loop's time is that of its last turn, which may be long ago.
    turn(waitMilliseconds: 0)
    ask { answer = $0 }
    // The client sends in its turn.
    advance()
    while true {
      if let answer { return try answer.get() }
      turn()
    }
  }
}
