import PushCore
import PushIO
import TestSupport
import Testing

/// Which server gets a command: Sentinels and the servers that they name, nodes that come and go, sessions without an answer.
@Suite(.timeLimit(.minutes(2)))
struct RedisRouterTests {
  /// Turns until the condition holds, at most ten seconds; returns the reasons of lost connections.
  private func turn(_ router: RedisRouter, _ loop: EventLoop, until condition: () -> Bool) -> [RedisError] {
    var errors: [RedisError] = []
    let isDone = loop.turn {
      while let (_, event) = router.nextEvent() {
        if case .disconnected(let error) = event { errors.append(error) }
      }
      return condition()
    }
    #expect(isDone, "\(errors)")
    return errors
  }

  private func configuration(_ url: String) throws -> RedisConfiguration {
    var configuration = try RedisConfiguration(url: url)
    configuration.connectTimeoutMilliseconds = 500
    configuration.reconnectDelayMinimumMilliseconds = 5
    configuration.reconnectDelayMaximumMilliseconds = 20
    return configuration
  }

  private func sentinel(
    _ loop: EventLoop, tls: TLSContext? = nil, naming port: @escaping () -> UInt16?
  ) throws -> ScriptedRedisNode {
    let node = try ScriptedRedisNode(loop: loop, tls: tls)
    node.answer = { command in
      guard command.first == "SENTINEL" else { return ScriptedRedisNode.greeted(command) }
      guard let port = port() else { return "*-1\r\n" }
      return "*2\r\n$9\r\n127.0.0.1\r\n$\(String(port).utf8.count)\r\n\(port)\r\n"
    }
    return node
  }

  private func replica(_ loop: EventLoop) throws -> ScriptedRedisNode {
    let node = try ScriptedRedisNode(loop: loop)
    node.answer = {
      $0 == ["ROLE"] ? "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n" : ScriptedRedisNode.greeted($0)
    }
    return node
  }

