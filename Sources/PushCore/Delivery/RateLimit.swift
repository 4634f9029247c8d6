/// How many requests one device may get: `burst` at once, then one every emission interval.
///
/// The algorithm is GCRA (generic cell rate algorithm): one number per device, no window edges. In any time t a device gets at most burst +
/// rate·t + 1 requests. Times are microseconds, the unit of Redis' clock. The interval is rounded up, so rounding never exceeds the limit.
package struct RateLimit: Hashable, Sendable {
  package let burst: Int
  /// The long-run interval between two requests of a device.
  package let intervalMicroseconds: Int64
  /// How far ahead of the clock a device may run: (burst - 1) intervals.
  package let toleranceMicroseconds: Int64

  /// The maximum interval is a day, the maximum tolerance thirty days.
  private static let intervalMaximum: Double = 86_400_000_000
  private static let toleranceMaximum: Int64 = 30 * 86_400_000_000

  /// nil if a number is not positive, or exceeds the maximum interval or tolerance.
  package init?(burst: Int, perSecond: Double) {
    guard burst >= 1, perSecond > 0, perSecond.isFinite else { return nil }
    let interval = (1_000_000 / perSecond).rounded(.up)
    guard interval <= RateLimit.intervalMaximum else { return nil }
    let (tolerance, overflow) = Int64(burst - 1).multipliedReportingOverflow(by: max(1, Int64(interval)))
    guard !overflow, tolerance <= RateLimit.toleranceMaximum else { return nil }
    self.burst = burst
    intervalMicroseconds = max(1, Int64(interval))
    toleranceMicroseconds = tolerance
  }

  private init(burst: Int, intervalMicroseconds: Int64) {
    self.burst = burst
    self.intervalMicroseconds = intervalMicroseconds
    toleranceMicroseconds = Int64(burst - 1) * intervalMicroseconds
  }

  /// One of `shares` equal parts, for lanes that cannot communicate: at least one request an interval.
  package func share(of shares: Int) -> RateLimit {
    precondition(shares >= 1)
    let part = RateLimit(burst: max(1, burst / shares), intervalMicroseconds: intervalMicroseconds * Int64(shares))
    return part.toleranceMicroseconds <= RateLimit.toleranceMaximum ? part : self
  }
}
