import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings
import Testing

/// The service against a scripted APNs: the requests that it sends, and its report for every way in which a request ends.
@Suite struct APNsPushServiceTests {
  @Test(.timeLimit(.minutes(5))) func aRequestOnTheWireOverTLS() throws {
    let bench = try APNsTestBench(isTLS: true)
    var job = bench.job()
    job.priority = 5
    job.expiration = 0
    let start = job.bytes.count
    job.bytes.append(contentsOf: Array("order-123".utf8))
    job.collapseID = ByteRange(start: start, count: 9)
    let ticket = bench.send(job, apnsID: UUIDValue(high: 0x8c1f_6f0e_3a57_4d0c, low: 0x9f0e_2f3f_6d1c_7a11))
    #expect(ticket != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    let request = try #require(bench.server.requests.first)
    #expect(request.path == "/3/device/00fc13adff785122")
    #expect(request.topic == "com.example.app")
    #expect(request.pushType == "alert")
    #expect(request.apnsID == "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11")
    #expect(request.priority == "5")
    #expect(request.expiration == "0")
    #expect(request.collapseID == "order-123")
    #expect(request.authority == "127.0.0.1:\(bench.server.port)")
    #expect(request.body == #"{"aps":{"alert":"hello"}}"#)
    #expect(request.authorization.hasPrefix("bearer "))
    let verifier = try ProviderTokenVerifier(publicKeyPEM: bench.files.signer.publicKeyPEM())
    let verified = try verifier.verify(Array(request.authorization.dropFirst(7).utf8))
    #expect(verified.teamID == Array("DEF123GHIJ".utf8))
    #expect(verified.keyID == Array("ABC123DEFG".utf8))
    #expect(abs(verified.issuedAt - bench.loop.now.unixSeconds) < 60)
    let answer = bench.answers[0]
    #expect(answer.ticket == ticket)
    #expect(answer.kind == .response)
    #expect(answer.status == 200)
    #expect(answer.reason == nil)
    #expect(bench.service.counters.accepted == 1)
    #expect(bench.service.counters.requestDuration.count == 1)
  }

