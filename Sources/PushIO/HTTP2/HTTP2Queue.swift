/// A ring of small values that keeps its memory: what C callbacks recorded, until it is told.
struct HTTP2Queue<Element> {
  private var elements: ContiguousArray<Element>
  private var head = 0
  private(set) var count = 0
  private let empty: Element

  /// `capacity` is a power of two to begin with; the ring doubles when it is full.
  init(capacity: Int, empty: Element) {
    precondition(capacity > 0 && capacity & (capacity - 1) == 0)
    elements = ContiguousArray(repeating: empty, count: capacity)
    self.empty = empty
  }

  mutating func append(_ element: Element) {
    if count == elements.count { grow() }
    elements[(head + count) & (elements.count - 1)] = element
    count += 1
  }

  mutating func popFirst() -> Element? {
    if count == 0 { return nil }
    let element = elements[head]
    head = (head + 1) & (elements.count - 1)
    count -= 1
    return element
  }

  private mutating func grow() {
    var larger = ContiguousArray(repeating: empty, count: elements.count * 2)
    for index in 0..<count { larger[index] = elements[(head + index) & (elements.count - 1)] }
    elements = larger
    head = 0
  }
}
