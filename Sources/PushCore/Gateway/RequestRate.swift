/// The rate of one key in this process: a bucket that holds a minute's requests and fills steadily.
package struct RequestRate: Sendable {
  package struct Answer: Hashable, Sendable {
    package var isAllowed: Bool
    package var limit: Int
    /// Requests that are left at once.
    package var remaining: Int
    /// Until one request more is left, seconds, rounded up; 0: nothing was taken.
    package var resetSeconds: Int
  }

  /// Of both headers: seconds.
  package static let windowSeconds = 60

  private let limit: Int
  /// Requests that have to come back, in nanoseconds of the bucket's filling.
  private var owedNanoseconds: Int64 = 0
  private var at: Instant

  /// - Parameter limit: requests a minute, 1 to `APIKey.rateMaximum`.
  package init(limit: Int, now: Instant) {
    self.limit = limit
    at = now
  }

  private var interval: Int64 { Int64(RequestRate.windowSeconds) * 1_000_000_000 / Int64(limit) }

  /// Charges a request.
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