  @Test(.timeLimit(.minutes(5))) func headersThatAJobDoesNotHaveAreNotSent() throws {
    let bench = try APNsTestBench()
    for _ in 0..<3 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { bench.answers.count == 3 })
    for request in bench.server.requests {
      #expect(request.priority == "" && request.expiration == "" && request.collapseID == "")
      #expect(request.path == "/3/device/00fc13adff785122")
      #expect(request.apnsID == "00000000-0000-0001-0000-000000000002")
    }
  }

  @Test(.timeLimit(.minutes(5))) func aBroadcastOnTheWire() throws {
    let bench = try APNsTestBench()
    var job = APNsTestFiles.job(app: "com.example.app", token: "dHN0LXNyY2gtY2hubA==", type: .liveactivity)
    job.targetKind = .channel
    job.expiration = bench.loop.now.unixSeconds + 600
    #expect(bench.send(job) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    let request = try #require(bench.server.requests.first)
    #expect(request.path == "/4/broadcasts/apps/com.example.app")
    #expect(request.channelID == "dHN0LXNyY2gtY2hubA==")
    #expect(request.requestID == "00000000-0000-0001-0000-000000000002")
    #expect(request.topic == "" && request.apnsID == "")
    #expect(request.pushType == "liveactivity")
    #expect(request.expiration == "\(job.expiration ?? 0)")
    #expect(request.priority == "10", "what Apple takes an absent one for, said")
    #expect(bench.service.poolSnapshots(now: bench.loop.now).map(\.kind) == [.broadcast])
  }

  @Test(.timeLimit(.minutes(5))) func refusalsAreReadWhateverTheirBody() throws {
    let bench = try APNsTestBench()
    let bodies: [(Int, String)] = [
      (410, #"{"reason":"Unregistered","timestamp":1454948015990}"#),
      (400, #"{ "timestamp" : 7, "reason" : "BadPriority" }"#),
      (500, ""), (400, "<html>"), (403, #"{"reason":"NeverSeenBefore"}"#), (503, #"{"reason":"Shutdown""#),
      (429, #"{"reason":7}"#), (400, #"{"other":{"reason":"x"},"reason":"BadTopic"}"#),
      (400, #"{"reason":"BadMessageId","more":"\#(String(repeating: "x", count: 100_000))"}"#),
    ]
    bench.server.answer = { server, request in
      let (status, body) = bodies[server.requests.count - 1]
      server.respond(request, status: status, body: body)
    }
    for index in bodies.indices {
      #expect(bench.send(bench.job("\(index)0fc13adff785122")) != nil)
      #expect(bench.turn { bench.answers.count == index + 1 })
    }
    #expect(bench.answers.map { Int($0.status) } == bodies.map(\.0))
    #expect(
      bench.answers.map(\.reason) == [
        .unregistered, .badPriority, nil, nil, .other("NeverSeenBefore"), .shutdown, nil, .badTopic, .badMessageId,
      ])
    #expect(bench.answers[0].unregisteredAt == 1_454_948_015_990)
    #expect(bench.answers[1].unregisteredAt == nil)
    #expect(bench.service.counters.refusals[.init(status: 410, reason: .unregistered)] == 1)
  }

  @Test(.timeLimit(.minutes(5))) func aRefusedTokenGoesOverAConnectionOfItsOwn() throws {
    let bench = try APNsTestBench()
    bench.server.answer = { server, request in
      if server.requests.count == 1 {
        server.respond(request, status: 400, body: #"{"reason":"BadDeviceToken"}"#)
      } else {
        server.respond(request)
      }
    }
    for index in 0..<3 {
      #expect(bench.send(bench.job("bad013adff785122")) != nil)
      #expect(bench.send(bench.job("00fc13adff785122")) != nil)
      #expect(bench.turn { bench.answers.count == 2 * (index + 1) })
    }
    let bad = bench.server.requests.filter { $0.path.hasSuffix("bad013adff785122") }.map(\.connection)
    let good = bench.server.requests.filter { $0.path.hasSuffix("00fc13adff785122") }.map(\.connection)
    #expect(bad == [0, 1, 0], "bad after its refusal, trusted again after its acceptance")
    #expect(good == [0, 0, 0])
  }

  @Test(.timeLimit(.minutes(5))) func aDeviceThatGotTooMuchIsLeftAlone() throws {
    let bench = try APNsTestBench()
    bench.server.answer = { server, request in
      if server.requests.count == 1 {
        server.respond(request, status: 429, body: #"{"reason":"TooManyRequests"}"#)
      } else {
        server.respond(request)
      }
    }
    #expect(bench.send(bench.job("b05013adff785122")) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    let (decision, _) = bench.trySend(bench.job("b05013adff785122"))
    guard case .paused(let milliseconds) = decision else {
      Issue.record("\(decision)")
      return
    }
    #expect((1...1001).contains(milliseconds))
    #expect(bench.send(bench.job("00fc13adff785122")) != nil, "others go on")
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.send(bench.job("b05013adff785122")) != nil, "and it too, after a second")
  }

  @Test(.timeLimit(.minutes(5))) func goAwayGivesBackWhatWasNotProcessedAndLetsTheRestFinish() throws {
    let bench = try APNsTestBench()
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    var tickets: [Ticket] = []
    for _ in 0..<10 {
      let sent = bench.send(bench.job())
      tickets.append(try #require(sent))
    }
    #expect(bench.turn { held.count == 10 })
    let middle = held[4]
    bench.server.connections[0].goAway(
      lastStreamID: middle.stream, code: .noError, debug: Array(#"{"reason":"Shutdown"}"#.utf8))
    bench.server.answer = nil
    #expect(bench.turn { bench.answers.count == 6 })
    for request in held[0...4] { bench.server.respond(request) }
    #expect(bench.turn { bench.answers.count == 11 })
    let reported = Dictionary(uniqueKeysWithValues: bench.answers.map { ($0.ticket, $0.kind) })
    #expect(
      tickets.map { reported[$0] } == Array(repeating: .response, count: 5) + Array(repeating: .notProcessed, count: 5))
    #expect(bench.service.counters.goAways == ["Shutdown": 1])
    #expect(bench.send(bench.job()) != nil, "another connection takes over")
    #expect(bench.turn { bench.answers.count == 12 })
    #expect(bench.server.requests.last?.connection == 1)
    #expect(bench.turn { bench.service.counters.ended(for: .goAway) == 1 })
  }

  @Test(.timeLimit(.minutes(5))) func streamsFollowSettingsDownAndUp() throws {
    var settings = HTTP2ServerSettings()
    settings.maximumStreams = 4
    let bench = try APNsTestBench(settings: settings) { $0.connectionsMaximum = 1 }
    var held: [APNsTestServer.Request] = []
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    bench.server.answer = { _, request in held.append(request) }
    for _ in 0..<4 { #expect(bench.trySend(bench.job()).0 == .sent) }
    #expect(bench.trySend(bench.job()).0 == .noRoom)
    bench.loop.flush()
    #expect(bench.turn { held.count == 4 })
    bench.server.connections[0].changeMaximumStreams(1)
    for request in held[0..<3] { bench.server.respond(request) }
    #expect(bench.turn { bench.answers.count == 4 })
    #expect(bench.trySend(bench.job()).0 == .noRoom, "one is still in flight, and one is all there may be")
    bench.server.respond(held[3])
    #expect(bench.turn { bench.answers.count == 5 })
    #expect(bench.trySend(bench.job()).0 == .sent)
    #expect(bench.trySend(bench.job()).0 == .noRoom)
    bench.server.connections[0].changeMaximumStreams(100)
    #expect(bench.turn { bench.trySend(bench.job()).0 == .sent })
    #expect(bench.server.connections.count == 1)
    #expect(bench.server.connections[0].counters.streamsOverLimit == 0)
  }

  @Test(.timeLimit(.minutes(5))) func growsUnderLoadAndSpreads() throws {
    var settings = HTTP2ServerSettings()
    settings.maximumStreams = 2
    let bench = try APNsTestBench(settings: settings) { $0.connectionsMaximum = 3 }
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    for _ in 0..<6 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { held.count == 6 })
    #expect(Set(held.map(\.connection)) == [0, 1, 2])
    for _ in 0..<20 {
      #expect(bench.trySend(bench.job()).0 == .noRoom)
      bench.turn()
    }
    #expect(bench.server.connections.count == 3)
    let snapshot = try #require(bench.service.poolSnapshots(now: bench.loop.now).first)
    #expect(snapshot.ready == 3 && snapshot.streamsInFlight == 6 && snapshot.streamLimit == 6)
  }

  @Test(.timeLimit(.minutes(5))) func aRefusedConnectionIsTriedLaterAndLater() throws {
    let listener = try APNsTestServer(loop: EventLoop(), tls: nil)
    let port = listener.port
    listener.stopListening()
    let bench = try APNsTestBench(port: port) { $0.poolLimits.breakerFailures = 3 }
    #expect(
      bench.turn {
        _ = bench.trySend(bench.job())
        return bench.service.counters.connectionsFailed >= 4
      })
    #expect(bench.notices.count { $0.contains("cannot connect") } == 2, "once for the reason, once for the breaker")
    let snapshot = try #require(bench.service.poolSnapshots(now: bench.loop.now).first)
    #expect(snapshot.failures >= 4)
    #expect(snapshot.lastError != nil)
    #expect(snapshot.backoffMilliseconds > 0)
  }

  @Test(.timeLimit(.minutes(5))) func aPeerWithoutTLSSaysSo() throws {
    // The bench's own server speaks plaintext; the service expects TLS.
    let plain = try APNsTestBench()
    let files = try APNsTestFiles()
    let host = try #require(APNsHost(url: "https://127.0.0.1:\(plain.server.port)"))
    let service = APNsPushService(
      loop: plain.loop,
      credentials: try Credentials(
        [
          CredentialConfiguration(
            name: "main", kind: .token(teamID: "T", keyID: "K", keyFile: files.keyFile), environments: [.production],
            apps: ["com.example.app"])
        ]),
      configuration: APNsPushServiceConfiguration(
        production: host, sandbox: host, broadcastProduction: host, broadcastSandbox: host), seed: 2)
    let job = plain.job()
    let pool = try service.route(for: job)
    #expect(
      plain.turn {
        _ = service.send(
          job, target: 0, apnsID: UUIDValue(high: 0, low: 1), pool: pool, ticket: Ticket(index: 1, generation: 1),
          jobClass: .transactional, transactionalInFlight: nil, now: plain.loop.now)
        service.maintain(now: plain.loop.now)
        return service.counters.connectionsFailed == 1
      })
    #expect(service.takeNotice()?.text.contains("cannot connect") == true)
  }

  @Test(.timeLimit(.minutes(5))) func verdictsReachConnectionTokenAndPauses() throws {
    let bench = try APNsTestBench()
    var next = (403, #"{"reason":"InvalidProviderToken"}"#)
    bench.server.answer = { server, request in server.respond(request, status: next.0, body: next.1) }
    bench.judge = { service, answer, now in
      let verdict = Verdict(answer, tokenRegisteredAt: nil, resends: 0)
      if verdict.concernsService { service.apply(verdict, topic: "com.example.app", pool: PoolIndex(0), now: now) }
    }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    guard case .paused(let wait) = bench.trySend(bench.job()).0 else {
      Issue.record("an invalid provider token pauses the credential")
      return
    }
    #expect(wait > 14_000 && wait <= 15_001)
    var sandbox = bench.job()
    sandbox.environment = .sandbox
    #expect(bench.trySend(sandbox).0 != .noRoom, "the credential is paused in its other environment too")
    #expect(bench.notices.count { $0.contains("InvalidProviderToken") } == 1)
    #expect(bench.service.counters.pauses == 1)
    next = (200, "")
  }

  @Test(.timeLimit(.minutes(5))) func shutdownClosesTheConnectionAndTheNextTakesOver() throws {
    let bench = try APNsTestBench()
    bench.server.answer = { server, request in
      if server.requests.count == 1 {
        server.respond(request, status: 503, body: #"{"reason":"Shutdown"}"#)
      } else {
        server.respond(request)
      }
    }
    bench.judge = { service, answer, now in
      let verdict = Verdict(answer, tokenRegisteredAt: nil, resends: 0)
      if verdict.concernsService { service.apply(verdict, topic: "com.example.app", pool: PoolIndex(0), now: now) }
    }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.server.requests.map(\.connection) == [0, 1])
    #expect(bench.turn { bench.service.counters.ended(for: .advised) == 1 })
  }

  @Test(.timeLimit(.minutes(5))) func aFreshTokenCalledExpiredBlamesTheClock() throws {
    let bench = try APNsTestBench()
    bench.server.answer = { server, request in
      server.respond(request, status: 403, body: #"{"reason":"ExpiredProviderToken"}"#)
    }
    bench.judge = { service, answer, now in
      let verdict = Verdict(answer, tokenRegisteredAt: nil, resends: 0)
      if verdict.concernsService { service.apply(verdict, topic: "com.example.app", pool: PoolIndex(0), now: now) }
    }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    bench.turn()
    #expect(bench.notices.contains { $0.contains("check the clock") })
    #expect(bench.service.counters.clockSuspicions == 1)
    #expect(bench.credentials.tokens.snapshots().first?.refreshes == 1, "no token is made in vain")
  }

  @Test(.timeLimit(.minutes(5))) func aWrongClockIsFoundInTheDatesOfAnswersAndSaidOnce() throws {
    let bench = try APNsTestBench()
    bench.server.date = "Sun, 06 Nov 1994 08:49:37 GMT"
    for _ in 0..<3 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { bench.answers.count == 3 })
    bench.server.answer = { server, request in server.respond(request, status: 500) }
    for _ in 0..<3 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { bench.answers.count == 6 })
    bench.turn()
    #expect(bench.notices.count { $0.contains("ahead of APNs'") && $0.contains("check the clock") } == 1)
    #expect((bench.service.clockSkewSeconds ?? 0) < -86_400)
  }

  @Test(.timeLimit(.minutes(5))) func closingFinishesWhatIsInFlight() throws {
    let bench = try APNsTestBench()
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { held.count == 1 })
    bench.service.close()
    #expect(bench.trySend(bench.job()).0 == .noRoom)
    bench.turn()
    #expect(!bench.service.isClosed)
    bench.server.respond(held[0])
    #expect(bench.turn { bench.service.isClosed })
    #expect(bench.answers.map(\.status) == [200])
  }

  @Test func hostsAreReadFromURLs() {
    #expect(APNsHost(url: "https://api.push.apple.com:443")?.authority == "api.push.apple.com")
    #expect(APNsHost(url: "https://api.push.apple.com")?.endpoint == Endpoint(host: "api.push.apple.com", port: 443))
    #expect(APNsHost(url: "https://api.push.apple.com:2197/")?.authority == "api.push.apple.com:2197")
    #expect(APNsHost(url: "https://[::1]:8443")?.endpoint == Endpoint(host: "::1", port: 8443))
    #expect(APNsHost(url: "http://127.0.0.1:9000")?.isPlaintext == true)
    for wrong in [
      "", "api.push.apple.com", "ftp://a", "https://", "https://a:0", "https://a:99999", "https://a/b", "https://u@a",
    ] {
      #expect(APNsHost(url: wrong) == nil, "\(wrong)")
    }
  }
}
