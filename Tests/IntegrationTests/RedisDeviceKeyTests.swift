import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// The one key of a device: it stays small, expires, and holds the right content whatever was in it before.
@Suite(.timeLimit(.minutes(2)))
struct RedisDeviceKeyTests {
  private let accepted = RememberedOutcome(
    outcome: .accepted, status: 200, attempts: 1, sentAt: 1_796_000_000_004, completedAt: 1_796_000_000_031)

  /// An admission store with its own key prefix.
  private struct Fleet {
    let server: RedisServer
    var settings = RedisAdmissionStoreSettings()

    init(_ server: RedisServer, limit: RateLimit? = RateLimit(burst: 3, perSecond: 0.001)) {
      self.server = server
      settings.prefix = "device-\(UInt64.random(in: 0 ... .max)):"
      settings.limits = RateLimits(limit)
      settings.timeoutMilliseconds = 2000
    }

    func join() throws -> AdmissionDriver<RedisAdmissionStore> {
      let loop = try EventLoop()
      let state = RedisAdmissionStore(
        loop: loop, configuration: try RedisConfiguration(url: server.url), tls: nil, settings: settings, seed: 7)
      state.connect()
      let driver = AdmissionDriver(state, loop: loop)
      try driver.turn(untilWithinSeconds: 10, "connected") { state.isConnected }
      try driver.turn()
      return driver
    }

    func key(_ job: borrowing PushJob) -> String {
      let device = TargetKey(job, target: 0)
      var text = [UInt8](repeating: 0, count: TargetKey.textCount)
      var span = text.mutableSpan
      device.writeText(into: &span, at: 0)
      return "\(settings.prefix){\(String(decoding: text, as: UTF8.self))}"
    }

    func number(_ command: String...) throws -> Int {
      try #require(try Int(server.cli(command).filter { !$0.isNewline }))
    }

    /// The number of this fleet's keys, and of those without an expiry.
    func keys() throws -> (count: Int, endless: Int, answersElsewhere: Int) {
      let script = """
        local keys, endless, elsewhere = redis.call('KEYS', ARGV[1]), 0, 0
        for _, key in ipairs(keys) do
          if redis.call('PTTL', key) == -1 then endless = endless + 1 end
          if string.find(key, '}:d:', 1, true) then elsewhere = elsewhere + 1 end
        end
        return #keys * 1000000 + endless * 1000 + elsewhere
        """
      let numbers = try number("EVAL", script, "0", settings.prefix + "*")
      return (numbers / 1_000_000, numbers / 1000 % 1000, numbers % 1000)
    }
  }

  @Test func onePushIsOneSmallKey() throws {
    let fleet = Fleet(try RedisServer.shared())
    let driver = try fleet.join()
    let job = makeJob(token: "small")
    let key = fleet.key(job)
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    let life = try fleet.number("TTL", key)
    // Six hours, a minute in which it is sent, and until the burst is back.
    #expect((22_600...22_660).contains(life), "\(life)")
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    // Redis doubles the room of a value that grows: up to 54 bytes take 112, 55 bytes take 128.
    #expect(try fleet.number("STRLEN", key) <= 54)
    let broadcast = makeJob(token: "dHN0LXNyY2gtY2hubA==", kind: .channel)
    #expect(try Answered(driver.admit(broadcast, id: 1)) == .proceed)
    driver.remember(accepted, of: broadcast, id: 1)
    #expect(try Answered(driver.admit(broadcast, id: 1)) == .duplicate(accepted))
    #expect(try fleet.number("STRLEN", fleet.key(broadcast)) <= 54)
    #expect(try fleet.keys() == (2, 0, 0))
    #expect(driver.state.counters.errors == 0)
    driver.state.close()
  }

