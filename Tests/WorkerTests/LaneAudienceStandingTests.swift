import PushCore
import PushLane
import Testing

/// Pages of jobs that are paused or cancelled.
extension LaneAudienceTests {
  /// A page with its devices' sends in the pool's queue, which has no room.
  private func waiting(_ ordinals: String, _ count: UInt8) -> LaneBench {
    let bench = bench(page(ordinals))
    bench.world.tokens = Dictionary(uniqueKeysWithValues: (7..<7 + count).map { (UInt32($0), token($0)) })
    bench.world.decision = .noRoom
    bench.consume(0..<1)
    bench.turn(4)
    #expect(bench.world.arrivals.count == Int(count) && bench.world.requests.isEmpty)
    return bench
  }

  @Test func cancelledPage_isSettledWithoutAnOutcome() {
    let bench = bench(page("7,8"))
    bench.world.tokens = [7: token(7), 8: token(8)]
    bench.world.standing = .cancelled
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.requests.isEmpty && bench.world.arrivals.isEmpty && bench.world.outcomes.isEmpty)
    #expect(
      bench.world.settlements == [
        #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":0,"ends":"cc","ordinals":"0:7,8"}"#
      ])
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  @Test func pausedPage_waitsAsAWholeUncounted() {
    let bench = bench(page("7,8"))
    bench.world.tokens = [7: token(7), 8: token(8)]
    bench.world.standing = .paused
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.retryBodies == [page("7,8")] && bench.world.retries.map(\.attempts) == [0])
    #expect(bench.world.arrivals.isEmpty && bench.world.settlements.isEmpty && bench.world.acknowledged == [1])
    // It is resumed: the copy is sent.
    bench.world.standing = .running
    bench.world.bodies[1] = bench.world.retryBodies[0]
    bench.world.deliver(1)
    bench.turn()
    #expect(bench.world.sentTokens == ["aa00000007", "aa00000008"])
  }

  /// It grows no older meanwhile: the job is resumed after hours, and its devices are reached. Its `expiration` holds.
  @Test func pausedPage_doesNotAge() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.world.standing = .paused
    let start = bench.world.milliseconds
    bench.consume(0..<1) { $0.enqueuedAt = start }
    bench.turn()
    #expect(bench.world.retriesPausedAt.count == 1 && bench.world.pagesThatMayPause == [true])
    for hour in 1...3 as ClosedRange<Int64> {
      bench.world.milliseconds = start + hour * 3_600_000
      if hour == 3 { bench.world.standing = .running }
      let pausedAt = bench.world.retriesPausedAt.last ?? nil
      bench.world.deliver(0) {
        $0.enqueuedAt = start
        $0.firstSeen = start
        $0.pausedAt = hour == 3 ? bench.world.milliseconds - 30_000 : pausedAt
      }
      bench.turn()
    }
    #expect(bench.world.retriesPausedAt.count == 3 && bench.world.pagesThatMayPause == [true, true, true, true])
    #expect(bench.world.sentTokens == ["aa00000007"] && bench.world.outcomes.isEmpty)
    let expired = self.bench(
      page("7").replacing(#""payload":"#, with: #""expiration":\#(start / 1000 - 1),"payload":"#))
    expired.consume(0..<1)
    expired.turn()
    #expect(expired.world.pagesThatMayPause == [false] && expired.world.pagesOver == [true])
  }

  @Test func cancellation_holdsForDevicesThatWaitInThePool() {
    let bench = waiting("7,8,9", 3)
    bench.world.standing = .cancelled
    bench.world.milliseconds += 400
    bench.turn(2)
    bench.world.decision = .sent
    bench.turn(4)
    #expect(bench.world.requests.isEmpty && bench.world.outcomes.isEmpty && bench.world.retryBodies.isEmpty)
    #expect(
      bench.world.settlements == [
        #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":0,"ends":"ccc","ordinals":"0:7,8,9"}"#
      ])
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  @Test func cancellation_leavesWhatIsOnTheWire() {
    let bench = bench(page("7,8"))
    bench.world.tokens = [7: token(7), 8: token(8)]
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.requests.count == 2)
    bench.world.standing = .cancelled
    bench.world.milliseconds += 400
    bench.turn(2)
    bench.world.answer(bench.world.requests[0])
    bench.world.answer(bench.world.requests[1], status: 503, reason: .serviceUnavailable)
    bench.turn()
    #expect(part(#""outcome":"accepted""#, bench) && bench.world.retryBodies.count == 1)
    // The copy finds its job cancelled.
    bench.world.bodies[1] = bench.world.retryBodies[0]
    bench.world.deliver(1)
    bench.turn()
    #expect(bench.world.requests.count == 2)
    #expect(
      bench.world.settlements.last
        == #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":1,"ends":"c","ordinals":"0:8"}"#)
    #expect(bench.jobsInFlight == 0)
  }

  @Test func pause_holdsForDevicesThatWaitInThePool() {
    let bench = waiting("7,8", 2)
    bench.world.standing = .paused
    bench.world.milliseconds += 400
    bench.turn(2)
    bench.world.decision = .sent
    bench.turn(4)
    #expect(bench.world.requests.isEmpty && bench.world.outcomes.isEmpty && bench.world.settlements.isEmpty)
    #expect(bench.world.retryBodies == [0, 1].map { page("\(7 + $0)", position: #","position":\#($0)"#) })
    #expect(bench.world.retries.map(\.attempts) == [0, 0] && bench.world.retries.allSatisfy { $0.claim > 0 })
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  /// It was resumed before the lane asked.
  @Test func pauseAndResume_changeNothing() {
    let bench = waiting("7,8", 2)
    bench.world.standing = .paused
    bench.world.milliseconds += 200
    bench.turn(2)
    bench.world.standing = .running
    bench.world.milliseconds += 200
    bench.turn(2)
    bench.world.decision = .sent
    bench.turn(4)
    #expect(bench.world.requests.count == 2 && bench.world.retryBodies.isEmpty)
  }

  /// Once for all pages of a job, however many devices wait.
  @Test func aLaneAsksAboutAJobNotAboutItsPages() {
    let bench = LaneBench(prefetch: 60)
    for number in 0..<6 {
      bench.world.bodies[number] = page("\(number + 1)").replacing("p/3", with: "p/\(number)")
        .replacing(#""page":3"#, with: #""page":\#(number)"#)
    }
    bench.world.tokens = Dictionary(uniqueKeysWithValues: (1...6).map { (UInt32($0), token(UInt8($0))) })
    bench.world.decision = .noRoom
    bench.consume(0..<6)
    bench.turn(4)
    for count in 1...3 {
      bench.world.milliseconds += 300
      bench.turn(2)
      #expect(bench.world.standingsAnswered == count - 1)
      bench.world.milliseconds += 100
      bench.turn(2)
      #expect(bench.world.standingsAnswered == count)
    }
    bench.world.decision = .sent
    bench.turn(2)
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn(4)
    bench.world.milliseconds += 10_000
    bench.turn(2)
    #expect(bench.jobsInFlight == 0 && bench.world.standingsAnswered == 3, "none of its pages is here")
  }

  /// An earlier delivery of the page may have been sent: the admission store knows.
  @Test(
    arguments: [
      (Admission.proceed, "c", nil), (.repeated(.proceed), "t", "throttled"),
      (.dead(unregisteredAt: 5), "u", "unregistered"),
    ] as [(Admission, String, String?)])
  func cancelledPageThatMayHaveBeenSent_endsAsTheAdmissionStoreSays(
    _ admission: Admission, _ letter: String, _ outcome: String?
  ) {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.world.standing = .cancelled
    bench.world.mayBeSent = true
    bench.world.admission = admission
    bench.consume(0..<1) { $0.isAmbiguous = true }
    bench.turn(8)
    #expect(bench.world.requests.isEmpty && bench.world.arrivals.map { $0.claim == 0 } == [true])
    #expect(bench.world.settlements.last?.contains(#""ends":"\#(letter)""#) == true, "\(bench.world.settlements)")
    if let outcome {
      #expect(part(#""outcome":"\#(outcome)""#, bench) && part(#""ambiguous":true"#, bench))
    } else {
      #expect(bench.world.outcomes.isEmpty)
    }
  }
}
