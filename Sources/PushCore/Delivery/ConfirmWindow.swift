/// Unconfirmed publishes by sequence number, and what each belongs to.
///
/// Confirms come out of order and for many at once. Numbers increase by one over the broker's whole life, so a ring indexed by number
/// serves as the map.
package struct ConfirmWindow: Sendable {
  private var entries: [Ticket?]
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

  /// Whether there is room for `wanted` more, even if one old publish is unconfirmed and all behind it are confirmed.
  package func hasRoom(for wanted: Int) -> Bool {
    Int(end - base) + wanted <= entries.count
  }

  /// Remembers a publish.
  package mutating func published(_ sequence: UInt64, _ entry: Ticket) {
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

  /// The numbers that a confirm or refusal settles; call `take` for each. Empty if the peer names one that was never published.
  package func settled(by sequence: UInt64, isMultiple: Bool) -> Range<UInt64> {
    guard sequence >= base, sequence < end else { return base..<base }
    return (isMultiple ? base : sequence)..<(sequence + 1)
  }

  /// Every number that may be unconfirmed, to publish them again on a new connection.
  package var outstanding: Range<UInt64> { base..<end }

  /// Removes what was published under a number; nil if it was settled before.
  package mutating func take(_ sequence: UInt64) -> Ticket? {
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
