import PushCore

/// Which provider tokens were used, and when each key's newest one came, to detect updates that come too early.
///
/// An update is a token that was not used here before, after the key's first. A token that was used before stays valid, because requests
/// signed before an update may arrive after it.
struct ProviderTokenHistory: Sendable {
  /// When each token was first used.
  private var shown: [String: Instant] = [:]
  /// When a key's newest token was first used.
  private var newest: [String: Instant] = [:]

  /// Beyond this number, expired tokens are removed.
  private static let shownMaximum = 64
  private static let lifeMilliseconds: Int64 = 3_600_000

  /// false: the update comes too early, and the token does not count as used.
  mutating func takes(_ token: String, of key: String, intervalMilliseconds: Int64, now: Now) -> Bool {
    if shown[token] != nil { return true }
    if let last = newest[key], now.monotonic.milliseconds(since: last) < intervalMilliseconds { return false }
    if shown.count >= ProviderTokenHistory.shownMaximum {
      shown = shown.filter { now.monotonic.milliseconds(since: $0.value) < ProviderTokenHistory.lifeMilliseconds }
    }
    shown[token] = now.monotonic
    newest[key] = now.monotonic
    return true
  }
}
