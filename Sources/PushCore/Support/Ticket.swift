/// Names one use of one slot: an answer that comes after the slot was given to somebody else finds nobody.
package struct Ticket: Hashable, Sendable {
  package var index: UInt32
  package var generation: UInt32

  package init(index: UInt32, generation: UInt32) {
    self.index = index
    self.generation = generation
  }

  /// Both halves in one word, for what travels through C.
  package var packed: UInt64 { UInt64(generation) << 32 | UInt64(index) }

  package init(packed: UInt64) {
    self.init(index: UInt32(truncatingIfNeeded: packed), generation: UInt32(truncatingIfNeeded: packed >> 32))
  }
}
