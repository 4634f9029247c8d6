/// The rate limit of one key in this process: a token bucket that holds a minute's requests and refills steadily.
package struct RequestRate: Sendable {
  package struct Answer: Hashable, Sendable {
    package var isAllowed: Bool
    package var limit: Int
    /// Requests that the key may make now.
    package var remaining: Int
    /// Seconds until the key may make one more request, rounded up; 0: the bucket is full.
    package var resetSeconds: Int
  }

  /// The window that the RateLimit headers report, seconds.
  package static let windowSeconds = 60

  private let limit: Int
  /// How empty the bucket is: nanoseconds until it is full again.
  private var owedNanoseconds: Int64 = 0
  private var at: Instant

  /// - Parameter limit: requests a minute, 1 to `APIKey.rateMaximum`.
  package init(limit: Int, now: Instant) {
    self.limit = limit
    at = now
  }

  private var interval: Int64 { Int64(RequestRate.windowSeconds) * 1_000_000_000 / Int64(limit) }

  /// Counts a request, unless it exceeds the limit.
  package mutating func take(now: Instant) -> Answer {
    owedNanoseconds = max(0, owedNanoseconds - max(0, now.nanoseconds - at.nanoseconds))
    at = now
    let isAllowed = owedNanoseconds + interval <= interval * Int64(limit)
    if isAllowed { owedNanoseconds += interval }
    let taken = (owedNanoseconds + interval - 1) / interval
    let excess = owedNanoseconds - (taken - 1) * interval
    return Answer(
      isAllowed: isAllowed, limit: limit, remaining: max(0, limit - Int(taken)),
      resetSeconds: taken == 0 ? 0 : max(1, Int((excess + 999_999_999) / 1_000_000_000)))
  }
}
