import PushCore
import PushLane
import Testing

/// A lane whose broker refuses publishes.
@Suite struct LaneRefusalTests {
  /// One retry queue is full or broken: its jobs wait in another one, and the lane goes on.
  @Test func aCopyThatIsRefusedAgainAndAgainWaitsInAnotherQueue() {
    let bench = LaneBench(retry: RetryPolicy(delaysSeconds: [1, 5, 30])) { $0.refusedPauseMilliseconds = 10 }
    bench.consume(0..<1)
    bench.turn()
    bench.world.refusesPublishes = true
    bench.world.answer(bench.world.requests[0], status: 503, reason: .serviceUnavailable)
    bench.turn(120)
    let delays = bench.world.retryDelays
    #expect(delays.count > 21)
    let rounds = [1, 5, 1, 30, 1].flatMap { Array(repeating: $0, count: RetryPolicy.refusalsMaximum) }
    #expect(Array(delays.prefix(21)) == Array(rounds.prefix(21)), "its own in every other round")
    #expect(bench.jobsInFlight == 1, "nothing is acknowledged before a copy stands for it")
    bench.world.refusesPublishes = false
    bench.turn(8)
    #expect(bench.jobsInFlight == 0)
    #expect(bench.lane.counters.retries.values.reduce(0, +) == 1, "one copy, however often it was refused")
  }

  /// A job that would expire there goes into no longer queue.
  @Test func noQueueThatTheJobWouldNotOutlive() {
    let policy = RetryPolicy(delaysSeconds: [1, 5, 30], ageMaximumSeconds: 20)
    let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 1_800_000_000_000)
    let times = JobTimes(enqueuedAt: now.unixMilliseconds, expiration: nil)
    let queues = [0, 4, 5, 9, 10, 15, 25].map { policy.queue(1, refusals: $0, times, now: now) }
    #expect(queues == [1, 1, 5, 5, 1, 5, 5])
    #expect(policy.queue(5, refusals: 5, times, now: now) == 1, "a shorter one, where no longer one will do")
    #expect(policy.queue(7, refusals: 5, times, now: now) == 7, "a delay of another configuration")
  }
}
