import Glibc
import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// `amqps://` and `rediss://` against the real servers, with the right CA and with a wrong one.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct TLSServersTests {
  /// A CA with a server's certificate, and another CA.
  private struct Files {
    let folder: TemporaryFolder
    var authority: String { folder.path("ca.pem") }
    var stranger: String { folder.path("stranger.pem") }
    var certificate: String { folder.path("server.pem") }
    var key: String { folder.path("server.key") }

    init() throws {
      folder = try TemporaryFolder("tls-servers")
      let authority = try CertificateFactory(commonName: "Herald test authority")
      try authority.writeCertificate(to: folder.path("ca.pem"))
      try CertificateFactory(commonName: "Somebody else").writeCertificate(to: folder.path("stranger.pem"))
      try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"]))
        .write(certificateFile: folder.path("server.pem"), keyFile: folder.path("server.key"))
    }
  }

  @Test func redisOverTLS() throws {
    let files = try Files()
    let port = try LoopbackPort.free()
    let server = try RedisServer(configuration: [
      "tls-port \(port)", "tls-cert-file \(files.certificate)", "tls-key-file \(files.key)",
      "tls-ca-cert-file \(files.authority)", "tls-auth-clients no",
    ])
    defer { server.stop() }
    let configuration = try RedisConfiguration(url: "rediss://127.0.0.1:\(port)/0")
    #expect(configuration.usesTLS)

    func state(trusting file: String, _ loop: EventLoop) throws -> RedisAdmissionStore {
      let state = RedisAdmissionStore(
        loop: loop, configuration: configuration, tls: try configuration.tls(caFile: file),
        settings: RedisAdmissionStoreSettings(), seed: 1)
      state.connect()
      return state
    }
    let loop = try EventLoop()
    let good = try state(trusting: files.authority, loop)
    try AdmissionDriver(good, loop: loop).turn(untilWithinSeconds: 10, "connected over TLS") { good.isConnected }
    good.close()

    let other = try EventLoop()
    let bad = try state(trusting: files.stranger, other)
    var said = ""
    try AdmissionDriver(bad, loop: other).turn(untilWithinSeconds: 10, "the certificate is refused") {
      while let notice = bad.nextNotice() { said += "\(notice)\n" }
      return said.contains("certificate")
    }
    #expect(!bad.isConnected)
    bad.close()

    // As if the system trusted the CA: a configured file replaces the system's trust.
    unsafe setenv("SSL_CERT_FILE", files.authority, 1)
    defer { unsafe unsetenv("SSL_CERT_FILE") }
    for isOnly in [false, true] {
      let tls = try configuration.tls(caFile: files.stranger, trustsOnlyCAFile: isOnly)
      let result = Result { try RedisSession(configuration: configuration, tls: tls) }
      switch result {
      case .success(let session):
        #expect(!isOnly, "the system's authorities are trusted beside the file's")
        session.close()
      case .failure(let error):
        #expect(isOnly && "\(error)".contains("certificate"), "\(error)")
      }
    }
    #expect(throws: TLSError.self, "ca_only without ca_file") {
      try configuration.tls(caFile: nil, trustsOnlyCAFile: true)
    }
  }

  @Test func rabbitMQOverTLS() throws {
    let files = try Files()
    let port = try LoopbackPort.free()
    let server = try RabbitMQServer(configuration: [
      "listeners.ssl.1 = 127.0.0.1:\(port)", "ssl_options.cacertfile = \(files.authority)",
      "ssl_options.certfile = \(files.certificate)", "ssl_options.keyfile = \(files.key)",
      "ssl_options.verify = verify_none", "ssl_options.fail_if_no_peer_cert = false",
    ])
    defer { server.stop() }
    let isUp = ChildProcess.poll(timeoutMilliseconds: 20_000) { LoopbackPort.isOpen(port) ? true : nil }
    try #require(isUp == true, "\(server.log.suffix(2_000))")
    let address = try AMQPAddress("amqps://guest:guest@127.0.0.1:\(port)/")
    #expect(address.usesTLS)
    let admin = try AMQPAdmin(
      addresses: [address], tls: try .client(alpn: [], caFile: files.authority), name: "over TLS")
    #expect(admin.address.usesTLS)
    admin.close()

    do {
      _ = try AMQPAdmin(
        addresses: [address], tls: try .client(alpn: [], caFile: files.stranger), name: "with a wrong authority")
      Issue.record("a certificate of an unknown authority was taken")
    } catch let error as AMQPError {
      let text = error.description
      #expect(text.contains("certificate") && text.contains("127.0.0.1:\(port)"), "\(text)")
    }
  }
}