  @Test(arguments: [RateLimit(burst: 1000, perSecond: 1), nil])
  func aDeviceThatIsPushedOftenHasASmallKeyToo(limit: RateLimit?) throws {
    let fleet = Fleet(try RedisServer.shared(), limit: limit)
    let driver = try fleet.join()
    let job = makeJob(token: "often")
    let odd = RememberedOutcome(
      outcome: .rejected, status: 400, reason: .other(String(repeating: "x", count: 64)), attempts: 3, sentAt: nil,
      completedAt: 5)
    for id in UInt64(0)..<200 {
      #expect(try Answered(driver.admit(job, id: id)) == .proceed)
      driver.remember(id % 10 == 0 ? odd : accepted, of: job, id: id)
      if id % 20 == 0 { #expect(try fleet.number("STRLEN", fleet.key(job)) < 1000) }
    }
    var tickets: [Ticket] = []
    for id in UInt64(0)..<200 { tickets.append(driver.ask(job, id: id)) }
    for (id, ticket) in tickets.enumerated() {
      #expect(try Answered(driver.answer(ticket)) == .duplicate(id % 10 == 0 ? odd : accepted))
    }
    #expect(try Answered(driver.admit(job, id: 200)) == .proceed)
    let keys = try fleet.keys()
    #expect(keys.endless == 0 && keys.answersElsewhere == keys.count - 1 && keys.answersElsewhere >= 170, "\(keys)")
    #expect(driver.state.counters.decidedLocally == 0 && driver.state.counters.errors == 0)
    driver.state.close()
  }

  /// Deletes it, as when Redis evicts it or is flushed.
  @Test func aKeyThatIsGoneWhenTheAnswerComesEndsToo() throws {
    let fleet = Fleet(try RedisServer.shared())
    let driver = try fleet.join()
    func job(_ index: Int) -> PushJob { makeJob(token: "gone-\(index)") }
    for index in 0..<3 {
      #expect(try Answered(driver.admit(job(index), id: 1)) == .proceed)
      try fleet.server.cli(["DEL", fleet.key(job(index))])
      let dead = RememberedOutcome(outcome: .unregistered, attempts: 1, sentAt: 1, completedAt: 2)
      driver.remember(index == 1 ? dead : accepted, of: job(index), id: 1)
    }
    try driver.turn(untilWithinSeconds: 5, "all keys end") { (try? fleet.keys()).map { $0 == (3, 0, 0) } == true }
    for index in 0..<3 {
      let life = try fleet.number("TTL", fleet.key(job(index)))
      #expect((index == 1 ? 2_591_900...2_592_000 : 21_600...21_660).contains(life), "\(life)")
    }
    #expect(try Answered(driver.admit(job(0), id: 1)) == .duplicate(accepted))
    driver.state.close()
  }

  /// Writes that Redis missed, for a device whose key expires soon.
  @Test func whatIsReportedLateLivesAsLong() throws {
    let server = try RedisServer()
    let fleet = Fleet(server)
    let driver = try fleet.join()
    let job = makeJob(token: "late")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    driver.remember(accepted, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    try server.cli(["EXPIRE", fleet.key(job), "100"])
    server.stop()
    try driver.turn(untilWithinSeconds: 8, "degraded") { driver.state.degradation(of: .duplicates) != nil }
    driver.remember(accepted, of: job, id: 2)
    try server.start()
    try driver.catchUp(1)
    #expect(try Answered(driver.admit(job, id: 2)) == .duplicate(accepted))
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
    let life = try fleet.number("TTL", fleet.key(job))
    #expect((21_600...21_660).contains(life), "\(life)")
    driver.state.close()
    server.stop()
  }

  /// The job's claim ended, and is still stored because of other jobs. The answer gets its own lifetime.
  @Test func anAnswerThatComesLongAfterItsClaimIsKnown() throws {
    var fleet = Fleet(try RedisServer.shared(), limit: nil)
    fleet.settings.claimSeconds = 1
    fleet.settings.outcomeSeconds = 2
    let driver = try fleet.join()
    let job = makeJob(token: "long-after")
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    try driver.turn(forMilliseconds: 2200)
    #expect(try Answered(driver.admit(job, id: 2)) == .proceed)
    try driver.turn(forMilliseconds: 1900)
    let gone = RememberedOutcome(outcome: .unregistered, status: 410, attempts: 1, sentAt: 5, completedAt: 6)
    driver.remember(gone, of: job, id: 1)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(gone))
    driver.state.close()
  }

  /// An answer is reported again after its claim expired, and other jobs move it to its own key: it stays known and grows no larger.
  @Test func anAnswerThatIsToldTwiceIsMovedWithItsEnd() throws {
    var fleet = Fleet(try RedisServer.shared(), limit: nil)
    fleet.settings.claimSeconds = 1
    let driver = try fleet.join()
    let job = makeJob(token: "told-twice", registeredAt: 100)
    let gone = RememberedOutcome(outcome: .unregistered, status: 410, attempts: 1, sentAt: 5, completedAt: 6)
    #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
    for _ in 0..<3 {
      driver.remember(gone, of: job, id: 1)
      try driver.turn(forMilliseconds: 1200)
    }
    #expect(try fleet.number("STRLEN", fleet.key(job)) < 80)
    // There is no claim.
    driver.remember(gone, of: job, id: 2)
    for id in UInt64(10)..<40 {
      #expect(try Answered(driver.admit(job, id: id)) == .proceed)
      driver.remember(accepted, of: job, id: id)
    }
    try driver.turn(forMilliseconds: 1200)
    #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(gone))
    #expect(try Answered(driver.admit(job, id: 2)) == .duplicate(gone))
    driver.state.close()
  }

  /// Bytes of another program or version: they are no answer, cause no error, and expire.
  @Test(arguments: 1...3 as ClosedRange<UInt64>) func whatSomebodyElseWroteHarmsNothing(seed: UInt64) throws {
    let fleet = Fleet(try RedisServer.shared(), limit: RateLimit(burst: 100, perSecond: 1))
    let driver = try fleet.join()
    var random = SeededRandom(seed: seed)
    var script = ""
    func job(_ index: Int) -> PushJob { makeJob(token: "odd-\(index)") }
    let all = 0..<200
    for index in all {
      var bytes: [UInt8] = []
      for _ in 0..<Int.random(in: 0...12, using: &random) {
        func some(_ count: ClosedRange<Int>, of bytes: ClosedRange<UInt8>) -> [UInt8] {
          (0..<Int.random(in: count, using: &random)).map { _ in UInt8.random(in: bytes, using: &random) }
        }
        switch random.next() % 6 {
        case 0: bytes += [1] + some(0...12, of: 0...0)
        case 1: bytes += [3] + some(12...12, of: 0...0)
        case 2: bytes += [Bool.random(using: &random) ? 2 : 4] + some(0...5, of: 1...1)
        case 3: bytes += [161] + some(1...1, of: 0...40) + some(20...20, of: 0...255)
        case 4: bytes += [5] + some(0...17, of: 0...255)
        default: bytes += some(1...60, of: 0...255)
        }
      }
      if Bool.random(using: &random) { bytes.insert(209, at: 0) }
      // A rate state from the far future would block the device until then.
      for index in bytes.indices.dropFirst(2) where bytes[index - 2] < 160 { bytes[index] &= 0x0F }
      let text = bytes.map { "\\" + ("00" + String($0)).suffix(3) }.joined()
      script += "redis.call('SET', '\(fleet.key(job(index)))', '\(text)', 'EX', '500')\n"
    }
    try fleet.server.cli(["EVAL", script, "0"])
    var proceeded = 0
    for round in UInt64(1)...40 {
      for (index, ticket) in zip(all, all.map { driver.ask(job($0), id: round) }) {
        switch try driver.answer(ticket) {
        case .proceed:
          driver.remember(accepted, of: job(index), id: round)
          proceeded += 1
        case .limited, .dead: break
        case let other: Issue.record("\(other)")
        }
      }
      for (index, ticket) in zip(all, all.map { driver.ask(job($0), id: round) }) {
        switch try driver.answer(ticket) {
        case .duplicate(let outcome): #expect(outcome == accepted)
        case .limited, .proceed: break
        case let other: Issue.record("\(other) of \(fleet.key(job(index)))")
        }
      }
    }
    #expect(proceeded > 40 * 100, "\(proceeded)")
    #expect(driver.state.counters.errors == 0 && driver.state.counters.unreadable == 0)
    #expect(driver.state.counters.decidedLocally == 0)
    for index in all { #expect(try fleet.number("STRLEN", fleet.key(job(index))) < 1500) }
    driver.state.close()
  }

  /// A value of another format version counts as none.
  @Test func anotherVersionIsWrittenAnew() throws {
    let fleet = Fleet(try RedisServer.shared())
    let driver = try fleet.join()
    func job(_ index: Int) -> PushJob { makeJob(token: "version-\(index)") }
    for index in 0..<3 { #expect(try Answered(driver.admit(job(index), id: 1)) == .proceed) }
    let next = """
      for _, key in ipairs(KEYS) do
        redis.call('SETRANGE', key, 0, string.char(string.byte(redis.call('GET', key)) + 1))
      end
      """
    try fleet.server.cli(["EVAL", next, "3"] + (0..<3).map { fleet.key(job($0)) })
    #expect(try Answered(driver.admit(job(0), id: 1)) == .proceed, "the stored value is ignored")
    driver.remember(accepted, of: job(0), id: 1)
    #expect(try Answered(driver.admit(job(0), id: 1)) == .duplicate(accepted))
    // Scripts that change the value ignore it too.
    let gone = RememberedOutcome(outcome: .unregistered, attempts: 1, sentAt: 1, completedAt: 2)
    driver.remember(gone, of: job(1), id: 1)
    #expect(try Answered(driver.admit(job(1), id: 1)) == .duplicate(gone))
    driver.state.tighten(job(2), device: TargetKey(job(2), target: 0), now: driver.now)
    #expect(try Answered(driver.admit(job(2), id: 1)) == .limited)
    driver.state.close()
  }

  /// More jobs in flight than a device's key holds, and all answers reported before the next question.
  @Test func aDeviceWithManyJobsOnTheirWayForgetsNone() throws {
    let fleet = Fleet(try RedisServer.shared(), limit: nil)
    let driver = try fleet.join()
    let job = makeJob(token: "many")
    let all = UInt64(0)..<300
    var tickets = all.map { driver.ask(job, id: $0) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .proceed) }
    #expect(try fleet.number("STRLEN", fleet.key(job)) < 300 * 18 + 10, "jobs in flight stay")
    tickets = all.map { driver.ask(job, id: $0) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .claimed) }
    for id in all { driver.remember(accepted, of: job, id: id) }
    // Each push moves at most sixteen of them: a script blocks all clients.
    var moved = 0
    for id in UInt64(300)..<340 {
      #expect(try Answered(driver.admit(job, id: id)) == .proceed)
      let now = try fleet.keys().answersElsewhere
      #expect(id < 310 ? now == moved + 16 : now <= moved + 16, "\(now - moved) at \(id)")
      moved = now
    }
    #expect(try fleet.number("STRLEN", fleet.key(job)) < 2000)
    tickets = all.map { driver.ask(job, id: $0) }
    for ticket in tickets { #expect(try Answered(driver.answer(ticket)) == .duplicate(accepted)) }
    #expect(try fleet.keys().endless == 0)
    #expect(driver.state.counters.errors == 0)
    driver.state.close()
  }

  /// It is replayed five hours later, when its age would be long over.
  @Test func anOldJobStaysOlder() throws {
    var fleet = Fleet(try RedisServer.shared())
    fleet.settings.collapseMilliseconds = 60_000
    fleet.settings.orderWaitSeconds = 0
    let redis = try fleet.join()
    var settings = AdmissionMemory.Settings()
    settings.collapseMilliseconds = 60_000
    settings.orderWaitSeconds = 0
    let memory = AdmissionDriver(MemoryAdmissionStore(settings: settings, limits: .none), loop: try EventLoop())
    func play(_ driver: AdmissionDriver<some AdmissionStore>, pass: () throws -> Void) throws {
      let job = makeJob(token: "replayed", collapseID: "match-7")
      let start = driver.now.unixMilliseconds
      let older = driver.ask(job, id: 1)
      #expect(try Answered(driver.answer(older)) == .proceed)
      #expect(try Answered(driver.admit(job, id: 2)) == .proceed)
      try pass()
      let replayed = driver.ask(job, id: 1, firstSeen: start, earlier: driver.claim(of: older))
      #expect(try Answered(driver.answer(replayed)) == .superseded)
    }
    let seconds = 5 * 3_600
    try play(memory) { memory.skippedMilliseconds += Int64(seconds) * 1_000 }
    try play(redis) {
      redis.skippedMilliseconds += Int64(seconds) * 1_000
      try fleet.server.cli(["EVAL", Self.timePasses, "0", fleet.settings.prefix + "*", String(seconds)])
    }
  }

  /// Random questions and reports, in random order and at random times: Redis answers as memory does.
  @Test(arguments: 1...12 as ClosedRange<UInt64>) func memoryAndRedisAgree(seed: UInt64) throws {
    let limits = RateLimits(
      RateLimit(burst: 20, perSecond: 0.0001),
      overrides: [
        RateLimits.Override(app: [], pushType: .background, limit: RateLimit(burst: 4, perSecond: 0.0001)),
        RateLimits.Override(app: [], pushType: .voip, limit: nil),
      ])
    var fleet = Fleet(try RedisServer.shared())
    fleet.settings.limits = limits
    // Longer than a part of this test takes, and shorter than what passes between two: their seconds begin at other moments.
    fleet.settings.orderWaitSeconds = 15
    var settings = AdmissionMemory.Settings()
    settings.orderWaitSeconds = 15
    let redis = try fleet.join()
    let memory = AdmissionDriver(MemoryAdmissionStore(settings: settings, limits: limits), loop: try EventLoop())
    var random = SeededRandom(seed: seed)
    var answers: [Answered: Int] = [:]
    func pass(seconds: Int) throws {
      memory.skippedMilliseconds += Int64(seconds) * 1000
      redis.skippedMilliseconds += Int64(seconds) * 1000
      try fleet.server.cli(["EVAL", Self.timePasses, "0", fleet.settings.prefix + "*", String(seconds)])
    }
    struct Asked {
      let token: String
      let type: PushType
      let registeredAt: Int64?
      let collapseID: String
      let sequence: Int64?
      let id: UInt64
      var memoryClaim: UInt32 = 0
      var redisClaim: UInt32 = 0
      /// Unix milliseconds.
      var admittedAt: Int64 = 0
      var job: PushJob {
        makeJob(token: token, registeredAt: registeredAt, type: type, collapseID: collapseID, sequence: sequence)
      }
    }
    /// Admitted and not answered yet.
    var underWay: [Asked] = []
    func somebody() -> Asked {
      // Copies of a job have its type, and so its rule.
      let id = random.next() % 80
      let type: PushType = [.alert, .alert, .alert, .background, .voip][Int(id % 5)]
      let registeredAt = Bool.random(using: &random) ? nil : Int64(random.next() % 1000)
      let collapseID = ["", "", "one", "two"][Int(random.next() % 4)]
      return Asked(
        token: "device-\(random.next() % 3)", type: type, registeredAt: registeredAt, collapseID: collapseID,
        sequence: random.next() % 2 == 0 ? nil : Int64(random.next() % 40), id: id)
    }
    let start = memory.now.unixMilliseconds - 2000
    for step in 0..<400 {
      // Reports leave before the questions of the same turn.
      for _ in 0..<Int.random(in: 0...2, using: &random) {
        // An answer comes while the lane waits for it.
        let isNew = { (asked: Asked) in memory.now.unixMilliseconds - asked.admittedAt < 50_000 }
        guard let index = underWay.indices.filter({ isNew(underWay[$0]) }).randomElement(using: &random) else { break }
        let reported = underWay.remove(at: index)
        var outcome = accepted
        outcome.attempts = UInt32(step)
        if random.next() % 6 == 0 {
          outcome.outcome = .unregistered
          outcome.unregisteredAt = Int64(random.next() % 1000)
        }
        memory.remember(outcome, of: reported.job, id: reported.id)
        redis.remember(outcome, of: reported.job, id: reported.id)
      }
      if step % 100 == 99 {
        let job = somebody().job
        memory.state.tighten(job, device: TargetKey(job, target: 0), now: memory.now)
        redis.state.tighten(job, device: TargetKey(job, target: 0), now: redis.now)
      }
      if step % 15 == 14 || step % 100 == 50 {
        // Reports and claims are stored.
        _ = redis.state.request(["PING"])
        try redis.turn(untilWithinSeconds: 5, "reported") { redis.state.nextReply() != nil }
        try pass(seconds: step % 100 == 50 ? 7 * 3600 : 20)
        if step % 100 == 50 { underWay = [] }
      }
      var asked: [(of: Asked, carries: Bool, memory: Ticket, redis: Ticket)] = []
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        // An admitted job comes back, is redelivered, or is published again; or it is a new one.
        let isKnown = !underWay.isEmpty && random.next() % 2 == 0
        let one =
          isKnown
          ? underWay[Int(random.next() % UInt64(underWay.count))] : somebody()
        let carries = isKnown && random.next() % 3 > 0
        let firstSeen = Bool.random(using: &random) ? nil : start + Int64(random.next() % 1000)
        let takeover: Takeover = random.next() % 5 == 0 ? .anyClaim : .none
        asked.append(
          (
            one, carries,
            memory.ask(
              one.job, id: one.id, firstSeen: firstSeen, earlier: carries ? one.memoryClaim : 0,
              takeover: takeover),
            redis.ask(
              one.job, id: one.id, firstSeen: firstSeen, earlier: carries ? one.redisClaim : 0,
              takeover: takeover)
          ))
      }
      for (of, carries, one, other) in asked {
        let admission = try memory.answer(one)
        let expected = Answered(admission)
        let answer = try Answered(redis.answer(other))
        #expect(answer == expected, "step \(step)")
        if admission.leavesClaim {
          // The attempt that it comes back from is over.
          if carries { underWay.removeAll { $0.redisClaim == of.redisClaim } }
          var admitted = of
          admitted.memoryClaim = memory.claim(of: one)
          admitted.redisClaim = redis.claim(of: other)
          admitted.admittedAt = memory.now.unixMilliseconds
          underWay.append(admitted)
        }
        switch answer {
        case .duplicate: answers[.duplicate(accepted), default: 0] += 1
        case .dead: answers[.dead(0), default: 0] += 1
        case .repeated(.dead): answers[.repeated(.dead(0)), default: 0] += 1
        default: answers[answer, default: 0] += 1
        }
      }
    }
    let kinds: [Answered] = [
      .proceed, .duplicate(accepted), .dead(0), .limited, .superseded, .claimed, .repeated(.proceed),
    ]
    for kind in kinds { #expect(answers[kind, default: 0] > 0, "\(kind): \(answers)") }
    #expect(redis.state.counters.decidedLocally == 0 && redis.state.counters.errors == 0)
    #expect(try fleet.keys().endless == 0)
    redis.state.close()
  }

  /// ARGV: pattern of keys, seconds. Makes all stored times of devices this much older.
  private static let timePasses = #"""
    local seconds = tonumber(ARGV[2])
    local function older(value, at, stop)
      local form = stop - at == 6 and '<I7' or '<I4'
      local unit = stop - at == 6 and 1000000 or 1
      local its = math.max(0, struct.unpack(form, value, at) - seconds * unit)
      return string.sub(value, 1, at - 1) .. struct.pack(form, its) .. string.sub(value, stop + 1)
    end
    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
      local value, left = redis.call('GET', key), redis.call('TTL', key) - seconds
      if not string.find(key, '}:[cs]') then
        local at = string.find(key, '}:d:', 1, true) and 1 or 2
        while at <= #value do
          local kind = string.byte(value, at)
          if kind == 1 then value, at = older(value, at + 1, at + 7), at + 13
          elseif kind == 2 or kind == 4 then value, at = older(value, at + 1, at + 4), at + 5
          elseif kind == 3 then value, at = older(value, at + 9, at + 12), at + 13
          elseif kind == 5 then value, at = older(value, at + 13, at + 16), at + 18
          elseif kind == 161 then at = at + 2 + string.byte(value, at + 1)
          else error('kind ' .. kind) end
        end
      end
      if left > 0 then redis.call('SET', key, value, 'EX', left) else redis.call('DEL', key) end
    end
    return 'done'
    """#
}
