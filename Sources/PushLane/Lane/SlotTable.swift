import BasicContainers
import PushCore

/// A fixed number of reused values: elements are never destroyed, so their buffers keep their
/// capacity. The slot that was freed last is reused first, while its memory is in the cache.
///
/// Elements are borrowed in place and never copied. The type
/// is in the lane's module because a generic type is specialised only within its module: from another module, every access
/// would go through its witness table.
package struct SlotTable<Element: ~Copyable>: ~Copyable {
  private var elements: RigidArray<Element>
  private var generations: RigidArray<UInt32>
  private var free: RigidArray<UInt32>

  /// `capacity` slots, each made once by `make`.
  init(capacity: Int, make: () -> Element) {
    elements = RigidArray(capacity: capacity)
    for _ in 0..<capacity { elements.append(make()) }
    generations = RigidArray(repeating: 0, count: capacity)
    free = RigidArray(capacity: capacity)
    for index in (0..<UInt32(capacity)).reversed() { free.append(index) }
  }

  var capacity: Int { elements.count }
  var count: Int { elements.count - free.count }
  var isFull: Bool { free.isEmpty }

  /// A free slot, or nil if all are taken.
  mutating func take() -> Ticket? {
    guard let index = free.popLast() else { return nil }
    generations[Int(index)] &+= 1
    return Ticket(index: index, generation: generations[Int(index)])
  }

  /// Whether the ticket is still valid: odd-numbered uses are live, released ones are not.
  func isLive(_ ticket: Ticket) -> Bool {
    Int(ticket.index) < generations.count && generations[Int(ticket.index)] == ticket.generation
      && ticket.generation & 1 == 1
  }

  /// Releases the slot. A ticket is released once.
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

  /// The ticket of a live slot, by its index; nil: the slot is free.
  func liveTicket(at index: Int) -> Ticket? {
    let generation = generations[index]
    return generation & 1 == 1 ? Ticket(index: UInt32(index), generation: generation) : nil
  }
}
