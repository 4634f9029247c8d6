/// Whether one server of the admission store is asked, and whether it takes outcomes, and if not, why. It is decided from the results of
/// its commands.
///
/// Two things can be wrong. The server does not answer: then `BreakerState` stops its use. Or it answers but refuses writes, as a replica
/// or a full server does: then it is asked for what it knows, and stores nothing until a probe succeeds.
///
/// What every job asks is inlinable: otherwise each question would copy the whole value, including its texts, out of the node that owns it.
@usableFromInline
package struct AdmissionServerState: Sendable {
  /// The result of a probe, which tries to store something.
  package enum ProbeAnswer: Sendable {
    case healthy
    /// It answers, but refuses writes.
    case refusesWrites(reason: String)
    case refused(reason: String)
    /// Its answer cannot be read.
    case unreadable
  }

  /// A replica does not become a primary while we wait: its address is resolved again this often.
  package static let replicaReconnectMilliseconds: Int64 = 5000

  @usableFromInline
  var breaker: BreakerState
  /// Why the breaker is open; nil while it is closed.
  private var outage: String?
  @usableFromInline
  var writeRefusal: String?
  private var nextWriteProbe = Instant(nanoseconds: 0)
  private var nextReconnect = Instant(nanoseconds: 0)

  package init(breaker settings: BreakerState.Settings) {
    breaker = BreakerState(settings: settings)
    outage = "Redis is not connected yet"
  }

  /// It is asked about jobs. Its connection may still be down.
  @inlinable
  package var isAsked: Bool { breaker.isClosed }

  /// It stores outcomes.
  @inlinable
  package var takesOutcomes: Bool { breaker.isClosed && writeRefusal == nil }

  /// What is wrong with it; nil: it works.
  package var trouble: String? { outage ?? writeRefusal }

  // MARK: - Results of commands

  /// A request was answered.
  package mutating func answered() {
    breaker.succeeded()
  }

  /// Something was stored. true: it had refused writes before.
  package mutating func stored() -> Bool {
    if writeRefusal == nil { return false }
    writeRefusal = nil
    return true
  }

  /// It answered that it refuses writes.
  package mutating func refusedWrite(_ reason: String) {
    writeRefusal = reason
    breaker.succeeded()
  }

  /// A request failed, or was not answered in time. true: this stops its use.
  package mutating func failed(_ reason: @autoclosure () -> String, now: Instant) -> Bool {
    guard breaker.failed(now: now) else { return false }
    outage = reason()
    return true
  }

  package mutating func connected() {
    _ = breaker.connected()
    outage = nil
    writeRefusal = nil
  }

  package mutating func disconnected(_ reason: String, now: Instant) {
    _ = breaker.lost(now: now)
    outage = reason
  }

  // MARK: - Probes

  /// Whether to send a probe now; the caller sends one for each true.
  package mutating func takeProbe(now: Instant) -> Bool {
    guard breaker.isClosed else { return breaker.takeProbe(now: now) }
    guard writeRefusal != nil, nextWriteProbe <= now else { return false }
    nextWriteProbe = now.adding(milliseconds: breaker.settings.probeIntervalMilliseconds)
    return true
  }

  package mutating func probeAnswered(_ answer: ProbeAnswer, now: Instant) {
    var isHealthy = true
    switch answer {
    case .healthy:
      writeRefusal = nil
    case .refusesWrites(let reason):
      writeRefusal = reason
    case .refused(let reason):
      isHealthy = false
      if outage != nil { outage = reason }
    case .unreadable:
      isHealthy = false
    }
    if breaker.probeAnswered(isHealthy: isHealthy, now: now) { outage = nil }
  }

  /// It is a replica. Whether to resolve its address now; the caller does so for each true.
  package mutating func takeReconnect(now: Instant) -> Bool {
    guard nextReconnect <= now else { return false }
    nextReconnect = now.adding(milliseconds: AdmissionServerState.replicaReconnectMilliseconds)
    return true
  }
}