  private func url(_ sentinels: [ScriptedRedisNode], _ scheme: String = "redis-sentinel", _ query: String = "")
    -> String
  {
    "\(scheme)://" + sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ",") + "/main" + query
  }

  @Test func aReplicaThatASentinelNamesIsRefused() throws {
    let loop = try EventLoop()
    let (old, new) = (try replica(loop), try ScriptedRedisNode(loop: loop))
    // The first Sentinel never learns of the failover.
    let late = try sentinel(loop) { old.port }
    let knowing = try sentinel(loop) { new.port }
    let router = RedisRouter(loop: loop, configuration: try configuration(url([late, knowing])), tls: nil, seed: 1)
    router.connect()
    let errors = turn(router, loop) { router.isWhole }
    #expect(router.connections[0].configuration.address == .network(host: "127.0.0.1", port: new.port))
    #expect(errors.contains { $0.description.contains("its role is slave") }, "\(errors)")
    #expect(new.commands.contains(["ROLE"]) && knowing.count(of: "SENTINEL") > 0)
    router.close()
  }

  /// The replica refuses several times before the Sentinel that knows the primary has answered once.
  @Test func aSentinelHasTimeToAnswer() throws {
    let loop = try EventLoop()
    let (old, new) = (try replica(loop), try ScriptedRedisNode(loop: loop))
    let late = try sentinel(loop) { old.port }
    let knowing = try sentinel(loop) { new.port }
    let named = knowing.answer
    var (refusals, asked, due) = (0, 0, 0)
    knowing.answer = { [unowned knowing] command in
      let count = knowing.count(of: "SENTINEL")
      if count > asked { (asked, due) = (count, refusals + 3) }
      return command.first == "SENTINEL" && refusals < due ? nil : named(command)
    }
    let router = RedisRouter(loop: loop, configuration: try configuration(url([late, knowing])), tls: nil, seed: 1)
    router.connect()
    let isDone = loop.turn {
      while let (_, event) = router.nextEvent() {
        guard case .disconnected(.notPrimary) = event else { continue }
        refusals += 1
        knowing.release()
      }
      return router.isWhole
    }
    #expect(isDone, "asked \(asked) times, refused \(refusals)")
    router.close()
  }

  @Test func aReadOnlyPrimaryHasAnotherSentinelAsked() throws {
    let loop = try EventLoop()
    let (old, new) = (try ScriptedRedisNode(loop: loop), try ScriptedRedisNode(loop: loop))
    let late = try sentinel(loop) { old.port }
    let knowing = try sentinel(loop) { new.port }
    let router = RedisRouter(loop: loop, configuration: try configuration(url([late, knowing])), tls: nil, seed: 1)
    router.connect()
    _ = turn(router, loop) { router.isWhole }
    #expect(knowing.commands.isEmpty)
    router.demoted(0)
    _ = turn(router, loop) { router.isWhole && new.count(of: "ROLE") > 0 }
    #expect(router.connections[0].configuration.address == .network(host: "127.0.0.1", port: new.port))
    router.close()
  }

  /// A user without the right to ask for the role is served as before.
  @Test func aForbiddenRoleIsNotAsked() throws {
    let loop = try EventLoop()
    let primary = try ScriptedRedisNode(loop: loop)
    primary.answer = {
      $0 == ["ROLE"]
        ? "-NOPERM this user has no permissions to run the 'role' command\r\n" : ScriptedRedisNode.greeted($0)
    }
    let one = try sentinel(loop) { primary.port }
    let router = RedisRouter(loop: loop, configuration: try configuration(url([one])), tls: nil, seed: 1)
    router.connect()
    _ = turn(router, loop) { router.isWhole }
    router.close()
  }

  /// A Sentinel that does not answer, one that does not know the primary, and one that does.
  @Test func anotherSentinelIsAskedWhereOneIsSilent() throws {
    let loop = try EventLoop()
    let primary = try ScriptedRedisNode(loop: loop)
    let silent = try ScriptedRedisNode(loop: loop)
    let empty = try sentinel(loop) { nil }
    let knowing = try sentinel(loop) { primary.port }
    let router = RedisRouter(
      loop: loop, configuration: try configuration(url([silent, empty, knowing])), tls: nil, seed: 1)
    router.connect()
    let errors = turn(router, loop) { router.isWhole }
    #expect(silent.count(of: "SENTINEL") == 1 && empty.count(of: "SENTINEL") == 1)
    #expect(errors.contains { $0.description.contains("no Sentinel said where the primary main is") }, "\(errors)")
    router.close()
  }

  /// None of them can help: each is dialled once a second, and no more.
  @Test(arguments: [true, false]) func sentinelsThatAreOfNoUseAreNotFlooded(isGreeting: Bool) throws {
    let loop = try EventLoop()
    let sentinels = try (0..<3).map { _ in try sentinel(loop) { nil } }
    if !isGreeting { for one in sentinels { one.answer = { _ in "-NOAUTH Authentication required.\r\n" } } }
    let router = RedisRouter(loop: loop, configuration: try configuration(url(sentinels)), tls: nil, seed: 1)
    router.connect()
    let start = loop.now.monotonic
    _ = turn(router, loop) { loop.now.monotonic.milliseconds(since: start) >= 2_500 }
    // Each connection sends a few commands.
    let asked = sentinels.map(\.commands.count)
    #expect(asked.allSatisfy { (1...24).contains($0) }, "\(asked)")
    router.close()
  }

  @Test func sentinelsAreAskedOverTLSWithTheirOwnLogin() throws {
    let loop = try EventLoop()
    let files = try TemporaryFolder("sentinel-tls")
    let authority = try CertificateFactory(commonName: "Herald test authority")
    try authority.writeCertificate(to: files.path("ca.pem"))
    try authority.issue(.init(commonName: "localhost", ipAddresses: ["127.0.0.1"]))
      .write(certificateFile: files.path("c.pem"), keyFile: files.path("k.pem"))
    let tls = try TLSContext.server(certificateFile: files.path("c.pem"), keyFile: files.path("k.pem"), alpn: [])
    let primary = try ScriptedRedisNode(loop: loop, tls: tls)
    let one = try sentinel(loop, tls: tls) { primary.port }
    let address = try configuration(url([one], "rediss-sentinel", "?sentinel_user=me&sentinel_password=word"))
    let router = RedisRouter(
      loop: loop, configuration: address, tls: try address.tls(caFile: files.path("ca.pem"), trustsOnlyCAFile: true),
      seed: 1)
    router.connect()
    _ = turn(router, loop) { router.isWhole }
    #expect(one.commands.first == ["AUTH", "me", "word"])
    #expect(!primary.commands.contains { $0.first == "AUTH" }, "the Sentinels' login is not the primary's")
    router.close()
  }

  /// The cluster moves from node to node: the connection to a node without slots is closed, and its number is reused.
  @Test func nodesThatOwnNothingAreHungUpOn() throws {
    let loop = try EventLoop()
    let nodes = try (0..<4).map { _ in try ScriptedRedisNode(loop: loop) }
    var owner = 0
    for node in nodes {
      node.answer = { command in
        guard command.first == "CLUSTER" else { return ScriptedRedisNode.greeted(command) }
        return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:\(nodes[owner].port)\r\n"
      }
    }
    var settings = try configuration("redis-cluster://127.0.0.1:\(nodes[0].port)")
    settings.spareMilliseconds = 50
    let router = RedisRouter(loop: loop, configuration: settings, tls: nil, seed: 1)
    router.connect()
    _ = turn(router, loop) { router.isWhole }
    for next in 1..<4 {
      owner = next
      let slot = next
      _ = router.redirect(
        RedisServerError("MOVED \(slot) 127.0.0.1:\(nodes[next].port)".utf8.span), from: router.node(ofSlot: 0))
      _ = turn(router, loop) {
        router.isWhole && nodes[next].openCount == 1
          && nodes.indices.allSatisfy { $0 == next || nodes[$0].openCount == 0 }
      }
    }
    #expect(router.connections.count == 3, "a seed, and two that take turns")
    // The owner goes away: the configured node is dialled again, and names the new owner.
    owner = 0
    nodes[3].close()
    _ = turn(router, loop) { router.isWhole && router.node(ofSlot: 7) == 0 }
    router.close()
  }

  /// A command to a server that stopped answering ends with an error.
  @Test func aSessionWithoutAnAnswerEnds() async throws {
    let server = try RedisServer()
    defer { server.kill() }
    var settings = try configuration(server.url)
    settings.silenceTimeoutMilliseconds = 200
    let session = try RedisSession(configuration: settings, tls: nil)
    #expect(try session.run([RedisSession.Command(["PING"], key: "")]) == [.status("PONG")])
    server.pause()
    #expect(throws: RedisError.self) { try session.run([RedisSession.Command(["PING"], key: "")]) }
    server.resume()
    session.close()
  }
}
