/// Whether a server that owes an answer is silent.
///
/// Only what the loop really saw counts. Silence begins when the question had left: at the first poll after its turn. It is judged by
/// the time at which the loop last asked the socket, and not by the clock: a thread that was not scheduled for a while reads what came
/// meanwhile before it judges.
package struct SilenceState: Sendable {
  /// A silence that is over.
  package struct Stretch: Hashable, Sendable {
    package var milliseconds: Int64
    /// What was decided without the server meanwhile.
    package var decidedCount: Int

    package init(milliseconds: Int64, decidedCount: Int) {
      self.milliseconds = milliseconds
      self.decidedCount = decidedCount
    }
  }

  private enum Phase: Sendable {
    /// It owes nothing. Becomes `asked`.
    case quiet
    /// A question leaves at the end of this turn of the loop. Becomes `waiting` with the next poll, or `quiet`.
    case asked(turn: UInt64)
    /// It owes an answer, and nothing came since. Becomes `asked` or `quiet` with bytes, else `silent`.
    case waiting(since: Instant)
    /// Nothing came for the whole timeout. Becomes `asked` or `quiet` with bytes.
    case silent(since: Instant, decidedCount: Int)
  }

  private let timeoutMilliseconds: Int64
  private var phase = Phase.quiet

  package init(timeoutMilliseconds: Int64) {
    precondition(timeoutMilliseconds > 0)
    self.timeoutMilliseconds = timeoutMilliseconds
  }

  package var isSilent: Bool {
    if case .silent = phase { true } else { false }
  }

  /// When a poll that reads nothing makes it silent; nil: not before something else happens.
  package var deadline: Instant? {
    if case .waiting(let since) = phase { since.adding(milliseconds: timeoutMilliseconds) } else { nil }
  }

  /// A question was queued; it is written at the end of this turn.
  package mutating func asked(turn: UInt64) {
    if case .quiet = phase { phase = .asked(turn: turn) }
  }

  /// Bytes came in this turn. What is still owed may have been asked in this turn, so it counts from the next poll.
  /// - Parameter owes: there are questions without an answer.
  /// - Returns: the silence that this ends.
  package mutating func heard(turn: UInt64, now: Instant, owes: Bool) -> Stretch? {
    defer { phase = owes ? .asked(turn: turn) : .quiet }
    return stretch(until: now)
  }

  /// Nothing came in this turn.
  /// - Parameter polledAt: when the loop began to ask its sockets in this turn.
  /// - Returns: it became silent.
  package mutating func heardNothing(turn: UInt64, polledAt: Instant) -> Bool {
    switch phase {
    case .quiet, .silent:
      return false
    case .asked(let asked):
      if asked != turn { phase = .waiting(since: polledAt) }
      return false
    case .waiting(let since):
      guard polledAt.milliseconds(since: since) >= timeoutMilliseconds else { return false }
      phase = .silent(since: since, decidedCount: 0)
      return true
    }
  }

  /// Something was decided without it.
  package mutating func decidedWithout() {
    guard case .silent(let since, let count) = phase else { return }
    phase = .silent(since: since, decidedCount: count + 1)
  }

  /// The connection ended, and with it all that was owed. Returns the silence that this ends.
  package mutating func lost(now: Instant) -> Stretch? {
    defer { phase = .quiet }
    return stretch(until: now)
  }

  private func stretch(until now: Instant) -> Stretch? {
    guard case .silent(let since, let count) = phase else { return nil }
    return Stretch(milliseconds: now.milliseconds(since: since), decidedCount: count)
  }
}
