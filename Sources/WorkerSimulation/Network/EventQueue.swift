/// Timed events, in time order; events of the same time in insertion order. A binary heap.
struct EventQueue<Element> {
  private struct Entry {
    let time: Int64
    let sequence: UInt64
    let element: Element

    func isBefore(_ other: Entry) -> Bool { time == other.time ? sequence < other.sequence : time < other.time }
  }

  private var heap: [Entry] = []
  private var nextSequence: UInt64 = 0

  var earliest: Int64? { heap.first?.time }
  var count: Int { heap.count }

  mutating func add(_ element: Element, at time: Int64) {
    heap.append(Entry(time: time, sequence: nextSequence, element: element))
    nextSequence += 1
    var place = heap.count - 1
    while place > 0 {
      let parent = (place - 1) / 2
      guard heap[place].isBefore(heap[parent]) else { return }
      heap.swapAt(place, parent)
      place = parent
    }
  }

  mutating func takeDue(at time: Int64) -> Element? {
    guard let first = heap.first, first.time <= time else { return nil }
    let last = heap.removeLast()
    guard !heap.isEmpty else { return first.element }
    heap[0] = last
    var place = 0
    while true {
      var smallest = place
      for child in [2 * place + 1, 2 * place + 2] where child < heap.count && heap[child].isBefore(heap[smallest]) {
        smallest = child
      }
      if smallest == place { return first.element }
      heap.swapAt(place, smallest)
      place = smallest
    }
  }
}
