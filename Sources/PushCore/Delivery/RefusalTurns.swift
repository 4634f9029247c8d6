/// What has refused for long takes turns: all together they are tried as often as one, for what refuses may be common to them.
package struct RefusalTurns<Key: Hashable & Sendable>: Sendable {
  private var turn: Key?
  private var next = Instant(nanoseconds: .min)

  package init() {}

  /// Whether it may be asked which way its next message may go (`DestinationState.way`).
  package func has(_ key: Key, _ state: DestinationState, now: Instant) -> Bool {
    !state.isTriedSeldom || turn == key || now >= next
  }

  /// It is tried now, or gets a fresh channel for that.
  package mutating func took(_ key: Key, _ state: DestinationState, now: Instant) {
    guard state.isTriedSeldom else { return }
    turn = key
    next = now.adding(milliseconds: DestinationState.delayMaximumMilliseconds)
  }
}
