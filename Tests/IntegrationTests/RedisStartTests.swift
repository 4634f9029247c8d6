import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// How the admission store starts with nodes that answer late, never, or refuse: every wait has a deadline.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct RedisStartTests {
  /// Longer than any test: only the deadline that a test sets can pass.
  private static let never: Int64 = 600_000

  private func makeDriver(
    _ url: String, _ loop: EventLoop, connectMilliseconds: Int64 = never, timeoutMilliseconds: Int64 = 5_000
  ) throws -> AdmissionDriver<RedisAdmissionStore> {
    var configuration = try RedisConfiguration(url: url)
    configuration.connectTimeoutMilliseconds = connectMilliseconds
    configuration.silenceTimeoutMilliseconds = Self.never
    var settings = RedisAdmissionStoreSettings()
    settings.timeoutMilliseconds = timeoutMilliseconds
    let state = RedisAdmissionStore(loop: loop, configuration: configuration, tls: nil, settings: settings, seed: 7)
    state.connect()
    return AdmissionDriver(state, loop: loop)
  }

  /// A token of each node, in the nodes' order.
  private func tokens(_ cluster: ScriptedRedisCluster) -> [String] {
    (0..<cluster.nodes.count).compactMap { node in
      (0..<10_000).lazy.map { "start-\($0)" }.first { cluster.owner(of: slot(of: makeJob(token: $0))) == node }
    }
  }

  private func slot(of job: borrowing PushJob) -> Int {
    var text = [UInt8](repeating: 0, count: TargetKey.textCount)
    var span = text.mutableSpan
    TargetKey(job, target: 0).writeText(into: &span, at: 0)
    return RedisSlot.of(tag: text.span)
  }

  @Test func aTableThatComesAfterAllNodesGreetedIsEnough() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    cluster.withoutTable = [0, 1, 2]
    let driver = try makeDriver(cluster.url, loop)
    let tickets = tokens(cluster).enumerated().map { driver.ask(makeJob(token: $1), id: UInt64($0)) }
    try driver.turn(untilWithinSeconds: 10, "all greeted and one asked") {
      cluster.nodes.allSatisfy { $0.count(of: "SCRIPT") == 3 } && cluster.nodes.contains { $0.count(of: "CLUSTER") > 0 }
    }
    // Their answers are read before the table comes.
    for _ in 0..<20 { try driver.turn() }
    cluster.withoutTable = []
    cluster.release()
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
    #expect(driver.state.counters.answeredInTime == 3 && driver.state.counters.decidedLocally == 0)
    #expect(driver.state.isConnected && driver.state.nextNotice() == nil, "an unfinished start is not reported")
    driver.state.close()
  }

  @Test func aNodeThatNeverTellsItsTableIsPassedOver() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    let driver = try makeDriver(cluster.url, loop)
    let tokens = tokens(cluster)
    try driver.turn(untilWithinSeconds: 10, "one is asked for the table") {
      // The node that is asked first, whichever it is, never answers.
      if cluster.withoutTable.isEmpty {
        for (index, node) in cluster.nodes.enumerated() where node.count(of: "SCRIPT") > 0 {
          cluster.withoutTable = [index]
          break
        }
      }
      return cluster.nodes.contains { $0.count(of: "CLUSTER") > 0 }
    }
    let index = try #require(cluster.withoutTable.first)
    let tickets = tokens.indices.filter { $0 != index }.map { driver.ask(makeJob(token: tokens[$0]), id: UInt64($0)) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
    #expect(driver.state.counters.answeredInTime == 2 && driver.state.counters.decidedLocally == 0)
    driver.state.close()
  }

  @Test func aNodeThatCannotBeReachedHoldsUpNobody() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    let gone = try ScriptedRedisNode(loop: loop)
    gone.close()
    cluster.withoutTable = [0, 1, 2]
    let driver = try makeDriver("\(cluster.url),127.0.0.1:\(gone.port)", loop)
    let tickets = tokens(cluster).enumerated().map { driver.ask(makeJob(token: $1), id: UInt64($0)) }
    try driver.turn(untilWithinSeconds: 10, "refused") { driver.state.counters.disconnects > 0 }
    cluster.withoutTable = []
    cluster.release()
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
    #expect(driver.state.counters.answeredInTime == 3, "the other nodes have the whole cluster")
    #expect(driver.state.counters.decidedLocally == 0)
    driver.state.close()
  }

  @Test func aNodeThatConnectsAndSaysNothingIsWaitedForAtMostTheConnectTimeout() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    cluster.silent = [1]
    let driver = try makeDriver(cluster.url, loop, connectMilliseconds: 500)
    let tokens = tokens(cluster)
    let tickets = tokens.enumerated().map { driver.ask(makeJob(token: $1), id: UInt64($0)) }
    // For devices of the silent node it is unknown whether their jobs were sent before.
    for (node, ticket) in tickets.enumerated() {
      #expect(try Answered(driver.answer(ticket)) == (node == 1 ? .repeated(.proceed) : .proceed))
    }
    #expect(driver.state.counters.answeredInTime == 2 && driver.state.counters.decidedLocally == 1)
    #expect(driver.state.degradation(of: .duplicates) != nil)
    driver.state.close()
  }

  /// A node that is listed and owns no slots delays nothing, whatever the timeout.
  @Test func aSilentNodeThatOwnsNothingIsNotWaitedFor() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    let silent = try ScriptedRedisNode(loop: loop)
    silent.answer = { _ in nil }
    let driver = try makeDriver("redis-cluster://127.0.0.1:\(silent.port),\(cluster.url.dropFirst(16))", loop)
    let tickets = tokens(cluster).enumerated().map { driver.ask(makeJob(token: $1), id: UInt64($0)) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
    #expect(driver.state.counters.answeredInTime == 3 && driver.state.counters.decidedLocally == 0)
    #expect(driver.state.degradation(of: .duplicates) == nil)
    driver.state.close()
  }

  @Test func withoutATableMemoryDecidesAfterTheConnectTimeout() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    cluster.withoutTable = [0, 1, 2]
    let driver = try makeDriver(cluster.url, loop, connectMilliseconds: 500, timeoutMilliseconds: 200)
    let tickets = tokens(cluster).enumerated().map { driver.ask(makeJob(token: $1), id: UInt64($0)) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .repeated(.proceed)) }
    #expect(driver.state.counters.decidedLocally == 3)
    driver.state.close()
  }

  /// A server that never greets: one server behaves as a cluster does.
  @Test func aSilentServerIsWaitedForAtMostTheConnectTimeout() throws {
    let loop = try EventLoop()
    let server = try ScriptedRedisNode(loop: loop)
    server.answer = { _ in nil }
    let driver = try makeDriver("redis://127.0.0.1:\(server.port)", loop, connectMilliseconds: 500)
    #expect(try Answered(driver.admit(makeJob(token: "silent"), id: 1)) == .repeated(.proceed))
    #expect(driver.state.counters.decidedLocally == 1)
    driver.state.close()
  }

  /// The server answers one call after the other, in three timeouts all together: it decides about each.
  @Test func aServerThatCrawlsDecides() throws {
    let loop = try EventLoop()
    let server = try ScriptedRedisNode(loop: loop)
    var (allowed, answered) = (0, 0)
    server.answer = { command in
      guard command.first == "EVALSHA", !ScriptedRedisNode.isProbe(command) else {
        return ScriptedRedisNode.greeted(command)
      }
      guard allowed > answered else { return nil }
      answered += 1
      return ":0\r\n"
    }
    let driver = try makeDriver("redis://127.0.0.1:\(server.port)", loop, timeoutMilliseconds: 1_000)
    try driver.turn(untilWithinSeconds: 10, "connected") { driver.state.isConnected }
    func crawl() {
      allowed += 1
      server.release()
      loop.schedule(afterMilliseconds: 50) { crawl() }
    }
    crawl()
    // Each goes out in a call of its own.
    let tickets = try (0..<60).map { number in
      let ticket = driver.ask(makeJob(token: "crawl-\(number)"), id: UInt64(number))
      try driver.turn()
      return ticket
    }
    for ticket in tickets { _ = try driver.answer(ticket, withinSeconds: 30) }
    #expect(answered == 60 && driver.state.counters.answeredInTime == 60 && driver.state.counters.timeouts == 0)
    driver.state.close()
  }

  /// While no node serves a slot, an admission waits as long as for a silent Redis; after that, none waits.
  @Test func aClusterThatIsDownIsNotAskedForEver() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    let driver = try makeDriver(cluster.url, loop, timeoutMilliseconds: 1_000)
    let tokens = tokens(cluster)
    for (index, token) in tokens.enumerated() {
      #expect(try Answered(driver.admit(makeJob(token: token), id: UInt64(index))) == .proceed)
    }
    #expect(driver.state.counters.answeredInTime == 3)

    cluster.isDown = true
    #expect(try Answered(driver.admit(makeJob(token: tokens[0]), id: 7)) == .repeated(.proceed))
    #expect(driver.state.counters.decidedLocally == 1)
    try driver.turn(untilWithinSeconds: 5, "spared") {
      if driver.state.degradation(of: .duplicates) != nil { return true }
      _ = driver.ask(makeJob(token: tokens[0]), id: 8)
      return false
    }
    #expect(driver.state.degradation(of: .duplicates)?.contains("CLUSTERDOWN") == true)
    // Probes find the slot down, and Redis stays spared: a probe is no PING, which a node would answer.
    let asked = cluster.nodes[0].count(of: "EVALSHA") - cluster.nodes[0].probeCount
    let probes = cluster.nodes[0].probeCount
    try driver.turn(untilWithinSeconds: 5, "probed twice") { cluster.nodes[0].probeCount >= probes + 2 }
    #expect(try Answered(driver.admit(makeJob(token: tokens[0]), id: 9)) == .repeated(.proceed))
    #expect(cluster.nodes[0].count(of: "EVALSHA") - cluster.nodes[0].probeCount == asked)

    cluster.isDown = false
    try driver.turn(untilWithinSeconds: 5, "recovered") { driver.state.degradation(of: .duplicates) == nil }
    let local = driver.state.counters.decidedLocally
    #expect(try Answered(driver.admit(makeJob(token: tokens[0]), id: 10)) == .proceed)
    #expect(driver.state.counters.decidedLocally == local)
    driver.state.close()
  }

  @Test func tenStartsOnAFreshCluster() throws {
    let cluster = try RedisCluster()
    defer { cluster.stop() }
    let url = "redis-cluster://" + cluster.masters.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
    for start in 0..<10 {
      let driver = try makeDriver(url, EventLoop())
      let tickets = (0..<100).map { driver.ask(makeJob(token: "start-\(start)-\($0)"), id: UInt64($0)) }
      for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
      #expect(driver.state.counters.decidedLocally == 0 && driver.state.counters.answeredInTime == 100, "\(start)")
      driver.state.close()
    }
  }

  /// Admissions from before the start name a rule that is gone when they are asked: the default rule applies.
  @Test func fewerLimitsBeforeRedisIsThere() throws {
    let server = try RedisServer()
    server.pause()
    let driver = try makeDriver(server.url, try EventLoop())
    let overrides = [PushType.background, .voip].map {
      RateLimits.Override(app: [], pushType: $0, limit: RateLimit(burst: 4, perSecond: 0.001))
    }
    let common = RateLimit(burst: 2, perSecond: 0.001)
    driver.state.update(limits: RateLimits(common, overrides: overrides))
    let tickets = (1...5).map { driver.ask(makeJob(token: "early", type: .voip), id: $0) }
    try driver.turn()
    driver.state.update(limits: RateLimits(common))
    server.resume()
    let answers = try tickets.map { try Answered(driver.answer($0)) }
    #expect(answers.count { $0 == .proceed } == 2 && answers.count { $0 == .limited } == 3, "\(answers)")
    #expect(driver.state.counters.errors == 0 && driver.state.counters.decidedLocally == 0)
    driver.state.close()
    server.stop()
  }

  @Test func aUnixSocketAndADatabase() throws {
    let folder = try TemporaryFolder("redis-socket")
    let server = try RedisServer(configuration: ["unixsocket \(folder.path)/s"])
    let driver = try makeDriver("unix://\(folder.path)/s?db=3", try EventLoop())
    let job = makeJob(token: "unix")
    let accepted = RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 4, completedAt: 31)
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    #expect(driver.state.counters.decidedLocally == 0)
    #expect(try server.cli(["-n", "3", "DBSIZE"]).hasPrefix("1"))
    #expect(try server.cli(["CLIENT", "LIST"]).contains("name=herald"))
    driver.state.close()
    server.stop()
  }
}
