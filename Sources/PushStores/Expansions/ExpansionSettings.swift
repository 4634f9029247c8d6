import PushCore
package import PushIO
package import PushLane
package import PushSettings

/// What an expansion consumer is made from: every bound by its name.
package struct ExpansionSettings: Sendable {
  /// Its random seed is not used: the consumer's work draws one.
  package var rabbitmq: RabbitMQSettings
  /// Of the registry.
  package var redis: RedisConfiguration
  package var redisTLS: TLSContext?
  /// Where channels have names.
  package var channels: RedisConfiguration
  package var channelsTLS: TLSContext?
  /// Begins the name of every key.
  package var prefix: String
  /// `<host>/expansions`: who reports, in the outcomes of audiences.
  package var workerName: String
  /// Messages of the queue that are on their way at once.
  package var messagesMaximum: UInt16 = 64
  /// Devices of one page.
  package var pageDevices = AudiencePage.devicesMaximum
  /// Devices of one step: 20 pages go out together, and their confirms come together.
  package var stepDevices = 20 * AudiencePage.devicesMaximum
  /// Devices that one step of a dry run counts.
  package var countedDevices = 1_000_000
  /// Pages without an end, from which on the next step waits for a second: more of them than are sent meanwhile.
  package var openPagesMaximum = 200
  package var drainTimeoutMilliseconds: Int64 = 25_000
  package var activities = ActivitySettings()

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

  /// What a configuration asks for.
  /// - Parameter hostName: names it to RabbitMQ.
  package init(_ configuration: Configuration, hostName: String) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    let name = "\(hostName)/expansions"
    self.init(
      rabbitmq: parts.rabbitmq(name: name, prefetch: 2, randomSeed: 0), redis: parts.registry,
      redisTLS: parts.registryTLS, prefix: configuration.redis.prefix, workerName: name)
    (channels, channelsTLS) = (parts.redis, parts.redisTLS)
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
    activities = ActivitySettings(
      idAttribute: configuration.activities.idAttribute,
      staleAfterSeconds: configuration.activities.defaultStaleAfterSeconds,
      channelAbove: configuration.activities.channelAbove)
  }
}
