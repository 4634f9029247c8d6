import Foundation
import Glibc
import PushIO
import TestSupport
import Testing

/// Clients that are slow, send too much, or are too many; and TLS.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct GatewayConnectionTests {
  private func head(_ world: GatewayWorld, _ further: String) -> [UInt8] {
    Array("POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\n\(further)\r\n\r\n".utf8)
  }

  /// What comes until the end, or for so long; nil: no end came.
  private func readAll(_ socket: RawSocket, seconds: Int) -> String? {
    var text = ""
    _ = ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 10) { () -> Bool? in
      text += String(decoding: socket.receive(milliseconds: 100), as: UTF8.self)
      return socket.isAtEnd ? true : nil
    }
    return socket.isAtEnd ? text : nil
  }

  @Test func bodiesAreLimitedWhileTheyAreRead() throws {
    let world = try GatewayWorld("large")
    let announced = try RawSocket(port: world.port)
    announced.send(head(world, "Content-Length: 1048577"))
    #expect(readAll(announced, seconds: 10)?.hasPrefix("HTTP/1.1 413") ?? false)
    // Chunks without end: the client is answered, then not read for long.
    let endless = try RawSocket(port: world.port)
    endless.send(head(world, "Transfer-Encoding: chunked"))
    let chunk = Array("8000\r\n".utf8) + Array(repeating: UInt8(ascii: " "), count: 0x8000) + Array("\r\n".utf8)
    for _ in 0..<33 { endless.send(chunk) }
    #expect(readAll(endless, seconds: 10)?.hasPrefix("HTTP/1.1 413") ?? false)
    // As large as is allowed.
    let lines = world.job() + "\n"
    let count = (1 << 20) / lines.utf8.count
    let answer = try world.ask(
      "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"],
      body: String(repeating: lines, count: count))
    #expect(answer.status == 202 && answer.body.split(separator: "\n").count == count)
    let header = try RawSocket(port: world.port)
    header.send(head(world, "X-A: \(String(repeating: "a", count: 20_000))\r\nContent-Length: 0"))
    let refusal = readAll(header, seconds: 10) ?? ""
    #expect(refusal.hasPrefix("HTTP/1.1 400") && refusal.contains("application/problem+json"))
    #expect(refusal.contains("must have at most 8192 bytes") && !refusal.contains("Retry-After"))
    let coded = try RawSocket(port: world.port)
    coded.send(head(world, "Transfer-Encoding: gzip, chunked") + Array("0\r\n\r\n".utf8))
    #expect(readAll(coded, seconds: 10)?.hasPrefix("HTTP/1.1 501") ?? false)
    let line = try RawSocket(port: world.port)
    line.send(Array("GET /v1/segments/a?\(String(repeating: "a", count: 9_000)) HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
    #expect(readAll(line, seconds: 10)?.contains("must have at most 8192 bytes") ?? false)
    let other = try RawSocket(port: world.port)
    other.send(Array("\u{16}\u{3}\u{1} no request\r\n\r\n".utf8))
    #expect(readAll(other, seconds: 10)?.contains("these bytes are not an HTTP/1.1 request") ?? false)
    let garbage = try RawSocket(port: world.port)
    garbage.send(Array("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n\u{1}\u{2}garbage\r\n\r\n".utf8))
    #expect(readAll(garbage, seconds: 10)?.contains("400 Bad Request") ?? false)
    #expect(try world.ask("POST", "/v1/jobs", body: world.job()).status == 202)
  }

  @Test func slowClientsAreClosedWhileOthersAreServed() throws {
    let world = try GatewayWorld("slow")
    // It reads nothing of more outcomes than the kernel's buffers hold.
    let unread = try RawSocket(port: world.port, receiveBytes: 4_096)
    unread.send(
      Array("GET /v1/outcomes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\n\r\n".utf8))
    // So does this one, whose request is complete later.
    let late = try RawSocket(port: world.port, receiveBytes: 4_096)
    late.send(
      Array(
        "GET /v1/outcomes HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nAuthorization: Bearer \(world.key)\r\n\r\n".utf8))
    #expect(world.waitForMetric("herald_gateway_outcome_readers", 2))
    let meta = "{\"a\":\"\(String(repeating: "x", count: 15_000))\"}"
    let outcome = "{\"job_id\":\"a\",\"app\":\"com.example.app\",\"environment\":\"production\",\"meta\":\(meta)}"
    try world.outside.publish(
      Array(repeating: outcome, count: 600), exchange: "\(world.prefix).results",
      routingKey: "accepted.production.com.example.app")
    late.send([UInt8(ascii: "a")])
    let began = ContinuousClock.now
    let slow = try (0..<20).map { _ in try RawSocket(port: world.port) }
    let body = try RawSocket(port: world.port)
    body.send(head(world, "Content-Length: 1000"))
    for socket in slow { socket.send(Array("GET /livez HTTP/1.1\r\nX-A: ".utf8)) }
    var open = slow
    while !open.isEmpty, began.duration(to: .now) < .seconds(30) {
      for socket in open { socket.send([UInt8(ascii: "T")]) }
      #expect(LoopbackHTTP.request("GET", "/livez", port: world.port)?.status == 200)
      for socket in open { _ = socket.receive(milliseconds: 5) }
      open.removeAll(where: \.isAtEnd)
      usleep(200_000)
    }
    #expect(open.isEmpty && began.duration(to: .now) > .seconds(8))
    let text = readAll(body, seconds: 40)
    #expect(text?.hasPrefix("HTTP/1.1 408") ?? false, "\(text ?? "no end")")
    #expect(world.waitForMetric("herald_gateway_outcome_readers", 0))
    withExtendedLifetime((unread, late)) {}
  }

  /// Whether a request with this key is taken; the connection stays open.
  private func isTaken(_ socket: RawSocket, _ world: GatewayWorld, key: String) -> Bool {
    let body = world.job()
    socket.send(
      Array(
        "POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
          .utf8))
    return String(decoding: socket.receive(milliseconds: 10_000), as: UTF8.self).hasPrefix("HTTP/1.1 202")
  }

  @Test func nobodyTakesAllConnections() throws {
    let world = try GatewayWorld("many", further: ["connections_max: 8"])
    let other = try world.makeKey(["--app", "com.example.app"])
    #expect(isTaken(try RawSocket(port: world.port), world, key: other))
    // Clients without a key: the oldest makes room.
    let strangers = try (0..<8).map { _ in try RawSocket(port: world.port) }
    for socket in strangers { socket.send(Array("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) }
    for socket in strangers {
      #expect(String(decoding: socket.receive(milliseconds: 5_000), as: UTF8.self).hasPrefix("HTTP/1.1 200"))
    }
    let client = try RawSocket(port: world.port)
    #expect(isTaken(client, world, key: other))
    #expect(readAll(strangers[0], seconds: 5) == "")
    // One key: it has at most three times what it leaves to others.
    var own = try (0..<8).map { _ in try RawSocket(port: world.port) }
    #expect(own.count { isTaken($0, world, key: world.key) } == 5)
    #expect(isTaken(client, world, key: other))
    #expect(isTaken(try RawSocket(port: world.port), world, key: other))
    for path in ["/livez", "/readyz", "/metrics"] {
      #expect(LoopbackHTTP.request("GET", path, port: world.port)?.status == 200, "\(path)")
    }
    #expect(try #require(world.metric("herald_gateway_connections_refused_total")) > 0)
    own = []
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 100) {
        (try? world.ask("POST", "/v1/jobs", body: world.job()).status) == 202 ? true : nil
      } == true)
  }

  /// Bodies that never end: without a key, of no key's budget; of one key, of its own share.
  @Test func bodiesThatNeverEndHoldUpNobody() throws {
    let applications = "applications: {XXXXX-XXXXX: {app: com.example.app}}"
    let world = try GatewayWorld("endless", further: [applications])
    let other = try world.makeKey(["--app", "com.example.app"])
    let blank = String(repeating: " ", count: 950_000)
    func isServed(_ key: String) throws {
      let large = world.job("\"meta\":{},\(String(repeating: " ", count: 400_000))")
      #expect(try world.ask("POST", "/v1/jobs", key: key, body: large).status == 202)
      let call = """
        {"request":{"application":"XXXXX-XXXXX","auth":"\(key)","notifications":[{"live_activity_id":"a","live_activity":\
        {"event":"end"}}\(String(repeating: " ", count: 400_000))]}}
        """
      let answer = try world.ask("POST", "/json/1.3/updateLiveActivity", key: "", body: call)
      #expect(answer.status == 200 && answer.body.contains("\"status_code\":200"), "\(answer.body)")
    }
    let path = "POST /json/1.3/startLiveActivity HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
    let strangers = try (0..<160).map { _ in try RawSocket(port: world.port) }
    for socket in strangers { _ = socket.sendNow(Array("\(path){\"request\":\(blank)".utf8)) }
    try isServed(world.key)
    // The key comes too late.
    let late = try world.ask(
      "POST", "/json/1.3/updateLiveActivity", key: "", body: "{\"request\":{\(blank)\"auth\":\"\(world.key)\"}}")
    #expect(late.status == 413 || late.status == 503, "\(late.body)")
    let own = try (0..<90).map { _ in try RawSocket(port: world.port) }
    for socket in own { _ = socket.sendNow(head(world, "Content-Length: 1000000") + Array(blank.utf8)) }
    #expect(LoopbackHTTP.request("GET", "/readyz", port: world.port)?.status == 200)
    try isServed(other)
    withExtendedLifetime((strangers, own)) {}
  }

  @Test func withoutDescriptorsTheGatewayWaitsForThem() throws {
    let world = try GatewayWorld("descriptors", descriptorsMaximum: 48)
    let kept = try RawSocket(port: world.port)
    func isServed(_ socket: RawSocket) -> Bool {
      socket.send(Array("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
      return String(decoding: socket.receive(milliseconds: 5_000), as: UTF8.self).hasPrefix("HTTP/1.1 200")
    }
    #expect(isServed(kept))
    var others = try (0..<48).map { _ in try RawSocket(port: world.port) }
    #expect(world.process.waitForLine("no connection can be accepted"))
    // Hundredths of a second.
    func processorTime() throws -> Int {
      let fields = try String(contentsOfFile: "/proc/\(world.process.child.pid)/stat", encoding: .utf8).split(
        separator: " ")
      return try #require(Int(fields[13])) + #require(Int(fields[14]))
    }
    let before = try processorTime()
    sleep(1)
    #expect(try processorTime() - before < 50)
    #expect(isServed(kept))
    #expect(others.count == 48)
    others = []
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 100) {
        LoopbackHTTP.request("GET", "/livez", port: world.port)?.status == 200 ? true : nil
      } == true)
    #expect(world.process.lines.count { $0.contains("no connection can be accepted") } == 1)
    #expect(try #require(world.metric("herald_gateway_accept_failures_total")) > 0)
  }

  @Test func aCertificateIsReplacedWithoutARestart() throws {
    let folder = try TemporaryFolder("tls")
    let authority = try CertificateFactory(commonName: "Gateway test CA")
    try folder.write(authority.certificatePEM, to: "ca.pem")
    func issue(_ name: String) throws {
      try authority.issue(CertificateFactory.Request(commonName: name, dnsNames: ["localhost"])).write(
        certificateFile: folder.path("certificate.pem"), keyFile: folder.path("key.pem"))
    }
    try issue("first")
    let world = try GatewayWorld(
      "tls",
      further: [
        "certificate_file: \"\(folder.path("certificate.pem"))\"", "private_key_file: \"\(folder.path("key.pem"))\"",
      ], isPlain: false)
    func subject() throws -> String {
      try ChildProcess.run(
        [
          "/usr/bin/openssl", "s_client", "-connect", "127.0.0.1:\(world.port)", "-CAfile", folder.path("ca.pem"),
          "-verify_return_error",
        ], input: "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      ).output
    }
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
        (try? subject())?.contains("CN = first") ?? false ? true : nil
      } == true, "\(world.process.log)")
    try issue("second")
    world.process.child.signalLeader(SIGHUP)
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
        (try? subject())?.contains("CN = second") ?? false ? true : nil
      } == true, "\(world.process.log)")
    // A broken one changes nothing.
    try folder.write("no certificate", to: "certificate.pem")
    world.process.child.signalLeader(SIGHUP)
    #expect(world.process.waitForLine("the old one stays"))
    #expect(try subject().contains("CN = second"))
    #expect(world.process.drain(seconds: 20) == 0)
  }
}
