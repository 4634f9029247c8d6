/// Unconfirmed publishes by sequence number, what each belongs to, and where it goes.
///
/// Confirms come out of order and for many at once. Numbers increase by one over the broker's whole life, so a ring indexed by number
/// serves as the map.
package struct ConfirmWindow: Sendable {
  package struct Entry: Equatable, Sendable {
    package let ticket: Ticket
    package let destination: PublishDestination
    /// Of an outcome: whether its app's were refused when it was published, and the number of that app.
    package var isOfRefusedApp = false
    package var app: UInt16 = 0

    package init(ticket: Ticket, destination: PublishDestination) {
      self.ticket = ticket
      self.destination = destination
    }
  }

  private var entries: [Entry?]
  /// The oldest number that may be unconfirmed.
  private var base: UInt64 = 0
  /// One past the newest number published.
  private var end: UInt64 = 0
  package private(set) var count = 0

  /// `capacity`: the maximum of unconfirmed publishes; rounded up to a power of two.
  package init(capacity: Int) {
    var size = 64
    while size < capacity { size *= 2 }
    entries = Array(repeating: nil, count: size)
  }

  package var isEmpty: Bool { count == 0 }

  /// Whether there is room for one more, even if one old publish is unconfirmed and all behind it are confirmed.
  package var hasRoom: Bool { Int(end - base) < entries.count }

  /// Remembers a publish.
  package mutating func published(_ sequence: UInt64, _ entry: Entry) {
    if count == 0 {
      base = sequence
      end = sequence
    }
    precondition(
      sequence >= end && Int(sequence - base) < entries.count, "sequence numbers count up, within the window")
    entries[slot(sequence)] = entry
    end = sequence + 1
    count += 1
  }

  /// Those of these numbers that may be unconfirmed; call `take` for each.
  package func published(_ numbers: ClosedRange<UInt64>) -> Range<UInt64> {
    Range(numbers).clamped(to: base..<end)
  }

  /// Every number that may be unconfirmed, to publish them again on a new connection.
  package var outstanding: Range<UInt64> { base..<end }

  /// Removes what was published under a number; nil if it was settled before.
  package mutating func take(_ sequence: UInt64) -> Entry? {
    guard sequence >= base, sequence < end, let entry = entries[slot(sequence)] else { return nil }
    entries[slot(sequence)] = nil
    count -= 1
    while base < end, entries[slot(base)] == nil { base += 1 }
    return entry
  }

  private func slot(_ sequence: UInt64) -> Int {
    Int(truncatingIfNeeded: sequence) & (entries.count - 1)
  }
}
