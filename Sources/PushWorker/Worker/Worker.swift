import Foundation
package import Logging
package import PushCore
package import PushCredentials
import PushIO
package import PushLane
package import PushSettings
import PushStores
import Synchronization

/// Herald's worker: several lanes, each on its own thread, and what operators and probes ask of them.
///
/// `start` makes the lanes from a configuration; `drain` ends them in order. A job is handled in a lane only; nothing here is on its way.
package final class Worker: Sendable {
  /// The configuration at its start. A reload changes only credentials and limits: `credentials`, and the lanes' own.
  package let configuration: Configuration
  private struct Current {
    var configuration: Configuration
    var credentials: Credentials
    var revocations = Revocations()
  }

  private let current: Mutex<Current>
  /// Shares provider tokens with the other workers.
  private let tokenStore: RedisProviderTokenStore
  /// Answers requests about broadcast channels, and knows their storage policies for the lanes.
  private let channelConsumer: ChannelConsumer
  private let channelPolicies = ChannelPolicyCache()
  /// Stores what apps register of their devices.
  private let registrationConsumer: RegistrationConsumer
  /// Turns jobs for audiences into pages.
  private let expansionConsumer: ExpansionConsumer
  /// Sees that what RabbitMQ gives up has its outcome.
  private let undeliveredConsumer: UndeliveredConsumer
  /// Of all its loops.
  private let wallClock = WallClock()
  private let logger: Logger
  private let hostName: String
  private let controls: [LaneControl]
  private let threads = Mutex<[LoopThread]>([])
  private let isDraining = Mutex(false)
  private let watchesUntilEmpty: Bool
  private let standstill: StandstillState.Settings

  /// A lane that does not report for this long is stalled.
  private static let stalledMilliseconds = 2000
  /// A worker that starts waits so long for Redis' time.
  private static let clockMilliseconds: Int64 = 1_000

  /// Loads keys and certificates.
  /// - Parameters:
  ///   - untilEmpty: lanes watch whether all queues are empty, for `waitUntilEmpty`.
  ///   - standstill: after what time a lane that settles nothing is reported and restarted; nil: derived from the request timeout.
  package init(
    _ configuration: Configuration, logger: Logger, untilEmpty: Bool = false,
    standstill: StandstillState.Settings? = nil
  ) throws {
    self.configuration = configuration
    self.logger = logger
    watchesUntilEmpty = untilEmpty
    self.standstill =
      standstill
      ?? StandstillState.Settings(requestTimeoutMilliseconds: Int64(configuration.apns.requestTimeoutMilliseconds))
    try configuration.checkTables()
    if let file = configuration.admin.tokenFile { _ = try AdminToken(file: file) }
    hostName = ProcessInfo.processInfo.hostName
    tokenStore = try RedisProviderTokenStore(configuration, logger: logger)
    let credentials = try Credentials(
      configuration.credentials, for: configuration.apns, tokens: ProviderTokens(store: tokenStore))
    current = Mutex(Current(configuration: configuration, credentials: credentials))
    channelConsumer = ChannelConsumer(
      try ChannelConsumerSettings(configuration, hostName: hostName), cache: channelPolicies, logger: logger,
      untilEmpty: untilEmpty)
    registrationConsumer = RegistrationConsumer(
      try RegistrationConsumerSettings(configuration, hostName: hostName), logger: logger, untilEmpty: untilEmpty)
    expansionConsumer = ExpansionConsumer(
      try ExpansionSettings(configuration, hostName: hostName), logger: logger, untilEmpty: untilEmpty)
    undeliveredConsumer = UndeliveredConsumer(
      try UndeliveredSettings(configuration, hostName: hostName), logger: logger, untilEmpty: untilEmpty)
    let count = configuration.lanes == 0 ? ProcessInfo.processInfo.activeProcessorCount : configuration.lanes
    controls = (0..<count).map { LaneControl(name: "\($0)") }
    for warning in credentials.all.compactMap({ $0?.warnings }).joined() { logger.warning("\(warning)") }
  }

  private var credentials: Credentials { current.withLock { $0.credentials } }

  /// The files of keys and certificates in use: a changed file is a reason to reload.
  package var credentialFiles: [String] {
    current.withLock { $0.configuration.credentials.flatMap(\.files) }
  }

  /// Applies credentials, limits and the log's level of a newer configuration, without losing a job. Throws if something in it is wrong;
  /// then nothing changes.
  package func reload(_ newer: Configuration) throws(CredentialError) {
    var (ended, begun): ([String], [String]) = ([], [])
    let (needingRestart, credentials) = try current.withLock { current throws(CredentialError) in
      // They live as long as the process, like the provider tokens, which must not be renewed for a reload.
      let credentials = try Credentials(
        newer.credentials, for: configuration.apns, tokens: current.credentials.tokens, replacing: current.credentials)
      current.configuration = newer
      current.credentials = credentials
      (ended, begun) = current.revocations.replaced(by: credentials)
      apply(current)
      return (newer.pathsNeedingRestart(comparedTo: configuration), credentials)
    }
    sayEnded(ended, because: "its key changed")
    for name in begun {
      logger.warning(
        "the credential has a key that was revoked: it is revoked too, until its key changes or `herald unrevoke \(name)`",
        metadata: ["credential": "\(name)"])
    }
    Log.reload(newer.log)
    for warning in credentials.all.compactMap({ $0?.warnings }).joined() { logger.warning("\(warning)") }
    if !needingRestart.isEmpty {
      logger.warning("these options differ and want a restart: \(needingRestart.joined(separator: ", "))")
    }
    logger.notice("reloaded", metadata: ["credentials": credentials.names])
  }

  /// Gives the lanes and the channel consumer what is current. Under the lock, so that all see changes in one order.
  private func apply(_ current: Current) {
    let update = LaneUpdate(
      credentials: current.credentials, limits: current.configuration.limits, revoked: current.revocations.names)
    for control in controls { control.reload(update) }
    channelConsumer.reload(current.credentials, revoked: current.revocations.names)
  }

  private func sayEnded(_ names: [String], because reason: String) {
    for name in names {
      logger.notice("the credential's revocation has ended: \(reason)", metadata: ["credential": "\(name)"])
    }
  }

  /// Ends the connections of a credential, and of all with the same key, in every lane and in the channel consumer, at once, and does not use
  /// them until their key's content changes or `unrevoke`. Their jobs wait in the retry queues, their channel requests in the channel consumer.
  /// - Returns: the revoked names, this one first; empty: there is no credential with this name.
  package func revoke(credential name: String) -> [String] {
    let names = current.withLock { current in
      let names = current.revocations.revoke(name, among: current.credentials)
      for name in names {
        for control in controls { control.revoke(credential: name) }
        channelConsumer.revoke(credential: name)
      }
      return names
    }
    for revoked in names {
      let reason = revoked == name ? "by command" : "with \(name), which has the same key"
      logger.warning(
        """
        credential revoked \(reason): its connections are closed, its jobs wait in the retry queues until its key changes or \
        `herald unrevoke \(revoked)`
        """, metadata: ["credential": "\(revoked)"])
    }
    return names
  }

  /// Ends pauses in every lane: of a credential, nil: of all; of a topic, nil: all. Returns what was paused.
  package func liftPauses(credential: String?, topic: String?) async -> [WorkerStatus.Pause] {
    let lifted = await status().pauses.filter { $0.isOf(credential: credential, topic: topic) }
    for control in controls { control.lift(PauseLift(credential: credential, topic: topic)) }
    return lifted
  }

  /// Uses a revoked credential again.
  /// - Returns: the names where its key stays revoked; nil: this one is not revoked.
  package func unrevoke(credential name: String) -> [String]? {
    let others = current.withLock { current -> [String]? in
      guard let others = current.revocations.unrevoke(name) else { return nil }
      apply(current)
      return others
    }
    if others != nil { sayEnded([name], because: "by command") }
    return others
  }

  /// Starts the lanes, once Redis has told its time. Called once.
  package func start() throws {
    let parts = try LaneParts(configuration, laneCount: controls.count)
    // Before any job's time is compared with this machine's.
    RedisClient.teach(
      wallClock, parts.registry, tls: parts.registryTLS, timeoutMilliseconds: Worker.clockMilliseconds)
    tokenStore.start(wallClock)
    channelConsumer.start(credentials: credentials, wallClock)
    registrationConsumer.start(wallClock)
    expansionConsumer.start(wallClock)
    undeliveredConsumer.start(wallClock)
    for (index, control) in controls.enumerated() {
      var settings = LaneSettings(
        workerName: "\(hostName)/\(index)", prefetch: configuration.rabbitmq.prefetch, retry: configuration.retry,
        onLimit: configuration.limits.onLimit, drainTimeoutMilliseconds: configuration.drainTimeoutMilliseconds,
        randomSeed: UInt64.random(in: .min ... .max))
      settings.unsureMilliseconds = LaneSettings.workersUnsureMilliseconds
      let thread = LoopThread(name: "lane-\(index)") { [self, settings] in
        runLane(control, settings, parts)
      }
      threads.withLock { $0.append(thread) }
    }
    logger.info(
      "herald \(Herald.version) started",
      metadata: [
        "lanes": .stringConvertible(controls.count),
        "rabbitmq": .array(configuration.rabbitmq.urls.map { .string(ServiceAddress.redacted($0)) }),
        "redis": "\(ServiceAddress.redacted(configuration.redis.url))", "credentials": credentials.names,
      ])
  }

  private func runLane(_ control: LaneControl, _ settings: LaneSettings, _ parts: LaneParts) {
    var last: LaneReport?
    defer { control.end(last) }
    do {
      let loop = try EventLoop(wallClock: wallClock)
      let directory = RegistryDirectory(
        loop: loop, configuration: parts.registry, tls: parts.registryTLS, prefix: configuration.redis.prefix,
        seed: .random(in: .min ... .max))
      let lane = WorkerLane(
        loop: loop, control, settings, parts, credentials: credentials, policies: channelPolicies, directory: directory,
        standstill: standstill, watchesUntilEmpty: watchesUntilEmpty
      ) { [logger] notice in
        logger.log(
          level: notice.level, "\(notice.text)", metadata: notice.metadata.merging(["lane": "\(control.name)"]) { $1 })
      }
      lane.run()
      last = lane.lastReport
    } catch {
      logger.critical("lane \(control.name) could not start: \(error)")
    }
  }

  // MARK: the end

  /// Takes no more jobs, finishes those in flight, returns the rest to its queue at the deadline. Returns when all lanes are done.
  package func drain() async {
    isDraining.withLock { $0 = true }
    logger.info(
      "draining", metadata: ["timeout_s": .stringConvertible(configuration.drainTimeoutMilliseconds / 1000)])
    for control in controls { control.drain() }
    channelConsumer.drain()
    registrationConsumer.drain()
    expansionConsumer.drain()
    undeliveredConsumer.drain()
    for control in controls { await control.waitUntilEnded() }
    for thread in threads.withLock({ threads in
      let all = threads
      threads = []
      return all
    }) { thread.join() }
    channelConsumer.join()
    registrationConsumer.join()
    expansionConsumer.join()
    undeliveredConsumer.join()
    tokenStore.stop()
    logger.info("drained")
  }

  /// Returns when every lane has found all queues empty and has nothing in flight, and so have the consumers beside them, twice in a row.
  package func waitUntilEmpty() async throws {
    var emptyLooks = 0
    while emptyLooks < 2 {
      try await Task.sleep(for: .milliseconds(200))
      let reports = await reports()
      let areLanesEmpty = reports.allSatisfy { report in
        guard let report else { return false }
        return report.isExhausted && report.jobsInFlight == 0
      }
      let areConsumersEmpty =
        channelConsumer.isExhausted && registrationConsumer.isExhausted && expansionConsumer.isExhausted
        && undeliveredConsumer.isExhausted
      let isEmpty = areLanesEmpty && areConsumersEmpty
      emptyLooks = isEmpty ? emptyLooks + 1 : 0
    }
  }

  // MARK: reports

  /// The names of lanes that do not answer; empty if all loops turn.
  package func stalledLanes() async -> [String] {
    WorkerHealth.stalled(await lanes())
  }

  private func lanes() async -> [WorkerHealth.Lane] {
    zip(controls, await reports()).map { control, report in
      WorkerHealth.Lane(name: control.name, report: report, isDone: control.isDone)
    }
  }

  /// Why the worker cannot take jobs, a line each; empty if it is ready.
  package func readinessProblems() async -> [String] {
    if isDraining.withLock({ $0 }) { return ["draining"] }
    let lanes = await lanes()
    // The drain has started, so lanes that stopped consuming are not a problem.
    if isDraining.withLock({ $0 }) { return ["draining"] }
    var problems = WorkerHealth.problems(lanes)
    if let problem = current.withLock({ $0.revocations.problem(among: $0.credentials) }) { problems.append(problem) }
    return problems
  }

  /// All metrics, in the Prometheus text format.
  package func metricsText() async -> String {
    _ = await reports()
    let (revocations, tokens) = current.withLock { current in
      let revoked = current.revocations.names
      return (
        current.credentials.all.compactMap { $0?.name }.map { ($0, revoked.contains($0)) },
        current.credentials.tokenSnapshots(revoked: revoked)
      )
    }
    // Including lanes that did not answer, or have ended.
    let (channels, registrations) = (channelConsumer.counters, registrationConsumer.counters)
    let (expansions, undelivered) = (expansionConsumer.counters, undeliveredConsumer.counters)
    return MetricsText.make(
      controls.compactMap(\.lastReport), tokens: tokens, certificates: certificates, revocations: revocations,
      refusing: [
        ("channels", channels.refusing), ("expansions", expansions.refusing),
        ("registrations", registrations.refusing), ("undelivered", undelivered.refusing),
      ])
      + ChannelMetrics.text(channels) + RegistrationMetrics.text(registrations) + ExpansionMetrics.text(expansions)
      + UndeliveredMetrics.text(undelivered)
  }

  /// The state of every pool, for `/status` and `herald check --live`.
  package func status() async -> WorkerStatus {
    let revoked = current.withLock { $0.revocations.names.sorted() }
    let lanes = zip(controls, await reports()).map { control, report in
      (name: control.name, report: control.lastReport, isAlive: report != nil || control.isDone)
    }
    return WorkerStatus(lanes, revoked: revoked)
  }

  private var certificates: [(credential: String, notAfter: Int64)] {
    credentials.all.compactMap { credential in
      guard let credential, let facts = credential.tls.certificateFacts else { return nil }
      return (credential.name, facts.notAfterUnixSeconds)
    }
  }

  /// Every lane's report, in order; nil for one that does not answer.
  package func reports() async -> [LaneReport?] {
    await withTaskGroup(of: (Int, LaneReport?).self) { group in
      for (index, control) in controls.enumerated() {
        group.addTask { (index, await control.report(timeoutMilliseconds: Worker.stalledMilliseconds)) }
      }
      var reports: [LaneReport?] = Array(repeating: nil, count: controls.count)
      for await (index, report) in group { reports[index] = report }
      return reports
    }
  }
}

extension Credentials {
  /// For the log.
  fileprivate var names: Logger.MetadataValue { .array(all.compactMap { $0.map { .string($0.name) } }) }
}
