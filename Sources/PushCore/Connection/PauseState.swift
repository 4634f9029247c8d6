/// Whether requests may be sent for one scope (a credential, a topic). Refusals that would hit every request stop it; a successful probe
/// opens it again.
///
/// While a scope is paused, jobs go to the retry queues. After the pause a job goes out as a probe, or a few do where each job may be refused for
/// reasons of its own. Their answers open the scope, or pause it again, for twice as long.
package struct PauseState: Sendable {
  private enum Phase: Sendable {
    /// All jobs may be sent. Becomes `paused`.
    case running
    /// No job may be sent. Becomes `probing` with the first job after its end.
    case paused(until: Instant, lengthMilliseconds: Int64)
    /// Probes were sent, and so many may follow. Becomes `running`, or `paused` once all were refused; after probes without an answer others
    /// follow.
    case probing(since: Instant, lengthMilliseconds: Int64, left: Int, refused: Int)
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

  /// Probes of a scope whose jobs may each be refused for reasons of their own.
  package static let severalProbes = 4

  private var phase = Phase.running
  private let probes: Int
  /// When the pause began, through all that renewed it; nil: it is not paused.
  package private(set) var since: Instant?

  /// - Parameter probes: that go out after a pause before one of them is answered.
  package init(probes: Int = 1) { self.probes = probes }

  /// Until the next probe may go out; 0: it may, or did. nil: it is not paused.
  package func probeMilliseconds(now: Instant) -> Int64? {
    switch phase {
    case .running: nil
    case .paused(let until, _): max(0, until.milliseconds(since: now))
    case .probing: 0
    }
  }

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
      phase = .probing(since: now, lengthMilliseconds: length, left: probes - 1, refused: 0)
      return .probe
    case .probing(let since, let length, let left, let refused):
      let wait = PauseState.probeMilliseconds - now.milliseconds(since: since)
      if wait <= 0 {
        if refused > 0 {
          pause(min(length * 2, PauseState.longestMilliseconds), now: now)
          return decide(now: now)
        }
        phase = .probing(since: now, lengthMilliseconds: length, left: probes - 1, refused: 0)
        return .probe
      }
      guard left > 0 else { return .stop(milliseconds: wait) }
      phase = .probing(since: since, lengthMilliseconds: length, left: left - 1, refused: refused)
      return .probe
    }
  }

  /// The probe that `decide` allowed was not sent: the next job becomes the probe.
  package mutating func probeNotSent(now: Instant) {
    switch phase {
    case .running, .paused: break
    case .probing(let since, let length, let left, let refused):
      phase =
        left + 1 + refused >= probes
        ? .paused(until: now, lengthMilliseconds: length)
        : .probing(since: since, lengthMilliseconds: length, left: left + 1, refused: refused)
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
      since = now
      pause(min(PauseState.firstMilliseconds, longestMilliseconds), now: now)
      return true
    case .paused:
      return false
    case .probing(let since, let length, let left, let refused):
      if refused + 1 < probes {
        phase = .probing(since: since, lengthMilliseconds: length, left: left, refused: refused + 1)
        return false
      }
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
      since = nil
      return true
    }
  }

  private mutating func pause(_ length: Int64, now: Instant) {
    phase = .paused(until: now.adding(milliseconds: length), lengthMilliseconds: length)
  }
}
