/// Who uses a transport. Everything here is called from `EventLoop.poll`, never from inside a call of the user's.
package protocol TransportDelegate: AnyObject {
  /// TCP, and TLS where asked for, is established.
  func transportDidOpen(_ transport: Transport)

  /// There are new bytes in `transport.inbound`; consume what can be consumed.
  func transportDidReceive(_ transport: Transport)

  /// The peer has ended its half, in order (nil) or not: nothing comes any more. What `outbound` holds is written at the end of this
  /// turn, and `transportDidClose` follows; whose requests nobody will answer takes them back instead, with `abort`.
  func transportPeerDidEnd(_ transport: Transport, error: TransportError?)

  /// The end, exactly once; nil: in order. `inbound` keeps what was not consumed. At least one turn lies between this
  /// and the last `transportDidReceive`.
  func transportDidClose(_ transport: Transport, error: TransportError?)
}

extension TransportDelegate {
  package func transportPeerDidEnd(_ transport: Transport, error: TransportError?) {}
}
