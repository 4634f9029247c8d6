import PushCore
import Testing

@testable import PushLane

/// The order in which the sends of both classes leave a pool's queue.
@Suite struct PoolQueueTests {
  private func order(transactional: Int, bulk: Int) -> String {
    var sends = SlotTable(capacity: 100) { SendSlot() }
    var queue = PoolQueue(limits: ShareState.Limits(maximum: 100))
    for number in 0..<transactional + bulk {
      guard let ticket = sends.take() else { return "no room" }
      // Bulk was there first.
      sends[ticket].jobClass = number < bulk ? .bulk : .transactional
      queue.append(ticket, to: &sends)
    }
    var order = ""
    while let jobClass = queue.next {
      order += jobClass == .bulk ? "b" : "t"
      queue.took(jobClass, now: Instant(nanoseconds: 0))
      queue.popFirst(jobClass, of: sends)
    }
    return order
  }

  @Test func transactionalFirstAndEveryTenthIsBulk() {
    #expect(order(transactional: 3, bulk: 3) == "tttbbb")
    #expect(order(transactional: 20, bulk: 3) == "tttttttttbtttttttttbttb")
    #expect(order(transactional: 12, bulk: 0) == "tttttttttttt")
    #expect(order(transactional: 0, bulk: 4) == "bbbb")
  }
}
