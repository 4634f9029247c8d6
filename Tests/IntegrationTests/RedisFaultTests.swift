import Dispatch
import PushCore
import PushIO
import PushLane
import Synchronization
import TestSupport
import Testing

/// Redis that restarts, hangs, forgets, is full, is a replica or refuses: the lane goes on, says why, and comes back.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct RedisFaultTests {
  private let accepted = RememberedOutcome(
    outcome: .accepted, status: 200, attempts: 1, sentAt: 1_796_000_000_004, completedAt: 1_796_000_000_031)

  private func makeDriver(
    _ url: String, limit: RateLimit? = RateLimit(burst: 2, perSecond: 0.001), timeoutMilliseconds: Int64 = 50
  ) throws -> AdmissionDriver<RedisAdmissionStore> {
    let loop = try EventLoop()
    var settings = RedisAdmissionStoreSettings()
    settings.limits = RateLimits(limit)
    settings.timeoutMilliseconds = timeoutMilliseconds
    let state = RedisAdmissionStore(
      loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, settings: settings, seed: 7)
    state.connect()
    return AdmissionDriver(state, loop: loop)
  }

  private func notices(_ state: RedisAdmissionStore) -> [AdmissionNotice] {
    var notices: [AdmissionNotice] = []
    while let notice = state.nextNotice() {
      // How long a pause lasts is the machine's; what it says is tested on a simulated clock.
      if case .silent = notice { continue }
      notices.append(notice)
    }
    return notices
  }

  /// Every feature becomes degraded and recovers; each change is reported once.
  private func expectDegraded(
    _ driver: AdmissionDriver<RedisAdmissionStore>, reason: String, _ location: SourceLocation = #_sourceLocation
  ) throws {
    try driver.turn(untilWithinSeconds: 8, "degraded") { driver.state.degradation(of: .rateLimit) != nil }
    for feature in AdmissionFeature.allCases {
      let text = try #require(driver.state.degradation(of: feature), sourceLocation: location)
      #expect(text.contains(reason), "\(text)", sourceLocation: location)
    }
    let reported = notices(driver.state)
    #expect(reported.count == 1, "\(reported)", sourceLocation: location)
    guard case .degraded(let text) = reported.first else {
      Issue.record("\(reported)", sourceLocation: location)
      return
    }
    #expect(text.contains(reason), "\(text)", sourceLocation: location)
  }

  private func expectRecovered(
    _ driver: AdmissionDriver<RedisAdmissionStore>, withinSeconds seconds: Int64 = 2,
    _ location: SourceLocation = #_sourceLocation
  ) throws {
    try driver.turn(untilWithinSeconds: seconds, "recovered") { driver.state.degradation(of: .duplicates) == nil }
    #expect(notices(driver.state) == [.recovered], sourceLocation: location)
  }

  @Test func theFirstAdmissionsWaitForTheConnection() throws {
    let server = try RedisServer()
    let first = try makeDriver(server.url)
    let job = makeJob(token: "restart")
    first.remember(accepted, of: job, id: 1)
    #expect(first.state.counters.rememberedLocally == 1, "not connected yet")
    _ = try first.admit(job, id: 2)
    first.remember(accepted, of: job, id: 2)
    _ = try first.admit(job, id: 2)
    first.state.close()
    // A new worker gets the same job before its connection is up.
    let second = try makeDriver(server.url, timeoutMilliseconds: 2000)
    #expect(try Answered(second.admit(job, id: 2)) == .duplicate(accepted))
    #expect(second.state.counters.decidedLocally == 0)
    #expect(notices(second.state).isEmpty)
    second.state.close()
    server.stop()
  }

  @Test func aFlushedScriptIsLoadedAgain() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, timeoutMilliseconds: 2000)
    let job = makeJob(token: "flush")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    for round in UInt64(1)...3 {
      try server.cli(["SCRIPT", "FLUSH"])
      var tickets: [(Ticket, Answered)] = []
      for id in UInt64(0)..<50 {
        tickets.append((driver.ask(job, id: 1), .duplicate(accepted)))
        tickets.append((driver.ask(makeJob(token: "flush-\(round)-\(id)"), id: id), .proceed))
      }
      for (ticket, expected) in tickets { #expect(try Answered(driver.answer(ticket)) == expected) }
      #expect(driver.state.counters.scriptReloads == round, "one load for all that failed")
    }
    // The mark of a dead token is set by a script's digest too.
    let gone = makeJob(token: "flush-gone")
    #expect(try Answered(driver.admit(gone, id: 2)) == .proceed)
    try server.cli(["SCRIPT", "FLUSH"])
    driver.remember(
      RememberedOutcome(outcome: .unregistered, status: 410, attempts: 1, sentAt: 5, completedAt: 6), of: gone, id: 2)
    try driver.turn(untilWithinSeconds: 5, "loaded again") { driver.state.counters.scriptReloads == 4 }
    #expect(try Answered(driver.admit(gone, id: 3)) == .dead(6))
    #expect(driver.state.counters.decidedLocally == 0)
    #expect(notices(driver.state).isEmpty)
    driver.state.close()
    server.stop()
  }

  /// Admissions wait for an answer while the limits of their requests change.
  @Test func fewerLimitsWhileRedisHangsHarmNothing() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, timeoutMilliseconds: 2000)
    func limits(_ types: [PushType]) -> RateLimits {
      RateLimits(
        RateLimit(burst: 2, perSecond: 0.001),
        overrides: types.map {
          RateLimits.Override(app: [], pushType: $0, limit: RateLimit(burst: 3, perSecond: 0.001))
        })
    }
    driver.state.update(limits: limits([.background, .voip]))
    let job = makeJob(token: "fewer", type: .voip)
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    server.pause()
    let waiting = (2...6).map { driver.ask(job, id: $0) }
    try driver.turn()
    driver.state.update(limits: limits([]))
    var proceeded = 0
    for ticket in waiting {
      if case .repeated(.proceed) = try Answered(driver.answer(ticket)) { proceeded += 1 }
    }
    #expect(proceeded == 3, "by the rule of their request")
    server.resume()
    driver.state.close()
    server.stop()
  }

  @Test func stoppedAndStarted() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url)
    let job = makeJob(token: "stop")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    server.stop()
    try expectDegraded(driver, reason: "cannot be reached")
    #expect(!driver.state.isConnected)

    // Fails open, with this lane's own memory: it counts the rate and remembers outcomes from now on.
    let other = makeJob(token: "stop-2")
    #expect(try Answered(driver.admit(other, id: 1)) == .repeated(.proceed))
    #expect(try Answered(driver.admit(other, id: 2)) == .repeated(.proceed))
    #expect(try Answered(driver.admit(other, id: 3)) == .repeated(.limited))
    driver.remember(accepted, of: other, id: 2)
    #expect(try Answered(driver.admit(other, id: 2)) == .duplicate(accepted))
    // It is unknown whether an earlier copy was sent.
    let copy = driver.ask(makeJob(token: "stop-3"), id: 4, firstSeen: driver.now.unixMilliseconds)
    #expect(try Answered(driver.answer(copy)) == .repeated(.proceed))
    #expect(driver.state.counters.timeouts == 0, "answered at once")

    try server.start()
    try expectRecovered(driver)
    #expect(try Answered(driver.admit(other, id: 2)) == .duplicate(accepted))
    try driver.catchUp(1, withinSeconds: 2)
    let elsewhere = try makeDriver(server.url, timeoutMilliseconds: 2000)
    #expect(try Answered(elsewhere.admit(other, id: 2)) == .duplicate(accepted), "what Redis missed is stored there")
    #expect(elsewhere.state.counters.decidedLocally == 0)
    elsewhere.state.close()
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted), "kept by Redis")
    #expect(driver.state.counters.disconnects >= 1)
    driver.state.close()
    server.stop()
  }

  @Test func killedUnderLoadEveryAdmissionIsAnsweredOnce() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, limit: nil)
    _ = try driver.admit(makeJob(token: "first"), id: 0)
    var tickets: [Ticket] = []
    for id in UInt64(1)...2000 {
      tickets.append(driver.ask(makeJob(token: "load-\(id)"), id: id))
      if id == 1000 {
        try driver.turn()
        server.kill()
      }
    }
    for ticket in tickets { #expect([.proceed, .repeated(.proceed)].contains(try Answered(driver.answer(ticket)))) }
    try server.start()
    try driver.turn(untilWithinSeconds: 2, "recovered") { driver.state.degradation(of: .duplicates) == nil }
    try driver.turn(forMilliseconds: 100)
    driver.state.close()
    server.stop()
  }

  @Test func aHangingServerCostsOneTimeout() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url)
    let job = makeJob(token: "hang")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    server.pause()
    let asked = driver.now.monotonic
    var tickets: [Ticket] = []
    for id in UInt64(10)..<20 { tickets.append(driver.ask(makeJob(token: "hang-\(id)"), id: id)) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .repeated(.proceed)) }
    let waited = driver.now.monotonic.milliseconds(since: asked)
    #expect(waited >= 45 && waited < 500, "\(waited) ms for a timeout of 50")
    #expect(driver.state.counters.timeouts == 10)
    #expect(driver.state.degradation(of: .duplicates) == nil, "one timeout is no outage")
    var id: UInt64 = 100
    // Nobody waits meanwhile, so some time passes between two.
    while driver.state.degradation(of: .duplicates) == nil, id < 2_000 {
      #expect(try Answered(driver.admit(makeJob(token: "hang-\(id)"), id: id)) == .repeated(.proceed))
      try driver.turn(forMilliseconds: 2)
      id += 1
    }
    try expectDegraded(driver, reason: "did not answer within 50 ms")
    let failing = driver.now.monotonic.milliseconds(since: asked)
    #expect(failing >= 400 && failing < 3000, "\(failing) ms")
    let timeouts = driver.state.counters.timeouts
    // Redis is spared: nothing times out any more.
    for id in UInt64(20)..<40 {
      #expect(try Answered(driver.admit(makeJob(token: "hang-\(id)"), id: id)) == .repeated(.proceed))
    }
    #expect(driver.state.counters.timeouts == timeouts)
    try driver.turn(forMilliseconds: 700)
    server.resume()
    try expectRecovered(driver)
    try driver.turn(forMilliseconds: 50)
    #expect(driver.state.counters.lateReplies == timeouts, "dropped, and not taken for answers to others")
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    #expect(try Answered(driver.admit(makeJob(token: "hang-10"), id: 10)) == .claimed, "Redis ran the request late")
    driver.state.close()
    server.stop()
  }

  @Test func aServerThatHangsForLongIsDialledAgain() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url)
    _ = try driver.admit(makeJob(token: "long"), id: 1)
    server.pause()
    for id in UInt64(10)..<25 { _ = try driver.admit(makeJob(token: "long-\(id)"), id: id) }
    try driver.turn(untilWithinSeconds: 15, "given up") { driver.state.counters.disconnects >= 2 }
    server.resume()
    try driver.turn(untilWithinSeconds: 3, "recovered") { driver.state.degradation(of: .duplicates) == nil }
    #expect(try Answered(driver.admit(makeJob(token: "long-2"), id: 1)) == .proceed)
    driver.state.close()
    server.stop()
  }

  @Test func flushAllForgetsAndGoesOn() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, timeoutMilliseconds: 2000)
    let job = makeJob(token: "forget")
    driver.remember(accepted, of: job, id: 1)
    _ = try driver.admit(job, id: 7)
    driver.remember(accepted, of: job, id: 2)
    #expect(try Answered(driver.admit(job, id: 2)) == .duplicate(accepted))
    try server.cli(["FLUSHALL"])
    #expect(try Answered(driver.admit(job, id: 2)) == .proceed)
    driver.remember(accepted, of: job, id: 2)
    #expect(try Answered(driver.admit(job, id: 2)) == .duplicate(accepted))
    #expect(notices(driver.state).isEmpty)
    driver.state.close()
    server.stop()
  }

  @Test func fullAndTakesNoWrites() throws {
    let server = try RedisServer(configuration: ["maxmemory-policy noeviction"])
    let driver = try makeDriver(server.url, timeoutMilliseconds: 2000)
    let job = makeJob(token: "full")
    _ = try driver.admit(makeJob(token: "first"), id: 1)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    try server.cli(["CONFIG", "SET", "maxmemory", "1"])
    let other = makeJob(token: "full-2")
    #expect(try Answered(driver.admit(other, id: 1)) == .repeated(.proceed))
    try expectDegraded(driver, reason: "maxmemory")
    #expect(try Answered(driver.admit(other, id: 2)) == .repeated(.proceed))
    #expect(try Answered(driver.admit(other, id: 3)) == .repeated(.limited), "this lane's own rate")
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted), "reading works")
    driver.remember(accepted, of: other, id: 2)
    #expect(try Answered(driver.admit(other, id: 2)) == .duplicate(accepted), "this lane's own memory")
    #expect(driver.state.isConnected)
    try server.cli(["CONFIG", "SET", "maxmemory", "0"])
    try expectRecovered(driver)
    try driver.catchUp(1, withinSeconds: 2)
    let elsewhere = try makeDriver(server.url, timeoutMilliseconds: 2000)
    #expect(try Answered(elsewhere.admit(other, id: 2)) == .duplicate(accepted))
    elsewhere.state.close()
    driver.state.close()
    server.stop()
  }

  /// Outcomes that were being written when the connection broke.
  @Test func outcomesInFlightAreReportedAgain() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, limit: nil, timeoutMilliseconds: 2000)
    _ = try driver.admit(makeJob(token: "first"), id: 0)
    let count = UInt64(500)
    server.pause()
    for id in 0..<count { driver.remember(accepted, of: makeJob(token: "flight-\(id)"), id: id) }
    try driver.turn()
    #expect(driver.state.counters.remembered == 500 && driver.state.counters.rememberedLocally == 0)
    // Redis ran none of it.
    server.kill()
    try server.start()
    try driver.catchUp(500)
    #expect(driver.state.counters.rememberedLocally == 500)
    let elsewhere = try makeDriver(server.url, limit: nil, timeoutMilliseconds: 2000)
    var tickets: [Ticket] = []
    for id in 0..<count { tickets.append(elsewhere.ask(makeJob(token: "flight-\(id)"), id: id)) }
    for ticket in tickets { #expect(try Answered(elsewhere.answer(ticket)) == .duplicate(accepted)) }
    #expect(elsewhere.state.counters.decidedLocally == 0)
    elsewhere.state.close()
    driver.state.close()
    server.stop()
  }

  /// A token dies while Redis is away, and is registered again at another worker: this lane must drop its own mark.
  @Test func marksOfAnOutageAreTheFleetsAfterIt() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, limit: nil, timeoutMilliseconds: 2000)
    let job = makeJob(token: "gone")
    _ = try driver.admit(job, id: 1)
    server.stop()
    try driver.turn(untilWithinSeconds: 8, "degraded") { driver.state.degradation(of: .deadTokens) != nil }
    driver.remember(
      RememberedOutcome(outcome: .unregistered, status: 410, attempts: 1, sentAt: 5, completedAt: 6), of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 2)) == .repeated(.dead(6)), "decided by this lane alone")
    try server.start()
    try driver.catchUp(1, withinSeconds: 3)
    let elsewhere = try makeDriver(server.url, limit: nil, timeoutMilliseconds: 2000)
    #expect(try Answered(elsewhere.admit(job, id: 3)) == .dead(6))
    #expect(try Answered(elsewhere.admit(makeJob(token: "gone", registeredAt: 7), id: 4)) == .proceed)
    #expect(try Answered(driver.admit(job, id: 5)) == .proceed, "lifted for everybody")
    elsewhere.state.close()
    driver.state.close()
    server.stop()
  }

  /// Redis is slow in bursts, as on a busy machine: the state does not flap.
  @Test func shortPausesAreNoOutage() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, limit: nil, timeoutMilliseconds: 20)
    _ = try driver.admit(makeJob(token: "first"), id: 0)
    var (id, outageCount) = (UInt64(1), 0)
    for _ in 0..<6 {
      let start = driver.now.monotonic
      server.pause()
      while driver.now.monotonic < start.adding(milliseconds: 150) {
        #expect(
          [.proceed, .repeated(.proceed)].contains(try Answered(driver.admit(makeJob(token: "slow-\(id)"), id: id))))
        id += 1
      }
      server.resume()
      // Redis itself answers again: not always the first question, while others use the machine.
      while try Answered(driver.admit(makeJob(token: "slow-\(id)"), id: id)) != .proceed {
        id += 1
        try #require(driver.now.monotonic < start.adding(milliseconds: 10_000), "Redis answers nothing")
      }
      id += 1
      // On a machine that stood still it was an outage.
      if driver.now.monotonic >= start.adding(milliseconds: 400) { outageCount += 1 }
    }
    #expect(driver.state.counters.timeouts > 20)
    #expect(notices(driver.state).count <= 2 * outageCount && driver.state.degradation(of: .duplicates) == nil)
    driver.state.close()
    server.stop()
  }

  @Test func whileItLoadsItsData() throws {
    let server = try RedisServer(configuration: ["enable-debug-command local"])
    let driver = try makeDriver(server.url)
    let job = makeJob(token: "load")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    for index in 0..<16 { try server.cli(["EVAL", "for i=1,500 do redis.call('SET','f:\(index):'..i,'x') end", "0"]) }
    server.stop()
    try expectDegraded(driver, reason: "cannot be reached")
    // A millisecond for each of 8000 keys.
    let loading = LoadingStart(server)
    try driver.turn(untilWithinSeconds: 30, "loading") {
      driver.state.degradation(of: .duplicates)?.contains("wait until its data set is loaded") == true
    }
    #expect(try Answered(driver.admit(makeJob(token: "load-2"), id: 1)) == .repeated(.proceed))
    try driver.turn(untilWithinSeconds: 60, "loaded") { loading.isDone }
    try expectRecovered(driver)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    driver.state.close()
    server.stop()
  }

  @Test func aReplicaIsRead() throws {
    let primary = try RedisServer()
    let replica = try RedisServer(configuration: ["replicaof 127.0.0.1 \(primary.port)"])
    let writer = try makeDriver(primary.url, timeoutMilliseconds: 2000)
    let job = makeJob(token: "replica")
    _ = try writer.admit(makeJob(token: "first"), id: 1)
    writer.remember(accepted, of: job, id: 1)
    #expect(try Answered(writer.admit(job, id: 1)) == .duplicate(accepted))
    let isCopied = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { () -> Bool? in
      (try? replica.cli(["DBSIZE"]))?.hasPrefix("0") == false ? true : nil
    }
    #expect(isCopied == true)
    let reader = try makeDriver(replica.url, timeoutMilliseconds: 2000)
    #expect(try Answered(reader.admit(job, id: 1)) == .duplicate(accepted))
    #expect(try Answered(reader.admit(job, id: 2)) == .repeated(.proceed))
    try reader.turn(untilWithinSeconds: 5, "degraded") { reader.state.degradation(of: .rateLimit) != nil }
    #expect(reader.state.degradation(of: .duplicates)?.contains("this is a replica") == true)
    try replica.cli(["REPLICAOF", "NO", "ONE"])
    try reader.turn(untilWithinSeconds: 3, "recovered") { reader.state.degradation(of: .duplicates) == nil }
    writer.state.close()
    reader.state.close()
    replica.stop()
    primary.stop()
  }

  @Test func aWrongPasswordIsSaidAndTheRightOneWorks() throws {
    let server = try RedisServer(password: "right")
    let wrong = try makeDriver("redis://:hunter2@127.0.0.1:\(server.port)/0")
    #expect(try Answered(wrong.admit(makeJob(token: "p"), id: 1)) == .repeated(.proceed))
    try expectDegraded(wrong, reason: "check user and password")
    #expect(wrong.state.degradation(of: .duplicates)?.contains("hunter2") == false)
    wrong.state.close()
    let none = try makeDriver("redis://127.0.0.1:\(server.port)/0")
    #expect(try Answered(none.admit(makeJob(token: "p"), id: 1)) == .repeated(.proceed))
    try expectDegraded(none, reason: "set user and password in redis.url")
    none.state.close()
    let right = try makeDriver(server.url, timeoutMilliseconds: 2000)
    #expect(try Answered(right.admit(makeJob(token: "p"), id: 1)) == .proceed)
    #expect(right.state.counters.decidedLocally == 0 && notices(right.state).isEmpty)
    right.state.close()
    server.stop()
  }

  @Test func anACLUserNeedsOnlyWhatIsDocumented() throws {
    let server = try RedisServer()
    let rules = "+evalsha +eval +script|load +get +mget +set +append +del +time +ttl"
    try server.cli(
      ["ACL", "SETUSER", "worker", "on", ">p@ss", "~push:*"] + rules.split(separator: " ").map(String.init))
    let driver = try makeDriver("redis://worker:p%40ss@127.0.0.1:\(server.port)", timeoutMilliseconds: 2000)
    let job = makeJob(token: "acl")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    let gone = RememberedOutcome(outcome: .unregistered, status: 410, attempts: 1, sentAt: 5, completedAt: 6)
    driver.remember(gone, of: job, id: 2)
    #expect(try Answered(driver.admit(job, id: 3)) == .dead(6))
    #expect(try Answered(driver.admit(makeJob(token: "acl", registeredAt: 7), id: 4)) == .proceed)
    #expect(driver.state.counters.errors == 0 && driver.state.counters.decidedLocally == 0)
    driver.state.close()
    try server.cli(["ACL", "SETUSER", "worker", "-script|load"])
    let less = try makeDriver("redis://worker:p%40ss@127.0.0.1:\(server.port)")
    #expect(try Answered(less.admit(job, id: 9)) == .repeated(.proceed))
    try expectDegraded(less, reason: "allow the ACL user")
    less.state.close()
    server.stop()
  }

  @Test func otherCommandsShareTheConnection() throws {
    let server = try RedisServer()
    let driver = try makeDriver(server.url, timeoutMilliseconds: 2000)
    #expect(driver.state.request(["PING"]) == nil, "not connected yet")
    _ = try driver.admit(makeJob(token: "x"), id: 1)
    let ids = [["SET", "a", "1"], ["INCR", "a"], ["LRANGE", "none", "0", "-1"], ["NOSUCH"]].map(driver.state.request)
    var answers: [(id: UInt64, reply: RedisReply?)] = []
    try driver.turn(untilWithinSeconds: 5, "answered") {
      while let answer = driver.state.nextReply() { answers.append(answer) }
      return answers.count == 4
    }
    #expect(answers.map(\.id) == ids.compactMap(\.self))
    #expect(answers[0].reply == .status("OK") && answers[1].reply == .integer(2) && answers[2].reply == .array([]))
    guard case .error(let error) = answers[3].reply else {
      Issue.record("no error")
      return
    }
    #expect(error.kind == .other && error.message.contains("NOSUCH"))
    driver.state.close()
    server.stop()
  }
}

/// Starts a server whose data takes a while to load, beside the test.
private final class LoadingStart: Sendable {
  private let done = Atomic(false)
  var isDone: Bool { done.load(ordering: .acquiring) }

  init(_ server: RedisServer) {
    DispatchQueue.global().async { [self] in
      _ = try? server.start(["--key-load-delay", "1000"])
      done.store(true, ordering: .releasing)
    }
  }
}
