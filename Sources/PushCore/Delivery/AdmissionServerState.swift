/// Whether one server of the admission store is asked, and takes outcomes, and if not, why: decided from what became of its commands.
///
/// Two things can be wrong with it. It does not answer: then `BreakerState` spares it. Or it answers and takes no writes, as a
/// replica or a full server does: then it is asked for what it knows, and gets nothing to store until a probe is stored.
///
/// What every job asks is inlinable: else each question would copy the whole value, its texts included, out of the node that has it.
@usableFromInline
package struct AdmissionServerState: Sendable {
  /// What came of a probe, which asks to store something.
  package enum ProbeAnswer: Sendable {
    case healthy
    /// Only its writes are refused.
    case refusesWrites(reason: String)
    case refused(reason: String)
    /// No answer of ours.
    case unreadable
  }

  /// A replica does not become a primary by waiting: its address is looked up again this often.
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

  /// It is asked about jobs. The connection may be down all the same.
  @inlinable
  package var isAsked: Bool { breaker.isClosed }

  /// It stores outcomes.
  @inlinable
  package var takesOutcomes: Bool { breaker.isClosed && writeRefusal == nil }

  /// nil: it works.
  package var trouble: String? { outage ?? writeRefusal }

  // MARK: - What became of commands

  /// A request was answered.
  package mutating func answered() {
    breaker.succeeded()
  }

  /// Something was stored. true: it had refused that before.
  package mutating func stored() -> Bool {
    if writeRefusal == nil { return false }
    writeRefusal = nil
    return true
  }

  /// It answered that it takes no writes.
  package mutating func refusedWrite(_ reason: String) {
    writeRefusal = reason
    breaker.succeeded()
  }

  /// A request failed, or was not answered in time. true: it is spared from now on.
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

  /// Whether a probe is to be sent now; the caller sends one for each true.
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

  /// It is a replica. Whether its address is to be looked up now; the caller does so for each true.
  package mutating func takeReconnect(now: Instant) -> Bool {
    guard nextReconnect <= now else { return false }
    nextReconnect = now.adding(milliseconds: AdmissionServerState.replicaReconnectMilliseconds)
    return true
  }
}
