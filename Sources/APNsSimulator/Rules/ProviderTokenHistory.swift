import PushCore

/// Which provider tokens were shown, and when the newest of each key came: whether another one is an update too early.
///
/// An update is a token that was not shown here before, after the key's first. One that was shown stays welcome, so that
/// requests which were signed before an update may still arrive behind it.
struct ProviderTokenHistory: Sendable {
  /// When each token was first shown.
  private var shown: [String: Instant] = [:]
  /// When the newest token of a key was first shown.
  private var newest: [String: Instant] = [:]

  /// Beyond this, tokens that are too old to be believed are forgotten.
  private static let shownMaximum = 64
  private static let lifeMilliseconds: Int64 = 3_600_000

  /// false: one too many, and it does not count as shown.
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
