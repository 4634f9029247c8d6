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
}
