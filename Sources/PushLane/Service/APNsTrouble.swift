import Logging
import PushCore

/// Reports on a host that cannot be connected to: each error once until the host answers again, even if errors alternate.
struct APNsTrouble {
  private static let errorsMaximum = 8

  /// Why the last connection failed; nil while connections succeed.
  private(set) var lastError: String?
  private var isSaidBroken = false
  private var saidErrors: Set<String> = []

  /// A connection failed. nil: this was reported.
  mutating func failed(_ error: String, to endpoint: String, _ state: PoolState, now: Instant) -> APNsRemark? {
    lastError = error
    let isNews = saidErrors.count < APNsTrouble.errorsMaximum && saidErrors.insert(error).inserted
    if state.breaker == .open, !isSaidBroken {
      isSaidBroken = true
      return (
        .error,
        "cannot connect to \(endpoint), \(state.failures) times in a row: \(error); it is tried every 2 s at most"
      )
    }
    guard isNews else { return nil }
    return (
      .warning, "cannot connect to \(endpoint): \(error); again in \(state.backoffMilliseconds(now: now)) ms"
    )
  }

  /// It answered.
  mutating func answered() { lastError = nil }

  /// It answers again after several failures.
  mutating func recovered() {
    isSaidBroken = false
    saidErrors = []
  }
}
