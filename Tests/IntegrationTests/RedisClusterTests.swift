import PushCore
import PushCredentials
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// Several Redis servers as one: a cluster of three masters, and a primary that a Sentinel names.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct RedisClusterTests {
  private let accepted = RememberedOutcome(
    outcome: .accepted, status: 200, attempts: 1, sentAt: 1_796_000_000_004, completedAt: 1_796_000_000_031)

  private func makeDriver(
    _ url: String, timeoutMilliseconds: Int64 = 5_000, loop: EventLoop? = nil
  ) throws -> AdmissionDriver<RedisAdmissionStore> {
    let loop = try loop ?? EventLoop()
    var settings = RedisAdmissionStoreSettings()
    settings.limits = RateLimits(RateLimit(burst: 2, perSecond: 0.001))
    settings.timeoutMilliseconds = timeoutMilliseconds
    let state = RedisAdmissionStore(
      loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, settings: settings, seed: 7)
    state.connect()
    return AdmissionDriver(state, loop: loop)
  }

  private func expectAllKnown(
    _ driver: AdmissionDriver<RedisAdmissionStore>, _ tokens: [String], _ location: SourceLocation = #_sourceLocation
  ) throws {
    var tickets: [Ticket] = []
    for (index, token) in tokens.enumerated() { tickets.append(driver.ask(makeJob(token: token), id: UInt64(index))) }
    for ticket in tickets {
      #expect(try Answered(driver.answer(ticket)) == .duplicate(accepted), sourceLocation: location)
    }
  }

  @Test func aClusterIsOneState() throws {
    let cluster = try RedisCluster()
    let driver = try makeDriver(cluster.url)
    let tokens = (0..<300).map { "cluster-\($0)" }
    var tickets: [Ticket] = []
    for (index, token) in tokens.enumerated() { tickets.append(driver.ask(makeJob(token: token), id: UInt64(index))) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
    for (index, token) in tokens.enumerated() {
      driver.remember(accepted, of: makeJob(token: token), id: UInt64(index))
    }
    try expectAllKnown(driver, tokens)
    #expect(driver.state.counters.decidedLocally == 0 && driver.state.counters.errors == 0)
    for server in cluster.masters {
      #expect(
        try Int(server.cli(["DBSIZE"]).prefix { $0.isNumber }).map { $0 > 50 } == true, "every node has its part")
    }

    // Slots move while they are in use.
    let reshard = try cluster.reshard(400, from: cluster.masters[0], to: cluster.masters[2])
    var round = 0
    while reshard.isRunning || round == 0 {
      try expectAllKnown(driver, tokens)
      let fresh = makeJob(token: "fresh-\(round)")
      #expect(try Answered(driver.admit(fresh, id: 1)) == .proceed)
      driver.remember(accepted, of: fresh, id: 1)
      #expect(try Answered(driver.admit(fresh, id: 1)) == .duplicate(accepted))
      round += 1
    }
    #expect(reshard.wait(timeoutMilliseconds: 20_000) == 0)
    try expectAllKnown(driver, tokens)
    #expect(driver.state.counters.redirects > 0)
    #expect(driver.state.degradation(of: .duplicates) == nil)

    // A process that starts now finds the right nodes, whichever node it asks first.
    let other = try makeDriver("redis-cluster://127.0.0.1:\(cluster.masters[2].port)")
    try expectAllKnown(other, tokens)
    #expect(other.state.counters.decidedLocally == 0)
    other.state.close()

    let session = try RedisSession(configuration: try RedisConfiguration(url: cluster.url), tls: nil)
    let keys = (0..<200).map { "{\($0)}:k" }
    #expect(
      try session.run(keys.map { RedisSession.Command(["SET", $0, $0], key: $0) }).allSatisfy { $0 == .status("OK") })
    #expect(try session.run(keys.map { RedisSession.Command(["GET", $0], key: $0) }).map(\.text) == keys)
    session.close()

    driver.state.close()
    // While the device's master is away, an admission does not wait as long as above.
    let hasty = try makeDriver(cluster.url, timeoutMilliseconds: 300)
    try expectAllKnown(hasty, tokens)
    try failover(cluster, hasty, tokens)
    hasty.state.close()
    cluster.stop()
  }

  /// While a slot migrates, each of the two nodes has some of its devices, and accepts commands with one key only.
  @Test func aSlotOnItsWayIsAskedToo() throws {
    let cluster = try RedisCluster()
    let driver = try makeDriver(cluster.url)
    let job = makeJob(token: "on-its-way")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    let slot = slot(of: job)
    // A device that no node knows yet.
    let token = try #require(
      (0..<1_000_000).lazy.map { "new-\($0)" }.first { self.slot(of: makeJob(token: $0)) == slot })
    let new = makeJob(token: token)
    let source = try #require(try cluster.masters.first { try $0.cli(["KEYS", "push:*"]).contains("push:") })
    let target = try #require(cluster.masters.first { $0.port != source.port })
    func word(_ server: RedisServer, _ command: String...) throws -> String {
      String(try server.cli(command).prefix { !$0.isWhitespace })
    }
    try target.cli(["CLUSTER", "SETSLOT", "\(slot)", "IMPORTING", word(source, "CLUSTER", "MYID")])
    try source.cli(["CLUSTER", "SETSLOT", "\(slot)", "MIGRATING", word(target, "CLUSTER", "MYID")])

    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted), "it is still there")
    #expect(try Answered(driver.admit(job, id: 2)) == .proceed)
    #expect(try Answered(driver.admit(job, id: 3)) == .limited)
    driver.remember(accepted, of: job, id: 2)
    #expect(try Answered(driver.admit(job, id: 2)) == .duplicate(accepted))
    #expect(driver.state.counters.redirects == 0)

    #expect(try Answered(driver.admit(new, id: 1)) == .proceed)
    let copy = driver.ask(new, id: 2, firstSeen: driver.now.unixMilliseconds)
    #expect(try Answered(driver.answer(copy)) == .proceed)
    #expect(try Answered(driver.admit(new, id: 3)) == .limited)
    driver.remember(accepted, of: new, id: 1)
    try driver.turn(untilWithinSeconds: 5, "remembered") { driver.state.counters.redirects == 4 }
    #expect(try Answered(driver.admit(new, id: 1)) == .duplicate(accepted))
    #expect(driver.state.counters.decidedLocally == 0 && driver.state.counters.rememberedLocally == 0)
    #expect(driver.state.counters.errors == 0)

    // All keys of a device move together.
    try source.cli(["MIGRATE", "127.0.0.1", "\(target.port)", key(of: job), "0", "5000"])
    #expect(try Answered(driver.admit(job, id: 2)) == .duplicate(accepted))
    #expect(try Answered(driver.admit(job, id: 3)) == .limited)

    // The slot belongs to the other node now: the answer was moved there before the redirect.
    for server in [target, source] {
      try server.cli(["CLUSTER", "SETSLOT", "\(slot)", "NODE", word(target, "CLUSTER", "MYID")])
    }
    driver.remember(accepted, of: job, id: 3)
    #expect(try Answered(driver.admit(job, id: 3)) == .duplicate(accepted))
    #expect(driver.state.counters.rememberedLocally == 0)
    #expect(driver.state.counters.decidedLocally == 0 && driver.state.counters.errors == 0)
    driver.state.close()
    cluster.stop()
  }

  private func key(of job: borrowing PushJob) -> String {
    var text = [UInt8](repeating: 0, count: TargetKey.textCount)
    var span = text.mutableSpan
    TargetKey(job, target: 0).writeText(into: &span, at: 0)
    return "push:{\(String(decoding: text, as: UTF8.self))}"
  }

  private func slot(of job: borrowing PushJob) -> Int { RedisSlot.of(key(of: job).utf8.span) }

  /// A master dies; its replica takes its slots.
  private func failover(
    _ cluster: RedisCluster, _ driver: AdmissionDriver<RedisAdmissionStore>, _ tokens: [String]
  ) throws {
    try cluster.addReplica(of: cluster.masters[1])
    cluster.masters[1].kill()
    try driver.turn(untilWithinSeconds: 5, "degraded") { driver.state.degradation(of: .duplicates) != nil }
    // The other two nodes serve their slots until they agree that it is gone, and then nothing until the replica takes over.
    var known = 0
    let tickets = tokens.enumerated().map { driver.ask(makeJob(token: $1), id: UInt64($0)) }
    for (index, ticket) in tickets.enumerated() {
      if try Answered(driver.answer(ticket)) == .duplicate(accepted) {
        known += 1
      } else {
        // A lane would send it again, marked ambiguous, and remember the new answer.
        driver.remember(accepted, of: makeJob(token: tokens[index]), id: UInt64(index))
      }
    }
    #expect(known > 100, "\(known) of \(tokens.count)")
    try driver.turn(untilWithinSeconds: 20, "recovered") { driver.state.degradation(of: .duplicates) == nil }
    try expectAllKnown(driver, tokens)
  }

  @Test func aClusterHasTheFleetsToken() throws {
    let cluster = try RedisCluster()
    defer { cluster.stop() }
    // A member makes its own token if Redis does not answer for two seconds. Three times in a row are no pause of
    // this machine.
    for attempt in 1...3 {
      let signer = try ProviderTokenSigner(newKeyFor: "test")
      let members = try (0..<2).map { _ in
        try ProviderTokenMember(cluster.url, signer: signer, prefix: "fleet-\(attempt):")
      }
      defer { for member in members { member.store.stop() } }
      let token = try #require(members[0].token())
      let isShared = members[1].token() == token
      #expect(isShared || attempt < 3, "each member has a token of its own")
      guard isShared else { continue }
      let snapshots = members.compactMap { $0.tokens.snapshots().first }
      #expect(snapshots.map { $0.refreshes + $0.adoptions } == [1, 1])
      #expect(snapshots.map(\.refreshes).reduce(0, +) == 1, "one was made, and both members have it")
      return
    }
  }

  /// The primary became a replica while a connection to it was open, and the Sentinel that named it does not know that yet.
  @Test func aPrimaryThatTakesNoWritesAnyMoreHasAnotherSentinelAsked() throws {
    let (old, new) = (try RedisServer(), try RedisServer())
    let loop = try EventLoop()
    func sentinel(naming server: RedisServer) throws -> ScriptedRedisNode {
      let node = try ScriptedRedisNode(loop: loop)
      let port = "\(server.port)"
      node.answer = { command in
        command.first == "SENTINEL"
          ? "*2\r\n$9\r\n127.0.0.1\r\n$\(port.utf8.count)\r\n\(port)\r\n" : ScriptedRedisNode.greeted(command)
      }
      return node
    }
    let (late, knowing) = (try sentinel(naming: old), try sentinel(naming: new))
    let driver = try makeDriver(
      "redis-sentinel://127.0.0.1:\(late.port),127.0.0.1:\(knowing.port)/main", loop: loop)
    #expect(try Answered(driver.admit(makeJob(token: "before"), id: 1)) == .proceed)
    #expect(knowing.commands.isEmpty)
    try old.cli(["REPLICAOF", "127.0.0.1", "\(new.port)"])
    #expect(try Answered(driver.admit(makeJob(token: "meanwhile"), id: 2)) == .repeated(.proceed), "decided here")
    try driver.turn(untilWithinSeconds: 5, "degraded") { driver.state.degradation(of: .rateLimit) != nil }
    try driver.turn(untilWithinSeconds: 10, "recovered") { driver.state.degradation(of: .rateLimit) == nil }
    #expect(knowing.count(of: "SENTINEL") > 0)
    let decided = driver.state.counters.decidedLocally
    let job = makeJob(token: "after")
    #expect(try Answered(driver.admit(job, id: 3)) == .proceed)
    driver.remember(accepted, of: job, id: 3)
    #expect(try Answered(driver.admit(job, id: 3)) == .duplicate(accepted))
    #expect(driver.state.counters.decidedLocally == decided)
    #expect(try new.cli(["DBSIZE"]).hasPrefix("0") == false)
    driver.state.close()
    old.stop()
    new.stop()
  }

  @Test func theSentinelsPrimaryIsFollowed() throws {
    let servers = try RedisSentinels()
    let driver = try makeDriver(servers.url)
    let tokens = (0..<50).map { "sentinel-\($0)" }
    for (index, token) in tokens.enumerated() {
      let job = makeJob(token: token)
      #expect(try Answered(driver.admit(job, id: UInt64(index))) == .proceed)
      driver.remember(accepted, of: job, id: UInt64(index))
    }
    try expectAllKnown(driver, tokens)
    #expect(driver.state.counters.decidedLocally == 0)
    let isCopied = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 50) { () -> Bool? in
      (try? servers.replica.cli(["DBSIZE"])) == (try? servers.primary.cli(["DBSIZE"])) ? true : nil
    }
    #expect(isCopied == true)
    servers.primary.kill()
    try driver.turn(untilWithinSeconds: 5, "degraded") { driver.state.degradation(of: .duplicates) != nil }
    // Answers that were remembered meanwhile are stored in the new primary.
    driver.remember(accepted, of: makeJob(token: "meanwhile"), id: 1)
    try driver.turn(untilWithinSeconds: 30, "recovered") { driver.state.degradation(of: .duplicates) == nil }
    try expectAllKnown(driver, tokens)
    try driver.catchUp(1)
    let other = try makeDriver(servers.url)
    #expect(try Answered(other.admit(makeJob(token: "meanwhile"), id: 1)) == .duplicate(accepted))
    #expect(other.state.counters.decidedLocally == 0)
    other.state.close()
    driver.state.close()
    servers.stop()
  }
}
