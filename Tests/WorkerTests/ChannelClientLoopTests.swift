import PushChannels
import PushCore
import PushCredentials
import PushIO
import PushSettings
import Testing

/// The channel client on a loop, turn by turn, against a server that records the exact requests.
@Suite(.timeLimit(.minutes(1)))
struct ChannelClientLoopTests {
  /// Both ends on one loop.
  private final class Bench {
    let files: APNsTestFiles
    let loop: EventLoop
    let server: APNsTestServer
    let client: ChannelClient
    private var credentials: Credentials
    private(set) var results: [Result<ChannelAnswer, ChannelFailure>] = []

    init() throws {
      files = try APNsTestFiles()
      loop = try EventLoop()
      server = try APNsTestServer(loop: loop, tls: nil)
      guard let host = APNsHost(url: "http://127.0.0.1:\(server.port)") else { throw APNsTestFailure("no host") }
      var configuration = ChannelClientConfiguration(production: host, sandbox: host)
      configuration.reconnectMilliseconds = 1
      credentials = try Credentials([Bench.credential(files)])
      client = ChannelClient(loop: loop, credentials: credentials, configuration: configuration, seed: 1)
    }

    private static func credential(
      _ files: APNsTestFiles, keyID: String = "ABC123DEFG", app: String = "com.example.app"
    ) -> CredentialConfiguration {
      CredentialConfiguration(
        name: "main", kind: .token(teamID: "DEF123GHIJ", keyID: keyID, keyFile: files.keyFile),
        environments: [.production, .sandbox], apps: [app])
    }

    /// Replaces the credentials as a reload does, with the same provider tokens.
    func reload(keyID: String, app: String = "com.example.app") throws {
      credentials = try Credentials(
        [Bench.credential(files, keyID: keyID, app: app)], tokens: credentials.tokens, replacing: credentials)
      client.replaceCredentials(credentials)
    }

    func revoke() { client.revoke(credential: "main") }

    func ask(
      _ operation: ChannelRequest.Operation, _ environment: APNsEnvironment = .production, requestID: UUIDValue? = nil
    ) {
      guard let scope = AppScope(app: "com.example.app", environment: environment) else {
        preconditionFailure("a bundle id")
      }
      client.perform(ChannelRequest(operation, in: scope, requestID: requestID)) { [weak self] in
        self?.results.append($0)
      }
    }

    /// Turns until the condition holds; false: not in time.
    func turn(until isDone: () -> Bool) -> Bool {
      let start = ContinuousClock.now
      while !isDone() {
        loop.poll(maximumWaitMilliseconds: 5)
        client.turn()
        server.turn()
        loop.flush()
        if ContinuousClock.now - start > .seconds(15) { return false }
      }
      return true
    }
  }

  private static let id = ChannelID(text: "dHN0LXNyY2gtY2hubA==")!
  private static let requestID = UUIDValue(high: 0x2288_CF3F_70D8_46A6, low: 0x97D7_DD5D_0086_7127)

  @Test(
    arguments: [
      (
        .create(.mostRecent), "POST /1/apps/com.example.app/channels",
        #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
      ),
      (.read(id), "GET /1/apps/com.example.app/channels", ""),
      (.delete(id), "DELETE /1/apps/com.example.app/channels", ""),
      (.list, "GET /1/apps/com.example.app/all-channels", ""),
    ] as [(ChannelRequest.Operation, String, String)])
  func whatIsSent(_ operation: ChannelRequest.Operation, _ line: String, _ body: String) throws {
    let bench = try Bench()
    bench.ask(operation, requestID: ChannelClientLoopTests.requestID)
    #expect(bench.turn { bench.server.requests.count == 1 })
    let seen = try #require(bench.server.requests.first)
    #expect("\(seen.method) \(seen.path)" == line && seen.body == body)
    #expect(seen.authority == "127.0.0.1:\(bench.server.port)")
    #expect(seen.authorization.hasPrefix("bearer ey"))
    #expect(seen.requestID == "2288cf3f-70d8-46a6-97d7-dd5d00867127")
    let isOfAChannel = line.hasSuffix("/channels") && !line.hasPrefix("POST")
    #expect(seen.channelID == (isOfAChannel ? ChannelClientLoopTests.id.text : ""))
    let strangers = [seen.topic, seen.pushType, seen.priority, seen.expiration, seen.collapseID, seen.apnsID]
    #expect(strangers == Array(repeating: "", count: 6), "headers of notifications")
  }

