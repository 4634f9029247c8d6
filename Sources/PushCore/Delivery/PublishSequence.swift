/// Numbers of publishes. A sequence number increases over all channels, so a confirm from an old channel is never taken for a new
/// one. A channel's own numbers start with 1, and its broker confirms by them.
///
/// The broker also confirms a returned message. It was reported as refused already, so its confirm is left out.
package struct PublishSequence: Sendable {
  /// The number of the next publish.
  package private(set) var next: UInt64 = 1
  /// The channel's number 1 is the sequence number after this one.
  private var base: UInt64 = 0
  /// Returned, and not confirmed yet.
  package private(set) var returned: Set<UInt64> = []

  package init() {}

  /// The number for a publish that is made now.
  package mutating func take() -> UInt64 {
    defer { next += 1 }
    return next
  }

  /// A new channel: its numbers start again, and what the last one left unconfirmed will not be confirmed.
  package mutating func restart() {
    base = next - 1
    returned.removeAll()
  }

  /// The sequence number for a number of the current channel.
  package func sequence(of number: UInt64) -> UInt64 { base + number }

  /// The channel's publish with this sequence number was returned. false: there is no such publish.
  package mutating func markReturned(_ sequence: UInt64) -> Bool {
    guard sequence > base, sequence < next else { return false }
    returned.insert(sequence)
    return true
  }

  /// The broker confirmed or refused a number of the channel, or all up to it. Returns their sequence numbers; nil: it was returned and
  /// reported before. A confirm of several covers others too, and is always reported.
  package mutating func settled(_ number: UInt64, isMultiple: Bool) -> ClosedRange<UInt64>? {
    // A broker that names what was never published confirms nothing.
    guard number > 0, number < next - base else { return nil }
    let sequence = base + number
    if !isMultiple { return returned.remove(sequence) == nil ? sequence...sequence : nil }
    if !returned.isEmpty { returned = returned.filter { $0 > sequence } }
    return base + 1...sequence
  }

  /// All of the channel's; nil: there are none.
  package var all: ClosedRange<UInt64>? { base + 1 < next ? base + 1...next - 1 : nil }
}
