package import PushCore
package import PushIO
package import PushLane
package import PushSettings

/// The settings of an expansion consumer, with all its limits.
package struct ExpansionSettings: Sendable {
  /// Its random seed is ignored: the consumer draws its own.
  package var rabbitmq: RabbitMQSettings
  /// The registry's Redis.
  package var redis: RedisConfiguration
  package var redisTLS: TLSContext?
  /// Where channels have names.
  package var channels: RedisConfiguration
  package var channelsTLS: TLSContext?
  /// Begins the name of every key.
  package var prefix: String
  /// `<host>/expansions`: the worker's name in the outcomes of audiences.
  package var workerName: String
  /// Maximum messages of each class in progress or waiting for it: see `FairShares`.
  package var messagesMaximum: UInt16 = 512
  /// How many may keep their deliveries while their dead letters are refused: few of those in progress.
  package var refusedMaximum = 8
  /// Maximum devices of one page.
  package var pageDevices = AudiencePage.devicesMaximum
  /// Maximum devices of one step: 20 pages are published and confirmed together.
  package var stepDevices = 20 * AudiencePage.devicesMaximum
  /// Maximum devices that one step of a dry run counts.
  package var countedDevices = 1_000_000
  /// From this number of open pages on the next step waits for a second: more pages than are sent in that time.
  package var openPagesMaximum = 200
  /// An update that comes before its activity's start waits so often for it, a second each time. It is counted, so that no clock matters.
  package var startWaitsMaximum: UInt32 = 28
  /// Messages in progress, and what may wait, of each class.
  package var shares = FairShareLimits(progressMaximum: 64, slowWaitingMaximum: 224, slowMilliseconds: 250)
  package var drainTimeoutMilliseconds: Int64 = 25_000
  package var activities = ActivitySettings()
  /// When a job's time is over.
  package var retry = RetryPolicy()

  package init(
    rabbitmq: RabbitMQSettings, redis: RedisConfiguration, redisTLS: TLSContext?, prefix: String, workerName: String
  ) {
    self.rabbitmq = rabbitmq
    self.redis = redis
    self.redisTLS = redisTLS
    (channels, channelsTLS) = (redis, redisTLS)
    self.prefix = prefix
    self.workerName = workerName
  }

  /// - Parameter hostName: part of the connection's name in RabbitMQ.
  package init(_ configuration: Configuration, hostName: String) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    let name = "\(hostName)/expansions"
    self.init(
      rabbitmq: parts.rabbitmq(name: name, prefetch: 2, randomSeed: 0), redis: parts.registry,
      redisTLS: parts.registryTLS, prefix: configuration.redis.prefix, workerName: name)
    (channels, channelsTLS) = (parts.redis, parts.redisTLS)
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
    retry = configuration.retry
    activities = ActivitySettings(
      idAttribute: configuration.activities.idAttribute,
      staleAfterSeconds: configuration.activities.defaultStaleAfterSeconds,
      channelAbove: configuration.activities.channelAbove)
  }
}
