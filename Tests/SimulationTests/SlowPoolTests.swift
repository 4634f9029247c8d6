import PushCore
import PushLane
import Testing

/// An hour of a pool whose APNs answers after seconds. It has a part of the lane; what is beyond it is put off, and comes back.
@Suite struct SlowPoolTests {
  /// A lane of 64 deliveries: 32 of a class, 24 of them on the wire.
  struct Slow: CustomTestStringConvertible, Sendable {
    let latency: Int64
    /// Another pool sends twice a second.
    let isShared: Bool

    var requests: Int { isShared ? 8 : 24 }
    /// What it can take in this time.
    func capacity(seconds: Int64) -> Int { requests * Int(seconds) * 1000 / Int(latency) }
    var testDescription: String { "\(latency) ms, \(requests) requests" }

    static let all = [4_500, 7_000].flatMap { latency in
      [false, true].map { Slow(latency: latency, isShared: $0) }
    }
  }

  private final class Hour {
    let slow: Slow
    let lanes: ScriptedLanes
    private(set) var published = 0
    private var others: [String] = []

    init(_ slow: Slow) {
      self.slow = slow
      lanes = ScriptedLanes(
        1, prefetch: 64,
        [
          .answering(afterMilliseconds: slow.latency, streams: 4_000),
          .answering(afterMilliseconds: 20, streams: 1_000),
        ]
      )
    }

    func publish(_ count: Int) {
      published += count
      for _ in 0..<count { lanes.pools.publish(pool: 0) }
    }

    /// - Parameter perMinute: jobs for the slow pool.
    func play(seconds: Int64, perMinute: Int = 0) {
      var time: Int64 = 0
      let before = published
      lanes.play(milliseconds: seconds * 1000, every: 10) {
        time += 10
        publish(perMinute * Int(time) / 60_000 - (published - before))
        if slow.isShared, time % 500 == 0 { others.append(lanes.pools.publish(pool: 1)) }
      }
    }

    var accepted: Int { lanes.pools.acceptedAt.count - others.count { lanes.pools.waited($0) != nil } }
    var expired: Int { Int(lanes.outcomes(.expired)) }
    /// The longest wait of the other pool's jobs.
    var longestOther: Int64 { others.dropLast(5).map { lanes.pools.waited($0) ?? .max }.max() ?? 0 }
  }

  @Test(arguments: Slow.all) func aSteadyLoadThatItCanTakeIsSent(slow: Slow) {
    let hour = Hour(slow)
    hour.play(seconds: 3_600, perMinute: slow.capacity(seconds: 60) * 4 / 5)
    #expect(hour.expired == 0)
    #expect(hour.accepted >= hour.published - slow.capacity(seconds: 10))
    #expect(hour.longestOther <= 2_000)
  }

  /// It would take half an hour, if each request were in use all the time.
  @Test(arguments: Slow.all) func aBacklogUsesItsRequests(slow: Slow) {
    let hour = Hour(slow)
    hour.publish(slow.capacity(seconds: 1_800))
    hour.play(seconds: 1_800)
    #expect(hour.accepted >= hour.published * 4 / 5, "of \(hour.published)")
    hour.play(seconds: 1_800)
    #expect(hour.accepted == hour.published && hour.expired == 0)
  }

  /// A slow pool that is alone has all that may be on the wire; whoever comes later finds room.
  @Test(arguments: [1, 2]) func whoComesLaterFindsRoom(count: Int) {
    let lanes = ScriptedLanes(
      count,
      [.answering(afterMilliseconds: 9_000, streams: 4_000), .answering(afterMilliseconds: 20, streams: 1_000)])
    let pools = lanes.pools
    lanes.play(milliseconds: 180_000) {
      for _ in 0..<2 { pools.publish(pool: 0) }
    }
    let before = pools.taken[0]
    lanes.play(milliseconds: 9_000) {
      for _ in 0..<2 { pools.publish(pool: 0) }
    }
    let onWire = pools.taken[0] - before
    #expect(onWire >= 800 * count, "of 1,000 that the broker delivers to a lane")
    let backlog = 12_000
    for _ in 0..<backlog { pools.publish(pool: 0) }
    var others = (0..<100).map { _ in pools.publish(pool: 1) }
    let limit = 2_000 + Int64(backlog) / 5
    for _ in 0..<20 {
      lanes.play(milliseconds: 500)
      others.append(pools.publish(pool: 1))
    }
    lanes.play(milliseconds: limit)
    let longest = others.map { pools.waited($0) ?? .max }.max() ?? .max
    #expect(longest <= limit)
  }
}
