import PushCore

/// A fixed number of values that are used again and again: elements are never destroyed, so what they own keeps its
/// capacity. The free slot used last is given first, while its memory is warm.
///
/// It stands beside the lane because a generic type is specialised only within its module: across the border every access
/// would copy the element through its witness table.
struct SlotTable<Element> {
  private var elements: [Element]
  private var generations: [UInt32]
  private var free: [UInt32]

  /// `capacity` slots, each made once by `make`.
  init(capacity: Int, make: () -> Element) {
    elements = (0..<capacity).map { _ in make() }
    generations = Array(repeating: 0, count: capacity)
    free = (0..<UInt32(capacity)).reversed()
  }

  var capacity: Int { elements.count }
  var count: Int { elements.count - free.count }
  var isFull: Bool { free.isEmpty }

  /// A free slot, or nil where all are taken.
  mutating func take() -> Ticket? {
    guard let index = free.popLast() else { return nil }
    generations[Int(index)] &+= 1
    return Ticket(index: index, generation: generations[Int(index)])
  }

  /// Whether the ticket still names its slot: odd-numbered uses are live, released ones are not.
  func isLive(_ ticket: Ticket) -> Bool {
    Int(ticket.index) < generations.count && generations[Int(ticket.index)] == ticket.generation
      && ticket.generation & 1 == 1
  }

  /// Gives the slot back. A ticket is released once.
  mutating func release(_ ticket: Ticket) {
    precondition(isLive(ticket), "a slot is released once, by its own ticket")
    generations[Int(ticket.index)] &+= 1
    free.append(ticket.index)
  }

  subscript(_ ticket: Ticket) -> Element {
    _read {
      precondition(isLive(ticket), "a stale ticket reached a slot")
      yield elements[Int(ticket.index)]
    }
    _modify {
      precondition(isLive(ticket), "a stale ticket reached a slot")
      yield &elements[Int(ticket.index)]
    }
  }

  /// Visits every live slot, in no particular order.
  mutating func forEachLive(_ body: (Ticket, inout Element) -> Void) {
    for index in elements.indices where generations[index] & 1 == 1 {
      body(Ticket(index: UInt32(index), generation: generations[index]), &elements[index])
    }
  }
}
