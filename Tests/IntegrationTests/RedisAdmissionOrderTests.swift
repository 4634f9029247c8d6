import PushCore
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
    try run(kind, limit: RateLimit(burst: 50, perSecond: 100), Scenario(newer: newer))
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
    try run(kind, limit: RateLimit(burst: 5, perSecond: 100), Scenario(isStamped: isStamped))
  }
}
