import PushCore
import PushIO
import Testing

@testable import PushLane

/// What a lane's slot takes of a delivery, and what it keeps of one that is finished.
@Suite struct JobSlotTests {
  @Test func largeBodiesAndHeaders_areFreed() {
    var slot = JobSlot()
    slot.metadata.bytes = [UInt8](repeating: 0, count: 128 * 1024)
    slot.job.bytes = [UInt8](repeating: 0, count: 128 * 1024)
    slot.finish()
    #expect(slot.metadata.bytes.capacity == 0 && slot.job.bytes.capacity == 0)
    slot.metadata.bytes = [UInt8](repeating: 0, count: 1024)
    slot.finish()
    #expect(slot.metadata.bytes.capacity >= 1024, "the next delivery uses it")
  }

  /// A machine's own clock may be hours off.
  @Test func withoutRedisTime_aJobHasNoPoint() throws {
    let loop = try EventLoop()
    var broker = WorldBroker(prefetch: 1, clock: WorldClock(loop: loop))
    var slot = JobSlot()
    var points = OrderPoints()
    let tag = DeliveryTag(epoch: 1, jobClass: .transactional, value: 1)
    slot.begin(Delivery(tag: tag, bodyCount: 0, isOversized: false), sentAt: loop.now.unixMilliseconds, loop.now)
    slot.copyDelivery(from: &broker, &points, hasRedisTime: false)
    #expect(slot.metadata.order == 0)
    slot.copyDelivery(from: &broker, &points, hasRedisTime: true)
    #expect(slot.metadata.order == loop.now.unixMilliseconds * 1_000)
  }
}
