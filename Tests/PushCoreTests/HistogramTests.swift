import PushCore
import Testing

/// The fixed row of buckets that durations fall into.
@Suite struct HistogramTests {
  @Test func boundsAscendAndBelongToTheirBucket() {
    #expect(Histogram.boundsMicroseconds.count == Histogram.bucketCount)
    for (bucket, bound) in Histogram.boundsMicroseconds.enumerated() {
      var histogram = Histogram()
      histogram.record(nanoseconds: bound * 1000)
      #expect(histogram.cumulativeCount(at: bucket) == 1, "a bound belongs to its own bucket")
      if bucket > 0 { #expect(histogram.cumulativeCount(at: bucket - 1) == 0) }
      if bucket > 0 { #expect(bound > Histogram.boundsMicroseconds[bucket - 1]) }
    }
  }

  @Test func countsWhatIsLongerThanAllBounds() {
    var histogram = Histogram()
    histogram.record(nanoseconds: .max)
    #expect(histogram.count == 1)
    #expect(histogram.cumulativeCount(at: Histogram.bucketCount - 1) == 0)
  }

  @Test func countsNegativeOnesAsZero() {
    var histogram = Histogram()
    histogram.record(nanoseconds: -5)
    #expect(histogram.cumulativeCount(at: 0) == 1)
    #expect(histogram.sumNanoseconds == 0)
  }

  @Test func mergesCountsAndSums() {
    var one = Histogram()
    one.record(nanoseconds: 1_000_000)
    var other = Histogram()
    other.record(nanoseconds: 2_000_000_000)
    other.record(nanoseconds: 50_000)
    one.merge(other)
    #expect(one.count == 3)
    #expect(one.sumSeconds == 2.00105)
    #expect(one.cumulativeCount(at: 0) == 1)
    #expect(one.cumulativeCount(at: 3) == 2)
  }
}
