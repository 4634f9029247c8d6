package import PushChannels
package import PushCore
package import PushIO
package import PushLane
package import PushSettings

/// What a channel consumer is made from: every bound by its name.
package struct ChannelConsumerSettings: Sendable {
  /// Its random seed is not used: the consumer's work draws one.
  package var rabbitmq: RabbitMQSettings
  package var redis: RedisConfiguration
  package var redisTLS: TLSContext?
  /// Begins the name of every key.
  package var prefix: String
  package var client: ChannelClientConfiguration
  package var limit = ChannelLimit()
  /// Requests of the queue that are on their way at once.
  package var requestsMaximum: UInt16 = 64
  /// An answer is remembered for so long: a request that comes again is answered with it.
  package var answerSeconds = 6 * 3600
  /// A request that APNs or Redis keep from being done is given up after so long.
  package var ageMaximumMilliseconds: Int64 = 3_600_000
  package var drainTimeoutMilliseconds: Int64 = 25_000
  /// How often the last use of channels is stored.
  package var useMilliseconds: Int64 = 10_000
  /// Questions of lanes that are on their way at once.
  package var questionsMaximum = 256

  package init(
    rabbitmq: RabbitMQSettings, redis: RedisConfiguration, redisTLS: TLSContext?, prefix: String,
    client: ChannelClientConfiguration
  ) {
    self.rabbitmq = rabbitmq
    self.redis = redis
    self.redisTLS = redisTLS
    self.prefix = prefix
    self.client = client
    // What waits longer to be sent could not be distinguished from what is lost.
    self.client.waitMilliseconds = client.requestTimeoutMilliseconds
  }

  /// What a configuration asks for.
  /// - Parameter hostName: names it to RabbitMQ.
  package init(_ configuration: Configuration, hostName: String) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    self.init(
      rabbitmq: parts.rabbitmq(name: "\(hostName)/channels", prefetch: 2, randomSeed: 0),
      redis: parts.redis, redisTLS: parts.redisTLS, prefix: configuration.redis.prefix,
      client: ChannelClientConfiguration(configuration.apns))
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
  }
}
