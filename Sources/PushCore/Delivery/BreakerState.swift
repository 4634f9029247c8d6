/// Decides whether a dependency is asked or spared: after some failures in a row, over some time, nobody waits for it any
/// more, and one probe at a time finds out when it is back.
///
/// Both count, because a busy machine answers some hundred requests late at once and then goes on: that many failures in
/// one moment say nothing, and neither do two an hour apart.
@usableFromInline
package struct BreakerState: Sendable {
  package struct Settings: Sendable {
    /// Failures in a row that open it.
    package var failuresMaximum = 5
    /// How long they must go on without a success between them.
    package var failingMilliseconds: Int64 = 400
    /// Between two probes.
    package var probeIntervalMilliseconds: Int64 = 250
    /// A probe answered later than this shows life, not health.
    package var probeTimeoutMilliseconds: Int64 = 200

    package init() {}
  }

  private enum Phase: Sendable {
    /// Asked as usual; this many failures in a row, the first of them then. Becomes `open`.
    case closed(failures: Int, since: Instant)
    /// Spared. Becomes `probing` at `probeAt`.
    case open(probeAt: Instant)
    /// Spared, one probe is under way. Becomes `closed` by its answer in time, else `open`.
    case probing(since: Instant)

    static let whole = Phase.closed(failures: 0, since: Instant(nanoseconds: 0))
  }

  package let settings: Settings
  private var phase = Phase.whole

  package init(settings: Settings) {
    precondition(settings.failuresMaximum >= 1 && settings.probeIntervalMilliseconds > 0)
    self.settings = settings
  }

  /// The dependency may be asked.
  @usableFromInline
  package var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  /// A request was answered in time. Answers to requests of before the opening count for nothing.
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

  /// The connection is gone: open at once. true: it was closed until now.
  package mutating func lost(now: Instant) -> Bool {
    let wasClosed = isClosed
    phase = .open(probeAt: now.adding(milliseconds: settings.probeIntervalMilliseconds))
    return wasClosed
  }

  /// A new connection is ready, which is as good as a probe. true: it was open until now.
  package mutating func connected() -> Bool {
    let wasOpen = !isClosed
    phase = .whole
    return wasOpen
  }

  /// Whether a probe is to be sent now; the caller sends exactly one for each true.
  package mutating func takeProbe(now: Instant) -> Bool {
    guard case .open(let probeAt) = phase, probeAt <= now else { return false }
    phase = .probing(since: now)
    return true
  }

  /// The probe's answer. true: the breaker closed.
  package mutating func probeAnswered(isHealthy: Bool, now: Instant) -> Bool {
    guard case .probing(let since) = phase else { return false }
    if isHealthy, now.milliseconds(since: since) <= settings.probeTimeoutMilliseconds {
      phase = .whole
      return true
    }
    phase = .open(probeAt: now.adding(milliseconds: settings.probeIntervalMilliseconds))
    return false
  }
}
