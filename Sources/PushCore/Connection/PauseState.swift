/// Whether requests may be sent for one scope (a credential, a topic). Refusals that would hit every request stop it; a successful probe
/// opens it again.
///
/// While a scope is paused, jobs go to the retry queues. After the pause one job goes out as a probe, and only its answer opens the scope
/// or pauses it again, for twice as long.
package struct PauseState: Sendable {
  private enum Phase: Sendable {
    /// All jobs may be sent. Becomes `paused`.
    case running
    /// No job may be sent. Becomes `probing` with the first job after its end.
    case paused(until: Instant, lengthMilliseconds: Int64)
    /// One job was sent as a probe. Becomes `running` or `paused`; after a probe without an answer another one follows.
    case probing(since: Instant, lengthMilliseconds: Int64)
  }

  package enum Decision: Equatable, Sendable {
    case go
    /// This one may be sent, as a probe.
    case probe
    /// Not now; try again after this long.
    case stop(milliseconds: Int64)
  }

  package static let firstMilliseconds: Int64 = 15_000
  package static let longestMilliseconds: Int64 = 600_000
  /// A probe without an answer after this long counts as lost.
  package static let probeMilliseconds: Int64 = 15_000

  private var phase = Phase.running

  package init() {}

  package var isRunning: Bool {
    if case .running = phase { return true }
    return false
  }

  /// Whether a job may be sent. An answer of `probe` counts as sent.
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

  /// The probe that `decide` allowed was not sent: the next job becomes the probe.
  package mutating func probeNotSent(now: Instant) {
    switch phase {
    case .running, .paused: break
    case .probing(_, let length): phase = .paused(until: now, lengthMilliseconds: length)
    }
  }

  /// An answer said that the scope is refused. true: this starts or renews a pause; false: the scope was paused already, and this request
  /// was in flight.
  package mutating func refused(now: Instant) -> Bool {
    refused(now: now, longestMilliseconds: PauseState.longestMilliseconds)
  }

  /// The scope may be used again after this long at the latest, perhaps sooner: probes find out. true: this starts or renews a pause.
  package mutating func hold(milliseconds: Int64, now: Instant) -> Bool {
    refused(now: now, longestMilliseconds: milliseconds)
  }

  private mutating func refused(now: Instant, longestMilliseconds: Int64) -> Bool {
    switch phase {
    case .running:
      pause(min(PauseState.firstMilliseconds, longestMilliseconds), now: now)
      return true
    case .paused:
      return false
    case .probing(_, let length):
      pause(min(length * 2, longestMilliseconds), now: now)
      return true
    }
  }

  /// A request of the scope was accepted. true: this ends a pause. A request sent before the pause is as good a proof as the probe: APNs
  /// accepts the scope.
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
