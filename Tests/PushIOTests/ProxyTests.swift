import PushCore
import PushIO
import Testing

/// An HTTP CONNECT proxy: reads the request head, answers, and moves bytes both ways.
private final class TestProxy: ListenerDelegate {
  private final class Session {
    let inward = RecordingDelegate()
    let outward = RecordingDelegate()
    var client: Transport?
    var target: Transport?
    var head = ""
  }

  private let loop: EventLoop
  private var sessions: [Session] = []
  private(set) var requests: [String] = []
  /// The answer to a head; nil: it connects to the target's port on loopback.
  var refusal: (String) -> String? = { _ in nil }
  private(set) var listener: Listener?

  init(loop: EventLoop, host: String = "127.0.0.1") throws {
    self.loop = loop
    listener = try Listener.listen(loop: loop, host: host, port: 0, delegate: self)
  }

  var port: UInt16 { listener?.port ?? 0 }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let session = Session()
    sessions.append(session)
    session.inward.onReceive = { [unowned self, unowned session] client in heard(session, client) }
    session.outward.onReceive = { [unowned session] _ in
      session.client?.write(session.outward.received[...])
      session.outward.received = []
    }
    session.client = Transport.adopt(
      loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: session.inward)
  }

  private func heard(_ session: Session, _ client: Transport) {
    let bytes = session.inward.received
    session.inward.received = []
    if let target = session.target {
      target.write(bytes[...])
      return
    }
    session.head += String(decoding: bytes, as: UTF8.self)
    guard session.head.hasSuffix("\r\n\r\n") else { return }
    requests.append(session.head)
    if let refusal = refusal(session.head) {
      client.write(refusal)
      client.close()
      return
    }
    let words = session.head.split(separator: " ")
    let port = words[1].split(separator: ":").last.flatMap { UInt16($0) } ?? 0
    session.target = Transport.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: port), tls: nil, delegate: session.outward)
    client.write("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
  }
}

@Suite(.timeLimit(.minutes(5))) struct ProxyTests {
  private func options(_ proxy: Endpoint, user: String? = nil, password: String? = nil) -> ConnectOptions {
    var options = ConnectOptions()
    options.connectTimeoutMilliseconds = 3_000
    options.proxy = Proxy(endpoint: proxy, user: user, password: password)
    return options
  }

  @Test(arguments: ["127.0.0.1", "::1"]) func speaksTLSThroughTheTunnel(_ host: String) throws {
    let loop = try EventLoop()
    let directory = TemporaryDirectory()
    let authority = try CertificateFactory(commonName: "Herald Test CA")
    try authority.writeCertificate(to: directory.file("ca.pem"))
    try authority.issue(.init(commonName: "apns.test", dnsNames: ["apns.test"], ipAddresses: []))
      .write(certificateFile: directory.file("server.pem"), keyFile: directory.file("server.key"))
    let acceptor = AcceptingDelegate(
      loop: loop,
      tls: try .server(
        certificateFile: directory.file("server.pem"), keyFile: directory.file("server.key"), alpn: ["h2"]))
    acceptor.configure = { $0.echoes = true }
    let server = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let proxy = try TestProxy(loop: loop, host: host)
    let delegate = RecordingDelegate()
    // The proxy looks up the name; the certificate is checked against it too.
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "apns.test", port: server.port),
      tls: try .client(alpn: ["h2"], caFile: directory.file("ca.pem")),
      options: options(Endpoint(host: host, port: proxy.port), user: "me", password: "p:w"), delegate: delegate)
    #expect(loop.turn { delegate.openCount + delegate.closeCount > 0 })
    #expect(delegate.error == nil)
    #expect(transport.negotiatedProtocol == "h2")
    transport.write("through")
    #expect(loop.turn { delegate.text == "through" })
    #expect(
      proxy.requests == [
        "CONNECT apns.test:\(server.port) HTTP/1.1\r\nHost: apns.test:\(server.port)\r\n"
          + "Proxy-Authorization: Basic bWU6cDp3\r\n\r\n"
      ])
    #expect(transport.peerDescription.contains("apns.test:\(server.port) (proxy "))
  }

  /// A proxy may send any number of 1xx answers before its final one (RFC 9110, 15.2).
  @Test(arguments: [
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 102 Processing\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
  ])
  func anInterimAnswerIsNotTheAnswer(_ interim: String) throws {
    let loop = try EventLoop()
    let proxy = try TestProxy(loop: loop)
    proxy.refusal = { _ in interim + "HTTP/1.1 200 OK\r\n\r\n" }
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "apns.test", port: 443), tls: nil,
      options: options(Endpoint(host: "127.0.0.1", port: proxy.port)), delegate: delegate)
    #expect(loop.turn { delegate.openCount + delegate.closeCount > 0 })
    #expect(delegate.openCount == 1 && delegate.error == nil, "\(delegate.error?.description ?? "")")
    transport.close()
  }

  @Test(arguments: [
    ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\n\r\n", "does not allow CONNECT to apns.test:443 (403"),
    ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "refused CONNECT to apns.test:443 (101"),
    (String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 400), "answered with an endless head"),
    ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refused the login (407"),
    ("HTTP/1.1 403 Forbidden\r\n\r\n", "does not allow CONNECT to apns.test:443 (403"),
    ("HTTP/1.0 502 Bad Gateway\r\nX: y\r\n\r\n", "cannot reach apns.test:443 (502"),
    ("HTTP/1.1 500 Oops\r\n\r\n", "refused CONNECT to apns.test:443 (500 Oops)"),
    ("SSH-2.0-OpenSSH\r\n\r\n", "is not an HTTP proxy: it answered \"SSH-2.0-OpenSSH\""),
    ("HTTP/1.1 200 OK\r\n\r\nsurprise", "sent bytes of its own into the tunnel"),
    ("HTTP/1.1 200 OK\r\n", "closed the connection within its answer"),
    ("", "closed the connection without an answer"),
    ("HTTP/1.1 200 OK\r\n" + String(repeating: "x: y\r\n", count: 3_000), "answered with an endless head"),
  ])
  func saysWhyThereIsNoTunnel(_ answer: String, _ said: String) throws {
    let loop = try EventLoop()
    let proxy = try TestProxy(loop: loop)
    proxy.refusal = { _ in answer }
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "apns.test", port: 443), tls: nil,
      options: options(Endpoint(host: "127.0.0.1", port: proxy.port), user: "me", password: "secret"),
      delegate: delegate)
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .proxy)
    let text = delegate.error?.description ?? ""
    #expect(text.contains("the proxy 127.0.0.1:\(proxy.port) \(said)"), "\(text)")
    #expect(!text.contains("secret"))
    #expect(transport.isClosed)
  }

  @Test func aSilentProxyEndsWithTheConnectTimeout() throws {
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let delegate = RecordingDelegate()
    var options = options(Endpoint(host: "127.0.0.1", port: listener.port))
    options.connectTimeoutMilliseconds = 150
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "apns.test", port: 443), tls: nil, options: options, delegate: delegate)
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .timeout)
    #expect(transport.isClosed)
  }

  @Test func aProxyThatIsNotThereIsNamed() throws {
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let port = listener.port
    listener.close()
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "apns.test", port: 443), tls: nil,
      options: options(Endpoint(host: "127.0.0.1", port: port)), delegate: delegate)
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .connect)
    #expect(delegate.error?.description.contains("127.0.0.1:\(port)") == true)
    #expect(transport.isClosed)
  }
}
