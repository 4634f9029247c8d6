/// Whether a lane stands still: it has jobs in flight, settles none of them, and no reason is known.
///
/// An alarm says at which step the oldest job is. What goes on for longer is ended by force: a `restart` gives the jobs back to the
/// broker, so that other lanes get them, and makes anew what the step waits for. A restart that did not help is repeated after
/// twice the time, because each one counts against its jobs' deliveries, of which the broker allows 20.
package struct StandstillState: Sendable {
  package struct Settings: Hashable, Sendable {
    /// Nothing was settled for so long: an alarm.
    package var alarmMilliseconds: Int64 = 15_000
    /// Nothing was settled for so long: a restart.
    package var restartMilliseconds: Int64 = 60_000
    /// The longest time between two restarts.
    package var restartMaximumMilliseconds: Int64 = 3_600_000

    package init() {}

    /// A request to APNs that waits for its answer until its own deadline is no standstill.
    package init(requestTimeoutMilliseconds: Int64) {
      alarmMilliseconds = max(alarmMilliseconds, requestTimeoutMilliseconds + 5_000)
      restartMilliseconds = max(restartMilliseconds, 4 * alarmMilliseconds)
    }
  }

  /// A reason that is known, and said elsewhere.
  package enum Hold: Hashable, Sendable {
    /// The lane drains, which has a deadline of its own.
    case draining
    /// No consumer: the connection to the broker comes back by itself.
    case disconnected
    /// Nothing can be published: the broker raised an alarm, or the connection comes back by itself.
    case unpublishable
    /// The broker refuses what is published: a queue is full. An alarm, but others would fare no better: no restart.
    case refused
  }

  /// What a lane is about, at one moment.
  package struct Look: Sendable {
    /// Whatever moved since its start: (job, target)s settled, requests written, answers taken.
    package var settled: UInt64
    /// Jobs.
    package var inFlight: Int
    package var hold: Hold?
    /// By `DeliveryStep`: when the oldest job there was received; nil where there is none.
    package var oldest: [Instant?]

    package init(settled: UInt64, inFlight: Int, hold: Hold? = nil) {
      self.settled = settled
      self.inFlight = inFlight
      self.hold = hold
      oldest = Array(repeating: nil, count: DeliveryStep.allCases.count)
    }

    /// A job received at this time is at the step.
    package mutating func add(_ step: DeliveryStep, received: Instant) {
      oldest[step.rawValue] = min(oldest[step.rawValue] ?? received, received)
    }

    /// Where the oldest job of all is; of a batch, the step that comes first.
    package var oldestStep: DeliveryStep? {
      var found: DeliveryStep?
      for step in DeliveryStep.allCases {
        guard let received = oldest[step.rawValue] else { continue }
        if let best = found.flatMap({ oldest[$0.rawValue] }), best <= received { continue }
        found = step
      }
      return found
    }
  }

  package enum Action: Hashable, Sendable {
    case none
    /// It stands still: say so, once.
    case alarm(DeliveryStep)
    /// End the broker connections, and make anew what this step waits for.
    case restart(DeliveryStep)
    /// It settles again, or has had nothing to settle for as long as an alarm takes.
    case recovered
  }

  private enum Phase: Sendable {
    /// Settles, or has no reason to. May become `standing`.
    case moving
    /// The alarm was raised. Becomes `moving` with the next settlement.
    case standing(restartAt: Instant)
  }

  private let settings: Settings
  private var phase = Phase.moving
  private var settled: UInt64 = 0
  /// The last settlement, or the last moment at which none was to be expected; nil before the first look.
  private var movedAt: Instant?
  /// Since when nothing is in flight.
  private var emptySince: Instant?
  /// Restarts since the last settlement; none of them helped.
  private var restarts = 0

  package init(settings: Settings = Settings()) {
    precondition(
      settings.alarmMilliseconds < settings.restartMilliseconds
        && settings.restartMilliseconds <= settings.restartMaximumMilliseconds, "an alarm comes before its restart")
    self.settings = settings
  }

  package var isStanding: Bool {
    switch phase {
    case .moving: false
    case .standing: true
    }
  }

  /// For how long nothing has been settled that should have been.
  package func standingMilliseconds(now: Instant) -> Int64 {
    movedAt.map { now.milliseconds(since: $0) } ?? 0
  }

  /// To be asked about once a second.
  package mutating func turn(_ look: Look, now: Instant) -> Action {
    emptySince = look.inFlight > 0 ? nil : emptySince ?? now
    if look.settled != settled {
      settled = look.settled
      restarts = 0
      return moved(now)
    }
    switch phase {
    case .moving:
      guard let movedAt, let step = look.oldestStep, !isExcused(look) else {
        movedAt = now
        return .none
      }
      guard now.milliseconds(since: movedAt) >= settings.alarmMilliseconds else { return .none }
      phase = .standing(restartAt: movedAt.adding(milliseconds: restartWait))
      return .alarm(step)
    case .standing(let restartAt):
      if let emptySince, now.milliseconds(since: emptySince) >= settings.alarmMilliseconds { return moved(now) }
      guard let step = look.oldestStep, look.hold == nil else {
        // Once the reason is gone, it has its time to move by itself.
        phase = .standing(restartAt: max(restartAt, now.adding(milliseconds: settings.restartMilliseconds)))
        return .none
      }
      guard now >= restartAt else { return .none }
      restarts += 1
      phase = .standing(restartAt: now.adding(milliseconds: restartWait))
      return .restart(step)
    }
  }

  private mutating func moved(_ now: Instant) -> Action {
    let wasStanding = isStanding
    movedAt = now
    phase = .moving
    return wasStanding ? .recovered : .none
  }

  private func isExcused(_ look: Look) -> Bool {
    switch look.hold {
    case .draining, .disconnected, .unpublishable: true
    case .refused, nil: look.inFlight == 0
    }
  }

  /// How long a standstill goes on until its next restart.
  private var restartWait: Int64 {
    var wait = settings.restartMilliseconds
    for _ in 0..<restarts where wait < settings.restartMaximumMilliseconds { wait *= 2 }
    return min(wait, settings.restartMaximumMilliseconds)
  }
}
