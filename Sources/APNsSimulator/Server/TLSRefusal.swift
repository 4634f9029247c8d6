import PushIO

/// A peer that is not a TLS server: sends something else and closes.
final class TLSRefusal: TransportDelegate {
  func transportDidOpen(_ transport: Transport) {
    transport.outbound.append("HTTP/1.1 400 Bad Request\r\n\r\n" as StaticString)
    transport.close()
  }

  func transportDidReceive(_ transport: Transport) {
    transport.inbound.removeAll()
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {}
}
