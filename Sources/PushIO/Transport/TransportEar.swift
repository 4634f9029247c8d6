/// Hears a transport for its owner, and is what the transport holds weakly.
///
/// An object that anybody holds weakly counts its references through a side table, slowly. A connection is retained for
/// every request and answer; its ear is not.
final class TransportEar: TransportDelegate {
  private unowned let owner: any TransportDelegate

  /// The owner holds its ear, and so outlives it.
  init(of owner: any TransportDelegate) {
    self.owner = owner
  }

  func transportDidOpen(_ transport: Transport) {
    owner.transportDidOpen(transport)
  }

  func transportDidReceive(_ transport: Transport) {
    owner.transportDidReceive(transport)
  }

  func transportPeerDidEnd(_ transport: Transport, error: TransportError?) {
    owner.transportPeerDidEnd(transport, error: error)
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {
    owner.transportDidClose(transport, error: error)
  }
}
