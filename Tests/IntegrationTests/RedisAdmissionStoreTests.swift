import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// The same scenarios against memory and a real Redis: both must make the same decisions.
@Suite(.timeLimit(.minutes(2)))
struct RedisAdmissionStoreTests {
  enum Kind: CaseIterable, Sendable { case memory, redis }

  /// Runs a scenario against one kind, with a prefix of its own.
  func run(
    _ kind: Kind, limit: RateLimit? = nil, outcomeSeconds: Int64 = 600, claimSeconds: Int64 = 60,
    orderWaitSeconds: Int64 = 2, _ scenario: any AdmissionScenario
  ) throws {
    try run(
      kind, limits: RateLimits(limit), outcomeSeconds: outcomeSeconds, claimSeconds: claimSeconds,
      orderWaitSeconds: orderWaitSeconds, scenario)
  }

  func run(
    _ kind: Kind, limits: RateLimits, outcomeSeconds: Int64 = 600, claimSeconds: Int64 = 60,
    tightMilliseconds: Int64 = 30_000, orderWaitSeconds: Int64 = 2, _ scenario: any AdmissionScenario
  ) throws {
    let loop = try EventLoop()
    switch kind {
    case .memory:
      var settings = AdmissionMemory.Settings()
      settings.tightMilliseconds = tightMilliseconds
      settings.outcomeSeconds = outcomeSeconds
      settings.claimSeconds = claimSeconds
      settings.orderWaitSeconds = orderWaitSeconds
      try scenario.run(AdmissionDriver(MemoryAdmissionStore(settings: settings, limits: limits), loop: loop))
    case .redis:
      var settings = RedisAdmissionStoreSettings()
      settings.prefix = "scenario-\(UInt64.random(in: 0 ... .max)):"
      settings.limits = limits
      settings.outcomeSeconds = outcomeSeconds
      settings.claimSeconds = claimSeconds
      settings.orderWaitSeconds = orderWaitSeconds
      settings.timeoutMilliseconds = 2000
      settings.tightMilliseconds = tightMilliseconds
      let server = try RedisServer.shared()
      let state = RedisAdmissionStore(
        loop: loop, configuration: try RedisConfiguration(url: server.url), tls: nil, settings: settings, seed: 7)
      state.connect()
      let driver = AdmissionDriver(state, loop: loop)
      try driver.turn(untilWithinSeconds: 10, "connected") { state.isConnected }
      try driver.turn()
      try scenario.run(driver)
      #expect(state.counters.decidedLocally == 0, "Redis decided")
      #expect(state.counters.errors == 0 && state.counters.unreadable == 0)
      // The first waits for the last report, the second for the commands of its reply: they set the expiry of an outcome without a claim.
      for id in 0..<2 as Range<UInt64> { _ = try driver.admit(makeJob(token: "behind"), id: id) }
      try everyKeyEnds(server, prefix: settings.prefix)
      state.close()
    }
  }

  private func everyKeyEnds(_ server: RedisServer, prefix: String) throws {
    let script = """
      local keys = redis.call('KEYS', ARGV[1])
      local endless = 0
      for _, key in ipairs(keys) do
        if redis.call('PTTL', key) == -1 then endless = endless + 1 end
      end
      return (#keys > 0 and 'some' or 'no') .. ' keys, endless: ' .. endless
      """
    #expect(try server.cli(["EVAL", script, "0", prefix + "*"]).contains("some keys, endless: 0"))
  }

