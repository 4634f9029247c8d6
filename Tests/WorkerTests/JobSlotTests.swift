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

  /// Two lanes received it, late, and a copy waited that brings the point of the second one: it is not older than itself. A copy of a job that
  /// was received once is older than what came meanwhile.
  @Test(arguments: [false, true]) func jobThatTwoLanesReceived_isNotOlderThanItself(isAmbiguous: Bool) throws {
    let loop = try EventLoop()
    var broker = WorldBroker(prefetch: 1, clock: WorldClock(loop: loop))
    let now = loop.now.unixMilliseconds
    let second = now / 1_000 - 5
    var (first, other) = (OrderPoints(), OrderPoints())
    for _ in 0..<100 { _ = first.next(timestamp: second, receivedAt: now) }
    let place = first.next(timestamp: second, receivedAt: now)
    broker.order = other.next(timestamp: second, receivedAt: now)
    var slot = JobSlot()
    let tag = DeliveryTag(epoch: 1, jobClass: .transactional, value: 1)
    slot.begin(Delivery(tag: tag, bodyCount: 0, isOversized: false), loop.now)
    slot.copyDelivery(from: &broker, &other, hasRedisTime: true)
    slot.metadata.timestamp = second
    slot.metadata.isAmbiguous = isAmbiguous
    slot.job.collapseID = ByteRange(start: 0, count: 1)
    let order = slot.arrival(claim: 1, earlierClaim: 0, dropsOverLimit: false, isOver: false).order
    #expect(order.isOlder(than: place) == !isAmbiguous)
  }

  /// A machine's own clock may be hours off.
  @Test func withoutRedisTime_aJobHasNoPoint() throws {
    let loop = try EventLoop()
    var broker = WorldBroker(prefetch: 1, clock: WorldClock(loop: loop))
    var slot = JobSlot()
    var points = OrderPoints()
    let tag = DeliveryTag(epoch: 1, jobClass: .transactional, value: 1)
    slot.begin(Delivery(tag: tag, bodyCount: 0, isOversized: false), loop.now)
    slot.copyDelivery(from: &broker, &points, hasRedisTime: false)
    #expect(slot.metadata.order == 0)
    slot.copyDelivery(from: &broker, &points, hasRedisTime: true)
    #expect(slot.metadata.order == loop.now.unixMilliseconds * 1_000)
  }
}
