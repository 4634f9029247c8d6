/// Scheduled events, the earliest first: a binary heap. Events of the same time keep their order.
package struct DueQueue<Item: Sendable>: Sendable {
  private struct Entry: Sendable {
    var due: Int64
    var number: UInt64
    var item: Item

    static func < (left: Entry, right: Entry) -> Bool { (left.due, left.number) < (right.due, right.number) }
  }

  private var heap: [Entry] = []
  private var nextNumber: UInt64 = 0

  package init() {}

  package var count: Int { heap.count }
  /// The time of the first event.
  package var next: Int64? { heap.first?.due }

  package mutating func add(_ item: Item, due: Int64) {
    insert(Entry(due: due, number: nextNumber, item: item))
    nextNumber += 1
  }

  /// Takes the earliest event that is due by this time.
  package mutating func take(dueBy time: Int64) -> Item? {
    guard let first = heap.first, first.due <= time else { return nil }
    let last = heap.removeLast()
    if !heap.isEmpty {
      heap[0] = last
      sink()
    }
    return first.item
  }

  package mutating func removeAll(where isGone: (Item) -> Bool) {
    let kept = heap.filter { !isGone($0.item) }
    heap.removeAll()
    for entry in kept { insert(entry) }
  }

  private mutating func insert(_ entry: Entry) {
    heap.append(entry)
    var place = heap.count - 1
    while place > 0, heap[place] < heap[(place - 1) / 2] {
      heap.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  private mutating func sink() {
    var place = 0
    while true {
      var least = place
      for child in [2 * place + 1, 2 * place + 2] where child < heap.count && heap[child] < heap[least] {
        least = child
      }
      if least == place { return }
      heap.swapAt(place, least)
      place = least
    }
  }
}
