import Foundation
import PushCore
import PushIO
import Testing

/// A CA with a server's and a client's certificate, as files.
final class TLSFixture {
  let directory = TemporaryDirectory()
  let authority: CertificateFactory
  var caFile: String { directory.file("ca.pem") }

  init(_ name: String = "Herald Test CA") throws {
    authority = try CertificateFactory(commonName: name)
    try authority.writeCertificate(to: caFile)
  }

  func issue(_ name: String, _ change: (inout CertificateFactory.Request) -> Void = { _ in }) throws -> TLSIdentity {
    var request = CertificateFactory.Request(
      commonName: name, dnsNames: [name, "localhost"], ipAddresses: ["127.0.0.1"])
    change(&request)
    let (certificateFile, keyFile) = (directory.file("\(name).pem"), directory.file("\(name).key"))
    try authority.issue(request).write(certificateFile: certificateFile, keyFile: keyFile)
    return .pem(certificateFile: certificateFile, keyFile: keyFile)
  }

  func server(alpn: [String] = [], _ change: (inout CertificateFactory.Request) -> Void = { _ in }) throws -> TLSContext
  {
    try .server(identity: issue("server.test", change), alpn: alpn)
  }

  func client(alpn: [String] = [], certificate: TLSIdentity? = nil) throws -> TLSContext {
    try .client(alpn: alpn, caFile: caFile, certificate: certificate)
  }
}

/// One connection over loopback TCP, driven until it opened or ended.
final class TLSPair {
  let loop: EventLoop
  let acceptor: AcceptingDelegate
  let listener: Listener
  let delegate = RecordingDelegate()
  let transport: Transport

  init(
    loop: EventLoop, server: TLSContext?, client: TLSContext?, host: String = "127.0.0.1", name: String? = nil,
    inboundLimit: Int = 1 << 20, configure: @escaping (RecordingDelegate) -> Void = { _ in }
  ) throws {
    self.loop = loop
    acceptor = AcceptingDelegate(loop: loop, tls: server)
    acceptor.configure = configure
    acceptor.options.inboundLimit = inboundLimit
    listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    var options = ConnectOptions()
    options.serverName = name
    transport = Transport.connect(
      loop: loop, to: Endpoint(host: host, port: listener.port), tls: client, options: options, delegate: delegate)
    let delegate = delegate
    let acceptor = acceptor
    _ = loop.turn {
      delegate.closeCount == 1 || (delegate.openCount == 1 && acceptor.delegates.first?.openCount == 1)
    }
  }

  var serverDelegate: RecordingDelegate { acceptor.delegates[0] }
  var serverTransport: Transport { acceptor.transports[0] }
}

