/// A transport's delegate in place of its owner: the object that the transport references weakly.
///
/// Swift counts references to a weakly referenced object in a side table, which is slow. A connection is retained for every request and
/// answer; its proxy is not.
final class TransportDelegateProxy: TransportDelegate {
  private unowned let owner: any TransportDelegate

  /// The owner retains its proxy, and so outlives it.
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
