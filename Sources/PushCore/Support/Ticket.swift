/// Identifies one use of one slot: an answer that comes after the slot was reused finds nothing.
package struct Ticket: Hashable, Sendable {
  package var index: UInt32
  package var generation: UInt32

  package init(index: UInt32, generation: UInt32) {
    self.index = index
    self.generation = generation
  }

  /// Both halves in one word, to pass through C.
  package var packed: UInt64 { UInt64(generation) << 32 | UInt64(index) }

  package init(packed: UInt64) {
    self.init(index: UInt32(truncatingIfNeeded: packed), generation: UInt32(truncatingIfNeeded: packed >> 32))
  }
}
