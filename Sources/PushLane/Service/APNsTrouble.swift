import Logging
import PushCore

/// What is said of a host that cannot be connected to: each error once until it answers again, also where errors take turns.
struct APNsTrouble {
  private static let errorsMaximum = 8

  /// Why it could not connect last; nil while it can.
  private(set) var lastError: String?
  private var isSaidBroken = false
  private var saidErrors: Set<String> = []

  /// A connection failed. nil: that was said.
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

  /// It answers again after it was given up.
  mutating func recovered() {
    isSaidBroken = false
    saidErrors = []
  }
}
