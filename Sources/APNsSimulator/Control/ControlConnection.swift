import PushIO

/// One connection to the control port.
final class ControlConnection: TransportDelegate {
  private weak var server: ControlServer?
  private var transport: Transport?

  /// A whole ledger may have many megabytes, and its reader may be slow.
  private static let closeMilliseconds: Int64 = 60_000

  init(server: ControlServer, loop: EventLoop, fileDescriptor: Int32) {
    self.server = server
    var options = ConnectOptions()
    options.closeTimeoutMilliseconds = ControlConnection.closeMilliseconds
    transport = Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, options: options, delegate: self)
  }

  func abort() {
    transport?.abort()
  }

  func transportDidOpen(_ transport: Transport) {}

  func transportDidReceive(_ transport: Transport) {
    while let server {
      switch ControlReader.take(from: &transport.inbound) {
      case .incomplete:
        return
      case .refused(let status, let text):
        write(.error(status, text), keepsAlive: false, to: transport)
        return
      case .request(let request, let keepsAlive):
        write(server.answer(request), keepsAlive: keepsAlive, to: transport)
        if !keepsAlive { return }
      }
    }
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {
    server?.forget(self)
  }

  private func write(_ response: ControlResponse, keepsAlive: Bool, to transport: Transport) {
    transport.outbound.append(
      """
      HTTP/1.1 \(response.status) \(response.status < 400 ? "OK" : "Refused")\r
      Content-Type: \(response.contentType)\r
      Content-Length: \(response.body.count)\r
      Cache-Control: no-store\r
      Connection: \(keepsAlive ? "keep-alive" : "close")\r
      \r\n
      """)
    transport.outbound.append(response.body.span)
    transport.setNeedsFlush()
    if !keepsAlive { transport.close() }
  }
}
