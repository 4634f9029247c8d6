import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings
import PushWorker
import TestSupport
import Testing

/// Credentials that change while the service runs: which connections stay, which are replaced, which close at once.
@Suite struct APNsReloadTests {
  private func configuration(
    _ bench: APNsTestBench, name: String = "main", key: String = "ABC123DEFG", file: String? = nil,
    apps: [String] = ["com.example.app"], related: String? = nil
  ) -> CredentialConfiguration {
    CredentialConfiguration(
      name: name, kind: .token(teamID: "DEF123GHIJ", keyID: key, keyFile: file ?? bench.files.keyFile),
      environments: [.production, .sandbox], apps: apps, relatedKeyID: related)
  }

  private func reload(
    _ bench: APNsTestBench, _ configurations: [CredentialConfiguration], revoked: Set<String> = []
  ) throws {
    bench.service.replaceCredentials(
      try Credentials(
        configurations, caFile: bench.files.authorityFile, tokens: bench.credentials.tokens,
        replacing: bench.credentials), revoked: revoked)
  }

  private func anotherKey(_ bench: APNsTestBench) throws -> String {
    let signer = try ProviderTokenSigner(newKeyFor: "another")
    return try bench.files.folder.write(String(decoding: signer.privateKeyPEM(), as: UTF8.self), to: "Another.p8")
  }

  /// A service with one request in flight, which the server holds back.
  private func busyBench() throws -> (APNsTestBench, APNsTestServer.Request) {
    let bench = try APNsTestBench()
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { held.count == 1 })
    bench.server.answer = nil
    return (bench, try #require(held.first))
  }

