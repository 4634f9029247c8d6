package import Logging
import PushCore
package import PushIO
import PushLane

/// The expansion consumer's work on its thread: connects its queue and the registry.
package final class ExpansionConsumerLoop: ConsumerLoop {
  package static let name = "expansions"
  package static let noticeSubjects = ["rabbitmq", "redis"]

  private let loop: EventLoop
  private let settings: ExpansionSettings
  private let redis: RedisClient
  /// Of the channels' names; the same, unless devices have a Redis of their own.
  private let channels: RedisClient
  private let queue: ExpansionQueue
  private let runner: ExpansionRunner
  private var drainDeadline: Instant?
  private var isClosing = false

  package init(
    loop: EventLoop, settings: ExpansionSettings, seed: UInt64, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    var random = SeededRandom(seed: seed)
    var settings = settings
    settings.rabbitmq.randomSeed = random.next()
    self.settings = settings
    redis = RedisClient(loop: loop, configuration: settings.redis, tls: settings.redisTLS, seed: random.next())
    channels =
      settings.channels == settings.redis
      ? redis
      : RedisClient(loop: loop, configuration: settings.channels, tls: settings.channelsTLS, seed: random.next())
    let reader = RegistryAudiences(redis: redis, prefix: settings.prefix)
    let store = ExpansionStore(redis, prefix: settings.prefix) { loop.now.unixMilliseconds }
    let activities = ActivityRegistry(loop: loop, redis: redis, prefix: settings.prefix)
    runner = ExpansionRunner(
      loop: loop, settings: settings, store: store, reader: reader, activities: activities,
      devices: DeviceRegistry(loop: loop, redis: redis, prefix: settings.prefix, seed: random.next()),
      channels: channels, seed: random.next(), notice: notice)
    queue = ExpansionQueue(loop: loop, settings: settings, notice: notice)
    var clock = ClockState()
    redis.followTime { ahead in
      switch clock.heard(skewMilliseconds: ahead) {
      case .none: break
      case .differs(let seconds):
        let text = seconds > 0 ? "\(seconds) s behind" : "\(-seconds) s ahead of"
        let isCorrected = loop.correctionMilliseconds != 0
        notice(
          .error,
          "this machine's clock is \(text) Redis': "
            + (isCorrected ? "Herald goes by Redis'" : "APNs agrees with this machine's") + "; check the clocks (NTP)")
      case .agrees: notice(.info, "this machine's clock agrees with Redis' again")
      }
    }
    queue.onDelivery = { [runner] in runner.take($0) }
    queue.onFinished = { [runner] in runner.finished($0) }
    queue.onLost = { [runner] in runner.forgetDeliveries() }
  }

  deinit {
    redis.abandon()
    channels.abandon()
    queue.abandon()
    runner.forgetDeliveries()
  }

  package var counters: ExpansionCounters {
    var counters = runner.counters
    counters.inFlight = queue.inFlight
    counters.refusing = queue.refusedDestinations
    counters.isConnected = queue.isConsuming && redis.isConnected
    return counters
  }

  package func watchUntilEmpty() { queue.watchUntilEmpty() }

  package var isExhausted: Bool { queue.isExhausted }

  /// One turn, after the loop's poll.
  package func turn() {
    redis.turn()
    if channels !== redis { channels.turn() }
    queue.turn()
    runner.putOffExcess()
  }

  package func drain() {
    guard drainDeadline == nil else { return }
    drainDeadline = loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
    queue.drain()
  }

  /// All messages are finished, or the drain's deadline has passed.
  package var isDrained: Bool {
    guard let drainDeadline else { return false }
    return queue.inFlight == 0 || loop.now.monotonic >= drainDeadline
  }

  /// Closes all connections. Keep turning until `isClosed`.
  package func close() {
    guard !isClosing else { return }
    isClosing = true
    queue.close()
    redis.close()
    if channels !== redis { channels.close() }
  }

  package var isClosed: Bool { isClosing && queue.isClosed }
}
