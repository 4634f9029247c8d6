import Logging
import PushCore
import PushIO

/// What the adapters of every lane have in common, made once from the configuration.
struct LaneParts: Sendable {
  typealias WorkerLane = Lane<RabbitMQBroker, RedisSharedState, APNsPushService, LoopClock>

  let redis: RedisConfiguration
  let redisTLS: TLSContext?
  let sharedState: RedisSharedStateSettings
  let apns: APNsPushServiceConfiguration
  private let addresses: [AMQPAddress]
  private let rabbitmqTLS: TLSContext?
  private let topology: Topology

  init(_ configuration: Configuration, laneCount: Int) throws {
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
    var sharedState = RedisSharedStateSettings()
    sharedState.prefix = configuration.redis.prefix
    sharedState.timeoutMilliseconds = Int64(configuration.redis.timeoutMilliseconds)
    sharedState.limits = configuration.limits.rates
    sharedState.collapseMilliseconds = configuration.retry.ageMaximumSeconds * 1000
    sharedState.claimSeconds = configuration.claimSeconds
    sharedState.localShares = laneCount
    self.sharedState = sharedState
    apns = APNsPushServiceConfiguration(configuration.apns)
  }

  func rabbitmq(_ lane: LaneSettings) -> RabbitMQSettings {
    RabbitMQSettings(
      addresses: addresses, tls: rabbitmqTLS, topology: topology, laneName: lane.workerName, prefetch: lane.prefetch,
      randomSeed: lane.randomSeed)
  }

  /// What the channel desk is made from.
  func channelDesk(_ configuration: Configuration, hostName: String) -> ChannelDeskSettings {
    let rabbitmq = RabbitMQSettings(
      addresses: addresses, tls: rabbitmqTLS, topology: topology, laneName: "\(hostName)/channels", prefetch: 2,
      randomSeed: UInt64.random(in: .min ... .max))
    var settings = ChannelDeskSettings(
      rabbitmq: rabbitmq, redis: redis, redisTLS: redisTLS, prefix: configuration.redis.prefix,
      client: ChannelClientConfiguration(configuration.apns))
    settings.drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
    return settings
  }

  /// Where the process shares its provider tokens with others.
  static func tokenStore(_ configuration: Configuration, logger: Logger) throws -> RedisProviderTokenStore {
    let redis = try RedisConfiguration(url: configuration.redis.url)
    return RedisProviderTokenStore(
      configuration: redis, tls: try configuration.redis.tls(redis),
      prefix: configuration.redis.prefix, seal: try configuration.redis.tokenKeyFile.map(TokenSeal.init(file:))
    ) { problem in logger.warning("redis: \(problem)") }
  }

  /// Adds what the adapters know.
  static func describe(_ lane: borrowing WorkerLane, _ now: Now, _ report: inout LaneReport) {
    let rabbitmq = lane.broker.counters
    report.rabbitmqConnected = [
      ("consumer", rabbitmq.isConsumerConnected), ("publisher", rabbitmq.isPublisherConnected),
    ]
    report.isBlocked = rabbitmq.isBlocked
    report.isRedisUp = lane.state.isConnected
    report.redisDegraded = SharedStateFeature.allCases.map { ($0.rawValue, lane.state.degradation(of: $0) != nil) }
    let decided = lane.state.counters
    report.decidedLocally = SharedStateFeature.allCases.map { ($0.rawValue, decided.decidedLocally(of: $0)) }
    let apns = lane.push.counters
    report.requestDuration = apns.requestDuration
    report.responses = [LaneReport.Responses(status: 200, reason: "", count: apns.accepted)]
    for (answer, count) in apns.refusals {
      report.responses.append(
        LaneReport.Responses(
          status: Int(answer.status), reason: answer.reason?.name ?? "", count: count,
          isOurFault: Verdict(status: answer.status, reason: answer.reason).notes.contains(.ourFault)))
    }
    report.pauses = apns.pauses
    report.badDeviceTokenWarnings = apns.badDeviceTokenWarnings
    report.goAways = apns.goAways.map { ($0.key, $0.value) }
    report.connectionsEnded = ConnectionState.EndReason.allCases.map { ("\($0.name)", apns.ended(for: $0)) }
    report.connectionsOpened = apns.connectionsOpened
    report.connectionsFailed = apns.connectionsFailed
    report.tlsFailures = apns.tlsFailures
    report.clockSkewSeconds = lane.push.clockSkewSeconds
    report.pools = lane.push.poolSnapshots(now: now)
  }

