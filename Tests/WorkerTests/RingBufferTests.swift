import PushCore
import Testing

@testable import PushLane

@Suite struct RingBufferTests {
  @Test func ringsKeepTheirOrderAndBound() {
    var ring = RingBuffer<Int>(capacity: 3)
    var expected: [Int] = []
    var random = SeededRandom(seed: 3)
    for value in 0..<1000 {
      if random.next() & 1 == 0 {
        if ring.isFull { continue }
        ring.append(value)
        expected.append(value)
      } else {
        #expect(ring.popFirst() == (expected.isEmpty ? nil : expected.removeFirst()))
      }
      #expect(ring.count == expected.count)
      #expect(ring.isFull == (expected.count == 3))
      #expect(ring.first == expected.first)
      #expect((0..<ring.count).map { ring[offset: $0] } == expected)
    }
    ring.removeAll()
    #expect(ring.isEmpty && ring.capacity == 3)
  }

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
