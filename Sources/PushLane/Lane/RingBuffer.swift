/// First in, first out, with a fixed capacity: allocates once, and says when it is full instead of growing.
package struct RingBuffer<Element> {
  private var slots: [Element?]
  private var head = 0
  private var filled = 0

  init(capacity: Int) {
    precondition(capacity > 0, "a ring has room for at least one")
    slots = Array(repeating: nil, count: capacity)
  }

  var capacity: Int { slots.count }
  var count: Int { filled }
  var isEmpty: Bool { filled == 0 }
  var isFull: Bool { filled == slots.count }

  /// Puts an element behind all others. There is room: its owner's bound says so.
  mutating func append(_ element: Element) {
    precondition(filled < slots.count, "a ring is as large as its owner's bound")
    slots[place(filled)] = element
    filled += 1
  }

  /// Takes the oldest element.
  mutating func popFirst() -> Element? {
    guard filled > 0 else { return nil }
    let element = slots[head].take()
    head = place(1)
    filled -= 1
    return element
  }

  var first: Element? {
    filled > 0 ? slots[head] : nil
  }

  /// The element that entered `offset` after the oldest.
  subscript(offset offset: Int) -> Element {
    get {
      precondition(offset >= 0 && offset < filled, "an offset beyond the ring's elements")
      guard let element = slots[place(offset)] else { preconditionFailure("a filled slot is empty") }
      return element
    }
    set {
      precondition(offset >= 0 && offset < filled, "an offset beyond the ring's elements")
      slots[place(offset)] = newValue
    }
  }

  mutating func removeAll() {
    while popFirst() != nil {}
    head = 0
  }

  private func place(_ offset: Int) -> Int {
    let sum = head + offset
    return sum < slots.count ? sum : sum - slots.count
  }
}

extension RingBuffer: Sendable where Element: Sendable {}