  /// The lane stands still: its jobs go back to the broker, and what they wait for is made anew.
  static func restart(_ lane: inout WorkerLane, at step: DeliveryStep, _ now: Now) {
    lane.broker.restart(reason: "the lane stood still (\(step))")
    switch step {
    case .admitting: lane.state.restart(now: now)
    case .token, .room, .channel, .sent: lane.push.restart()
    case .unstarted, .reporting, .confirm: break
    }
  }

  /// What the adapters noticed.
  static func takeNotices(_ lane: borrowing WorkerLane) -> [LaneNotice] {
    var notices = lane.broker.takeNotices().map { notice in
      let level: Logger.Level =
        switch notice.level {
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
      return LaneNotice(level, "rabbitmq \(notice.role)", "rabbitmq: \(notice.text)", ["role": "\(notice.role)"])
    }
    while let notice = lane.state.nextNotice() {
      switch notice {
      case .degraded(let reason):
        notices.append(LaneNotice(.warning, "redis", "redis: \(reason); this lane's own memory stands in"))
      case .recovered: notices.append(LaneNotice(.info, "redis", "redis: working again"))
      }
    }
    while let notice = lane.push.takeNotice() { notices.append(LaneNotice(notice)) }
    return notices
  }
}

extension LaneNotice {
  init(_ notice: APNsNotice) {
    let level: Logger.Level =
      switch notice.severity {
      case .information: .info
      case .warning: .warning
      case .error: .error
      }
    self.init(
      level, "apns \(notice.credential) \(notice.environment)", "apns: \(notice.text)",
      ["credential": "\(notice.credential)", "environment": "\(notice.environment)"])
  }
}

extension APNsPushServiceConfiguration {
  /// What the `apns` section asks for.
  init(_ apns: Configuration.APNs) {
    self.init(
      production: APNsHost(apns.production), sandbox: APNsHost(apns.sandbox),
      broadcastProduction: APNsHost(apns.broadcastProduction), broadcastSandbox: APNsHost(apns.broadcastSandbox))
    requestTimeoutMilliseconds = Int64(apns.requestTimeoutMilliseconds)
    timing.watch(requestTimeoutMilliseconds: requestTimeoutMilliseconds)
    connectionsMaximum = apns.connectionsMaximum
    connectOptions = ConnectOptions(through: apns.proxy)
  }
}

extension ConnectOptions {
  /// The usual ones, through a proxy where there is one.
  init(through proxy: ServiceAddress?) {
    self.init()
    self.proxy = proxy.map { proxy in
      Proxy(endpoint: Endpoint(host: proxy.host, port: proxy.port), user: proxy.user, password: proxy.password)
    }
  }
}

extension APNsHost {
  init(_ address: ServiceAddress) {
    self.init(host: address.host, port: address.port)
  }
}

extension Topology {
  /// The topology that a configuration asks for.
  package init(_ configuration: Configuration) {
    let log = ResultsLog(
      maximumAge: configuration.results.logMaximumAge, maximumBytes: Int64(configuration.results.logMaximumBytes))
    self.init(
      prefix: configuration.rabbitmq.prefix, retryDelaysSeconds: configuration.retry.delaysSeconds,
      resultsLog: configuration.results.isLogged ? log : nil)
  }
}
