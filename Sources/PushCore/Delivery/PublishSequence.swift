/// The numbers of publishes. A sequence number counts up over all connections, so that a confirm of an old one can never be taken for a
/// new one's; a connection's own numbers start with 1, and its broker confirms by them.
///
/// A message that came back is confirmed afterwards all the same. It was reported as refused, so that its confirm is left out.
package struct PublishSequence: Sendable {
  /// The next publish's.
  package private(set) var next: UInt64 = 1
  /// The connection's number 1 is the sequence number behind this one.
  private var base: UInt64 = 0
  /// What came back and was not confirmed yet.
  package private(set) var returned: Set<UInt64> = []

  package init() {}

  /// The number of a publish that is made now.
  package mutating func take() -> UInt64 {
    defer { next += 1 }
    return next
  }

  /// A new connection: its numbers start anew, and what was not confirmed on the one before will not be.
  package mutating func restart() {
    base = next - 1
    returned.removeAll()
  }

  /// Of a number of the connection in use.
  package func sequence(of number: UInt64) -> UInt64 { base + number }

  /// The connection's publish of this sequence number came back. false: it has made none.
  package mutating func cameBack(_ sequence: UInt64) -> Bool {
    guard sequence > base, sequence < next else { return false }
    returned.insert(sequence)
    return true
  }

  /// The broker confirmed or refused a number of the connection, or all up to it. Returns its sequence number; nil: it came back, and
  /// that was reported. A confirm of many covers others too, and is reported.
  package mutating func settled(_ number: UInt64, isMultiple: Bool) -> UInt64? {
    let sequence = base + number
    if returned.isEmpty { return sequence }
    if !isMultiple { return returned.remove(sequence) == nil ? sequence : nil }
    returned = returned.filter { $0 > sequence }
    return sequence
  }
}
