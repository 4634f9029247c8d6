import PushCore
import PushCredentials
import PushLane
import Testing

/// What a pool's share counts when the consumer's connection is lost.
@Suite struct LaneShareTests {
  /// APNs answers late what was on the wire when the delivery was lost. That says nothing of the jobs that come then.
  @Test func aLateAnswerToAnOrphan_putsNoOtherJobOff() {
    let bench = LaneBench()
    for (number, pool) in [PoolIndex(1), PoolIndex(0)].enumerated() {
      bench.world.pool = pool
      if number == 0 { bench.consume(0..<1) } else { bench.world.deliver(1) }
      bench.turn()
    }
    #expect(bench.world.requests.count == 2, "two pools are in use")
    bench.world.loseConsumer()
    bench.turn(200)
    bench.world.answer(bench.world.requests[1])
    bench.turn(40)
    #expect(bench.contradiction == nil)
    bench.consume(10..<11)
    bench.turn()
    #expect(bench.world.requests.count == 3 && bench.world.retries.isEmpty)
  }
}
