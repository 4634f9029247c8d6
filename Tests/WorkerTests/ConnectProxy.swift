import PushIO

/// An HTTP CONNECT proxy on the test's own loop: reads a request head, connects to its port on loopback, and moves bytes both
/// ways.
final class ConnectProxy: ListenerDelegate {
  /// One end of a tunnel: passes on received bytes.
  private final class End: TransportDelegate {
    var heard: ([UInt8]) -> Void = { _ in }

    func transportDidOpen(_ transport: Transport) {}

    func transportDidReceive(_ transport: Transport) {
      let bytes = transport.inbound.withBytes { bytes in bytes.indices.map { bytes[$0] } }
      transport.inbound.consume(bytes.count)
      heard(bytes)
    }

    func transportDidClose(_ transport: Transport, error: TransportError?) {}
  }

  private final class Tunnel {
    let inward = End()
    let outward = End()
    var client: Transport?
    var target: Transport?
    var head: [UInt8] = []
  }

  private let loop: EventLoop
  private var tunnels: [Tunnel] = []
  private var listener: Listener?
  /// The request heads of its clients.
  private(set) var heads: [String] = []
  /// The answer that it gives instead of connecting.
  var refusal: String?

  var port: UInt16 { listener?.port ?? 0 }

  init(loop: EventLoop) throws {
    self.loop = loop
    listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let tunnel = Tunnel()
    tunnels.append(tunnel)
    tunnel.inward.heard = { [unowned self, unowned tunnel] in heard($0, tunnel) }
    tunnel.outward.heard = { [unowned tunnel] in ConnectProxy.write($0, to: tunnel.client) }
    tunnel.client = Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: tunnel.inward)
  }

  private func heard(_ bytes: [UInt8], _ tunnel: Tunnel) {
    if tunnel.target != nil { return ConnectProxy.write(bytes, to: tunnel.target) }
    tunnel.head += bytes
    let head = String(decoding: tunnel.head, as: UTF8.self)
    guard head.hasSuffix("\r\n\r\n") else { return }
    heads.append(head)
    if let refusal {
      ConnectProxy.write(Array(refusal.utf8), to: tunnel.client)
      tunnel.client?.close()
      return
    }
    let port = head.split(separator: " ")[1].split(separator: ":").last.flatMap { UInt16($0) } ?? 0
    tunnel.target = Transport.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: port), tls: nil, delegate: tunnel.outward)
    ConnectProxy.write(Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8), to: tunnel.client)
  }

  private static func write(_ bytes: [UInt8], to transport: Transport?) {
    transport?.outbound.append(bytes.span)
    transport?.setNeedsFlush()
  }
}
