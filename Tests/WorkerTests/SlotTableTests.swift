import PushCore
import Testing

@testable import PushLane

@Suite struct SlotTableTests {
  @Test func aStaleTicketNamesNobody() {
    var slots = SlotTable(capacity: 2) { 0 }
    guard let first = slots.take(), let second = slots.take() else {
      Issue.record("two slots are there to be taken")
      return
    }
    let isFull = slots.isFull
    #expect(isFull)
    slots[first] = 7
    slots.release(first)
    let isFirstLive = slots.isLive(first)
    #expect(!isFirstLive)
    guard let third = slots.take() else {
      Issue.record("a released slot is taken again")
      return
    }
    #expect(third.index == first.index)
    #expect(third != first)
    #expect(slots[third] == 7)
    let isSecondLive = slots.isLive(second)
    #expect(isSecondLive)
    let count = slots.count
    #expect(count == 2)
  }
}
