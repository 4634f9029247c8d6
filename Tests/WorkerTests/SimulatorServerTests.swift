import APNsSimulator
import PushCore
import PushIO
import TestSupport
import Testing

/// The simulator's TLS, credentials, channel management and control port.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct SimulatorServerTests {
  private func notification(_ token: String?, id: String = SimulatorRequests.apnsID) -> SimulatedRequest {
    SimulatorRequests.device(["authorization": token.map { "bearer \($0)" }, "apns-id": id])
  }

  /// A simulator with its own authority, a registered key, and a client's context that trusts it.
  private func startSecure(
    _ folder: TemporaryFolder, _ credential: SimulatorCredential, _ change: (inout SimulatorOptions) -> Void = { _ in }
  ) throws -> (Simulator, SimulatorPorts, TLSContext) {
    var options = SimulatorOptions()
    options.security = .ownAuthority(folder: folder.path)
    options.keys = [try credential.registration()]
    change(&options)
    let simulator = try Simulator(options)
    let ports = try simulator.start()
    return (simulator, ports, try TLSContext.client(alpn: ["h2"], caFile: ports.authorityFile))
  }

  // MARK: - TLS and credentials

  @Test func ownAuthorityAndRealSignatures() throws {
    let folder = try TemporaryFolder("simulator")
    let credential = try SimulatorCredential()
    let (simulator, ports, tls) = try startSecure(folder, credential) { $0.environment = .sandbox }
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port, tls: tls)
    #expect(client.open())
    let now = client.loop.now.unixSeconds
    let answer = try #require(client.ask(notification(try credential.token(issuedAt: now))))
    #expect(answer.status == 200)
    #expect(answer.identifier == SimulatorRequests.apnsID)
    #expect(answer.uniqueIdentifier.utf8.count == 36)
    let stranger = try SimulatorCredential()
    let forged = client.ask(notification(try stranger.token(issuedAt: now)))
    #expect(forged?.body == #"{"reason":"InvalidProviderToken"}"#)
    let old = client.ask(notification(try credential.token(issuedAt: now - 4000)))
    #expect(old?.body == #"{"reason":"ExpiredProviderToken"}"#)
  }

  @Test func aSetClockMakesTokensOld() throws {
    let folder = try TemporaryFolder("simulator")
    let credential = try SimulatorCredential()
    let (simulator, ports, tls) = try startSecure(folder, credential)
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port, tls: tls)
    #expect(client.open())
    let token = try credential.token(issuedAt: client.loop.now.unixSeconds)
    #expect(client.ask(notification(token))?.status == 200)
    simulator.setClock(offsetSeconds: 4000)
    #expect(client.ask(notification(token))?.body == #"{"reason":"ExpiredProviderToken"}"#)
    // Answers carry its date.
    let ahead = client.dates.map { $0.map { $0 - client.loop.now.unixSeconds } ?? .min }
    #expect(ahead.count == 2 && (-60...1).contains(ahead[0]) && (3940...4001).contains(ahead[1]), "\(ahead)")
  }

  @Test(arguments: [true, false])
  func revokedKeysLoseTheirConnections(byAction: Bool) throws {
    let folder = try TemporaryFolder("simulator")
    let credential = try SimulatorCredential()
    let (simulator, ports, tls) = try startSecure(folder, credential)
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port, tls: tls)
    #expect(client.open())
    let token = try credential.token(issuedAt: client.loop.now.unixSeconds)
    #expect(client.ask(notification(token))?.status == 200)
    if byAction { try simulator.act("revoke=\(credential.key)") } else { simulator.revoke(key: credential.key) }
    #expect(client.run { $0.isClosed })
    let next = try SimulatorClient(ports.port, tls: tls)
    #expect(next.ask(notification(token))?.body == #"{"reason":"InvalidProviderToken"}"#)
  }

  @Test func writtenCredentialSigns() throws {
    let folder = try TemporaryFolder("simulator")
    let credential = try SimulatorCredential(team: "TEAMABCDEF", key: "KEYABCDEFG")
    let file = try credential.write(to: folder.path("credential"))
    let signer = try ProviderTokenSigner(file: file)
    #expect(signer.publicKeyPEM() == credential.signer.publicKeyPEM())
    #expect(!signer.isReadableByOthers)
    let json = JSONValue(Array(folder.read("credential/credential.json").utf8))
    #expect(json?["team_id"]?.string == "TEAMABCDEF")
    #expect(json?["key_id"]?.string == "KEYABCDEFG")
    #expect(json?["key_file"]?.string == file)
  }

  @Test func clientCertificates() throws {
    let folder = try TemporaryFolder("simulator")
    let authority = try CertificateFactory(commonName: "test CA")
    try authority.writeCertificate(to: folder.path("ca.pem"))
    try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"]))
      .write(certificateFile: folder.path("server.pem"), keyFile: folder.path("server-key.pem"))
    var request = CertificateFactory.Request(commonName: "Apple Push Services: com.example.app")
    request.userID = SimulatorRequests.app
    request.appleTopics = [SimulatorRequests.app, "app", SimulatorRequests.app + ".voip", "voip"]
    try authority.issue(request).write(certificateFile: folder.path("c.pem"), keyFile: folder.path("k.pem"))
    var options = SimulatorOptions()
    options.security = .files(
      certificate: folder.path("server.pem"), key: folder.path("server-key.pem"), clientAuthority: folder.path("ca.pem")
    )
    let simulator = try Simulator(options)
    let port = try simulator.start().port
    defer { simulator.stop() }
    let tls = try TLSContext.client(
      alpn: ["h2"], caFile: folder.path("ca.pem"),
      certificate: .pem(certificateFile: folder.path("c.pem"), keyFile: folder.path("k.pem")))
    let client = try SimulatorClient(port, tls: tls)
    #expect(client.ask(notification(nil))?.status == 200)
    let voip = SimulatorRequests.device(
      ["authorization": nil, "apns-topic": SimulatorRequests.app + ".voip", "apns-push-type": "voip"])
    #expect(client.ask(voip)?.status == 200)
    let other = SimulatorRequests.device(["authorization": nil, "apns-topic": "com.example.other"])
    #expect(client.ask(other)?.body == #"{"reason":"TopicDisallowed"}"#)
    #expect(client.limits.last == 1000)
    let bare = try SimulatorClient(port, tls: try TLSContext.client(alpn: ["h2"], caFile: folder.path("ca.pem")))
    #expect(bare.ask(notification(nil))?.body == #"{"reason":"MissingProviderToken"}"#)
  }

  @Test func slowHandshake() throws {
    let folder = try TemporaryFolder("simulator")
    let credential = try SimulatorCredential()
    let (simulator, ports, tls) = try startSecure(folder, credential) { options in
      options.faults = (try? [FaultRule("handshake=300")]) ?? []
    }
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port, tls: tls)
    let before = client.loop.now.monotonic
    #expect(client.open())
    #expect(client.loop.now.monotonic.milliseconds(since: before) >= 290)
  }

  // MARK: - Channels and broadcasts

  @Test func channelsAndBroadcasts() throws {
    var options = SimulatorOptions()
    options.checksCredentials = false
    let simulator = try Simulator(options)
    let ports = try simulator.start()
    defer { simulator.stop() }
    let manager = try SimulatorClient(try #require(ports.managePort))
    let created = try #require(manager.ask(SimulatorRequests.channel(["authorization": nil])))
    #expect(created.status == 201)
    #expect(!created.channel.isEmpty)
    let list = manager.ask(
      SimulatorRequests.channel(method: "GET", path: "/1/apps/\(SimulatorRequests.app)/all-channels", payload: ""))
    #expect(list?.body == #"{"channels":["\#(created.channel)"]}"#)
    let sender = try SimulatorClient(ports.port)
    #expect(sender.ask(SimulatorRequests.broadcast(["apns-channel-id": created.channel]))?.status == 200)
    let deleted = manager.ask(
      SimulatorRequests.channel(["apns-channel-id": created.channel], method: "DELETE", payload: ""))
    #expect(deleted?.status == 204)
    let late = sender.ask(SimulatorRequests.broadcast(["apns-channel-id": created.channel]))
    #expect(late?.body == #"{"reason":"ChannelNotRegistered"}"#)
    let ledger = simulator.ledger
    #expect(ledger.accepted == 1, "channel management accepts no notification")
    #expect(ledger.refused == 1)
    #expect(ledger.lastNotifications.map(\.entry.topic) == [SimulatorRequests.app], "the app of a broadcast")
  }

  // MARK: - The control port

  /// Sends one request and reads until the server closes; the status and the body.
  private func control(_ port: UInt16, _ method: String, _ path: String, _ body: String = "") throws -> (Int, String) {
    let exchange = try PlainExchange(port)
    return exchange.run(
      "\(method) \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
  }

  @Test func controlPort() throws {
    var options = SimulatorOptions()
    options.checksCredentials = false
    options.controlPort = 0
    let simulator = try Simulator(options)
    let ports = try simulator.start()
    defer { simulator.stop() }
    let port = try #require(ports.controlPort)
    #expect(try control(port, "POST", "/faults", "times=1,status=503,reason=Shutdown\nlatency=1").0 == 200)
    let client = try SimulatorClient(ports.port)
    let payload = #"{"aps":{"alert":{"title":"<Sale>","body":"A & B"},"badge":3}}"#
    let request = SimulatorRequests.device(["authorization": nil], payload: payload)
    #expect(client.ask(request)?.status == 503)
    #expect(client.ask(request)?.status == 200)
    let faults = try control(port, "GET", "/faults").1
    #expect(JSONValue(Array(faults.utf8))?.array?.count == 2)
    #expect(faults.contains(#""count":1"#))
    #expect(try control(port, "DELETE", "/faults/1").0 == 200)
    #expect(try control(port, "DELETE", "/faults/1").0 == 404)
    #expect(try control(port, "DELETE", "/faults").1 == "[]\n")
    let counters = JSONValue(Array(try control(port, "GET", "/counters").1.utf8))
    #expect(counters?["requests"]?.integer == 2)
    #expect(counters?["answers"]?["503 Shutdown"]?.integer == 1)
    let ledger = JSONValue(Array(try control(port, "GET", "/ledger").1.utf8))
    #expect(ledger?["requests"]?.array?.count == 2)
    let requestID = try #require(ledger?["requests"]?.array?.last?["apns_id"]?.string)
    #expect(try control(port, "GET", "/acceptances").1 == "\(requestID) 1\n")
    #expect(JSONValue(Array(try control(port, "GET", "/connections").1.utf8))?.array?.count == 1)
    let seen = JSONValue(Array(try control(port, "GET", "/notifications").1.utf8))
    #expect(seen?.array?.first?["payload"] == JSONValue(Array(payload.utf8)))
    let page = try control(port, "GET", "/").1
    #expect(page.contains("&lt;Sale&gt;"))
    #expect(page.contains("A &amp; B"))
    #expect(try control(port, "POST", "/faults", "nonsense").0 == 400)
    #expect(try control(port, "GET", "/nothing").0 == 404)
    #expect(try control(port, "POST", "/devices", SimulatorRequests.deviceToken + " unregistered 5").0 == 200)
    #expect(client.ask(request)?.body == #"{"reason":"Unregistered","timestamp":5}"#)
    #expect(try control(port, "POST", "/devices", SimulatorRequests.deviceToken + " ok").0 == 200)
    #expect(client.ask(request)?.status == 200)
    #expect(try control(port, "POST", "/actions", "goaway=all,reason=Shutdown").0 == 200)
    #expect(client.run { !$0.goAways.isEmpty })
    #expect(try control(port, "DELETE", "/ledger").0 == 200)
    #expect(simulator.ledger.requests == 0)
  }

  /// Longer than other connections wait for their end; more bytes than the sockets hold.
  @Test func aSlowReaderGetsAllOfALargeAnswer() throws {
    var options = SimulatorOptions()
    options.controlPort = 0
    let simulator = try Simulator(options)
    let port = try #require(try simulator.start().controlPort)
    defer { simulator.stop() }
    let reason = String(repeating: "x", count: 2_000)
    for _ in 0..<8_000 { _ = try simulator.add(fault: "status=400,reason=\(reason)") }
    let answer = LoopbackHTTP.request(
      "GET", "/faults", port: port, timeoutMilliseconds: 30_000, pauseMilliseconds: 2_500)
    #expect(answer?.status == 200)
    #expect((answer?.body.utf8.count ?? 0) > 16_000_000)
    #expect(answer?.body.hasSuffix("]\n") == true)
  }

  @Test func keysAndAppsAtTheControlPort() throws {
    var options = SimulatorOptions()
    options.acceptsAnyKey = true
    options.controlPort = 0
    let simulator = try Simulator(options)
    let ports = try simulator.start()
    defer { simulator.stop() }
    let port = try #require(ports.controlPort)
    let client = try SimulatorClient(ports.port)
    #expect(client.open())
    let now = client.loop.now
    func send(_ key: String, on client: SimulatorClient, topic: String = SimulatorRequests.app) -> String? {
      let token = "bearer " + SimulatorRequests.token(key: key, at: now)
      return client.ask(SimulatorRequests.device(["authorization": token, "apns-topic": topic])).map(\.body)
    }
    #expect(
      try control(port, "POST", "/keys", "KEY0000001 team=TEAM000001 topics=com.example.one/com.example.two").0 == 200)
    #expect(send("KEY0000001", on: client) == #"{"reason":"TopicDisallowed"}"#)
    #expect(send("KEY0000001", on: client, topic: "com.example.two") == "")
    #expect(send("KEY0000002", on: client) == #"{"reason":"UnrelatedKeyIdInToken"}"#)
    #expect(try control(port, "POST", "/keys", "KEY0000001 related=KEY0000002").0 == 200)
    #expect(send("KEY0000002", on: client) == "")
    #expect(try control(port, "POST", "/keys", "KEY0000001 environment=sandbox").0 == 200)
    #expect(send("KEY0000001", on: client, topic: "com.example.two") == #"{"reason":"BadEnvironmentKeyIdInToken"}"#)
    #expect(try control(port, "POST", "/keys", "KEY0000001 any").0 == 200)
    #expect(send("KEY0000001", on: client) == "")
    #expect(try control(port, "POST", "/keys", "KEY0000001 revoked").0 == 200)
    #expect(client.run { $0.isClosed })
    let next = try SimulatorClient(ports.port)
    #expect(send("KEY0000001", on: next) == #"{"reason":"InvalidProviderToken"}"#)
    for line in ["KEY0000009 topics=a", "KEY0000001 environment=moon", "KEY0000001"] {
      #expect(try control(port, "POST", "/keys", line).0 == 400, "\(line)")
    }

    #expect(try control(port, "POST", "/apps", "\(SimulatorRequests.app) broadcast=off").0 == 200)
    let token = "bearer " + SimulatorRequests.token(key: "KEY0000002", at: now)
    let manager = try SimulatorClient(try #require(ports.managePort))
    let request = SimulatorRequests.channel(["authorization": token])
    #expect(manager.ask(request)?.body == #"{"reason":"FeatureNotEnabled"}"#)
    #expect(try control(port, "POST", "/apps", "\(SimulatorRequests.app) broadcast=on").0 == 200)
    #expect(manager.ask(request)?.status == 201)
    #expect(try control(port, "POST", "/apps", "\(SimulatorRequests.app) broadcast=perhaps").0 == 400)
  }

  @Test(arguments: [
    "GET\r\n\r\n", "GET / HTTP/2\r\n\r\n", "POST /faults HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "POST /faults HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /faults HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
  ])
  func brokenControlRequests(_ text: String) throws {
    var options = SimulatorOptions()
    options.controlPort = 0
    let simulator = try Simulator(options)
    let port = try #require(try simulator.start().controlPort)
    defer { simulator.stop() }
    #expect((400...431).contains(try PlainExchange(port).run(text).0))
    #expect(try control(port, "GET", "/counters").0 == 200)
  }
}

/// One exchange in plain bytes over TCP.
private final class PlainExchange: TransportDelegate {
  private let loop: EventLoop
  private var transport: Transport?
  private var isClosed = false

  init(_ port: UInt16) throws {
    loop = try EventLoop()
    transport = Transport.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: port), tls: nil, delegate: self)
  }

  /// Sends the text and reads to the end; 0 and nothing if none came within five seconds.
  func run(_ text: String) -> (Int, String) {
    transport?.outbound.append(text)
    transport?.setNeedsFlush()
    var isOver = false
    loop.schedule(afterMilliseconds: 5000) { isOver = true }
    while !isClosed && !isOver {
      loop.poll(maximumWaitMilliseconds: 100)
      loop.flush()
    }
    let answer = transport?.inbound.withBytes { String(bytes: $0) } ?? ""
    let parts = answer.split(separator: "\r\n\r\n", maxSplits: 1).map(String.init)
    let words = parts.first?.split(separator: " ") ?? []
    return (words.count > 1 ? Int(words[1]) ?? 0 : 0, parts.count > 1 ? parts[1] : "")
  }

  func transportDidOpen(_ transport: Transport) {}
  func transportDidReceive(_ transport: Transport) {}
  func transportDidClose(_ transport: Transport, error: TransportError?) { isClosed = true }
}
