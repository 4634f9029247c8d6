/// Decides whether a dependency is asked or spared: after some failures in a row nobody waits for it any more, and one
/// probe at a time finds out when it is back.
package struct BreakerState: Sendable {
  package struct Settings: Sendable {
    /// Failures in a row that open it.
    package var failuresMaximum = 5
    /// Between two probes.
    package var probeIntervalMilliseconds: Int64 = 250
    /// A probe answered later than this shows life, not health.
    package var probeTimeoutMilliseconds: Int64 = 20

    package init() {}
  }

  private enum Phase: Sendable {
    /// Asked as usual; this many failures in a row. Becomes `open`.
    case closed(failures: Int)
    /// Spared. Becomes `probing` at `probeAt`.
    case open(probeAt: Instant)
    /// Spared, one probe is under way. Becomes `closed` by its answer in time, else `open`.
    case probing(since: Instant)
  }

  package let settings: Settings
  private var phase = Phase.closed(failures: 0)

  package init(settings: Settings) {
    precondition(settings.failuresMaximum >= 1 && settings.probeIntervalMilliseconds > 0)
    self.settings = settings
  }

  /// The dependency may be asked.
  package var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  /// A request was answered in time. Answers to requests of before the opening count for nothing.
  package mutating func succeeded() {
    switch phase {
    case .closed: phase = .closed(failures: 0)
    case .open, .probing: break
    }
  }

  /// A request failed or was not answered in time. true: this opened the breaker.
  package mutating func failed(now: Instant) -> Bool {
    switch phase {
    case .closed(let failures) where failures + 1 < settings.failuresMaximum:
      phase = .closed(failures: failures + 1)
      return false
    case .closed:
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
    phase = .closed(failures: 0)
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
      phase = .closed(failures: 0)
      return true
    }
    phase = .open(probeAt: now.adding(milliseconds: settings.probeIntervalMilliseconds))
    return false
  }
}
