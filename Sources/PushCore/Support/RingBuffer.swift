/// A FIFO queue in memory that it keeps for reuse.
///
/// A ring with a `capacity` reports when it is full, and its owner must not exceed that; one that is `growing` doubles. Its functions are
/// inlinable and its type is usable from inline code, so that a module that queues its own element type gets specialised code.
@usableFromInline
package struct RingBuffer<Element> {
  @usableFromInline
  var slots: ContiguousArray<Element?>
  @usableFromInline
  var head = 0
  @usableFromInline
  var filled = 0
  @usableFromInline
  let doubles: Bool

  /// With room for `capacity`, and no more: allocates once.
  @inlinable
  package init(capacity: Int) {
    precondition(capacity > 0, "a ring has room for at least one")
    slots = ContiguousArray(repeating: nil, count: capacity)
    doubles = false
  }

  /// With room for `capacity` at first; the room doubles whenever it is full.
  @inlinable
  package init(growingFrom capacity: Int) {
    precondition(capacity > 0, "a ring has room for at least one")
    slots = ContiguousArray(repeating: nil, count: capacity)
    doubles = true
  }

  @inlinable
  package var capacity: Int { slots.count }
  @inlinable
  package var count: Int { filled }
  @inlinable
  package var isEmpty: Bool { filled == 0 }
  @inlinable
  package var isFull: Bool { filled == slots.count }

  /// Appends an element. If the ring does not grow, there must be room: its owner checks that.
  @inlinable
  package mutating func append(_ element: Element) {
    if filled == slots.count { grow() }
    slots[place(filled)] = element
    filled += 1
  }

  /// Prepends an element; room is as for `append`.
  @inlinable
  package mutating func prepend(_ element: Element) {
    if filled == slots.count { grow() }
    head = head == 0 ? slots.count - 1 : head - 1
    slots[head] = element
    filled += 1
  }

  /// Takes the oldest element.
  @inlinable
  package mutating func popFirst() -> Element? {
    guard filled > 0 else { return nil }
    let element = slots[head].take()
    head = place(1)
    filled -= 1
    return element
  }

  /// Drops the oldest element without a copy; there must be one.
  @inlinable
  package mutating func removeFirst() {
    precondition(filled > 0, "a ring without elements has no oldest one")
    slots[head] = nil
    head = place(1)
    filled -= 1
  }

  @inlinable
  package var first: Element? {
    filled > 0 ? slots[head] : nil
  }

  /// The element `offset` places after the oldest.
  @inlinable
  package subscript(offset offset: Int) -> Element {
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

  @inlinable
  package mutating func removeAll() {
    while popFirst() != nil {}
    head = 0
  }

  /// Removes and returns all elements, oldest first.
  @inlinable
  package mutating func takeAll() -> [Element] {
    var all: [Element] = []
    all.reserveCapacity(filled)
    while let element = popFirst() { all.append(element) }
    return all
  }

  @inlinable
  func place(_ offset: Int) -> Int {
    let sum = head + offset
    return sum < slots.count ? sum : sum - slots.count
  }

  @inlinable
  @inline(never)
  mutating func grow() {
    precondition(doubles, "a ring is as large as its owner's bound")
    var larger = ContiguousArray<Element?>()
    larger.reserveCapacity(slots.count * 2)
    for offset in 0..<filled { larger.append(slots[place(offset)]) }
    larger.append(contentsOf: repeatElement(nil, count: slots.count * 2 - filled))
    slots = larger
    head = 0
  }
}

extension RingBuffer: Sendable where Element: Sendable {}
