/// A circuit breaker for a dependency: after several failures in a row, over some time, nothing waits for it any more, and one probe at a
/// time finds out when it is back.
///
/// Both number and time count. A busy machine may answer some hundred requests late at once and then recover: that many failures in one
/// moment prove nothing, and neither do two failures an hour apart.
@usableFromInline
package struct BreakerState: Sendable {
  package struct Settings: Sendable {
    /// Failures in a row that open it.
    package var failuresMaximum = 5
    /// How long they must last without a success between them.
    package var failingMilliseconds: Int64 = 400
    /// Between two probes.
    package var probeIntervalMilliseconds: Int64 = 250

    package init() {}
  }

  private enum Phase: Sendable {
    /// In use; this many failures in a row, the first of them at `since`. Becomes `open`.
    case closed(failures: Int, since: Instant)
    /// Not in use. Becomes `probing` at `probeAt`.
    case open(probeAt: Instant)
    /// Not in use, one probe is in flight. Becomes `closed` if its answer is healthy, else `open`.
    case probing

    static let whole = Phase.closed(failures: 0, since: Instant(nanoseconds: 0))
  }

  package let settings: Settings
  private var phase = Phase.whole

  package init(settings: Settings) {
    precondition(settings.failuresMaximum >= 1 && settings.probeIntervalMilliseconds > 0)
    self.settings = settings
  }

  /// The dependency may be used.
  @usableFromInline
  package var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  /// A request was answered in time. Answers to requests sent before the opening do not count.
  package mutating func succeeded() {
    switch phase {
    case .closed: phase = .whole
    case .open, .probing: break
    }
  }

  /// A request failed or was not answered in time. true: this opened the breaker.
  package mutating func failed(now: Instant) -> Bool {
    switch phase {
    case .closed(let failures, let since):
      let first = failures == 0 ? now : since
      guard failures + 1 >= settings.failuresMaximum, now.milliseconds(since: first) >= settings.failingMilliseconds
      else {
        phase = .closed(failures: min(failures + 1, settings.failuresMaximum), since: first)
        return false
      }
      phase = .open(probeAt: now.adding(milliseconds: settings.probeIntervalMilliseconds))
      return true
    case .open, .probing:
      return false
    }
  }

  /// The connection is gone: open at once. true: it was closed before.
  package mutating func lost(now: Instant) -> Bool {
    let wasClosed = isClosed
    phase = .open(probeAt: now.adding(milliseconds: settings.probeIntervalMilliseconds))
    return wasClosed
  }

  /// A new connection is ready, which counts as a successful probe. true: it was open before.
  package mutating func connected() -> Bool {
    let wasOpen = !isClosed
    phase = .whole
    return wasOpen
  }

  /// Whether to send a probe now; the caller sends exactly one for each true.
  package mutating func takeProbe(now: Instant) -> Bool {
    guard case .open(let probeAt) = phase, probeAt <= now else { return false }
    phase = .probing
    return true
  }

  /// The probe's answer. true: the breaker closed.
  package mutating func probeAnswered(isHealthy: Bool, now: Instant) -> Bool {
    guard case .probing = phase else { return false }
    if isHealthy {
      phase = .whole
      return true
    }
    phase = .open(probeAt: now.adding(milliseconds: settings.probeIntervalMilliseconds))
    return false
  }
}