@Suite("TLS", .timeLimit(.minutes(5)))
struct TLSTests {
  @Test func megabytesEchoInRandomChunks() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: fixture.server(alpn: ["h2"]), client: fixture.client(alpn: ["h2"])) {
      $0.echoes = true
    }
    #expect(pair.transport.negotiatedProtocol == "h2" && pair.serverTransport.negotiatedProtocol == "h2")
    #expect(pair.transport.peerCertificate?.commonName == "server.test")
    let source = patternBytes(3 << 20)
    var written = 0
    #expect(
      loop.turn(upToMilliseconds: 30_000) {
        if written < source.count {
          let end = min(source.count, written + Int.random(in: 1...150_000))
          pair.transport.write(source[written..<end])
          written = end
        }
        return pair.delegate.received.count == source.count
      })
    // Not inside the macro: on a failure it would compute the difference of two long arrays, for hours.
    let isWhole = pair.delegate.received == source
    #expect(isWhole)
    pair.transport.close()
    #expect(loop.turn { pair.delegate.closeCount == 1 && pair.serverDelegate.closeCount == 1 })
    #expect(pair.delegate.error == nil)
    #expect(pair.serverDelegate.error == nil)
  }

  @Test func readingPausesAtItsLimitAndResumesByItself() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: fixture.server(), client: fixture.client(), inboundLimit: 50_000) {
      $0.consumes = false
    }
    let source = patternBytes(12 << 20)
    pair.transport.write(source[...])
    #expect(loop.turn { pair.serverTransport.inbound.count == 50_000 })
    loop.turn(forMilliseconds: 100)
    let turns = loop.turnCount
    loop.turn(forMilliseconds: 200)
    #expect(loop.turnCount - turns < 30)
    #expect(pair.serverTransport.inbound.count == 50_000)
    #expect(pair.transport.pendingBytes > 1 << 20)
    pair.serverDelegate.consumes = true
    pair.serverDelegate.consume(pair.serverTransport)
    #expect(loop.turn(upToMilliseconds: 30_000) { pair.serverDelegate.received.count == source.count })
    // Not inside the macro: on a failure it would compute the difference of two long arrays, for hours.
    let isWhole = pair.serverDelegate.received == source
    #expect(isWhole)
  }

  @Test func theNameIsVerified() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: fixture.server(), client: fixture.client(), name: "other.test")
    let error = pair.delegate.error
    #expect(error?.tls?.kind == .certificate)
    let text = error?.description ?? ""
    #expect(text.contains("other.test") && text.contains("hostname mismatch"), "\(text)")
    #expect(text.contains("CN=server.test") && text.contains("server.test, localhost"), "\(text)")
    #expect(pair.delegate.openCount == 0)
    // The server gets the alert.
    #expect(loop.turn { pair.serverDelegate.closeCount == 1 })
    #expect(pair.serverDelegate.error?.tls?.kind == .refused)
  }

  /// `*.host` is a wildcard; `f*.host` is obsolete, and too wide.
  @Test(arguments: [("*.server.test", true), ("f*.server.test", false), ("*o.server.test", false)])
  func onlyAWholeLabelIsAWildcard(_ pattern: String, isAccepted: Bool) throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let server = try fixture.server { $0.dnsNames = [pattern] }
    let pair = try TLSPair(loop: loop, server: server, client: fixture.client(), name: "foo.server.test")
    #expect(pair.transport.isOpen == isAccepted)
    #expect(pair.delegate.error?.tls?.kind == (isAccepted ? nil : .certificate))
  }

  @Test func aNameAndAnAddressAreBothAccepted() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let (server, client) = (try fixture.server(), try fixture.client())
    #expect(try TLSPair(loop: loop, server: server, client: client, name: "server.test").delegate.openCount == 1)
    #expect(try TLSPair(loop: loop, server: server, client: client).delegate.openCount == 1)
    let foreign = try TLSPair(loop: loop, server: server, client: client, name: "127.0.0.9")
    #expect(foreign.delegate.error?.tls?.kind == .certificate)
  }

  @Test func anUnknownAuthorityIsRefused() throws {
    let loop = try EventLoop()
    let (fixture, other) = (try TLSFixture(), try TLSFixture("Another CA"))
    let pair = try TLSPair(loop: loop, server: fixture.server(), client: other.client())
    #expect(pair.delegate.error?.tls?.kind == .certificate)
    let text = pair.delegate.error?.description ?? ""
    #expect(text.contains("unable to get local issuer certificate"), "\(text)")
    #expect(text.contains("issuer CN=Herald Test CA") && text.contains("ca_file"), "\(text)")
  }

  @Test func verificationCanBeTurnedOff() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: fixture.server(), client: .client(alpn: [], verify: false))
    #expect(pair.delegate.openCount == 1)
  }

  @Test func anExpiredCertificateIsRefused() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let server = try fixture.server {
      $0.notAfterUnixSeconds = 1_700_000_000
      $0.notBeforeUnixSeconds = 1_600_000_000
    }
    let pair = try TLSPair(loop: loop, server: server, client: fixture.client())
    #expect(pair.delegate.error?.tls?.kind == .certificate)
    let text = pair.delegate.error?.description ?? ""
    #expect(text.contains("certificate has expired") && text.contains("valid until 2023-11-14 22:13 UTC"), "\(text)")
  }

  @Test func aServerRefusesForeignProtocols() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: fixture.server(alpn: ["h2"]), client: fixture.client(alpn: ["http/1.1"]))
    #expect(pair.delegate.error?.tls?.kind == .refused)
    #expect(pair.delegate.error?.description.contains("no application protocol") == true)
  }

  @Test func theServersOrderOfProtocolsWins() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(
      loop: loop, server: fixture.server(alpn: ["h2", "http/1.1"]), client: fixture.client(alpn: ["http/1.1", "h2"]))
    #expect(pair.transport.negotiatedProtocol == "h2")
  }

  @Test func aSessionIsResumed() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let (server, client) = (try fixture.server(), try fixture.client())
    for round in 0..<3 {
      let pair = try TLSPair(loop: loop, server: server, client: client, name: "server.test") { $0.echoes = true }
      #expect(pair.transport.resumedSession == (round > 0))
      #expect(pair.serverTransport.resumedSession == (round > 0))
      pair.transport.write("x")
      #expect(loop.turn { pair.delegate.text == "x" })
      if round == 0 { pair.transport.abort() } else { pair.transport.close() }
      #expect(loop.turn { pair.delegate.closeCount == 1 })
    }
    // Another name is another host.
    #expect(try !TLSPair(loop: loop, server: server, client: client, name: "localhost").transport.resumedSession)
  }

  @Test func aClientShowsItsCertificate() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let server = try TLSContext.server(
      identity: fixture.issue("server.test"), alpn: [], clientCAFile: fixture.caFile)
    let identity = try fixture.issue("client.test") { $0.userID = "com.example.app" }
    let client = try fixture.client(certificate: identity)
    #expect(client.certificateFacts?.userID == "com.example.app")
    let pair = try TLSPair(loop: loop, server: server, client: client)
    #expect(pair.delegate.openCount == 1)
    #expect(pair.serverTransport.peerCertificate?.userID == "com.example.app")

    let anonymous = try TLSPair(loop: loop, server: server, client: fixture.client())
    #expect(loop.turn { anonymous.serverDelegate.closeCount == 1 && anonymous.delegate.closeCount == 1 })
    #expect(anonymous.serverDelegate.error?.tls?.kind == .certificate)
    #expect(anonymous.delegate.error?.tls?.kind == .refused)

    let optional = try TLSContext.server(
      identity: fixture.issue("server.test"), alpn: [], clientCAFile: fixture.caFile, requiresClientCertificate: false)
    let without = try TLSPair(loop: loop, server: optional, client: fixture.client())
    #expect(without.delegate.openCount == 1 && without.serverTransport.peerCertificate == nil)
  }

  @Test func anEndWithoutGoodbyeIsReported() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: fixture.server(), client: fixture.client())
    pair.serverTransport.write("some words")
    #expect(loop.turn { pair.delegate.text == "some words" })
    pair.serverTransport.abort()
    #expect(loop.turn { pair.delegate.closeCount == 1 })
    #expect(pair.delegate.error?.kind == .truncated)
  }

  @Test func aPlainPeerIsRecognized() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let pair = try TLSPair(loop: loop, server: nil, client: fixture.client()) { $0.echoes = true }
    #expect(pair.delegate.error?.kind == .tls)
    #expect(pair.delegate.openCount == 0)

    let (near, far) = try makeSocketPair()
    let server = RecordingDelegate()
    _ = Transport.adopt(loop: loop, fileDescriptor: near, tls: try fixture.server(), delegate: server)
    let client = FileHandle(fileDescriptor: far, closeOnDealloc: true)
    client.write(Data("GET / HTTP/1.1\r\n\r\n".utf8))
    #expect(loop.turn { server.closeCount == 1 })
    #expect(server.error?.description.contains("uses TLS on this port") == true)
  }

  @Test func aSilentServerEndsWithTheConnectTimeout() throws {
    let loop = try EventLoop()
    let sleeping = try EventLoop()
    let acceptor = AcceptingDelegate(loop: sleeping)
    let listener = try Listener.listen(loop: sleeping, host: "127.0.0.1", port: 0, delegate: acceptor)
    let delegate = RecordingDelegate()
    var options = ConnectOptions()
    options.connectTimeoutMilliseconds = 100
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: listener.port), tls: try .client(alpn: []), options: options,
      delegate: delegate)
    #expect(loop.turn(upToMilliseconds: 3000) { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .timeout && delegate.error?.text.contains("TLS handshake") == true)
    #expect(transport.isClosed)
  }

  /// Every byte of a handshake damaged in turn: an error each time, and never a trap.
  @Test func damagedHandshakesFailInOrder() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let server = try fixture.server()
    for index in 0..<60 {
      let (near, far) = try makeSocketPair()
      let delegate = RecordingDelegate()
      _ = Transport.adopt(loop: loop, fileDescriptor: near, tls: server, delegate: delegate)
      let peer = FileHandle(fileDescriptor: far, closeOnDealloc: true)
      var bytes = Array(patternBytes(100 + index * 7))
      if index % 2 == 0 { bytes.replaceSubrange(0..<5, with: [22, 3, 1, 0, UInt8(index)]) }
      peer.write(Data(bytes))
      shutdown(far, Int32(SHUT_WR))
      #expect(loop.turn { delegate.closeCount == 1 })
      #expect(delegate.openCount == 0 && delegate.error != nil)
    }
  }

  // MARK: - Identities

  @Test func aPKCS12FileIsAnIdentity() throws {
    let fixture = try TLSFixture()
    let issued = try fixture.authority.issue(.init(commonName: "twelve.test"))
    let file = fixture.directory.file("identity.p12")
    try issued.writePKCS12(file: file, passphrase: "correct horse")
    let client = try fixture.client(certificate: .pkcs12(file: file, passphrase: "correct horse"))
    #expect(client.certificateFacts?.commonName == "twelve.test")

    let identity = TLSIdentity.pkcs12(file: file, passphrase: "wrong battery")
    let error = #expect(throws: TLSError.self) { try fixture.client(certificate: identity) }
    #expect(error?.kind == .key)
    #expect(error?.description.contains(file) == true && error?.description.contains("battery") == false)
    var dumped = ""
    dump(identity, to: &dumped)
    #expect(!"\(identity) \(String(reflecting: identity)) \(dumped)".contains("battery"))
  }

  @Test func faultyIdentitiesSayWhatIsWrong() throws {
    let fixture = try TLSFixture()
    let identity = try fixture.issue("one.test")
    let missing = #expect(throws: TLSError.self) {
      try fixture.client(certificate: .pem(certificateFile: "/nonexistent/c.pem", keyFile: "/nonexistent/k.pem"))
    }
    #expect(missing?.description == "the certificate /nonexistent/c.pem cannot be read: No such file or directory")
    _ = identity
    _ = try fixture.issue("two.test")
    let mixed = #expect(throws: TLSError.self) {
      try fixture.client(
        certificate: .pem(
          certificateFile: fixture.directory.file("one.test.pem"), keyFile: fixture.directory.file("two.test.key")))
    }
    #expect(mixed?.kind == .key, "\(String(describing: mixed))")
    let notPEM = fixture.directory.file("not.pem")
    try "no certificate".write(toFile: notPEM, atomically: true, encoding: .utf8)
    let foreign = #expect(throws: TLSError.self) { try TLSContext.client(alpn: [], caFile: notPEM) }
    #expect(foreign?.kind == .file)
  }

  @Test func factsOfACertificate() throws {
    let fixture = try TLSFixture()
    let identity = try fixture.issue("push.test") { request in
      request.userID = "com.example.app"
      request.appleTopics = ["com.example.app", "com.example.app.voip"] + (0..<20).map { "com.example.app.more\($0)" }
      request.notAfterUnixSeconds = 1_900_000_000
      request.notBeforeUnixSeconds = 1_700_000_000
    }
    let facts = try #require(try fixture.client(certificate: identity).certificateFacts)
    #expect(facts.userID == "com.example.app")
    #expect(facts.commonName == "push.test")
    #expect(facts.issuer == "CN=Herald Test CA")
    #expect(facts.notAfterUnixSeconds == 1_900_000_000 && facts.notBeforeUnixSeconds == 1_700_000_000)
    #expect(facts.notAfterText == "2030-03-17 17:46 UTC")
    #expect(facts.dnsNames == ["push.test", "localhost"])
    #expect(facts.appleTopics.count == 22 && facts.appleTopics[1] == "com.example.app.voip")
  }

  @Test func aKeyFileIsForItsOwnerAlone() throws {
    let fixture = try TLSFixture()
    _ = try fixture.issue("owner.test")
    let attributes = try FileManager.default.attributesOfItem(atPath: fixture.directory.file("owner.test.key"))
    #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
  }
}
