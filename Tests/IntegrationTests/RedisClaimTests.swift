import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// Claims and rules, against memory and a real Redis: of two copies of a job only one is being sent.
extension RedisAdmissionStoreTests {
  /// Two copies of a job, whatever the cause: its producer published it again, or the broker delivered a retry copy twice.
  @Test(arguments: Kind.allCases) func ofTwoCopiesOneIsOnItsWay(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let start = driver.now.unixMilliseconds
        for id in UInt64(1)...3 {
          let job =
            id == 3
            ? makeJob(token: "dHN0LXNyY2gtY2hubA==", kind: .channel)
            : makeJob(token: "copy", collapseID: id == 1 ? "" : "match-7")
          func again(_ earlier: UInt32) throws -> (claim: UInt32, answered: Answered) {
            let ticket = driver.ask(job, id: id, firstSeen: start, earlier: earlier)
            return (driver.claim(of: ticket), try Answered(driver.answer(ticket)))
          }
          let both = [driver.ask(job, id: id), driver.ask(job, id: id)]
          #expect(try Answered(driver.answer(both[0])) == .proceed)
          guard case .claimed(let milliseconds) = try driver.answer(both[1]) else {
            Issue.record("both are on their way")
            return
          }
          #expect((50_000...60_000).contains(milliseconds), "\(milliseconds)")
          // The first copy's attempt failed, and it comes back. The second copy, which waited, has no claim.
          let first = try again(driver.claim(of: both[0]))
          #expect(first.answered == .proceed)
          #expect(try again(0).answered == .claimed)
          #expect(try again(driver.claim(of: both[0])).answered == .claimed, "the broker delivers it twice")
          let second = try again(first.claim)
          #expect(second.answered == .proceed)
          #expect(try Answered(driver.answer(driver.ask(job, id: id, earlier: second.claim))) == .proceed, "replayed")
          driver.remember(accepted, of: job, id: id)
          #expect(try again(0).answered == .duplicate(accepted))
          #expect(try again(second.claim).answered == .duplicate(accepted), "the answer has priority")
        }
      }
    }
    try run(kind, limit: RateLimit(burst: 100, perSecond: 1), Scenario())
  }

  /// What ended without an answer of APNs ends in the same way where its message is delivered again, or has a copy; what is published again
  /// with its id, as a replayed dead letter, is another message.
  @Test(arguments: Kind.allCases) func aMessageHasOneEnd(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let start = driver.now.unixMilliseconds
        let failed = RememberedOutcome(
          outcome: .failed, status: 500, reason: .internalServerError, attempts: 6, sentAt: start,
          completedAt: start + 9)
        for id in UInt64(1)...2 {
          let job = makeJob(token: "ended", collapseID: id == 1 ? "" : "match-7")
          func answered(_ ticket: Ticket) throws -> Answered { try Answered(driver.answer(ticket)) }
          let first = driver.ask(job, id: id)
          #expect(try answered(first) == .proceed)
          let claim = driver.claim(of: first)
          #expect(try answered(driver.ask(job, id: id, isRedelivered: true)) == .claimed, "it has no end yet")
          driver.rememberFate(failed, claim: claim, of: job, id: id)
          #expect(try answered(driver.ask(job, id: id, isRedelivered: true)) == .duplicate(failed))
          #expect(try answered(driver.ask(job, id: id, isOver: true, isRedelivered: true)) == .duplicate(failed))
          #expect(
            try answered(driver.ask(job, id: id, firstSeen: start, earlier: claim)) == .duplicate(failed), "a twin")
          // Put off before anything was asked about it, as for a pool that is stuck: it has the claim that its letter had, or none.
          for (number, earlier) in [claim, 0].enumerated() {
            let putOff = driver.ask(job, id: id, firstSeen: failed.completedAt + 1, earlier: earlier, isOver: true)
            #expect(try answered(putOff) == (number == 0 ? .proceed : .claimed), "published since")
          }
          // A replay, or a job that is published again, whose worker died before it asked.
          let lost = driver.ask(
            job, id: id, earlier: claim, isOver: true, publishedAt: failed.completedAt + 1, isRedelivered: true)
          #expect(try answered(lost) == .proceed, "published since")
          // As soon as the job was enqueued: a copy of what is published again with the old timestamp says when it was first received.
          let again = driver.ask(
            job, id: id, firstSeen: failed.completedAt + 1, earlier: claim, isOver: true, enqueuedAt: start)
          #expect(try answered(again) == .proceed, "published since")
          let replayed = driver.ask(job, id: id, earlier: claim)
          #expect(try answered(replayed) == .proceed)
          #expect(
            try answered(driver.ask(job, id: id, earlier: claim, isRedelivered: true)) == .claimed, "of the replay")
          driver.rememberFate(failed, claim: driver.claim(of: replayed), of: job, id: id)
          #expect(try answered(driver.ask(job, id: id, earlier: claim, isRedelivered: true)) == .duplicate(failed))
          driver.remember(accepted, of: job, id: id)
          #expect(try answered(driver.ask(job, id: id, isRedelivered: true)) == .duplicate(accepted))
        }
        // Dropped over its rate, it has no claim.
        let dropped = RememberedOutcome(
          outcome: .throttled, attempts: 0, sentAt: nil, completedAt: driver.now.unixMilliseconds)
        let job = makeJob(token: "dropped")
        driver.rememberFate(dropped, claim: 0, of: job, id: 3)
        let again = driver.ask(job, id: 3, publishedAt: start, isRedelivered: true)
        #expect(try Answered(driver.answer(again)) == .duplicate(dropped))
        let later = driver.ask(job, id: 3, publishedAt: dropped.completedAt + 1_000, isRedelivered: true)
        #expect(try Answered(driver.answer(later)) == .proceed, "published since")
      }
    }
    try run(kind, limit: RateLimit(burst: 100, perSecond: 1), Scenario())
  }

  /// An expired job is only looked up: its copies do not wait for each other, and it does not count against its device's rate.
  @Test(arguments: Kind.allCases) func whatIsOverLeavesNoClaim(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "over")
        for _ in 0..<3 {
          #expect(try Answered(driver.answer(driver.ask(job, id: 1, isOver: true))) == .proceed)
          let returning = driver.ask(job, id: 1, firstSeen: driver.now.unixMilliseconds, isOver: true)
          #expect(try Answered(driver.answer(returning)) == .proceed)
        }
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed, "it was not in flight")
        #expect(try Answered(driver.answer(driver.ask(job, id: 1, isOver: true))) == .claimed, "now it is")
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.answer(driver.ask(job, id: 1, isOver: true))) == .duplicate(accepted))
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario())
  }

  /// The answer of an earlier attempt is unknown, or the store forgot its claim.
  @Test(arguments: Kind.allCases) func whoFindsNoAnswerGoesOnMarked(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "lost")
        let start = driver.now.unixMilliseconds
        let first = driver.ask(job, id: 1)
        #expect(try Answered(driver.answer(first)) == .proceed)
        #expect(try Answered(driver.admit(job, id: 1)) == .claimed)
        try driver.turn(forMilliseconds: 1100)
        #expect(try Answered(driver.admit(job, id: 1)) == .repeated(.proceed), "its claim expired")
        #expect(try Answered(driver.admit(job, id: 2)) == .proceed)
        #expect(try Answered(driver.admit(job, id: 3)) == .proceed)
        try driver.turn(forMilliseconds: 1100)
        #expect(try Answered(driver.admit(job, id: 4)) == .limited)
        #expect(try Answered(driver.admit(job, id: 1)) == .repeated(.proceed), "it was charged")
        let gone = RememberedOutcome(outcome: .unregistered, attempts: 1, sentAt: 1, completedAt: 9)
        driver.remember(gone, of: job, id: 2)
        #expect(try Answered(driver.admit(job, id: 3)) == .repeated(.dead(9)))
        // A copy comes back with an unknown claim: the admission store lost its memory.
        let other = makeJob(token: "lost-2")
        let unknown = driver.ask(other, id: 5, firstSeen: start, earlier: 77)
        #expect(try Answered(driver.answer(unknown)) == .repeated(.proceed))
        let replayed = driver.ask(other, id: 6, earlier: 77)
        #expect(try Answered(driver.answer(replayed)) == .proceed, "put back from the dead letters, after days")
      }
    }
    try run(kind, limit: RateLimit(burst: 3, perSecond: 0.01), claimSeconds: 1, Scenario())
  }

  /// Two copies waited for an answer that never came: one goes on, the other waits for that one's answer.
  @Test(arguments: Kind.allCases) func ofTwoThatTakeOverOneWaits(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "lost")
        let start = driver.now.unixMilliseconds
        let first = driver.ask(job, id: 1)
        #expect(try Answered(driver.answer(first)) == .proceed)
        #expect(try Answered(driver.answer(driver.ask(job, id: 1, takeover: .oldClaims))) == .claimed, "made just now")
        try driver.turn(forMilliseconds: 2100)
        #expect(try Answered(driver.admit(job, id: 1)) == .claimed)
        let successors = (0..<2).map { _ in driver.ask(job, id: 1, firstSeen: start, takeover: .oldClaims) }
        let answers = try successors.map { try Answered(driver.answer($0)) }
        #expect(answers == [.repeated(.proceed), .claimed])
        let old = driver.ask(job, id: 1, firstSeen: start, earlier: driver.claim(of: first))
        #expect(try Answered(driver.answer(old)) == .claimed, "its claim was taken over")
        let again = driver.ask(
          job, id: 1, firstSeen: start, earlier: driver.claim(of: successors[0]), takeover: .oldClaims)
        #expect(try Answered(driver.answer(again)) == .proceed, "its own claim")
        let isolated = driver.ask(job, id: 1, takeover: .anyClaim)
        #expect(try Answered(driver.answer(isolated)) == .repeated(.proceed))
      }
    }
    try run(kind, limit: nil, claimSeconds: 10, Scenario())
  }

  /// Two copies end differently: the copy that was not sent here is marked `ambiguous`, because the other may have been sent.
  @Test(arguments: Kind.allCases) func whatIsSupersededOrLimitedIsMarkedToo(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "score", collapseID: "match-7")
        let start = driver.now.unixMilliseconds
        let first = driver.ask(job, id: 1)
        #expect(try Answered(driver.answer(first)) == .proceed)
        driver.state.tighten(job, device: TargetKey(job, target: 0), now: driver.now)
        try driver.turn(forMilliseconds: 1100)
        let again = driver.ask(job, id: 1, firstSeen: start)
        #expect(try Answered(driver.answer(again)) == .repeated(.limited))
        #expect(try Answered(driver.admit(job, id: 2)) == .limited)
        let late = driver.ask(job, id: 1, firstSeen: start)
        #expect(try Answered(driver.answer(late)) == .repeated(.superseded))
        let own = driver.ask(job, id: 1, firstSeen: start, earlier: driver.claim(of: first))
        #expect(try Answered(driver.answer(own)) == .superseded)
        driver.remember(accepted, of: job, id: 1)
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted))
      }
    }
    try run(kind, limits: RateLimits(RateLimit(burst: 5, perSecond: 0.01)), claimSeconds: 1, Scenario())
  }

  /// Redis' clock decides when anything ends: the worker's clock may be hours off.
  @Test(arguments: [-7, 7] as [Int64], [true, false]) func aWorkersClockMayBeOff(hours: Int64, isAdmitted: Bool) throws
  {
    struct Scenario: AdmissionScenario {
      let hours: Int64
      let isAdmitted: Bool
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        let job = makeJob(token: "skew")
        if isAdmitted { #expect(try Answered(driver.admit(job, id: 1)) == .proceed) }
        driver.skippedMilliseconds = hours * 3_600_000
        driver.remember(accepted, of: job, id: 1)
        driver.skippedMilliseconds = 0
        #expect(try Answered(driver.admit(job, id: 1)) == .duplicate(accepted), "not forgotten at once")
        try driver.turn(forMilliseconds: 3100)
        #expect(try Answered(driver.admit(job, id: 1)) == .proceed, "nor kept for ever")
      }
    }
    try run(.redis, outcomeSeconds: 1, claimSeconds: 1, Scenario(hours: hours, isAdmitted: isAdmitted))
  }

  /// What was charged while there was a limit holds up nothing without one; what APNs refused does.
  @Test(arguments: Kind.allCases) func aLimitThatIsTakenAway_leavesNothing(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        func update(_ limits: RateLimits) {
          if let state = driver.state as? RedisAdmissionStore { state.update(limits: limits) }
          if let state = driver.state as? MemoryAdmissionStore { state.update(limits: limits) }
        }
        let job = makeJob(token: "freed")
        let limit = RateLimits(RateLimit(burst: 1, perSecond: 0.01))
        update(limit)
        #expect(try [1, 2].map { try Answered(driver.admit(job, id: $0)) } == [.proceed, .limited])
        update(.none)
        #expect(try [2, 3].map { try Answered(driver.admit(job, id: $0)) } == [.proceed, .proceed])
        driver.state.tighten(job, device: TargetKey(job, target: 0), now: driver.now)
        #expect(try Answered(driver.admit(job, id: 4)) == .limited)
        update(limit)
        #expect(try Answered(driver.admit(job, id: 4)) == .limited, "as before")
      }
    }
    try run(kind, Scenario())
  }

  /// A device's rate keeps its state when the configuration changes.
  @Test(arguments: Kind.allCases) func aRateStaysItselfAmongOthers(kind: Kind) throws {
    struct Scenario: AdmissionScenario {
      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        func override(_ type: PushType, _ burst: Int) -> RateLimits.Override {
          RateLimits.Override(app: [], pushType: type, limit: RateLimit(burst: burst, perSecond: 0.01))
        }
        func update(_ limits: RateLimits) {
          if let state = driver.state as? RedisAdmissionStore { state.update(limits: limits) }
          if let state = driver.state as? MemoryAdmissionStore { state.update(limits: limits) }
        }
        let common = RateLimit(burst: 1, perSecond: 0.01)
        func admit(_ types: PushType..., id: UInt64? = nil) throws -> [Answered] {
          try types.map { type in
            try Answered(driver.admit(makeJob(token: "same", type: type), id: id ?? UInt64.random(in: 9 ... .max)))
          }
        }
        update(RateLimits(common, overrides: [override(.background, 1), override(.voip, 2)]))
        #expect(try admit(.alert, id: 1) == [.proceed])
        #expect(try admit(.voip, .background) == [.proceed, .proceed])
        update(RateLimits(common, overrides: [override(.voip, 2), override(.background, 3)]))
        #expect(try admit(.voip, .background, .background) == [.proceed, .proceed, .proceed])
        #expect(try admit(.alert, .voip, .background) == [.limited, .limited, .limited])
        update(RateLimits(common, overrides: [override(.voip, 3)]))
        #expect(try admit(.voip, .background) == [.proceed, .limited], "by the common rate")
        let alert = makeJob(token: "same")
        driver.remember(accepted, of: alert, id: 1)
        #expect(try Answered(driver.admit(alert, id: 1)) == .duplicate(accepted))
      }
    }
    try run(kind, Scenario())
  }
}
