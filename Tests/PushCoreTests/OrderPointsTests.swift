import PushCore
import Testing

/// The points of what one consumer receives, and what the copies that carry them are older than.
@Suite struct OrderPointsTests {
  private static let second: Int64 = 1_796_000_000

  private struct Job {
    let timestamp: Int64?
    let point: Int64

    func order(_ way: JobOrder.Way) -> JobOrder {
      JobOrder(sequence: nil, timestamp: timestamp, point: point, way: way)
    }
  }

  /// Received one after the other, with these timestamps, in one millisecond or in several.
  private func burst(_ count: Int, timestamp: Int64?, at milliseconds: Int64, perMillisecond: Int) -> [Job] {
    var points = OrderPoints()
    return (0..<count).map { number in
      let time = milliseconds + Int64(number / perMillisecond)
      return Job(timestamp: timestamp, point: points.next(timestamp: timestamp, receivedAt: time))
    }
  }

  private static let bursts: [(timestamp: Int64?, at: Int64)] = [
    (nil, second * 1_000), (second, second * 1_000), (second, second * 1_000 + 990), (second, second * 1_000 + 700_000),
    (second, second * 1_000 - 5_000),
  ]

  @Test(arguments: [1, 7, 300]) func ofABurstThatWaited_onlyTheNewestIsNotOlder(perMillisecond: Int) {
    for (timestamp, at) in Self.bursts {
      let jobs = burst(200, timestamp: timestamp, at: at, perMillisecond: perMillisecond)
      let place = jobs.reduce(0) { $1.order(.first).place(after: $0) }
      let left = jobs.indices.filter { !jobs[$0].order(.returning).isOlder(than: place) }
      #expect(left == [199], "\(timestamp.map(String.init) ?? "none") at \(at): \(left.count)")
    }
  }

  /// Two lanes, of which one has received many of the second and the other none: live, late, and in the last moment of their second.
  @Test(arguments: [0, 300, 850, 997, 1_000, 1_400, 9_000, 40_000]) func consumersAgreeWhichIsNewer(milliseconds: Int64)
  {
    var (busy, idle) = (OrderPoints(), OrderPoints())
    let now = Self.second * 1_000 + milliseconds
    func next(_ points: inout OrderPoints, _ wait: Int64) -> Int64 {
      points.next(timestamp: Self.second, receivedAt: now + wait)
    }
    for _ in 0..<300 { _ = next(&busy, -400) }
    let older = next(&busy, 0)
    #expect(older < next(&idle, 2))
    let another = next(&idle, 4)
    #expect(another < next(&busy, 6))
  }

  /// A producer that stamps what happened a while ago, for hours: its consumer goes on to agree with a new one.
  @Test func pointsDoNotRunOut() {
    var (old, new) = (OrderPoints(), OrderPoints())
    var (second, last) = (Self.second, Int64(0))
    for number in 0..<200_000 {
      if number % 10 == 0 { second += 1_024 }
      last = old.next(timestamp: second - 3, receivedAt: second * 1_000 + Int64(number % 10))
    }
    #expect(last < new.next(timestamp: second - 3, receivedAt: second * 1_000 + 400))
  }

  /// A live job of another second that has the same place takes nothing from the order of late ones.
  @Test func lateJobsKeepTheirOrder_besideLiveOnes() {
    var points = OrderPoints()
    var last: Int64 = 0
    for number in Int64(0)..<300 {
      let now = Self.second * 1_000 + number
      let point = points.next(timestamp: Self.second - 1_024, receivedAt: now)
      #expect(point > last)
      last = point
      _ = points.next(timestamp: Self.second, receivedAt: now)
    }
  }