  @Test(arguments: Kind.allCases) func duplicates(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "aa")
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        #expect(try Answered(driver.admit(job, id: 1)) == .claimed, "in flight")
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
        #expect(try Answered(driver.admit(job, id: 2)) == .proceed, "another job")
        #expect(try Answered(driver.admit(makeJob(token: "ab"), id: 1)) == .proceed, "another device")
        #expect(try Answered(driver.admit(makeJob(token: "aa", environment: .sandbox), id: 1)) == .proceed)
        let odd = RememberedOutcome(
          outcome: .rejected, status: 400, reason: .other("New, \"odd\" one"), attempts: 3, isAmbiguous: true,
          sentAt: nil, completedAt: 5)
        driver.remember(odd, of: job, id: 3)
        #expect(try Answered(driver.admit(job, id: 3)) == .duplicate(odd))
      }
    }
    try run(kind, Scenario())
  }

  @Test(arguments: Kind.allCases) func deadTokens(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let mark: Int64 = 1_795_000_000_000
        func unregistered(_ at: Int64?) -> RememberedOutcome {
          RememberedOutcome(
            outcome: .unregistered, status: 410, reason: .unregistered, unregisteredAt: at, attempts: 1, sentAt: mark,
            completedAt: mark + 7)
        }
        let job = makeJob(token: "dead")
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        driver.remember(unregistered(mark), of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(unregistered(mark)), "the answer has priority")
        #expect(try Answered(driver.admit(job, id: 2)) == .dead(mark))
        #expect(try Answered(driver.admit(makeJob(token: "dead", registeredAt: mark - 1), id: 3)) == .dead(mark))
        #expect(try Answered(driver.admit(makeJob(token: "dead", registeredAt: mark), id: 4)) == .dead(mark))
        #expect(try Answered(driver.admit(makeJob(token: "dead", topic: "com.example.other"), id: 5)) == .proceed)
        // Of two marks the later one counts, in whichever order they come.
        driver.remember(unregistered(mark + 100), of: job, id: 6)
        driver.remember(unregistered(mark + 50), of: job, id: 7)
        #expect(try Answered(driver.admit(job, id: 8)) == .dead(mark + 100))
        #expect(
          try Answered(driver.admit(makeJob(token: "dead", registeredAt: mark + 100), id: 9)) == .dead(mark + 100))
        // The token was registered again since: the mark is removed for all workers.
        #expect(try Answered(driver.admit(makeJob(token: "dead", registeredAt: mark + 101), id: 10)) == .proceed)
        #expect(try Answered(driver.admit(job, id: 11)) == .proceed)
        driver.remember(unregistered(nil), of: job, id: 12)
        #expect(try Answered(driver.admit(job, id: 13)) == .dead(mark + 7), "without a timestamp: when it was answered")
      }
    }
    try run(kind, Scenario())
  }

  @Test(arguments: Kind.allCases) func onlyWhatWillBeSentIsCharged(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "rate")
        driver.remember(accepted, of: job, id: 100)
        for _ in 0..<5 { #expect(try Answered(driver.admit(job, id: 100)) == .duplicate(accepted)) }
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        func redelivered(_ id: UInt64) throws -> Answered {
          try Answered(driver.answer(driver.ask(job, id: id, takeover: .anyClaim)))
        }
        for _ in 0..<5 { #expect(try redelivered(1) == .repeated(.proceed), "costs nothing") }
        #expect(try Answered(driver.admit(job, id: 2)) == .proceed)
        #expect(try Answered(driver.admit(job, id: 3)) == .limited)
        guard case .limited(let milliseconds) = try driver.admit(job, id: 3) else {
          Issue.record("not limited")
          return
        }
        #expect((1...60_000).contains(milliseconds))
        #expect(try redelivered(2) == .repeated(.proceed), "even over the rate")
        #expect(try Answered(driver.admit(makeJob(token: "other"), id: 3)) == .proceed)
      }
    }
    try run(kind, limit: RateLimit(burst: 2, perSecond: 1.0 / 60), Scenario())
  }

  @Test(arguments: Kind.allCases) func aBroadcastHasNoRate(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "dHN0LXNyY2gtY2hubA==", kind: .channel)
        for id in UInt64(1)...20 { #expect(try Answered(driver.admit(job, id: id)) == .proceed) }
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.001), Scenario())
  }

  @Test(arguments: Kind.allCases) func whatEndedIsForgotten(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "short")
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
        // Redis may keep an answer up to a second too long.
        try driver.turn(forMilliseconds: 2100)
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        driver.remember(
          RememberedOutcome(outcome: .unregistered, attempts: 1, sentAt: 1, completedAt: 2), of: job, id: 2)
        #expect(try Answered(driver.admit(job, id: 3)) == .dead(2), "a mark lives longer")
      }
    }
    try run(kind, outcomeSeconds: 1, Scenario())
  }

  @Test(arguments: Kind.allCases) func neverMoreThanBurstAndRateInAnyWindow(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        var random = SeededRandom(seed: 42)
        let job = makeJob(token: "window")
        // Bounds of each admission's time: before the request, after the answer.
        var sent: [(before: Int64, after: Int64)] = []
        var id: UInt64 = 0
        let start = driver.now.monotonic
        while driver.now.monotonic.milliseconds(since: start) < 1500 {
          var tickets: [Ticket] = []
          let before = driver.now.monotonic.nanoseconds
          for _ in 0..<Int.random(in: 1...6, using: &random) {
            id += 1
            tickets.append(driver.ask(job, id: id))
          }
          for ticket in tickets {
            if case .proceed = try driver.answer(ticket) { sent.append((before, driver.now.monotonic.nanoseconds)) }
          }
          try driver.turn(forMilliseconds: Int64.random(in: 0...15, using: &random))
        }
        driver.remember(accepted, of: job, id: 0)
        #expect(try Answered(driver.admit(job, id: 0)) == .duplicate(accepted))
        // 100 a second for 1.5 s plus the burst: used as far as this machine asked, and never exceeded.
        #expect(sent.count > 20)
        for first in sent.indices {
          for last in first..<sent.count {
            let seconds = Double(sent[last].after - sent[first].before) / 1e9
            #expect(Double(last - first + 1) <= 5 + 100 * seconds + 1)
          }
        }
      }
    }
    try run(kind, limit: RateLimit(burst: 5, perSecond: 100), Scenario())
  }

  /// Two lanes, one device, and as many jobs as three seconds allow.
  @Test func twoLanesShareADevicesRate() throws {
    let server = try RedisServer.shared()
    var settings = RedisAdmissionStoreSettings()
    settings.prefix = "two-\(UInt64.random(in: 0 ... .max)):"
    settings.limits = RateLimits(RateLimit(burst: 1, perSecond: 5))
    settings.timeoutMilliseconds = 2000
    let loop = try EventLoop()
    let lanes = try (0..<2).map { seed in
      let state = RedisAdmissionStore(
        loop: loop, configuration: try RedisConfiguration(url: server.url), tls: nil, settings: settings,
        seed: UInt64(seed))
      state.connect()
      return AdmissionDriver(state, loop: loop)
    }
    var sent: [(before: Int64, after: Int64)] = []
    var id: UInt64 = 0
    let start = loop.now.monotonic
    while loop.now.monotonic.milliseconds(since: start) < 3000 {
      let before = loop.now.monotonic.nanoseconds
      var tickets: [(AdmissionDriver<RedisAdmissionStore>, Ticket)] = []
      for lane in lanes {
        for _ in 0..<100 {
          id += 1
          tickets.append((lane, lane.ask(makeJob(token: "shared"), id: id)))
        }
      }
      for (lane, ticket) in tickets {
        if case .proceed = try lane.answer(ticket) { sent.append((before, loop.now.monotonic.nanoseconds)) }
      }
    }
    #expect(id >= 2000 && sent.count >= 12, "\(id) asked, \(sent.count) admitted")
    for first in sent.indices {
      for last in first..<sent.count {
        let seconds = Double(sent[last].after - sent[first].before) / 1e9
        #expect(Double(last - first + 1) <= 5 * seconds + 1 + 0.001)
      }
    }
    for lane in lanes {
      #expect(lane.state.counters.decidedLocally == 0)
      lane.state.close()
    }
  }

  @Test(arguments: Kind.allCases) func appsAndTypesHaveTheirOwnRates(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let alert = makeJob(token: "own")
        let background = makeJob(token: "own", type: .background)
        let other = makeJob(token: "own", topic: "com.example.other")
        #expect(try Answered(driver.admit(alert, id: 1)) == .proceed)
        #expect(try Answered(driver.admit(alert, id: 2)) == .limited)
        for id in UInt64(10)..<13 { #expect(try Answered(driver.admit(background, id: id)) == .proceed) }
        #expect(try Answered(driver.admit(background, id: 13)) == .limited)
        for id in UInt64(20)..<40 { #expect(try Answered(driver.admit(other, id: id)) == .proceed, "no limit") }
        driver.remember(accepted, of: alert, id: 1)
        #expect(try Answered(driver.admit(alert, id: 1)) == .duplicate(accepted))
      }
    }
    try run(
      kind,
      limits: RateLimits(
        RateLimit(burst: 1, perSecond: 0.01),
        overrides: [
          RateLimits.Override(app: [], pushType: .background, limit: RateLimit(burst: 3, perSecond: 0.01)),
          RateLimits.Override(app: Array("com.example.other".utf8), pushType: nil, limit: nil),
        ]), Scenario())
  }

  @Test(arguments: Kind.allCases, [false, true]) func whatAPNsRefusedAsTooManyWaits(kind: Kind, isLimited: Bool) throws
  {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "tight")
        let first = driver.ask(job, id: 1)
        #expect(try Answered(driver.answer(first)) == .proceed)
        driver.state.tighten(job, device: TargetKey(job, target: 0), now: driver.now)
        func again() throws -> Admission {
          try driver.answer(
            driver.ask(job, id: 1, firstSeen: driver.now.unixMilliseconds, earlier: driver.claim(of: first)))
        }
        guard case .limited(let milliseconds) = try again() else {
          Issue.record("the refused request itself waits")
          return
        }
        #expect((100...400).contains(milliseconds), "\(milliseconds)")
        #expect(try Answered(driver.admit(job, id: 2)) == .limited)
        #expect(try Answered(driver.admit(makeJob(token: "other"), id: 3)) == .proceed)
        try driver.turn(forMilliseconds: 450)
        #expect(try Answered(again()) == .proceed)
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
      }
    }
    try run(
      kind, limits: RateLimits(isLimited ? RateLimit(burst: 5, perSecond: 100) : nil), tightMilliseconds: 400,
      Scenario())
  }

  @Test(arguments: Kind.allCases) func aNewerJobTakesTheDelayedOnesPlace(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "score", collapseID: "match-7")
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        let start = driver.now.unixMilliseconds
        let first = driver.ask(job, id: 2)
        #expect(try Answered(driver.answer(first)) == .limited)
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, firstSeen: start))) == .limited, "nothing newer")
        try driver.turn(forMilliseconds: 5)
        #expect(try Answered(driver.admit(job, id: 3)) == .limited)
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, firstSeen: start))) == .superseded)
        let newer = driver.now.unixMilliseconds
        #expect(
          try Answered(driver.answer(driver.ask(job, id: 3, firstSeen: newer))) == .limited, "the newest waits on")
        let other = makeJob(token: "score", collapseID: "match-8")
        #expect(try Answered(driver.answer(driver.ask(other, id: 4, firstSeen: start))) == .limited)
        #expect(try Answered(driver.answer(driver.ask(makeJob(token: "score"), id: 5, firstSeen: start))) == .limited)
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.answer(driver.ask(job, id: 1, firstSeen: start))) == .duplicate(accepted))
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario())
  }

  /// Whichever comes first, also where no rate delays it.
  @Test(arguments: Kind.allCases, [RateLimit(burst: 100, perSecond: 100), RateLimit(burst: 1, perSecond: 0.01), nil])
  func theProducersOrderDecidesWhichOfACollapseIDIsNewer(kind: Kind, limit: RateLimit?) throws {
    struct Scenario: AdmissionScenario {
      let isSlow: Bool

      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        func job(_ sequence: Int64?, _ collapseID: String = "match-7", token: String = "score") -> PushJob {
          makeJob(token: token, collapseID: collapseID, sequence: sequence)
        }
        func admit(_ job: borrowing PushJob, _ id: UInt64) throws -> Answered {
          try Answered(driver.admit(job, id: id))
        }
        let next = isSlow ? Answered.limited : .proceed
        let fifth = driver.ask(job(5), id: 1)
        #expect(try Answered(driver.answer(fifth)) == .proceed)
        #expect(try admit(job(4), 2) == .superseded)
        #expect(try admit(job(0), 3) == .superseded)
        let again = driver.ask(job(5), id: 1, firstSeen: driver.now.unixMilliseconds, earlier: driver.claim(of: fifth))
        #expect(try Answered(driver.answer(again)) == .proceed, "its own copy")
        #expect(try admit(job(5), 4) == next, "as new as it")
        #expect(try admit(job(1 << 53), 5) == next)
        #expect(try admit(job((1 << 53) - 1), 6) == .superseded)
        #expect(try admit(job(5), 7) == .superseded)
        // Nothing else is in order.
        #expect(try admit(job(nil), 8) == next)
        #expect(try admit(job(3, "match-8"), 9) == next)
        #expect(try admit(job(3, ""), 10) == next)
        #expect(try admit(job(3, token: "other"), 11) == .proceed)
        // A copy whose time is over is only looked up, and newer than nothing.
        let over = driver.ask(job((1 << 53) - 1, "match-11"), id: 12, isOver: true)
        #expect(try Answered(driver.answer(over)) == .proceed)
        #expect(try admit(job(1, "match-11"), 24) == next)
        let overtaken = driver.ask(job(2), id: 25, isOver: true)
        #expect(try Answered(driver.answer(overtaken)) == .superseded)
        driver.remember(accepted, of: job(5), id: 1)
        #expect(try admit(job(5), 1) == .duplicate(accepted), "its answer is told, whatever came since")
        // A job without a number is as new as the second of its message's timestamp.
        func admit(_ sequence: Int64?, at timestamp: Int64?, _ id: UInt64) throws -> Answered {
          try Answered(driver.answer(driver.ask(job(sequence, "match-9"), id: id, timestamp: timestamp)))
        }
        let second = driver.now.unixSeconds - 600
        #expect(try admit(nil, at: second, 13) == next)
        #expect(try admit(nil, at: second - 60, 14) == .superseded)
        #expect(try admit(nil, at: second, 15) == next, "in the same second")
        #expect(try admit((second - 60) * 1_000_000, at: second + 60, 16) == .superseded)
        #expect(try admit((second + 60) * 1_000_000, at: second - 60, 17) == next)
        #expect(try admit(nil, at: second, 18) == .superseded)
        #expect(try admit(nil, at: nil, 19) == next, "as new as its arrival")
        #expect(try admit(nil, at: second + 120, 22) == .superseded, "older than that")
        // It came before that one, and waited since.
        let before = driver.ask(job(nil, "match-9"), id: 23, firstSeen: (second + 500) * 1_000)
        #expect(try Answered(driver.answer(before)) == .superseded)
        // It was admitted and waits for room while a newer one comes.
        let waiting = driver.ask(job(20, "match-10", token: "own"), id: 20)
        #expect(try Answered(driver.answer(waiting)) == .proceed)
        let own = driver.claim(of: waiting)
        #expect(
          try Answered(driver.answer(driver.ask(job(20, "match-10", token: "own"), id: 20, own: own))) == .proceed)
        #expect(try admit(job(21, "match-10", token: "own"), 21) == next)
        #expect(
          try Answered(driver.answer(driver.ask(job(20, "match-10", token: "own"), id: 20, own: own))) == .superseded)
      }
    }
    try run(kind, limit: limit, orderWaitSeconds: 0, Scenario(isSlow: limit?.burst == 1))
  }

  /// A producer that got no confirm publishes a job again: the copies count as one job, also while both wait for the device's rate.
  @Test(arguments: Kind.allCases) func aCopyOfAJobDoesNotTakeItsPlace(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "copied", collapseID: "match-7")
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        let start = driver.now.unixMilliseconds
        #expect(try Answered(driver.answer(driver.ask(job, id: 2))) == .limited)
        try driver.turn(forMilliseconds: 5)
        #expect(try Answered(driver.admit(job, id: 2)) == .limited, "its copy, later")
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, firstSeen: start))) == .limited)
        try driver.turn(forMilliseconds: 5)
        #expect(try Answered(driver.admit(job, id: 3)) == .limited)
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, firstSeen: start))) == .superseded, "by another job")
        let over = driver.ask(job, id: 2, firstSeen: start, isOver: true)
        #expect(try Answered(driver.answer(over)) == .superseded, "also when its time is over")
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario())
  }

  /// Within one script call, each question sees the changes of those before it.
  @Test(arguments: Kind.allCases) func oneDeviceTwiceInOneCall(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "busy")
        let asked = (1...3).map { driver.ask(job, id: $0) }
        #expect(try asked.map { try Answered(driver.answer($0)) } == [.proceed, .proceed, .limited])
        let gone = RememberedOutcome(
          outcome: .unregistered, status: 410, reason: .unregistered, unregisteredAt: 7, attempts: 1, sentAt: 5,
          completedAt: 9)
        let token = makeJob(token: "back")
        driver.remember(gone, of: token, id: 4)
        let registered = makeJob(token: "back", registeredAt: 8)
        let mixed = [driver.ask(token, id: 5), driver.ask(registered, id: 6), driver.ask(token, id: 7)]
        #expect(try mixed.map { try Answered(driver.answer($0)) } == [.dead(7), .proceed, .proceed], "lifted")
      }
    }
    try run(kind, limit: RateLimit(burst: 2, perSecond: 0.01), Scenario())
  }

  @Test(arguments: Kind.allCases) func aChannelThatIsGoneIsNotSentToAgain(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "dHN0LXNyY2gtY2hubA==", kind: .channel)
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed)
        driver.remember(
          RememberedOutcome(
            outcome: .rejected, status: 400, reason: .channelNotRegistered, attempts: 1, sentAt: 4, completedAt: 5),
          of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 2)) == .dead(5))
      }
    }
    try run(kind, Scenario())
  }

  @Test(arguments: Kind.allCases) func manyAtOnce(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        var tickets: [(ticket: Ticket, expected: Answered)] = []
        for id in UInt64(0)..<3000 {
          let job = makeJob(token: "many-\(id)")
          if id % 3 == 0 { driver.remember(accepted, of: job, id: id) }
          tickets.append((driver.ask(job, id: id), id % 3 == 0 ? .duplicate(accepted) : .proceed))
        }
        for (ticket, expected) in tickets { #expect(try Answered(driver.answer(ticket)) == expected) }
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 1), Scenario())
  }
}

/// One run against any admission store.
protocol AdmissionScenario: Sendable {
  func run(_ driver: AdmissionDriver<some AdmissionStore>) throws
}

extension AdmissionScenario {
  var accepted: RememberedOutcome {
    RememberedOutcome(
      outcome: .accepted, status: 200, attempts: 1, sentAt: 1_796_000_000_004, completedAt: 1_796_000_000_031)
  }
}
