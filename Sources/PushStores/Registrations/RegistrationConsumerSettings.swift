package import PushCore
package import PushIO
package import PushLane
package import PushSettings

/// The settings of a registration consumer, with all its limits.
package struct RegistrationConsumerSettings: Sendable {
  /// Its random seed is ignored: the consumer draws its own.
  package var rabbitmq: RabbitMQSettings
  package var redis: RedisConfiguration
  package var redisTLS: TLSContext?
  /// Prefix of every key.
  package var prefix: String
  /// Maximum registrations in progress or waiting for it, including those held while Redis is unavailable.
  package var registrationsMaximum: UInt16 = 1_000
  /// Registrations in progress, and what may wait.
  package var shares = FairShareLimits(progressMaximum: 800, slowWaitingMaximum: 100, slowMilliseconds: 1_000)
  /// How many may keep their deliveries while their dead letters are refused.
  package var refusedMaximum: Int { max(1, Int(registrationsMaximum) / 8) }
  /// A message that was delivered this often becomes a dead letter: it may crash workers. Less than the limit at which
  /// newer brokers drop messages of this queue, more than the restarts of one outage.
  package var deliveriesMaximum: UInt32 = 10
  package var retryInitialMilliseconds: Int64 = 100
  package var retryMaximumMilliseconds: Int64 = 5_000
  package var drainTimeoutMilliseconds: Int64 = 25_000

  package init(rabbitmq: RabbitMQSettings, redis: RedisConfiguration, redisTLS: TLSContext?, prefix: String) {
    self.rabbitmq = rabbitmq
    self.rabbitmq.connection.bodyBytesMaximum = DeviceLimits.registrationBytesMaximum
    self.rabbitmq.connection.oversizedBytesMaximum = Limits.deadLetterBytesMaximum
    self.redis = redis
    self.redisTLS = redisTLS
    self.prefix = prefix
  }

  /// - Parameter hostName: part of the connection's name in RabbitMQ.
  package init(_ configuration: Configuration, hostName: String) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    let redis = try RedisConfiguration(url: configuration.registryURL)
    self.init(
      rabbitmq: parts.rabbitmq(name: "\(hostName)/registrations", prefetch: 2, randomSeed: 0), redis: redis,
      redisTLS: try configuration.redis.tls(redis), prefix: configuration.redis.prefix)
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
  }
}
