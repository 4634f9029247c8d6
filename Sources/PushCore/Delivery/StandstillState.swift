/// Whether a lane stands still: it has jobs in flight, settles none of them, and no reason is known.
///
/// An alarm names the oldest job's step. If it lasts, a `restart` returns the jobs to the broker, so that other lanes get them, and
/// recreates what the step waits for. A restart that did not help is repeated after twice the time, because each one counts against its
/// jobs' deliveries, of which the broker allows 20.
package struct StandstillState: Sendable {
  package struct Settings: Hashable, Sendable {
    /// Raise the alarm after this long without a settlement.
    package var alarmMilliseconds: Int64 = 15_000
    /// Restart after this long without a settlement.
    package var restartMilliseconds: Int64 = 60_000
    /// The maximum time between two restarts.
    package var restartMaximumMilliseconds: Int64 = 3_600_000

    package init() {}

    /// A request to APNs that waits for its answer until its deadline is no standstill.
    package init(requestTimeoutMilliseconds: Int64) {
      alarmMilliseconds = max(alarmMilliseconds, requestTimeoutMilliseconds + 5_000)
      restartMilliseconds = max(restartMilliseconds, 4 * alarmMilliseconds)
    }
  }

  /// A known reason, which is reported elsewhere.
  package enum Hold: Hashable, Sendable {
    /// The lane drains, which has a deadline of its own.
    case draining
    /// No consumer: the connection to the broker comes back by itself.
    case disconnected
    /// Nothing can be published: the broker raised an alarm, or the connection is being restored.
    case unpublishable
    /// The broker refuses publishes: a queue is full. This raises an alarm, but no restart: other lanes would fare no better.
    case refused
  }

  /// A lane's state at one moment.
  package struct Look: Sendable {
    /// A count of everything that moved since its start: (job, target)s settled, requests written, answers taken.
    package var settled: UInt64
    /// Jobs in flight.
    package var inFlight: Int
    package var hold: Hold?
    /// By `DeliveryStep`: when the oldest job in it was received; nil if there is none.
    package var oldest: [Instant?]

    package init(settled: UInt64, inFlight: Int, hold: Hold? = nil) {
      self.settled = settled
      self.inFlight = inFlight
      self.hold = hold
      oldest = Array(repeating: nil, count: DeliveryStep.allCases.count)
    }

    /// A job received at this time is in this step.
    package mutating func add(_ step: DeliveryStep, received: Instant) {
      oldest[step.rawValue] = min(oldest[step.rawValue] ?? received, received)
    }

    /// The oldest job's step; for a batch, the earliest step.
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
    /// It stands still: report it once.
    case alarm(DeliveryStep)
    /// Close the broker connections, and recreate what this step waits for.
    case restart(DeliveryStep)
    /// It settles again, or has had nothing to settle for as long as an alarm takes.
    case recovered
  }

  private enum Phase: Sendable {
    /// Settles, or need not. May become `standing`.
    case moving
    /// The alarm was raised. Becomes `moving` with the next settlement.
    case standing(restartAt: Instant)
  }

  private let settings: Settings
  private var phase = Phase.moving
  private var settled: UInt64 = 0
  /// The last settlement, or the last moment at which none was expected; nil before the first look.
  private var movedAt: Instant?
  /// Since when nothing is in flight.
  private var emptySince: Instant?
  /// Restarts since the last settlement, which did not help.
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

  /// How long a due settlement has not happened.
  package func standingMilliseconds(now: Instant) -> Int64 {
    movedAt.map { now.milliseconds(since: $0) } ?? 0
  }

  /// Call once a second.
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
        // After the reason ends, the lane gets time to move by itself.
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