  /// 201 without an id: the channel exists, and its id is unknown.
  @Test func aCreateWithoutAnID() throws {
    let bench = try Bench()
    bench.server.answer = { server, request in server.respond(request, status: 201) }
    bench.ask(.create(.none))
    #expect(bench.turn { bench.results.count == 1 })
    guard case .failure(let failure)? = bench.results.first else { throw APNsTestFailure("it failed not") }
    #expect(failure.kind == .notUnderstood(status: 201, text: "it has no apns-channel-id") && failure.isAmbiguous)
  }

  @Test func environmentsHaveConnectionsOfTheirOwn() throws {
    let bench = try Bench()
    bench.server.answer = { server, request in server.respond(request, body: #"{"channels":[]}"#) }
    for environment in APNsEnvironment.allCases { for _ in 0..<3 { bench.ask(.list, environment) } }
    #expect(bench.turn { bench.results.count == 6 })
    #expect(bench.server.connections.count == 2 && bench.client.inFlight == 0)
    #expect(Set(bench.server.requests.map(\.requestID)).count == 6, "an id is drawn for each")
    bench.client.close()
    #expect(bench.turn { bench.client.isClosed })
    bench.ask(.list)
    guard case .failure(let failure)? = bench.results.last else { throw APNsTestFailure("it is closed") }
    #expect(failure.kind == .closed)
  }

  @Test func reloadedCredentials() throws {
    let bench = try Bench()
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    bench.ask(.list)
    #expect(bench.turn { held.count == 1 })
    // The same key and apps: the connection stays.
    try bench.reload(keyID: "ABC123DEFG")
    bench.ask(.list)
    #expect(bench.turn { held.count == 2 })
    #expect(held.map(\.connection) == [0, 0])
    // Another key: requests on the wire finish; new and waiting ones take a new connection.
    bench.ask(.list)
    try bench.reload(keyID: "ABC123DEFH")
    #expect(bench.turn { held.count == 3 })
    #expect(held[2].connection != held[1].connection)
    for request in held { bench.server.respond(request, body: #"{"channels":[]}"#) }
    #expect(bench.turn { bench.results.count == 3 })
    let contents = bench.results.map { try? $0.get().content }
    #expect(contents == Array(repeating: .listed([]), count: 3))
    // The credential has no app any more.
    try bench.reload(keyID: "ABC123DEFH", app: "com.example.two")
    bench.ask(.list)
    guard case .failure(let failure)? = bench.results.last, case .noCredential = failure.kind else {
      throw APNsTestFailure("nobody serves the app")
    }
  }

  /// A request on the wire may have been carried out. Waiting ones, and new ones until the next reload, are not sent.
  @Test func aRevokedCredential() throws {
    let bench = try Bench()
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    bench.ask(.list)
    bench.ask(.create(.none))
    #expect(bench.turn { held.count == 2 })
    bench.ask(.read(ChannelClientLoopTests.id))
    bench.client.revoke(credential: "another")
    #expect(bench.results.isEmpty)
    bench.revoke()
    #expect(bench.turn { bench.results.count == 3 })
    bench.ask(.delete(ChannelClientLoopTests.id))
    let kinds = bench.results.compactMap { result -> ChannelFailure? in
      guard case .failure(let failure) = result else { return nil }
      return failure
    }
    #expect(kinds.count == 4 && kinds.allSatisfy(\.isTemporary))
    #expect(kinds.count(where: \.isAmbiguous) == 2, "those that were sent: \(kinds)")
    #expect(kinds.count { $0.kind == .revoked(credential: "main") } == 2)
    #expect(kinds.last?.description.contains("the credential main is revoked; add a new key") == true)
    #expect(held.count == 2 && bench.client.inFlight == 0)
    #expect(bench.turn { bench.server.connections.allSatisfy(\.isClosed) })

    bench.server.answer = { server, request in server.respond(request, body: #"{"channels":[]}"#) }
    try bench.reload(keyID: "ABC123DEFH")
    bench.ask(.list)
    #expect(bench.turn { bench.results.count == 5 })
    #expect(try bench.results.last?.get().content == .listed([]))
  }

  /// A reload lets the request finish; then its key, which the new configuration has too, is revoked.
  @Test func aRevokedCredentialThatWasReplaced() throws {
    let bench = try Bench()
    var held = 0
    bench.server.answer = { _, _ in held += 1 }
    bench.ask(.list)
    #expect(bench.turn { held == 1 })
    try bench.reload(keyID: "ABC123DEFH")
    bench.revoke()
    #expect(bench.turn { bench.results.count == 1 })
    guard case .failure(let failure)? = bench.results.first, case .unanswered = failure.kind else {
      throw APNsTestFailure("its connection is closed")
    }
  }
}
