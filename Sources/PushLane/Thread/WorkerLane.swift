import Logging
package import PushCore
package import PushCredentials
package import PushIO
import PushSettings

/// A worker's lane: RabbitMQ, Redis and APNs, until it is drained or stopped. It is assembled in this module so that the compiler
/// specialises all of it.
package final class WorkerLane: LoopWork {
  typealias Lane = PushLane.Lane<RabbitMQBroker, RedisAdmissionStore, APNsPushService, LoopClock>

  package let loop: EventLoop
  /// Its last report; nil until it ended.
  package private(set) var lastReport: LaneReport?
  private var thread: LaneThread<RabbitMQBroker, RedisAdmissionStore, APNsPushService>

  /// - Parameters:
  ///   - directory: on the same loop.
  ///   - watchesUntilEmpty: it reports when all work queues are empty.
  ///   - log: gets changes, never jobs.
  package init(
    loop: EventLoop, _ control: LaneControl, _ settings: LaneSettings, _ parts: LaneParts, credentials: Credentials,
    policies: ChannelPolicyCache, directory: any AudienceDirectory = NoDirectory(),
    standstill: StandstillState.Settings, watchesUntilEmpty: Bool,
    log: @escaping (LaneNotice) -> Void
  ) {
    self.loop = loop
    let broker = RabbitMQBroker(
      loop: loop,
      settings: parts.rabbitmq(
        name: settings.workerName, prefetch: settings.prefetch, randomSeed: settings.randomSeed))
    let state = RedisAdmissionStore(
      loop: loop, configuration: parts.redis, tls: parts.redisTLS, settings: parts.sharedState,
      seed: settings.randomSeed)
    let push = APNsPushService(
      loop: loop, credentials: credentials, configuration: parts.apns, policies: policies, seed: settings.randomSeed)
    state.connect()
    if watchesUntilEmpty { broker.watchUntilEmpty() }
    var lane = Lane(
      broker: broker, state: state, push: push, directory: directory, clock: LoopClock(loop: loop), settings: settings)
    lane.reserveLabels(for: credentials.apps)
    thread = LaneThread(
      lane: lane, loop: loop, control: control, describe: WorkerLane.describe, takeNotices: WorkerLane.takeNotices,
      log: log,
      close: { lane in
        lane.broker.close()
        lane.state.close()
        lane.directory.close()
      },
      isClosed: { $0.broker.isClosed && $0.push.isClosed },
      reload: { lane, update in
        lane.push.replaceCredentials(update.credentials, revoked: update.revoked)
        lane.state.update(limits: update.limits.rates)
        lane.update(onLimit: update.limits.onLimit)
        lane.reserveLabels(for: update.credentials.apps)
      },
      revoke: { lane, credential in lane.push.revoke(credential: credential) },
      lift: { lane, lift in lane.push.liftPauses(of: lift.credential, topic: lift.topic) },
      restart: { lane, step in WorkerLane.restart(&lane, at: step, loop.now) },
      standstill: LaneStandstill(settings: standstill))
  }

  package var waitMilliseconds: Int { thread.waitMilliseconds }

  /// See `Lane.contradiction`.
  package var contradiction: String? { thread.lane.contradiction }

  /// Its queues are empty and it has no job; tells nothing where it does not watch.
  package var isExhausted: Bool { thread.lane.isExhausted && thread.lane.jobsInFlight == 0 }

  package func turn() -> Bool {
    lastReport = thread.turn()
    return lastReport == nil
  }

  /// Adds the adapters' state.
  private static func describe(_ lane: borrowing Lane, _ now: Now, _ report: inout LaneReport) {
    let rabbitmq = lane.broker.counters
    report.rabbitmqConnected = [
      ("consumer", rabbitmq.isConsumerConnected), ("publisher", rabbitmq.isPublisherConnected),
    ]
    report.isBlocked = rabbitmq.isBlocked
    report.refusing = rabbitmq.refusing
    report.isRedisUp = lane.state.isConnected
    report.redisDegraded = AdmissionFeature.allCases.map { ($0.rawValue, lane.state.degradation(of: $0) != nil) }
    let decided = lane.state.counters
    report.redisSilences = decided.silences
    report.decidedLocally = AdmissionFeature.allCases.map { ($0.rawValue, decided.decidedLocally(of: $0)) }
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
    report.activePauses = lane.push.activePauses(now: now)
  }

  /// The lane stands still: its jobs return to the broker, and what they wait for is recreated.
  private static func restart(_ lane: inout Lane, at step: DeliveryStep, _ now: Now) {
    lane.broker.restart(reason: "the lane stood still (\(step))")
    switch step {
    case .admitting: lane.state.restart(now: now)
    case .token, .room, .channel, .sent: lane.push.restart()
    case .unstarted, .reporting, .confirm: break
    }
  }

  /// The adapters' notices.
  private static func takeNotices(_ lane: borrowing Lane) -> [LaneNotice] {
    var notices = lane.broker.takeNotices().map { notice in
      LaneNotice(
        notice.level, "rabbitmq \(notice.role)", "rabbitmq: \(notice.text)", ["role": "\(notice.role)"])
    }
    while let notice = lane.state.nextNotice() {
      switch notice {
      case .degraded(let reason):
        notices.append(LaneNotice(.warning, "redis", "redis: \(reason); this lane's own memory stands in"))
      case .recovered: notices.append(LaneNotice(.info, "redis", "redis: working again"))
      case .silent(let silence):
        var notice = LaneNotice(
          .warning, "redis silence",
          """
          redis: silent for \(silence.milliseconds) ms: this lane's own memory decided \(silence.decidedCount) \
          admissions, which are ambiguous
          """)
        notice.isEvent = true
        notices.append(notice)
      }
    }
    if let text = lane.directory.takeUnreadable() {
      let text = "pages of audiences wait, and end with their jobs' time: their devices cannot be read: \(text)"
      notices.append(LaneNotice(.warning, "devices", text))
    }
    while let notice = lane.push.takeNotice() { notices.append(LaneNotice(notice)) }
    return notices
  }
}

extension LaneNotice {
  init(_ notice: APNsNotice) {
    self.init(
      notice.level, "apns \(notice.credential) \(notice.environment)", "apns: \(notice.text)",
      ["credential": "\(notice.credential)", "environment": "\(notice.environment)"])
  }
}
