import PushCore
import TestSupport
import Testing

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

  @Test func ringsThatGrowKeepTheirOrder() {
    var ring = RingBuffer<Int>(growingFrom: 1)
    var expected: [Int] = []
    var random = SeededRandom(seed: 7)
    for value in 0..<1000 {
      switch random.next() % 7 {
      case 0, 1, 2:
        ring.append(value)
        expected.append(value)
      case 3, 4:
        ring.prepend(value)
        expected.insert(value, at: 0)
      default:
        #expect(ring.popFirst() == (expected.isEmpty ? nil : expected.removeFirst()))
      }
      #expect(ring.count == expected.count)
      #expect(ring.first == expected.first)
      #expect((0..<ring.count).map { ring[offset: $0] } == expected)
    }
    #expect(!ring.isEmpty && ring.capacity & (ring.capacity - 1) == 0)
    let all = ring.takeAll()
    #expect(all == expected && ring.isEmpty)
    #expect(ring.popFirst() == nil)
  }

  @Test func aRingAtItsMostKeepsItsMemory() {
    var ring = RingBuffer<Int>(growingFrom: 4)
    for round in 0..<100 {
      for value in 0..<4 { ring.append(round * 4 + value) }
      #expect(ring.isFull && ring.capacity == 4)
      ring[offset: 2] = -1
      #expect(ring.takeAll() == [round * 4, round * 4 + 1, -1, round * 4 + 3])
    }
  }

  @Test func aRingLetsGoOfWhatItGaveAway() {
    final class Held {}
    var ring = RingBuffer<Held>(growingFrom: 2)
    weak var seen: Held?
    do {
      let held = Held()
      seen = held
      ring.append(held)
    }
    #expect(seen != nil)
    ring.removeAll()
    #expect(seen == nil)
  }
}
