/// Counts durations in fixed buckets: 200 bytes, no allocation, mergeable.
///
/// All measurements share the buckets, from a request on a fast network (100 µs) to the age of a job (an hour): two or three a decade,
/// which is precise enough for a dashboard's quantiles.
package struct Histogram: Sendable {
  /// Upper bounds of the buckets, microseconds, ascending. Longer durations count only in `count`.
  package static let boundsMicroseconds: [Int64] = [
    100, 250, 500,
    1_000, 2_500, 5_000,
    10_000, 25_000, 50_000,
    100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
    300_000_000, 3_600_000_000,
  ]
  package static let bucketCount = 20

  /// One for each bound, and one for longer durations.
  private var counts: InlineArray<21, UInt64>
  package private(set) var sumNanoseconds: UInt64

  package init() {
    counts = InlineArray(repeating: 0)
    sumNanoseconds = 0
  }

  /// Counts one duration; a negative one (a clock that was set back) counts as zero.
  package mutating func record(nanoseconds: Int64) {
    let duration = max(0, nanoseconds)
    var bucket = 0
    while bucket < Histogram.bucketCount, duration > Histogram.bound(bucket) { bucket += 1 }
    counts[bucket] &+= 1
    sumNanoseconds &+= UInt64(duration)
  }

  package var count: UInt64 {
    cumulativeCount(at: Histogram.bucketCount)
  }

  package var sumSeconds: Double { Double(sumNanoseconds) / 1e9 }

  /// How many durations were at most `boundsMicroseconds[bucket]`; with `bucketCount`, all of them.
  package func cumulativeCount(at bucket: Int) -> UInt64 {
    var total: UInt64 = 0
    for index in 0...bucket { total &+= counts[index] }
    return total
  }

  /// Adds another histogram's counts, to sum over lanes.
  package mutating func merge(_ other: Histogram) {
    for index in 0...Histogram.bucketCount { counts[index] &+= other.counts[index] }
    sumNanoseconds &+= other.sumNanoseconds
  }

  /// Nanoseconds. A switch keeps the bounds in the code, without the array's reference count and bounds check.
  @inline(__always)
  private static func bound(_ bucket: Int) -> Int64 {
    switch bucket {
    case 0: 100_000
    case 1: 250_000
    case 2: 500_000
    case 3: 1_000_000
    case 4: 2_500_000
    case 5: 5_000_000
    case 6: 10_000_000
    case 7: 25_000_000
    case 8: 50_000_000
    default: boundsMicroseconds[bucket] * 1000
    }
  }
}
