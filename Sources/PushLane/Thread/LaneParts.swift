import PushCore
package import PushIO
package import PushSettings

/// What the adapters of every lane share, made once from the configuration.
package struct LaneParts: Sendable {
  package let redis: RedisConfiguration
  package let redisTLS: TLSContext?
  /// Where devices are known.
  package let registry: RedisConfiguration
  package let registryTLS: TLSContext?
  let sharedState: RedisAdmissionStoreSettings
  package var apns: APNsPushServiceConfiguration
  private let addresses: [AMQPAddress]
  private let rabbitmqTLS: TLSContext?
  private let topology: Topology

  package init(_ configuration: Configuration, laneCount: Int) throws {
    var addresses: [AMQPAddress] = []
    for url in configuration.rabbitmq.urls { addresses.append(try AMQPAddress(url)) }
    self.addresses = addresses
    rabbitmqTLS =
      addresses.contains(where: \.usesTLS)
      ? try TLSContext.client(
        alpn: [], caFile: configuration.rabbitmq.caFile, trustsSystem: !configuration.rabbitmq.trustsOnlyCAFile)
      : nil
    topology = Topology(configuration)
    redis = try RedisConfiguration(url: configuration.redis.url)
    redisTLS = try configuration.redis.tls(redis)
    registry = try RedisConfiguration(url: configuration.registryURL)
    registryTLS = try configuration.redis.tls(registry)
    var sharedState = RedisAdmissionStoreSettings()
    sharedState.prefix = configuration.redis.prefix
    sharedState.timeoutMilliseconds = Int64(configuration.redis.timeoutMilliseconds)
    sharedState.limits = configuration.limits.rates
    sharedState.collapseMilliseconds = configuration.retry.ageMaximumSeconds * 1000
    sharedState.claimSeconds = configuration.claimSeconds
    sharedState.localShares = laneCount
    self.sharedState = sharedState
    apns = APNsPushServiceConfiguration(configuration.apns)
  }

  /// Settings for one user of RabbitMQ: a lane, or the consumer of another queue.
  package func rabbitmq(name: String, prefetch: Int, randomSeed: UInt64) -> RabbitMQSettings {
    RabbitMQSettings(
      addresses: addresses, tls: rabbitmqTLS, topology: topology, laneName: name, prefetch: prefetch,
      randomSeed: randomSeed)
  }
}

extension APNsPushServiceConfiguration {
  /// The settings in the `apns` section.
  package init(_ apns: Configuration.APNs) {
    self.init(
      production: APNsHost(apns.production), sandbox: APNsHost(apns.sandbox),
      broadcastProduction: APNsHost(apns.broadcastProduction), broadcastSandbox: APNsHost(apns.broadcastSandbox))
    requestTimeoutMilliseconds = Int64(apns.requestTimeoutMilliseconds)
    timing.watch(requestTimeoutMilliseconds: requestTimeoutMilliseconds)
    connectionsMaximum = apns.connectionsMaximum
    connectOptions = ConnectOptions(through: apns.proxy)
  }
}