  @Test(.timeLimit(.minutes(5))) func aRevokedCredentialIsClosedAtOnceUntilAReload() throws {
    let (bench, _) = try busyBench()
    bench.service.revoke(credential: "nobody")
    bench.service.revoke(credential: "main")
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.answers[1].kind == .lost, "it may have been sent")
    #expect(bench.service.counters.ended(for: .retired) == 1)
    #expect(bench.notices.count { $0.contains("revoked: its connections are closed") } == 1)
    for _ in 0..<20 {
      #expect(bench.trySend(bench.job()).0 == .paused(retryAfterMilliseconds: 15_000))
      bench.turn()
    }
    #expect(bench.server.connections.count == 1, "none is opened")
    try reload(bench, [configuration(bench, key: "XYZ123DEFG", file: try anotherKey(bench))])
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 3 })
    #expect(bench.answers[2].status == 200)
    #expect(bench.server.requests.map(\.connection) == [0, 0, 1])
  }

  @Test(.timeLimit(.minutes(5))) func aRevokedCredentialThatAReloadKeepsIsUsedAgain() throws {
    let (bench, _) = try busyBench()
    bench.service.revoke(credential: "main")
    #expect(bench.turn { bench.answers.count == 2 })
    try reload(bench, [configuration(bench)])
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 3 })
    #expect(Set(bench.server.requests.map(\.authorization)).count == 1, "with the token that it had")
  }

  /// A touched key file, or SIGHUP: what an operator revoked stays so.
  @Test(.timeLimit(.minutes(5))) func aReload_mayLeaveACredentialRevoked() throws {
    let (bench, _) = try busyBench()
    bench.service.revoke(credential: "main")
    #expect(bench.turn { bench.answers.count == 2 })
    try reload(bench, [configuration(bench)], revoked: ["main"])
    for _ in 0..<20 {
      #expect(bench.trySend(bench.job()).0 == .paused(retryAfterMilliseconds: 15_000))
      bench.turn()
    }
    #expect(bench.server.connections.count == 1, "none is opened")
    try reload(bench, [configuration(bench)])
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 3 })
  }

  @Test(.timeLimit(.minutes(5))) func whatDidNotChangeGoesOn() throws {
    let (bench, held) = try busyBench()
    try reload(bench, [configuration(bench)])
    #expect(bench.send(bench.job()) != nil)
    bench.server.respond(held)
    #expect(bench.turn { bench.answers.count == 3 })
    #expect(bench.server.connections.count == 1)
    #expect(Set(bench.server.requests.map(\.authorization)).count == 1)
  }

  @Test(.timeLimit(.minutes(5))) func anotherKeyGetsNewConnectionsAndTheOldOnesFinish() throws {
    let (bench, held) = try busyBench()
    try reload(bench, [configuration(bench, key: "XYZ123DEFG", file: try anotherKey(bench))])
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.server.requests.map(\.connection) == [0, 0, 1])
    #expect(Set(bench.server.requests.map(\.authorization)).count == 2)
    bench.server.respond(held)
    #expect(bench.turn { bench.answers.count == 3 })
    #expect(bench.answers.allSatisfy { $0.status == 200 }, "nothing was lost")
    #expect(bench.turn { bench.service.counters.ended(for: .retired) == 1 })
  }

  @Test(.timeLimit(.minutes(5))) func anotherKeyUnderTheSameIdsIsAnotherKey() throws {
    let bench = try APNsTestBench()
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    try reload(bench, [configuration(bench, file: try anotherKey(bench))])
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.server.requests.map(\.connection) == [0, 1])
    #expect(Set(bench.server.requests.map(\.authorization)).count == 2)
    #expect(bench.credentials.tokens.snapshots().count == 1)
  }

  /// Nobody renews the token of a key that is gone or revoked: its age alarms nobody.
  @Test func aKeyThatIsNotUsed_hasNoAge() throws {
    let bench = try APNsTestBench()
    #expect(bench.send(bench.job()) != nil)
    func ages(_ credentials: Credentials, revoked: Set<String> = []) -> [String] {
      let metrics = MetricsText.make([], tokens: credentials.tokenSnapshots(revoked: revoked), certificates: [])
      return metrics.split(separator: "\n").filter { $0.hasPrefix("herald_provider_token_issued_timestamp_seconds{") }
        .map { String($0.split(separator: " ")[0].dropFirst(46)) }
    }
    func replaced(_ configurations: [CredentialConfiguration], _ older: Credentials) throws -> Credentials {
      let newer = try Credentials(
        configurations, caFile: bench.files.authorityFile, tokens: older.tokens, replacing: older)
      bench.service.replaceCredentials(newer)
      return newer
    }
    let first = bench.credentials
    #expect(ages(first) == [#"{key_id="ABC123DEFG"}"#])
    #expect(ages(first, revoked: ["main"]) == [])
    let file = try anotherKey(bench)
    let rotated = try replaced([configuration(bench, key: "XYZ123DEFG", file: file)], first)
    #expect(ages(rotated) == [#"{key_id="XYZ123DEFG"}"#])
    // The key under two names, one of them revoked; then a channel client alone uses another key.
    let both = try replaced(
      ["main", "twin"].map { configuration(bench, name: $0, key: "XYZ123DEFG", file: file) }, rotated)
    #expect(ages(both, revoked: ["main"]) == [#"{key_id="XYZ123DEFG"}"#])
    let removed = try replaced([configuration(bench, name: "new", key: "NEW123DEFG", file: file)], both)
    #expect(ages(removed) == [])
    let handle = try #require(removed.all.last??.tokenHandle)
    #expect(removed.tokens.current(handle, now: bench.loop.tokenNow, random: 0) != nil)
    #expect(ages(removed) == [], "it is renewed when it is needed again")
  }

  /// A key that was in use has its token again before the next job, so that it never gets old: under another name, back, or no longer revoked.
  @Test func aKeyThatWasUsed_isKeptYoung() throws {
    let bench = try APNsTestBench()
    #expect(bench.send(bench.job()) != nil)
    var credentials = bench.credentials
    let file = try anotherKey(bench)
    func isReady(_ configurations: [CredentialConfiguration], revoked: Set<String> = []) throws -> Bool {
      credentials = try Credentials(
        configurations, caFile: bench.files.authorityFile, tokens: credentials.tokens, replacing: credentials)
      bench.service.replaceCredentials(credentials, revoked: revoked)
      guard revoked.isEmpty else { return false }
      return bench.service.hasToken(for: try bench.service.route(for: bench.job()))
    }
    #expect(try isReady([configuration(bench, name: "renamed")]))
    #expect(try !isReady([configuration(bench, name: "other", key: "XYZ123DEFG", file: file)]))
    #expect(try isReady([configuration(bench, name: "back")]))
    bench.service.revoke(credential: "back")
    #expect(try !isReady([configuration(bench, name: "back")], revoked: ["back"]))
    #expect(try isReady([configuration(bench, name: "back")]))
  }

  @Test(.timeLimit(.minutes(5))) func aRelatedKeyGoesOnOverTheSameConnections() throws {
    let (bench, held) = try busyBench()
    try reload(bench, [configuration(bench, key: "XYZ123DEFG", file: try anotherKey(bench), related: "ABC123DEFG")])
    #expect(bench.send(bench.job()) != nil)
    bench.server.respond(held)
    #expect(bench.turn { bench.answers.count == 3 })
    #expect(bench.server.connections.count == 1)
    #expect(Set(bench.server.requests.map(\.authorization)).count == 2, "with the new key's token")
  }

  @Test(.timeLimit(.minutes(5))) func newAppsGetNewConnections() throws {
    let bench = try APNsTestBench()
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    try reload(bench, [configuration(bench, apps: ["com.example.app", "com.example.other"])])
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.server.requests.map(\.connection) == [0, 1])
    #expect(Set(bench.server.requests.map(\.authorization)).count == 1, "but no new token")
  }

  @Test(.timeLimit(.minutes(5))) func aRevokedCredentialIsClosedAtOnce() throws {
    let (bench, _) = try busyBench()
    try reload(bench, [configuration(bench, name: "other", key: "XYZ123DEFG", file: try anotherKey(bench))])
    bench.turn()
    #expect(bench.answers.last?.kind == .lost, "ambiguous: it may have been processed")
    #expect(bench.turn { bench.service.counters.ended(for: .retired) == 1 })
    #expect(bench.notices.contains { $0.contains("gone from the configuration") })
    #expect(
      bench.service.send(
        bench.job(), target: 0, apnsID: UUIDValue(high: 1, low: 3), pool: PoolIndex(0),
        ticket: Ticket(index: 9, generation: 1), jobClass: .transactional, transactionalInFlight: nil,
        now: bench.loop.now)
        == .paused(retryAfterMilliseconds: 1),
      "a job that was routed before comes back and is routed anew")
  }

  @Test(.timeLimit(.minutes(5))) func aPauseEndsOnlyWhereTheCredentialChanged() throws {
    let bench = try APNsTestBench()
    bench.server.answer = { server, request in
      server.respond(request, status: 403, body: #"{"reason":"InvalidProviderToken"}"#)
    }
    bench.judge = { service, answer, now in
      let verdict = Verdict(answer, tokenRegisteredAt: nil, resends: 0)
      if verdict.concernsService { service.apply(verdict, topic: "com.example.app", pool: PoolIndex(0), now: now) }
    }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    func isPaused() -> Bool {
      if case .paused = bench.trySend(bench.job()).0 { return true }
      return false
    }
    bench.turn()
    #expect(isPaused())
    try reload(bench, [configuration(bench)])
    #expect(isPaused(), "a reload mends nothing by itself")
    try reload(bench, [configuration(bench, file: try anotherKey(bench))])
    #expect(!isPaused(), "another key may be right")
  }
}
