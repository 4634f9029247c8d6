package import PushChannels
package import PushCore
package import PushIO
package import PushLane
package import PushSettings

/// The settings of a channel consumer, with all its limits.
package struct ChannelConsumerSettings: Sendable {
  /// Its random seed is ignored: the consumer draws its own.
  package var rabbitmq: RabbitMQSettings
  package var redis: RedisConfiguration
  package var redisTLS: TLSContext?
  /// The Redis of the activities; nil: not known.
  package var activities: (configuration: RedisConfiguration, tls: TLSContext?)?
  /// Prefix of every key.
  package var prefix: String
  package var client: ChannelClientConfiguration
  package var limit = ChannelLimit()
  /// Maximum requests in progress or waiting for it.
  package static let requestsMaximum: UInt16 = 320
  /// How many may keep their deliveries while their dead letters are refused.
  package static let refusedMaximum = 40
  /// Requests in progress, and what may wait.
  package var shares = FairShareLimits(progressMaximum: 192, slowWaitingMaximum: 64, slowMilliseconds: 1_000)
  /// Requests in progress of one credential in one environment.
  package var window = ChannelConsumerSettings.window
  /// The same of all that are stuck, if their answers are only slow.
  package var slowMaximum = 32
  /// Answers at once that wait to be tried again after their own queue refused them; others go to the results at once.
  package var refusedRepliesMaximum = 64
  /// How long an answer is stored, to answer a redelivered request.
  package var answerSeconds = 6 * 3600
  /// A request is given up at this age if APNs or Redis prevents it.
  package var ageMaximumMilliseconds: Int64 = 3_600_000
  package var drainTimeoutMilliseconds: Int64 = 25_000
  /// Interval at which the last use of channels is stored.
  package var useMilliseconds: Int64 = 10_000
  /// Maximum questions of lanes in progress.
  package var questionsMaximum = 256

  private static var window: ShareState.Limits {
    var limits = ShareState.Limits(maximum: 64)
    limits.start = 16
    limits.probes = 4
    limits.stuckLooks = 10
    return limits
  }

  package init(
    rabbitmq: RabbitMQSettings, redis: RedisConfiguration, redisTLS: TLSContext?, prefix: String,
    client: ChannelClientConfiguration
  ) {
    self.rabbitmq = rabbitmq
    self.redis = redis
    self.redisTLS = redisTLS
    self.prefix = prefix
    self.client = client
    // A request that waits longer before it is sent could not be told from a lost one.
    self.client.waitMilliseconds = client.requestTimeoutMilliseconds
  }

  /// - Parameter hostName: part of the connection's name in RabbitMQ.
  package init(_ configuration: Configuration, hostName: String) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    self.init(
      rabbitmq: parts.rabbitmq(name: "\(hostName)/channels", prefetch: 2, randomSeed: 0),
      redis: parts.redis, redisTLS: parts.redisTLS, prefix: configuration.redis.prefix,
      client: ChannelClientConfiguration(configuration.apns))
    activities = (parts.registry, parts.registryTLS)
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
  }
}
