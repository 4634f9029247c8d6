import PushCore
import PushLane
import Testing

/// Ends without an answer of APNs: `failed`, `expired`, `throttled`.
@Suite struct LaneFateTests {
  /// Whoever gets the message next, because its acknowledgement was lost, tells the same end.
  @Test func anEndWithoutAnAnswerIsKeptForTheMessage() {
    let bench = LaneBench(retry: RetryPolicy(delaysSeconds: [1], attemptsMaximum: 1))
    bench.consume(0..<1)
    bench.turn()
    bench.world.answer(bench.world.requests[0], status: 503, reason: .serviceUnavailable)
    bench.turn()
    #expect(bench.world.fates.map(\.outcome) == [.failed] && bench.world.remembered.isEmpty)
    #expect(bench.world.fates.map(\.claim) == bench.world.arrivals.map(\.claim))
    bench.turn()
    #expect(bench.world.outcomes.first?.contains("1 attempts; the last answer: 503 ServiceUnavailable") == true)
  }

  /// RabbitMQ may have taken it back and given it to others, who ended it; and so it may with what waited in the lane.
  @Test func whatIsReadAfterAStandstillMayHaveEnded() {
    let bench = LaneBench()
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.arrivals.map(\.isRedelivered) == [false])
    bench.world.milliseconds += 25_000
    bench.world.deliver(1)
    bench.turn()
    #expect(bench.world.arrivals.map(\.isRedelivered) == [false, true])
    bench.turn(200)
    bench.world.deliver(2)
    bench.turn()
    #expect(bench.world.arrivals.map(\.isRedelivered) == [false, true, false], "what is read a second later is new")
  }

  /// An end that came while it stood still is not older than what it reads then: its copies say when that may have been sent.
  @Test func copiesOfWhatIsReadAfterAStandstillKeepTheTimeBeforeIt() {
    let bench = LaneBench()
    bench.consume(0..<0)
    bench.turn()
    let before = bench.world.milliseconds
    bench.world.milliseconds += 25_000
    bench.world.admission = .limited(retryAfterMilliseconds: 1_000)
    bench.world.deliver(0)
    // Its producer published this one meanwhile.
    bench.world.deliver(1) {
      $0.timestamp = before / 1_000 + 20
      $0.enqueuedAt = (before / 1_000 + 20) * 1_000
    }
    bench.turn()
    #expect(bench.world.retries.map(\.firstSeen) == [before, (before / 1_000 + 20) * 1_000])
  }

  /// Somebody puts the clock back while it reads what waited.
  @Test func whatWasSentEarlier_wasNotSentLaterThanNow() {
    func now(_ seconds: Int64, clock: Int64) -> Now {
      Now(monotonic: Instant(nanoseconds: seconds * 1_000_000_000), unixMilliseconds: clock)
    }
    var state = HeldUpState(now: now(0, clock: 50_000))
    state.turn(now(0, clock: 50_000))
    #expect(state.earliest(now(0, clock: 50_000)) == 50_000)
    state.turn(now(20, clock: 70_000))
    #expect(state.earliest(now(20, clock: 70_000)) == 50_000)
    #expect(state.earliest(now(20, clock: 40_000)) == 40_000)
    #expect(state.earliest(now(21, clock: 71_000)) == 71_000, "what waited is read")
  }
}
