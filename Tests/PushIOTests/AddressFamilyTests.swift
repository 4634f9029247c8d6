import Foundation
import PushCore
import PushIO
import Synchronization
import TestSupport
import Testing

/// IPv6 and IPv4, new addresses on each connect, and the oldest TLS version that we accept.
@Suite(.timeLimit(.minutes(5))) struct AddressFamilyTests {
  private func addresses(_ hosts: [String], _ port: UInt16) -> [SocketAddress] {
    hosts.compactMap { SocketAddress(numericHost: $0, port: port) }
  }

  @Test func iPv6ComesFirst() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { [self] _, port in .success(addresses(["127.0.0.1", "::1"], port)) }
    let acceptor = AcceptingDelegate(loop: loop)
    let six = try Listener.listen(loop: loop, host: "::1", port: 0, delegate: acceptor)
    let four = try Listener.listen(loop: loop, host: "127.0.0.1", port: six.port, delegate: acceptor)
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "both.test", port: four.port), tls: nil, delegate: delegate)
    #expect(loop.turn { delegate.openCount == 1 })
    #expect(transport.peerDescription == "both.test:\(six.port) ([::1]:\(six.port))")
  }

  @Test func iPv4TakesOverWhereIPv6DoesNotAnswer() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { [self] _, port in .success(addresses(["127.0.0.1", "::1"], port)) }
    let acceptor = AcceptingDelegate(loop: loop)
    let four = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "both.test", port: four.port), tls: nil, delegate: delegate)
    #expect(loop.turn { delegate.openCount == 1 })
    #expect(transport.peerDescription.hasSuffix("(127.0.0.1:\(four.port))"))
  }

  @Test func aNumericIPv6HostWithTLS() throws {
    let directory = TemporaryDirectory()
    let authority = try CertificateFactory(commonName: "Herald Test CA")
    try authority.writeCertificate(to: directory.file("ca.pem"))
    try authority.issue(.init(commonName: "six", dnsNames: [], ipAddresses: ["::1"]))
      .write(certificateFile: directory.file("six.pem"), keyFile: directory.file("six.key"))
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(
      loop: loop,
      tls: try .server(certificateFile: directory.file("six.pem"), keyFile: directory.file("six.key"), alpn: []))
    let listener = try Listener.listen(loop: loop, host: "::1", port: 0, delegate: acceptor)
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "::1", port: listener.port),
      tls: try .client(alpn: [], caFile: directory.file("ca.pem")), delegate: delegate)
    #expect(loop.turn { delegate.openCount + delegate.closeCount > 0 })
    #expect(delegate.error == nil)
    #expect(transport.isOpen)
  }

  @Test func everyConnectLooksTheNameUpAnewAndSpreads() throws {
    let lookUps = LookUps()
    let loop = try EventLoop(mailboxCapacity: 16) { [self] _, port in
      lookUps.count()
      return .success(addresses(["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"], port))
    }
    let acceptor = AcceptingDelegate(loop: loop)
    let first = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let others = try (2...4).map {
      try Listener.listen(loop: loop, host: "127.0.0.\($0)", port: first.port, delegate: acceptor)
    }
    var used: Set<String> = []
    for _ in 0..<24 {
      let delegate = RecordingDelegate()
      let transport = Transport.connect(
        loop: loop, to: Endpoint(host: "many.test", port: first.port), tls: nil, delegate: delegate)
      #expect(loop.turn { delegate.openCount == 1 })
      used.insert(transport.peerDescription)
      transport.abort()
    }
    #expect(lookUps.total == 24)
    #expect(used.count > 1, "\(used)")
    withExtendedLifetime(others) {}
  }

  /// openssl's own server, with a chosen TLS version.
  private func openTLS(_ version: String) throws -> TransportError? {
    let directory = TemporaryDirectory()
    let authority = try CertificateFactory(commonName: "Herald Test CA")
    try authority.writeCertificate(to: directory.file("ca.pem"))
    try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"]))
      .write(certificateFile: directory.file("server.pem"), keyFile: directory.file("server.key"))
    let openssl = try #require(ChildProcess.find("openssl"))
    let port = try LoopbackPort.free()
    let child = try ChildProcess(
      [
        openssl, "s_server", "-accept", "127.0.0.1:\(port)", version, "-cipher", "DEFAULT@SECLEVEL=0", "-cert",
        directory.file("server.pem"), "-key", directory.file("server.key"), "-quiet",
      ], output: directory.file("log"), errors: directory.file("log"))
    defer { child.kill() }
    let isUp = ChildProcess.poll(timeoutMilliseconds: 10_000) { LoopbackPort.isOpen(port) ? true : nil }
    try #require(isUp == true)
    let loop = try EventLoop()
    let delegate = RecordingDelegate()
    let transport = Transport.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: port),
      tls: try .client(alpn: [], caFile: directory.file("ca.pem")), delegate: delegate)
    #expect(loop.turn { delegate.openCount + delegate.closeCount > 0 })
    withExtendedLifetime(transport) {}
    return delegate.error
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"]) func takesTheseVersions(_ version: String) throws {
    #expect(try openTLS(version) == nil)
  }

  @Test func refusesTLSBefore12() throws {
    let error = try #require(try openTLS("-tls1_1"))
    #expect(error.kind == .tls)
    #expect(error.description.contains("version"), "\(error)")
  }
}

/// Counts look-ups, which happen on the resolver's threads.
private final class LookUps: Sendable {
  private let state = Mutex(0)

  func count() { state.withLock { $0 += 1 } }
  var total: Int { state.withLock { $0 } }
}
