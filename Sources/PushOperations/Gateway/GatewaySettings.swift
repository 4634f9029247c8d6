import Foundation
import PushIO
import PushLane
package import PushSettings

/// Settings and bounds of the gateway's backend.
package struct GatewaySettings: Sendable {
  let rabbitmq: RabbitMQSettings
  let redis: RedisConfiguration
  let redisTLS: TLSContext?
  /// Prefix of every key in Redis.
  let prefix: String
  let keysFile: APIKeyFile?
  /// How long a request waits for RabbitMQ's confirms.
  var confirmMilliseconds: Int64 = 5_000
  /// Maximum of messages that wait for a confirm, and of their bytes. More are refused. A key may have three times what it leaves to all
  /// others.
  var unconfirmedMaximum = 50_000
  var unconfirmedBytesMaximum = 256 << 20
  /// Maximum of bytes that RabbitMQ has not read yet. While there are more, messages are refused.
  var unsentBytesMaximum = 64 << 20
  /// Maximum of readers of outcomes. Each uses an AMQP channel.
  var readersMaximum = 100
  /// Maximum of readers of outcomes with the same API key.
  let readersOfKeyMaximum: Int
  /// There is a results log.
  let isLogged: Bool
  let drainTimeoutMilliseconds: Int64

  package init(_ configuration: Configuration) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    rabbitmq = parts.rabbitmq(
      name: "\(ProcessInfo.processInfo.hostName)/gateway", prefetch: 2, randomSeed: .random(in: .min ... .max))
    redis = try RedisConfiguration(url: configuration.registryURL)
    redisTLS = try configuration.redis.tls(redis)
    prefix = configuration.redis.prefix
    keysFile = configuration.gateway.keysFile.map(APIKeyFile.init)
    readersOfKeyMaximum = configuration.gateway.readersOfKeyMaximum
    isLogged = configuration.results.isLogged
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
  }
}
