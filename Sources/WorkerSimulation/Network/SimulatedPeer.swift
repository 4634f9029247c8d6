/// A server of the simulated world, seen from its sockets: what it hears, when it wants to be woken, and what it does.
///
/// A peer does no I/O and knows no clock but what it is told. Times are nanoseconds of the world's own clock. Bytes come in any
/// parts, as a network would hand them on; a connection's number is never used again.
package protocol SimulatedPeer: AnyObject {
  /// A client connected.
  func opened(_ connection: SimulatedConnectionID, now: Int64)
  /// Bytes came, at least one.
  func received(_ bytes: [UInt8], on connection: SimulatedConnectionID, now: Int64)
  /// The client closed its half, or the connection broke: nothing more comes, and what is sent reaches nobody if it broke.
  func ended(_ connection: SimulatedConnectionID, isReset: Bool, now: Int64)
  /// Its deadline came.
  func woke(now: Int64)
  /// When it wants to be woken next; nil: not before something comes.
  var deadline: Int64? { get }
  /// Takes what it does next, in order; nil: nothing more for now.
  func nextAction() -> SimulatedPeerAction?
}

package enum SimulatedPeerAction: Equatable {
  case send(SimulatedConnectionID, [UInt8])
  /// Closes its half after everything that was sent.
  case close(SimulatedConnectionID)
  /// Ends the connection at once; what is under way may be lost.
  case reset(SimulatedConnectionID)
}

/// A connection between a worker and a peer: a number of the world's own.
package struct SimulatedConnectionID: Hashable, Comparable, CustomStringConvertible {
  package let number: Int

  package init(_ number: Int) {
    self.number = number
  }

  package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
  package var description: String { "c\(number)" }
}
