/// Waiting times that double from attempt to attempt up to a bound. Each is shortened randomly to as little as half, so that peers that
/// failed together do not retry together.
package struct Backoff: Hashable, Sendable {
  package let initialMilliseconds: Int64
  package let maximumMilliseconds: Int64
  /// Failures since the last success.
  package private(set) var failures: UInt32 = 0

  package init(initialMilliseconds: Int64, maximumMilliseconds: Int64) {
    precondition(
      initialMilliseconds > 0 && initialMilliseconds <= maximumMilliseconds && maximumMilliseconds <= 86_400_000,
      "a back-off starts above zero and ends at its maximum, a day at most")
    self.initialMilliseconds = initialMilliseconds
    self.maximumMilliseconds = maximumMilliseconds
  }

  /// Counts a failure. Returns how long to wait, in milliseconds: between half and all of the doubled time.
  /// - Parameter random: any 64 random bits.
  package mutating func failed(random: UInt64) -> Int64 {
    var wait = initialMilliseconds
    var doublings = failures
    while doublings > 0 && wait < maximumMilliseconds {
      wait *= 2
      doublings -= 1
    }
    wait = min(wait, maximumMilliseconds)
    if failures < .max { failures += 1 }
    let half = (wait + 1) / 2
    return half + Int64(truncatingIfNeeded: random % UInt64(wait - half + 1))
  }

  /// The next failure starts from the beginning.
  package mutating func succeeded() {
    failures = 0
  }
}
