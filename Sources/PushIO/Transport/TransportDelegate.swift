/// The user of a transport. All calls come from `EventLoop.poll`, never from inside one of the user's calls.
package protocol TransportDelegate: AnyObject {
  /// TCP, and TLS if configured, is established.
  func transportDidOpen(_ transport: Transport)

  /// There are new bytes in `transport.inbound`; consume as much as possible.
  func transportDidReceive(_ transport: Transport)

  /// The peer has ended its direction, in order (nil) or not: nothing more will come. `outbound` is written at the end of this turn, and
  /// `transportDidClose` follows. A user with requests that nobody will answer calls `abort` instead, which drops them.
  func transportPeerDidEnd(_ transport: Transport, error: TransportError?)

  /// The end, exactly once; nil: in order. `inbound` keeps what was not consumed. There is at least one turn between this and the last
  /// `transportDidReceive`.
  func transportDidClose(_ transport: Transport, error: TransportError?)
}

extension TransportDelegate {
  package func transportPeerDidEnd(_ transport: Transport, error: TransportError?) {}
}
