/// A server of the simulated world, as its connections see it: it receives events, has a deadline, and returns actions.
///
/// A peer does no I/O, and its only clock is `now`, nanoseconds of the world's clock. Bytes come in any
/// segments, as on a network; a connection's number is never reused.
package protocol SimulatedPeer: AnyObject {
  /// A client connected.
  func opened(_ connection: SimulatedConnectionID, now: Int64)
  /// At least one byte came.
  func received(_ bytes: [UInt8], on connection: SimulatedConnectionID, now: Int64)
  /// The client closed its half, or the connection broke: no more bytes come, and after a reset nothing can be sent.
  func ended(_ connection: SimulatedConnectionID, isReset: Bool, now: Int64)
  /// The deadline passed.
  func woke(now: Int64)
  /// When to call `woke` next; nil: no timer is pending.
  var deadline: Int64? { get }
  /// Takes the next action, in order; nil: none.
  func nextAction() -> SimulatedPeerAction?
}

package enum SimulatedPeerAction: Equatable {
  case send(SimulatedConnectionID, [UInt8])
  /// Closes its half after all sent bytes.
  case close(SimulatedConnectionID)
  /// Ends the connection at once; bytes on their way may be lost.
  case reset(SimulatedConnectionID)
}

/// A connection to a peer, numbered by the world.
package struct SimulatedConnectionID: Hashable, Comparable, CustomStringConvertible {
  package let number: Int

  package init(_ number: Int) {
    self.number = number
  }

  package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
  package var description: String { "c\(number)" }
}
