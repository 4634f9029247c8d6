import Foundation
import Glibc
import PushIO
import TestSupport
import Testing

/// The gateway over TLS, with clients that do as they like.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct GatewayTLSTests {
  private let folder: TemporaryFolder
  private let authority: CertificateFactory

  init() throws {
    folder = try TemporaryFolder("tls")
    authority = try CertificateFactory(commonName: "Gateway test CA")
    try folder.write(authority.certificatePEM, to: "ca.pem")
    try GatewayTLSTests.issue("localhost", by: authority, in: folder)
  }

  private static func issue(_ name: String, by authority: CertificateFactory, in folder: TemporaryFolder) throws {
    try authority.issue(CertificateFactory.Request(commonName: name, dnsNames: [name])).write(
      certificateFile: folder.path("\(name).pem"), keyFile: folder.path("\(name).key"))
  }

  private func world(_ name: String, _ further: [String] = []) throws -> GatewayWorld {
    let world = try GatewayWorld(
      name,
      further: [
        "certificate_file: \"\(folder.path("localhost.pem"))\"",
        "private_key_file: \"\(folder.path("localhost.key"))\"",
      ] + further, isPlain: false)
    try #require(world.process.waitForLine("gateway is up"), "\(world.process.log)")
    let identity = further.isEmpty ? nil : "client"
    let isReady = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) { () -> Bool? in
      guard let client = try? client(world, identity: identity), client.handshake() else { return nil }
      client.send(Array("GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
      let answer = String(decoding: client.receive(seconds: 10) { _ in false }, as: UTF8.self)
      return answer.hasPrefix("HTTP/1.1 200") ? true : nil
    }
    try #require(isReady == true, "\(world.process.log)")
    return world
  }

  private func client(_ world: GatewayWorld, identity: String? = nil, alpn: [String] = ["http/1.1"]) throws -> TLSClient
  {
    let identity = identity.map {
      TLSIdentity.pem(certificateFile: folder.path("\($0).pem"), keyFile: folder.path("\($0).key"))
    }
    return try TLSClient(
      port: world.port,
      context: .client(alpn: alpn, caFile: folder.path("ca.pem"), trustsSystem: false, certificate: identity))
  }

  private func request(_ world: GatewayWorld, _ body: String, _ further: String = "") -> [UInt8] {
    Array(
      """
      POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(world.key)\r\n\
      Content-Type: application/x-ndjson\r\n\(further)Content-Length: \(body.utf8.count)\r\n\r\n\(body)
      """.utf8)
  }

  /// Bodies and answers of many records, several requests on one connection, and ciphertext in any pieces.
  @Test func largeRequestsAndAnswersArrive() throws {
    let world = try world("tls-large")
    let client = try client(world)
    try #require(client.handshake())
    let line = world.job() + "\n"
    var random = SeededPieces(state: 42)
    for count in [1, 5_000, 3, 500] {
      client.send(request(world, String(repeating: line, count: count))) { random.next() }
      let answer = client.receive(seconds: 60) { $0.suffix(5).elementsEqual("0\r\n\r\n".utf8) || $0.isWhole }
      let text = String(decoding: answer, as: UTF8.self)
      #expect(text.hasPrefix("HTTP/1.1 202"))
      #expect(text.split(separator: "\"id\"").count - 1 == count)
    }
    #expect(try world.takeJobs().count == 5_504)
  }

  /// A client that has no more to say still gets its answer, and the end of the connection is one that nobody cut.
  @Test func aClientMayEndItsHalf() throws {
    let world = try world("tls-half")
    let client = try client(world)
    try #require(client.handshake())
    client.send(request(world, world.job() + "\n", "Connection: close\r\n"))
    client.sayGoodbye()
    let answer = client.receive(seconds: 20) { _ in false }
    #expect(String(decoding: answer, as: UTF8.self).hasPrefix("HTTP/1.1 202"))
    #expect(client.isEnded, "close_notify")
  }

  @Test func onlyClientsWithACertificateConnect() throws {
    try GatewayTLSTests.issue("client", by: authority, in: folder)
    let stranger = try CertificateFactory(commonName: "Another CA")
    try GatewayTLSTests.issue("stranger", by: stranger, in: folder)
    let world = try world("tls-client", ["client_ca_file: \"\(folder.path("ca.pem"))\""])
    for identity in [nil, "stranger"] {
      let client = try client(world, identity: identity)
      _ = client.handshake()
      client.send(request(world, world.job() + "\n"))
      let answer = client.receive(seconds: 10) { _ in false }
      #expect(answer.isEmpty && client.failure != nil, "\(identity ?? "none")")
    }
    let known = try client(world, identity: "client")
    try #require(known.handshake(), "\(known.failure?.description ?? "")")
    known.send(request(world, world.job() + "\n", "Connection: close\r\n"))
    #expect(String(decoding: known.receive(seconds: 20) { _ in false }, as: UTF8.self).hasPrefix("HTTP/1.1 202"))
    #expect(try world.takeJobs().count == 1)
  }

  @Test func whoeverSpeaksSomethingElseIsRefused() throws {
    let world = try world("tls-other")
    let plain = try RawSocket(port: world.port)
    plain.send(Array("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
    #expect(plain.receive(milliseconds: 5_000).isEmpty && plain.isAtEnd)
    let http2 = try client(world, alpn: ["h2"])
    #expect(!http2.handshake() && http2.failure != nil)
    let garbage = try RawSocket(port: world.port)
    garbage.send((0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    let silent = try RawSocket(port: world.port)
    let client = try client(world)
    try #require(client.handshake())
    client.send(request(world, world.job() + "\n", "Connection: close\r\n"))
    #expect(String(decoding: client.receive(seconds: 20) { _ in false }, as: UTF8.self).hasPrefix("HTTP/1.1 202"))
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        _ = silent.receive(milliseconds: 10)
        return silent.isAtEnd ? true : nil
      } == true, "a handshake that never begins ends")
    #expect(world.process.drain(seconds: 20) == 0)
  }
}

/// Sizes of pieces.
private struct SeededPieces {
  var state: UInt64

  mutating func next() -> Int {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return 1 + Int(state >> 33) % 7_000
  }
}

extension [UInt8] {
  /// An answer with a length is there to its end.
  fileprivate var isWhole: Bool {
    guard let end = String(decoding: self, as: UTF8.self).range(of: "\r\n\r\n") else { return false }
    let text = String(decoding: self, as: UTF8.self)
    guard let field = text[..<end.lowerBound].lowercased().range(of: "content-length: ") else { return false }
    let length = text[..<end.lowerBound][field.upperBound...].prefix { $0.isNumber }
    return Int(length).map { text[end.upperBound...].utf8.count >= $0 } ?? false
  }
}

/// A TLS client on a blocking socket.
private final class TLSClient {
  private let socket: RawSocket
  private let stream: TLSStream
  private(set) var failure: TLSError?
  /// close_notify came.
  private(set) var isEnded = false

  init(port: UInt16, context: TLSContext) throws {
    socket = try RawSocket(port: port)
    stream = try TLSStream(context: context, serverName: "localhost", peer: "the gateway")
  }

  func handshake() -> Bool {
    while !socket.isAtEnd {
      switch stream.handshake() {
      case .blocked:
        write()
        let bytes = socket.receive(milliseconds: 10_000)
        if bytes.isEmpty { return false }
        stream.ciphertextIn.append(bytes.span)
      case .done:
        write()
        return true
      case .failed(let error):
        write()
        failure = error
        return false
      }
    }
    return false
  }

  /// - Parameter piece: how much goes to the socket at once.
  func send(_ bytes: [UInt8], piece: () -> Int = { .max }) {
    var plaintext = ByteQueue()
    plaintext.append(bytes.span)
    if let error = stream.write(from: &plaintext, ciphertextTarget: .max) { failure = error }
    write(piece)
  }

  func sayGoodbye() {
    stream.sayGoodbye()
    write()
  }

  private func write(_ piece: () -> Int = { .max }) {
    while !stream.ciphertextOut.isEmpty {
      let count = min(piece(), stream.ciphertextOut.count)
      socket.send(stream.ciphertextOut.withBytes { bytes in (0..<count).map { bytes[$0] } })
      stream.ciphertextOut.consume(count)
    }
  }

  /// Plaintext until it is enough, the connection ends, or for so long.
  func receive(seconds: Int, until isEnough: ([UInt8]) -> Bool) -> [UInt8] {
    var plaintext = ByteQueue()
    let deadline = ContinuousClock.now + .seconds(seconds)
    func all() -> [UInt8] { plaintext.withBytes { bytes in (0..<bytes.count).map { bytes[$0] } } }
    while ContinuousClock.now < deadline, failure == nil, !isEnded, !isEnough(all()) {
      let bytes = socket.receive(milliseconds: 100)
      if bytes.isEmpty, socket.isAtEnd { break }
      stream.ciphertextIn.append(bytes.span)
      switch stream.read(into: &plaintext, limit: .max) {
      case .blocked, .full: break
      case .ended: isEnded = true
      case .failed(let error): failure = error
      }
    }
    return all()
  }
}