  /// Ten thousand that come late, of producers whose clocks differ.
  @Test func ofABacklogOfSecondsThatAlternate_eachIsNewerThanTheOneBefore() {
    var points = OrderPoints()
    var last: [Int64: Int64] = [:]
    for number in 0..<50_000 {
      // Two of them have one place.
      let second = Self.second - Int64(number % 5) - (number % 2 == 0 ? 0 : 128)
      let point = points.next(timestamp: second, receivedAt: Self.second * 1_000 + 1_900 + Int64(number / 500))
      if let last = last[second] { #expect(last < point) }
      #expect(point / 1_000_000 == second)
      last[second] = point
    }
  }

  /// Only a timestamp tells.
  @Test func withoutTheTime_aJobIsAsNewAsAny() {
    var points = OrderPoints()
    #expect(points.next(timestamp: nil, receivedAt: nil) == 0)
    let stamped = points.next(timestamp: Self.second, receivedAt: nil)
    #expect(stamped / 1_000_000 == Self.second && points.next(timestamp: Self.second, receivedAt: nil) > stamped)
    for way in [JobOrder.Way.first, .made, .returning] {
      let order = JobOrder(sequence: nil, timestamp: nil, point: 0, way: way)
      #expect(!order.isOlder(than: stamped) && order.place(after: stamped) == stamped)
    }
  }

  /// Corrected by a little, it goes on; set back by an hour, jobs are not of the future for an hour.
  @Test func clockThatIsSetBack() {
    var points = OrderPoints()
    let now = Self.second * 1_000
    let before = points.next(timestamp: nil, receivedAt: now)
    #expect(points.next(timestamp: nil, receivedAt: now - 300) == before + 1)
    #expect(points.next(timestamp: nil, receivedAt: now - 3_600_000) == (now - 3_600_000) * 1_000)
  }

  /// Until it waits, a job is as new as it may be: the clocks of two workers differ.
  @Test func aFirstCopyIsNotOlderThanWhatCameInItsSecond() {
    for (timestamp, at) in Self.bursts {
      let jobs = burst(2, timestamp: timestamp, at: at, perMillisecond: 1)
      let place = jobs[1].order(.first).place(after: 0)
      #expect(!jobs[0].order(.first).isOlder(than: place) && !jobs[0].order(.made).isOlder(than: place))
    }
    let stamped = burst(1, timestamp: Self.second - 1, at: Self.second * 1_000, perMillisecond: 1)[0]
    let unstamped = burst(1, timestamp: nil, at: Self.second * 1_000, perMillisecond: 1)[0]
    #expect(stamped.order(.first).isOlder(than: unstamped.point), "it was published in the second before")
  }

  /// Of what was made of jobs that two workers received, their points tell, as far as their clocks agree.
  @Test func aPageIsNotNewerThanWhatItsJobCameBefore() {
    let point = Self.second * 1_000_000 + 100_000
    for timestamp in [nil, Self.second] {
      let page = JobOrder(sequence: nil, timestamp: timestamp, point: point, way: .made)
      #expect(!page.isOlder(than: point + 40_000) && page.isOlder(than: point + 40_001))
    }
    let last = JobOrder(sequence: nil, timestamp: Self.second, point: point + 899_990, way: .made)
    #expect(last.isOlder(than: (Self.second + 1) * 1_000_000), "it is of the second before")
  }

  /// Whatever way it comes again.
  @Test func noJobIsOlderThanItself() {
    for (timestamp, at) in Self.bursts {
      for job in burst(50, timestamp: timestamp, at: at, perMillisecond: 50) {
        for way in [JobOrder.Way.first, .made, .returning] {
          let place = job.order(way).place(after: 0)
          for other in [JobOrder.Way.first, .made, .returning] { #expect(!job.order(other).isOlder(than: place)) }
        }
      }
    }
  }

  @Test func impossibleTimesAreBounded() {
    var points = OrderPoints()
    for time in [Int64.min, -1, 0, .max] {
      let point = points.next(timestamp: time, receivedAt: time)
      #expect(0...(1 << 33) * 1_000_000 ~= point)
      #expect(!JobOrder(sequence: nil, timestamp: time, point: time, way: .made).isOlder(than: 0))
    }
  }
}
