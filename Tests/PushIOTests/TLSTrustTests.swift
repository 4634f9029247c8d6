import Glibc
import PushCore
import PushIO
import Synchronization
import Testing

/// Which CAs clients trust, and what they share between threads.
@Suite("TLS trust", .timeLimit(.minutes(5)))
struct TLSTrustTests {
  @Test func nobodyIsNoAuthority() throws {
    let error = #expect(throws: TLSError.self) { try TLSTrust(caFile: nil, includesSystem: false) }
    #expect(error?.description.contains("ca_file") == true)
  }

  /// In a process of its own, whose system store trusts a test CA.
  @Test func theSystemsAuthoritiesCanBeLeftOut() async throws {
    await #expect(processExitsWith: .success) {
      let (system, own) = (try TLSFixture("System CA"), try TLSFixture("Own CA"))
      unsafe setenv("SSL_CERT_FILE", system.caFile, 1)
      let loop = try EventLoop()
      let servers = (system: try system.server(), own: try own.server())
      func opens(_ server: TLSContext, _ client: TLSContext) throws -> Bool {
        let pair = try TLSPair(loop: loop, server: server, client: client, name: "server.test")
        return pair.delegate.openCount == 1
      }
      let (both, only) = (
        try TLSContext.client(alpn: [], caFile: own.caFile),
        try TLSContext.client(alpn: [], caFile: own.caFile, trustsSystem: false)
      )
      #expect(try opens(servers.system, .client(alpn: [])))
      #expect(try !opens(servers.own, .client(alpn: [])))
      #expect(try opens(servers.system, both) && opens(servers.own, both))
      #expect(try !opens(servers.system, only) && opens(servers.own, only))
    }
  }

  /// A root that an older root signed too, as providers publish it: the server shows its certificate and that of its issuer, which the root
  /// signed. In a process of its own, whose system store is chosen.
  @Test func everyCertificateOfTheFileIsAnAnchorAndTakesNothingAway() async throws {
    await #expect(processExitsWith: .success) {
      let chain = try CrossSignedChain()
      let loop = try EventLoop()
      let server = try TLSContext.server(
        identity: .pem(certificateFile: chain.file("chain.pem"), keyFile: chain.file("leaf.key")), alpn: [])
      func error(system: String, file: String?, systemToo: Bool = true) throws -> String {
        unsafe setenv("SSL_CERT_FILE", chain.file("none"), 1)
        unsafe setenv("SSL_CERT_DIR", chain.file(system), 1)
        let client = try TLSContext.client(alpn: [], caFile: file.map(chain.file), trustsSystem: systemToo)
        let pair = try TLSPair(loop: loop, server: server, client: client, name: "server.test")
        return pair.delegate.openCount == 1 ? "" : pair.delegate.error?.description ?? "no error"
      }
      for file in ["cross.pem", "root.pem", "middle.pem", "leaf.pem", "many.pem"] {
        #expect(try error(system: "empty", file: file, systemToo: false) == "", "\(file)")
        #expect(try error(system: "empty", file: file) == "", "\(file) beside the system")
      }
      // The system's root has the same name as the certificate in the file.
      for file in [nil, "cross.pem", "expired.pem", "foreign.pem", "old.pem"] {
        #expect(try error(system: "hashed", file: file) == "", "\(file ?? "no file")")
      }
      for file in [nil, "foreign.pem", "old.pem"] {
        #expect(try error(system: "empty", file: file).contains("was not accepted"))
      }
      #expect(try error(system: "empty", file: "expired.pem").contains("certificate has expired"))
    }
  }

  /// Contexts with certificates of their own share one store of CAs.
  @Test func contextsShareWhomTheyTrust() throws {
    let loop = try EventLoop()
    let fixture = try TLSFixture()
    let server = try TLSContext.server(
      identity: fixture.issue("server.test"), alpn: [], clientCAFile: fixture.caFile)
    let trust = try TLSTrust(caFile: fixture.caFile, includesSystem: false)
    for name in ["one.test", "two.test"] {
      let client = try TLSContext.client(alpn: [], trust: trust, certificate: fixture.issue(name))
      #expect(client.trustFile == fixture.caFile)
      let pair = try TLSPair(loop: loop, server: server, client: client, name: "server.test")
      #expect(pair.delegate.openCount == 1)
      #expect(pair.serverTransport.peerCertificate?.commonName == name)
    }
  }

  /// Lanes resume the newest session of a context that they share, while others replace it.
  @Test func threadsShareAContextAndItsSessions() throws {
    let fixture = try TLSFixture()
    let (server, client) = (try fixture.server(), try fixture.client())
    let opened = Atomic<Int>(0)
    let resumed = Atomic<Int>(0)
    let threads = (0..<4).map { number in
      LoopThread(name: "tls-\(number)") {
        guard let loop = try? EventLoop() else { return }
        for _ in 0..<25 {
          guard let pair = try? TLSPair(loop: loop, server: server, client: client, name: "server.test") else { return }
          // The session ticket comes after the handshake.
          pair.serverTransport.write("x")
          guard loop.turn(until: { pair.delegate.text == "x" }) else { return }
          opened.add(1, ordering: .relaxed)
          if pair.transport.resumedSession { resumed.add(1, ordering: .relaxed) }
          pair.transport.close()
          _ = loop.turn { pair.delegate.closeCount == 1 }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(opened.load(ordering: .relaxed) == 100)
    // The first connection of each thread may find no session yet.
    #expect(resumed.load(ordering: .relaxed) > 50)
  }
}
