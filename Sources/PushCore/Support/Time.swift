/// A point on the monotonic clock, which never goes back and is unrelated to the time of day.
package struct Instant: Comparable, Hashable, Sendable {
  package var nanoseconds: Int64

  package init(nanoseconds: Int64) {
    self.nanoseconds = nanoseconds
  }

  /// A deadline that never comes.
  package static let distantFuture = Instant(nanoseconds: .max)

  /// A time that is too far away becomes the end of time: how long to wait may come from outside.
  package func adding(milliseconds: Int64) -> Instant {
    let (product, isTooLong) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
    let (sum, isTooFar) = nanoseconds.addingReportingOverflow(product)
    if !isTooLong, !isTooFar { return Instant(nanoseconds: sum) }
    return Instant(nanoseconds: milliseconds < 0 ? .min : .max)
  }

  package func milliseconds(since earlier: Instant) -> Int64 {
    let (difference, isTooLong) = nanoseconds.subtractingReportingOverflow(earlier.nanoseconds)
    return (isTooLong ? nanoseconds < 0 ? .min : .max : difference) / 1_000_000
  }

  package static func < (left: Instant, right: Instant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}

/// The time of one loop turn: read once, passed to every decision.
package struct Now: Sendable {
  /// For deadlines, ages and back-off.
  package var monotonic: Instant
  /// For output and messages: Unix time in milliseconds.
  package var unixMilliseconds: Int64

  package init(monotonic: Instant, unixMilliseconds: Int64) {
    self.monotonic = monotonic
    self.unixMilliseconds = unixMilliseconds
  }

  package var unixSeconds: Int64 { unixMilliseconds / 1000 }

  /// The monotonic time in milliseconds: for what one process remembers, whoever sets its clock.
  package var monotonicMilliseconds: Int64 { monotonic.nanoseconds / 1_000_000 }
}
