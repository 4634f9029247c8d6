import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// Which jobs of a collapse id supersede others.
extension RedisAdmissionStoreTests {
  /// A newer job over the device's rate supersedes one that waits, unless it is dropped: then the device would get neither.
  @Test(arguments: Kind.allCases, [false, true]) func aDroppedJobSupersedesNothing(kind: Kind, isOrdered: Bool) throws {
    struct Scenario: AdmissionScenario {
      let isOrdered: Bool

      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        for drops in [false, true] {
          func job(_ number: Int64) -> PushJob {
            makeJob(token: "dropped-\(drops)", collapseID: "match-7", sequence: isOrdered ? number : nil)
          }
          let first = driver.ask(job(1), id: 1)
          #expect(try Answered(driver.answer(first)) == .proceed)
          let start = driver.now.unixMilliseconds
          try driver.turn(forMilliseconds: 5)
          #expect(try Answered(driver.answer(driver.ask(job(2), id: 2, isDropped: drops))) == .limited)
          let again = driver.ask(job(1), id: 1, firstSeen: start, earlier: driver.claim(of: first))
          #expect(try Answered(driver.answer(again)) == (drops ? .proceed : .superseded))
        }
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario(isOrdered: isOrdered))
  }

  /// The producers' clocks differ by two seconds, and the numbers tell otherwise: the newest of them is left.
  @Test(arguments: Kind.allCases) func numbersDecide_whateverTheClocksSay(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        func job(_ number: Int64?) -> PushJob {
          makeJob(token: "clocks", collapseID: number == nil ? "" : "match-7", sequence: number)
        }
        let now = driver.now.unixMilliseconds
        #expect(try Answered(driver.answer(driver.ask(job(nil), id: 1))) == .proceed)
        #expect(try Answered(driver.answer(driver.ask(job(9), id: 9, enqueuedAt: now))) == .limited)
        #expect(try Answered(driver.answer(driver.ask(job(10), id: 10, enqueuedAt: now - 2_000))) == .limited)
        let older = driver.ask(job(9), id: 9, firstSeen: now)
        #expect(try Answered(driver.answer(older)) == .superseded)
        let newer = driver.ask(job(10), id: 10, firstSeen: now - 2_000)
        #expect(try Answered(driver.answer(newer)) == .limited)
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario())
  }

  /// It is as new as its first copy: the job that came between its copies is newer, and its copies supersede none of each other.
  @Test(arguments: Kind.allCases) func aJobThatIsPublishedTwice_isNotOlderThanItself(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let second = driver.now.unixMilliseconds / 1_000
        func ask(_ token: String, _ id: UInt64, _ number: Int64, waited: Bool = false) throws -> Answered {
          try Answered(
            driver.answer(
              driver.ask(
                makeJob(token: token, collapseID: "match-7"), id: id, firstSeen: waited ? second * 1_000 : nil,
                timestamp: second, point: second * 1_000_000 + number)))
        }
        for token in ["twice", "itself"] {
          #expect(try Answered(driver.answer(driver.ask(makeJob(token: token), id: 9))) == .proceed)
        }
        #expect(
          try [ask("twice", 1, 10), ask("twice", 2, 20), ask("twice", 1, 30)] == [.limited, .limited, .superseded])
        #expect(
          try [ask("twice", 1, 10, waited: true), ask("twice", 2, 20, waited: true)] == [.superseded, .limited])
        // The copy that came first asks last.
        #expect(try [ask("itself", 1, 20), ask("itself", 1, 10, waited: true)] == [.limited, .limited])
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario())
  }

  /// The worker that had it ended, and others sent newer ones meanwhile: one, or more than have a place.
  @Test(arguments: Kind.allCases, [1, 3, 4, 9])
  func aJobThatIsDeliveredAgain_isNoNewerThanItWas(kind: Kind, newer: Int) throws {
    struct Scenario: AdmissionScenario {
      let newer: Int

      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "again", collapseID: "match-7")
        let start = driver.now.unixMilliseconds * 1_000
        for number in 0...newer {
          let ask = driver.ask(job, id: UInt64(number), point: start + Int64(number))
          #expect(try Answered(driver.answer(ask)) == .proceed)
        }
        let again = driver.ask(job, id: 0, takeover: .anyClaim, point: start + 1_000_000)
        #expect(try Answered(driver.answer(again)) == .repeated(.superseded))
        let newest = driver.ask(job, id: UInt64(newer), takeover: .anyClaim, point: start + 1_000_001)
        #expect(try Answered(driver.answer(newest)) == .repeated(.proceed))
      }
    }
    try run(kind, limit: RateLimit(burst: 50, perSecond: 100), orderWaitSeconds: 0, Scenario(newer: newer))
  }

  /// A job waits after its first attempt while a newer one is sent, and comes back by its point: a copy, or the same delivery again.
  @Test(arguments: Kind.allCases, [false, true])
  func whatWaited_isOlderThanWhatWasSentMeanwhile(kind: Kind, isStamped: Bool) throws {
    struct Scenario: AdmissionScenario {
      let isStamped: Bool

      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let second = driver.now.unixMilliseconds / 1_000
        for (number, isCopy) in [false, true].enumerated() {
          let job = makeJob(token: "waited-\(number)", collapseID: "match-7")
          func ask(_ id: UInt64, copyOf claim: UInt32? = nil) -> Ticket {
            driver.ask(
              job, id: id, firstSeen: isCopy && claim != nil ? second * 1_000 : nil, earlier: claim ?? 0,
              timestamp: isStamped ? second : nil, point: second * 1_000_000 + Int64(id), own: isCopy ? nil : claim)
          }
          let older = ask(1)
          #expect(try Answered(driver.answer(older)) == .proceed)
          #expect(try Answered(driver.answer(ask(2))) == .proceed)
          #expect(try Answered(driver.answer(ask(1, copyOf: driver.claim(of: older)))) == .superseded)
        }
      }
    }
    try run(kind, limit: RateLimit(burst: 5, perSecond: 100), orderWaitSeconds: 0, Scenario(isStamped: isStamped))
  }

  /// One is on its way to APNs, from any lane: what is newer waits for its answer, and of several only the newest is sent.
  /// Of those with the same number, the last one that came is the newest.
  @Test(arguments: Kind.allCases, [nil, 7] as [Int64?])
  func whatIsNewer_waitsForWhatIsOnItsWay(kind: Kind, sequence: Int64?) throws {
    struct Scenario: AdmissionScenario {
      let sequence: Int64?

      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "race", collapseID: "match-7", sequence: sequence)
        let start = driver.now.unixMilliseconds * 1_000
        var asked: Set<UInt64> = []
        func ask(_ id: UInt64) throws -> Answered {
          let isFirst = asked.insert(id).inserted
          let ticket = driver.ask(job, id: id, point: start + Int64(id), asksAgain: !isFirst)
          return try Answered(driver.answer(ticket))
        }
        #expect(try ask(1) == .proceed)
        // More than have a place.
        for id in 2...9 as ClosedRange<UInt64> { #expect(try ask(id) == .behind) }
        for id in 2...8 as ClosedRange<UInt64> { #expect(try ask(id) == .superseded) }
        #expect(try ask(9) == .behind)
        driver.remember(accepted, of: job, id: 1)
        #expect(try ask(9) == .proceed)
        let other = makeJob(token: "race", collapseID: "match-8")
        #expect(try Answered(driver.answer(driver.ask(other, id: 20))) == .proceed, "another one of the device")
      }
    }
    try run(kind, limit: RateLimit(burst: 50, perSecond: 100), Scenario(sequence: sequence))
  }

  /// It waits for one on its way, and the device's rate is over before it is sent: what is older comes back and is sent.
  @Test(arguments: Kind.allCases) func whatWaitedAndIsDropped_supersedesNothing(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "waited", collapseID: "match-7")
        let start = driver.now.unixMilliseconds * 1_000
        let older = driver.ask(job, id: 1, point: start)
        #expect(try Answered(driver.answer(older)) == .proceed)
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, point: start + 1, isDropped: true))) == .behind)
        #expect(try Answered(driver.admit(makeJob(token: "waited"), id: 3)) == .proceed, "the last of the rate")
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, isDropped: true, asksAgain: true))) == .limited)
        let again = driver.ask(job, id: 1, firstSeen: start / 1_000, earlier: driver.claim(of: older))
        #expect(try Answered(driver.answer(again)) == .proceed)
      }
    }
    try run(kind, limit: RateLimit(burst: 2, perSecond: 0.01), Scenario())
  }

  /// The first place is of one that ended superseded by one that was dropped: the next one stands behind it.
  @Test func placesBehindOneThatIsOver_stayApart() throws {
    let server = try RedisServer()
    defer { server.stop() }
    let loop = try EventLoop()
    var settings = RedisAdmissionStoreSettings()
    settings.timeoutMilliseconds = 5_000
    settings.limits = RateLimits(RateLimit(burst: 2, perSecond: 0.01))
    let state = RedisAdmissionStore(
      loop: loop, configuration: try RedisConfiguration(url: server.url), tls: nil, settings: settings, seed: 7)
    state.connect()
    defer { state.close() }
    let driver = AdmissionDriver(state, loop: loop)
    let job = makeJob(token: "apart", collapseID: "match-7")
    let second = driver.now.unixSeconds - 10
    func answered(_ ticket: Ticket) throws -> Answered { try Answered(driver.answer(ticket)) }
    let first = driver.ask(job, id: 1, timestamp: second, point: second * 1_000_000 + 500)
    #expect(try answered(first) == .proceed)
    let dropped = second * 1_000_000 + 2_000_000
    #expect(try answered(driver.ask(job, id: 2, point: dropped, isDropped: true)) == .behind)
    #expect(try answered(driver.ask(job, id: 1, own: driver.claim(of: first))) == .superseded)
    #expect(try answered(driver.ask(makeJob(token: "apart"), id: 3)) == .proceed, "the last of the rate")
    #expect(try answered(driver.ask(job, id: 2, isDropped: true, asksAgain: true)) == .limited)
    let last = driver.ask(job, id: 4, timestamp: second, point: second * 1_000_000 + 100)
    #expect(try answered(last) == .limited)
    let script = "return redis.call('GET', redis.call('KEYS', ARGV[1])[1])"
    let places = try server.cli(["EVAL", script, "0", "push:*:s*"])
    #expect(places.split(separator: ",").count { $0.contains(" ") } == 2 && !places.contains(",,"), "\(places)")
  }

  /// Its worker hangs, or it waits for a retry.
  @Test(arguments: Kind.allCases) func whatHangs_isNotWaitedForLonger(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "hangs", collapseID: "match-7")
        let start = driver.now.unixMilliseconds * 1_000
        let older = driver.ask(job, id: 1, point: start)
        #expect(try Answered(driver.answer(older)) == .proceed)
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, point: start + 1))) == .behind)
        try driver.turn(forMilliseconds: 2_001)
        #expect(try Answered(driver.answer(driver.ask(job, id: 2, firstSeen: start / 1_000))) == .proceed)
        let again = driver.ask(job, id: 1, own: driver.claim(of: older))
        #expect(try Answered(driver.answer(again)) == .superseded, "while the newer one is on its way")
        // One that ended superseded in its lane is waited for no more.
        let third = driver.ask(job, id: 3, point: start + 3)
        #expect(try Answered(driver.answer(third)) == .behind)
        driver.remember(accepted, of: job, id: 2)
        let fourth = driver.ask(job, id: 4, point: start + 4)
        #expect(try Answered(driver.answer(fourth)) == .proceed)
        #expect(try Answered(driver.answer(driver.ask(job, id: 5, point: start + 5))) == .behind)
        let over = driver.ask(job, id: 4, own: driver.claim(of: fourth))
        #expect(try Answered(driver.answer(over)) == .superseded)
        #expect(try Answered(driver.answer(driver.ask(job, id: 5, firstSeen: start / 1_000))) == .proceed)
      }
    }
    try run(kind, limit: RateLimit(burst: 5, perSecond: 100), Scenario())
  }
}
