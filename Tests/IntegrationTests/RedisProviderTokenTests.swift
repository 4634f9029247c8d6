import Dispatch
import PushCore
import PushCredentials
import PushIO
import PushStores
import Synchronization
import TestSupport
import Testing

/// One provider token for the fleet, over a real Redis: made once, stored again when Redis loses it, sealed if configured.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct RedisProviderTokenTests {
  private func stored(_ server: RedisServer, prefix: String = "fleet:") throws -> String {
    try server.cli(["GET", "\(prefix){token:TEAM:KEY}:value"])
  }

  @Test func eightAtOnceOnAnEmptyRedisMakeOne() throws {
    let server = try RedisServer()
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let members = try (0..<8).map { _ in try ProviderTokenMember(server.url, signer: signer) }
    let seen = Mutex<Set<[UInt8]>>([])
    DispatchQueue.concurrentPerform(iterations: 8) { index in
      let token = members[index].token()
      seen.withLock { _ = $0.insert(token ?? []) }
    }
    let tokens = seen.withLock { $0 }
    #expect(tokens.count == 1 && !tokens.contains([]))
    #expect(try server.cli(["PTTL", "fleet:{token:TEAM:KEY}:value"]).hasPrefix("-") == false, "it expires")
    #expect(try server.cli(["EXISTS", "fleet:{token:TEAM:KEY}:lock"]).hasPrefix("0"), "the lock was released")
    // A worker that starts later uses the same token.
    let late = try ProviderTokenMember(server.url, signer: signer)
    #expect(late.token() == tokens.first)

    // Redis loses it: a worker that has the token stores it again; a worker that starts meanwhile waits for it.
    try server.cli(["FLUSHALL"])
    let starter = try ProviderTokenMember(server.url, signer: signer)
    #expect(starter.token() == tokens.first)
    #expect(try stored(server).contains(String(decoding: (tokens.first ?? []).dropFirst(7), as: UTF8.self)))
    let all = members + [late, starter]
    for member in all {
      #expect(member.token() == tokens.first)
      #expect(member.tokens.snapshots().map { $0.refreshes + $0.adoptions } == [1])
      member.store.stop()
    }
    #expect(
      all.compactMap { $0.tokens.snapshots().first?.refreshes }.reduce(0, +) == 1, "only one says that it made it")
    server.stop()
  }

  @Test func withoutRedisEachMakesOneAndTheNewestIsKeptAfterwards() throws {
    let server = try RedisServer()
    server.stop()
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let alone = try ProviderTokenMember(server.url, signer: signer)
    let own = try #require(alone.token(withinMilliseconds: 3_000), "sending does not wait for Redis")
    try server.start()
    let isStored = ChildProcess.poll(timeoutMilliseconds: 5_000, everyMilliseconds: 50) {
      (try? stored(server))?.contains(String(decoding: own.dropFirst(7), as: UTF8.self)) == true ? true : nil
    }
    #expect(isStored == true)
    let second = try ProviderTokenMember(server.url, signer: signer)
    #expect(second.token() == own)
    for member in [alone, second] { member.store.stop() }
    server.stop()
  }

  @Test func whoDiesWithTheLockCostsTheLockstime() throws {
    let server = try RedisServer()
    try server.cli(["SET", "fleet:{token:TEAM:KEY}:lock", "somebody", "PX", "1500"])
    let member = try ProviderTokenMember(server.url, signer: try ProviderTokenSigner(newKeyFor: "test"))
    #expect(member.token(withinMilliseconds: 700) == nil, "waits for the holder")
    #expect(member.token() != nil)
    #expect(try !stored(server).isEmpty)
    member.store.stop()
    server.stop()
  }

  @Test func aRedisThatTakesNoWritesGivesTheTokenThatItHas() throws {
    let server = try RedisServer(configuration: ["maxmemory-policy noeviction"])
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let first = try ProviderTokenMember(server.url, signer: signer)
    let token = try #require(first.token())
    try server.cli(["CONFIG", "SET", "maxmemory", "1"])
    let second = try ProviderTokenMember(server.url, signer: signer)
    #expect(second.token() == token)
    try server.cli(["FLUSHALL"])
    let third = try ProviderTokenMember(server.url, signer: signer)
    #expect(third.token(withinMilliseconds: 5_000) != nil, "its own token")
    for member in [first, second, third] { member.store.stop() }
    server.stop()
  }

  @Test func withAKeyTheTokenIsHidden() throws {
    let server = try RedisServer()
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let key = (0..<32).map { _ in UInt8.random(in: 0...255) }
    let first = try ProviderTokenMember(server.url, signer: signer, seal: TokenSeal(key: key))
    let token = try #require(first.token())
    #expect(try !stored(server).contains("eyJ"), "no JWT to read")
    let second = try ProviderTokenMember(server.url, signer: signer, seal: TokenSeal(key: key))
    #expect(second.token() == token)
    #expect(second.problems.all.isEmpty)
    let other = try ProviderTokenMember(server.url, signer: signer, seal: TokenSeal(key: key.reversed()))
    let own = try #require(other.token())
    #expect(own != token)
    #expect(other.problems.all.count >= 1)
    #expect(other.problems.all.first?.contains("redis.token_key_file") == true, "\(other.problems.all)")
    for member in [first, second, other] { member.store.stop() }
    server.stop()
  }

  /// All clocks of the fleet were 20 minutes ahead when its token was made: who is refused first has it replaced for all, once.
  @Test func aTokenThatAPNsNeverTookIsReplacedForTheFleet() throws {
    let server = try RedisServer()
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let members = try (0..<3).map { _ in try ProviderTokenMember(server.url, signer: signer, secondsAhead: 1_200) }
    let first = try #require(members[0].token())
    for member in members { #expect(member.token() == first) }
    #expect(try members[0].isRefused() == .replaced)
    let second = try #require(members[0].token())
    #expect(second != first)
    for member in members {
      let followed = ChildProcess.poll(timeoutMilliseconds: 5_000, everyMilliseconds: 20) {
        member.token() == second ? true : nil
      }
      #expect(followed == true, "it need not be refused itself")
    }
    #expect(try members[1].isRefused() == .none, "this one is right")
    let late = try ProviderTokenMember(server.url, signer: signer)
    #expect(late.token() == second)
    let all = members + [late]
    #expect(all.compactMap { $0.tokens.snapshots().first?.refreshes }.reduce(0, +) == 2)
    for member in all { member.store.stop() }
    server.stop()
  }

  @Test func anACLWithoutClientListIsEnough() throws {
    let server = try RedisServer()
    try server.cli(
      ["ACL", "SETUSER", "worker", "on", ">p", "~fleet:*", "+eval", "+get", "+set", "+del", "+time"])
    let member = try ProviderTokenMember(
      "redis://worker:p@127.0.0.1:\(server.port)", signer: try ProviderTokenSigner(newKeyFor: "test"))
    #expect(member.token() != nil)
    #expect(try !stored(server).isEmpty)
    member.store.stop()
    server.stop()
  }

  /// The whole worker, eight times, against a simulator that takes one token in 20 minutes.
  @Test func eightWorkersShowOneToken() throws {
    let redis = try RedisServer()
    var options = WorkerWorld.Options()
    options.tokenIntervalSeconds = 1200
    options.prefetch = 20
    let world = try WorkerWorld("fleet", redisURL: redis.url, options: options)
    try world.publishJobs(0..<400)
    let file = world.configuration().replacing("admin: {port: \(world.adminPort)}", with: "admin: {port: 0}")
    let workers = try (0..<8).map { _ in try world.startWorker(configuration: file) }
    try world.waitForAccepted(400)
    workers[0].child.kill()
    try redis.cli(["FLUSHALL"])
    let again = try world.startWorker(configuration: file)
    try world.publishJobs(400..<800)
    try world.waitForAccepted(800)
    for worker in workers.dropFirst() + [again] {
      #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
      #expect(!worker.log.contains("renewed too often"))
    }
    // Restarted within the 20 minutes, alone, it uses the token that Redis kept.
    let alone = try world.startWorker(configuration: file)
    try world.publishJobs(800..<900)
    try world.waitForAccepted(900)
    #expect(alone.drain(seconds: 20) == 0)
    // Redis lost the outcomes that the killed worker had not acknowledged, so these jobs are sent again: at once, or from a retry queue if
    // their claim was seen before.
    let answers = try world.simulator.counters().answers
    let sent = try #require(answers["200"])
    #expect(answers.count == 1 && (900...900 + options.prefetch).contains(sent), "\(answers)")
    redis.stop()
  }
}
