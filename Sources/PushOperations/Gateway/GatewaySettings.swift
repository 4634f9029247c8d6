import Foundation
import PushIO
import PushLane
package import PushSettings

/// What the gateway's backend is made from: every bound by its name.
package struct GatewaySettings: Sendable {
  let rabbitmq: RabbitMQSettings
  let redis: RedisConfiguration
  let redisTLS: TLSContext?
  /// Begins the name of every key in Redis.
  let prefix: String
  let keysFile: APIKeyFile?
  /// A request that RabbitMQ did not confirm after this is answered so.
  var confirmMilliseconds: Int64 = 5_000
  /// Messages that are not confirmed yet: more are refused.
  var unconfirmedMaximum = 50_000
  /// Readers of outcomes at a time: a channel each.
  var readersMaximum = 100
  let drainTimeoutMilliseconds: Int64

  package init(_ configuration: Configuration) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    rabbitmq = parts.rabbitmq(
      name: "\(ProcessInfo.processInfo.hostName)/gateway", prefetch: 2, randomSeed: .random(in: .min ... .max))
    redis = try RedisConfiguration(url: configuration.registryURL)
    redisTLS = try configuration.redis.tls(redis)
    prefix = configuration.redis.prefix
    keysFile = configuration.gateway.keysFile.map(APIKeyFile.init)
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
  }
}
