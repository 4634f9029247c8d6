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
}
