/// Whether one scope (a credential, a topic) may be sent to: stopped by answers that say that everything would be refused,
/// opened again by a probe.
///
/// While paused, jobs go elsewhere (to the retry queues). When the pause is over one job goes out as a probe, and only
/// its answer opens the scope or pauses it again, for twice as long.
package struct PauseState: Sendable {
  private enum Phase: Sendable {
    /// Everything may go. Becomes `paused`.
    case running
    /// Nothing may go. Becomes `probing` with the first job after its end.
    case paused(until: Instant, lengthMilliseconds: Int64)
    /// One job is out to see. Becomes `running` or `paused`; a probe without an answer is followed by another.
    case probing(since: Instant, lengthMilliseconds: Int64)
  }

  package enum Decision: Equatable, Sendable {
    case go
    /// This one goes, alone.
    case probe
    /// Not now; try again after this long.
    case stop(milliseconds: Int64)
  }

  package static let firstMilliseconds: Int64 = 15_000
  package static let longestMilliseconds: Int64 = 600_000
  /// A probe that has no answer after this long got lost.
  package static let probeMilliseconds: Int64 = 15_000

  private var phase = Phase.running

  package init() {}

  package var isRunning: Bool {
    if case .running = phase { return true }
    return false
  }

  /// Whether a job may go. `decide` with an answer of `probe` counts it as sent.
  package mutating func decide(now: Instant) -> Decision {
    switch phase {
    case .running:
      return .go
    case .paused(let until, let length):
      guard now >= until else { return .stop(milliseconds: until.milliseconds(since: now) + 1) }
      phase = .probing(since: now, lengthMilliseconds: length)
      return .probe
    case .probing(let since, let length):
      let left = PauseState.probeMilliseconds - now.milliseconds(since: since)
      guard left <= 0 else { return .stop(milliseconds: left) }
      phase = .probing(since: now, lengthMilliseconds: length)
      return .probe
    }
  }

  /// The probe that `decide` allowed did not go out: the next job is one.
  package mutating func probeNotSent(now: Instant) {
    switch phase {
    case .running, .paused: break
    case .probing(_, let length): phase = .paused(until: now, lengthMilliseconds: length)
    }
  }

  /// An answer said that the scope is refused. true: this pauses it (or pauses it anew); false: it was known, by requests
  /// that were under way.
  package mutating func refused(now: Instant) -> Bool {
    switch phase {
    case .running:
      pause(PauseState.firstMilliseconds, now: now)
      return true
    case .paused:
      return false
    case .probing(_, let length):
      pause(min(length * 2, PauseState.longestMilliseconds), now: now)
      return true
    }
  }

  /// The scope may be sent to again after a time that is known; a probe follows. true: that was not known before.
  package mutating func hold(milliseconds: Int64, now: Instant) -> Bool {
    let end = now.adding(milliseconds: milliseconds)
    switch phase {
    case .running, .probing:
      phase = .paused(until: end, lengthMilliseconds: PauseState.firstMilliseconds)
      return true
    case .paused(let until, let length):
      phase = .paused(until: max(until, end), lengthMilliseconds: length)
      return false
    }
  }

  /// A request of the scope was accepted. true: this ends a pause. One that was sent before the pause proves as much as
  /// the probe does: that APNs takes them.
  package mutating func accepted() -> Bool {
    switch phase {
    case .running:
      return false
    case .paused, .probing:
      phase = .running
      return true
    }
  }

  private mutating func pause(_ length: Int64, now: Instant) {
    phase = .paused(until: now.adding(milliseconds: length), lengthMilliseconds: length)
  }
}
