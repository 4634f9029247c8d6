import PushCore
import PushLane
import Testing

/// How a lane handles deliveries that come, are lost, and are redelivered.
@Suite struct LaneDeliveryTests {
  /// A slow APNs, and a broker that closes the connection again and again: requests on the wire take no job slots.
  @Test func aLostConsumerTakesItsDeliveriesWithIt() {
    let bench = LaneBench()
    for round in 0..<10 {
      bench.consume(0..<20)
      bench.turn()
      #expect(bench.jobsInFlight == 20, "round \(round)")
      #expect(bench.world.requests.count == 20 * (round + 1))
      bench.world.loseConsumer()
      bench.turn(1)
      #expect(bench.jobsInFlight == 0)
    }
    #expect(bench.world.rejected.isEmpty, "nothing is given back: the broker would count it")
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn()
    #expect(bench.world.remembered.count == 200, "whoever gets them next gets the answer")
    #expect(bench.world.outcomes.isEmpty, "and tells it")
    bench.consume(100..<110)
    bench.turn()
    for ticket in bench.world.requests.suffix(10) { bench.world.answer(ticket) }
    bench.turn()
    #expect(bench.world.outcomes.count == 10)
    #expect(bench.jobsInFlight == 0)
  }

  /// Deliveries beyond the prefetch wait on the connection.
  @Test func noDeliveryIsTakenWithoutRoomForIt() {
    let bench = LaneBench { $0.jobsMaximum = 32 }
    bench.consume(0..<100)
    bench.turn(10)
    #expect(bench.jobsInFlight == 32)
    #expect(bench.world.ready.count == 68)
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn(10)
    #expect(bench.world.outcomes.count == 32, "confirms are heard meanwhile")
    #expect(bench.world.ready.count == 36)
    #expect(bench.world.rejected.isEmpty)
  }

  /// Orphans leave room for a full prefetch of deliveries.
  @Test func orphansLeaveRoom() {
    let bench = LaneBench { $0.sendsMaximum = 50 }
    for round in 1...10 {
      bench.consume(0..<20)
      bench.turn()
      #expect(bench.world.requests.count == 20 * round)
      bench.world.loseConsumer()
      bench.turn(1)
    }
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn()
    #expect(bench.world.remembered.count == 30, "of what was on the wire first")
  }

  /// Bulk jobs have a share of the room beside orphans, so they do not stall.
  @Test func orphansLeaveRoomForBulk() {
    let bench = LaneBench { $0.sendsMaximum = 50 }
    for round in 1...3 {
      bench.consume(0..<0)
      for number in 0..<20 { bench.world.deliver(number, jobClass: .bulk) }
      bench.turn()
      #expect(bench.world.requests.count == [20, 40, 55][round - 1])
      bench.world.loseConsumer()
      bench.turn(1)
    }
  }

  /// A delivery that may be its last waits behind nothing: neither behind requests on the wire nor behind batches.
  @Test func whatIsPutAsideNeedsNoRoom() {
    let bench = LaneBench { $0.sendsMaximum = 30 }
    bench.consume(0..<20)
    bench.turn()
    bench.world.loseConsumer()
    bench.consume(0..<20)
    bench.world.deliver(20)
    bench.turn()
    #expect(bench.world.requests.count == 40, "all room is taken: by ten orphans and twenty others")
    for number in 30..<40 { bench.world.deliver(number) { $0.deliveryCount = 3 } }
    bench.turn()
    #expect(bench.world.isolatedCount == 10)
    let asked = bench.world.arrivals.count
    bench.world.deliver(1, jobClass: .bulk) { metadata in
      metadata.redeliveries = 1
      metadata.firstSeen = bench.world.milliseconds
    }
    bench.world.deliver(0, isIsolated: true) { $0.jobClass = .bulk }
    bench.turn(40)
    #expect(
      bench.world.arrivals.count == asked + 1, "nor does the one that is alone, also behind one that waits for room")
    #expect(bench.world.arrivals.last?.takeover == .anyClaim)
  }

  /// A worker that lost a delivery usually lives and stores its answer soon: the lane waits for the answer first, longer each time.
  @Test func aDeliveryThatComesAgainWaitsForTheAnswer() {
    let bench = LaneBench()
    bench.world.admission = .claimed(retryAfterMilliseconds: 60_000)
    bench.consume(0..<1) { $0.deliveryCount = 1 }
    bench.turn()
    #expect(bench.world.arrivals.map(\.takeover) == [.none])
    #expect(bench.world.arrivals.map(\.isRedelivered) == [true])
    #expect(bench.world.retryDelays == [1])
    #expect(bench.world.retries.map(\.redeliveries) == [1])
    #expect(bench.world.retries.map(\.isAmbiguous) == [true])
    // There is no answer.
    bench.world.admission = .repeated(.proceed)
    bench.world.deliver(0) { metadata in
      metadata.redeliveries = 1
      metadata.isAmbiguous = true
      metadata.firstSeen = bench.world.milliseconds
    }
    bench.turn()
    #expect(bench.world.arrivals.count == 1, "not before what came again has its copy, and that is acknowledged")
    bench.turn(40)
    #expect(bench.world.arrivals.map(\.takeover) == [.none, .oldClaims])
    #expect(bench.world.requests.count == 1)
    // Its delivery is lost again.
    bench.world.loseConsumer()
    bench.world.admission = .claimed(retryAfterMilliseconds: 60_000)
    bench.consume(0..<1) { metadata in
      metadata.deliveryCount = 1
      metadata.redeliveries = 1
      metadata.firstSeen = bench.world.milliseconds
    }
    bench.turn()
    #expect(bench.world.retryDelays == [1, 5])
    #expect(bench.world.retries.map(\.redeliveries) == [1, 2])
    // And again: it may be a poison job.
    bench.consume(0..<1) { metadata in
      metadata.deliveryCount = 1
      metadata.redeliveries = 2
    }
    bench.turn()
    #expect(bench.world.isolatedCount == 1)
    // A job with an answer did not crash its worker.
    bench.world.admission = .proceed
    bench.world.deliver(1) { $0.redeliveries = 2 }
    bench.turn(40)
    bench.world.answer(bench.world.requests[1], status: 503, reason: .serviceUnavailable)
    bench.turn()
    #expect(bench.world.retries.map(\.redeliveries) == [1, 2, 0])
  }

  /// One copy with all its targets: a poison batch stays one poison job and does not become a thousand.
  @Test func aBatchThatComesAgainWaitsAsAWhole() {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 600))
    bench.world.targetCount = 4
    let now = bench.world.milliseconds
    bench.consume(0..<1) { $0.deliveryCount = 1 }
    bench.turn()
    #expect(bench.world.arrivals.isEmpty)
    #expect(bench.world.retries.map(\.redeliveries) == [1])
    #expect(bench.world.retries.map(\.apnsID) == [nil])
    #expect(bench.world.retryDelays == [1])
    #expect(bench.jobsInFlight == 0)
    bench.world.deliver(0) { metadata in
      metadata.redeliveries = 1
      metadata.firstSeen = now
    }
    bench.turn(40)
    #expect(bench.world.arrivals.map(\.takeover) == [.oldClaims, .oldClaims, .oldClaims, .oldClaims])
    // It would expire before that: the lane publishes the known outcomes now.
    bench.world.deliver(1) { metadata in
      metadata.deliveryCount = 1
      metadata.enqueuedAt = now - 599_900
    }
    bench.turn()
    #expect(bench.world.retries.count == 1)
    #expect(bench.world.arrivals.count == 8)
  }

  /// Batches of bulk jobs take neither room nor turns from transactional jobs.
  @Test func bulkBatchesLeaveRoomForTransactionalJobs() {
    let bench = LaneBench { $0.sendsMaximum = 40 }
    bench.world.targetCount = 10
    bench.consume(0..<0)
    for number in 0..<8 { bench.world.deliver(number, jobClass: .bulk) }
    bench.turn()
    #expect(bench.world.requests.count == 30)
    bench.world.targetCount = 1
    for number in 10..<14 { bench.world.deliver(number) }
    bench.turn()
    #expect(bench.world.requests.count == 34)
  }

  /// While requests are written and answers come, there is no standstill, even if nothing settles.
  @Test func aRequestThatIsSentAgainMoves() {
    let bench = LaneBench()
    bench.consume(0..<1)
    bench.turn()
    let before = bench.lane.look().settled
    bench.world.answers.append(PushAnswer(ticket: bench.world.requests[0], kind: .timedOut))
    bench.turn()
    #expect(bench.world.requests.count == 2 && bench.world.outcomes.isEmpty)
    let after = bench.lane.look().settled
    #expect(after == before + 2)
    bench.turn(100)
    let later = bench.lane.look().settled
    #expect(later == after)
  }

  /// Two copies wait in vain for the same answer and take over together: one goes on, the other waits for its answer, without a retry copy
  /// that a crash would duplicate.
  @Test func theOneThatMeetsANewClaimAsksAgain() {
    let bench = LaneBench()
    bench.world.admission = .claimed(retryAfterMilliseconds: 60_000)
    bench.consume(0..<1) { metadata in
      metadata.redeliveries = 1
      metadata.firstSeen = bench.world.milliseconds
    }
    bench.turn(60)
    #expect(bench.world.arrivals.map(\.takeover) == [.oldClaims])
    #expect(bench.world.retries.isEmpty && bench.world.outcomes.isEmpty)
    bench.turn(200)
    #expect(bench.world.arrivals.map(\.takeover) == [.oldClaims, .oldClaims])
    bench.world.admission = .duplicate(
      RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 1, completedAt: 2))
    bench.turn(260)
    #expect(bench.world.arrivals.count == 3)
    #expect(bench.world.outcomes.count == 1 && bench.world.requests.isEmpty && bench.world.retries.isEmpty)
  }

  /// The limit of pending admissions holds for them too.
  @Test func thoseThatAskAgainAreBounded() {
    let bench = LaneBench { $0.admissionsMaximum = 4 }
    bench.world.admission = .claimed(retryAfterMilliseconds: 60_000)
    bench.consume(0..<10) { metadata in
      metadata.redeliveries = 1
      metadata.firstSeen = bench.world.milliseconds
    }
    bench.turn(60)
    #expect(bench.world.arrivals.count == 10)
    var most = 0
    for _ in 0..<300 {
      let before = bench.world.arrivals.count
      bench.turn(1)
      most = max(most, bench.world.arrivals.count - before)
    }
    #expect(bench.world.arrivals.count >= 20)
    #expect(most == 4)
  }

  /// A send waits for room and its claim becomes old: a redelivered copy takes the job over and gets the answer.
  @Test func whatWaitedForRoomIsAskedAboutAgain() throws {
    let bench = LaneBench()
    bench.world.decision = .noRoom
    bench.consume(0..<1)
    bench.turn(400)
    #expect(bench.world.arrivals.count == 1, "nobody asks while there is no room")
    bench.world.admission = .duplicate(
      RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 1, completedAt: 2))
    bench.world.decision = .sent
    bench.turn(4)
    #expect(bench.world.requests.isEmpty)
    #expect(bench.world.outcomes.count == 1 && bench.world.retries.isEmpty)
    try #require(bench.world.arrivals.count == 2)
    #expect(bench.world.arrivals[1].claim == bench.world.arrivals[0].claim, "a claim that it has already costs nothing")
  }

  /// The queue of a slow pool is readmitted in parts, each send once.
  @Test func thoseThatWaitedForRoomAreAskedAboutInParts() {
    let bench = LaneBench(prefetch: 40)
    bench.world.room = 4
    bench.world.decision = .noRoom
    bench.consume(0..<30)
    bench.turn(300)
    bench.world.decision = .sent
    var most = 0
    for _ in 0..<60 {
      let before = bench.world.arrivals.count
      bench.turn(1)
      most = max(most, bench.world.arrivals.count - before)
    }
    #expect(most == 4)
    #expect(bench.world.arrivals.count == 60)
    #expect(bench.world.requests.count == 30 && Set(bench.world.requests).count == 30)
  }

  /// Any number of readmitted sends may need another readmission.
  @Test func whatWasAskedAboutAgainMayGrowOldToo() {
    let bench = LaneBench()
    bench.world.room = 4
    bench.world.decision = .noRoom
    bench.consume(0..<6)
    bench.turn(300)
    bench.world.decision = .sent
    bench.turn(1)
    bench.world.decision = .noRoom
    bench.turn(300)
    #expect(bench.world.arrivals.count == 10 && bench.world.requests.isEmpty)
    bench.world.decision = .sent
    bench.turn(10)
    #expect(bench.world.requests.count == 6)
  }

  /// A readmitted send leaves first, and goes to the retry queues if its whole wait was too long.
  @Test func whatWasAskedAboutAgainWaitsNoLongerThanOthers() {
    let bench = LaneBench()
    bench.world.decision = .noRoom
    bench.consume(0..<2)
    bench.turn(1000)
    bench.world.decision = .sent
    bench.turn(1)
    #expect(bench.world.arrivals.count == 4 && bench.world.requests.isEmpty)
    bench.world.decision = .noRoom
    bench.turn(900)
    #expect(bench.world.retries.isEmpty)
    bench.turn(200)
    #expect(bench.world.retries.count == 2)
    #expect(bench.world.arrivals.count == 4)
  }

  /// A job expires while it waits for another copy's answer: that answer is its outcome too.
  @Test func whatIsOverWhileItIsClaimedWaitsForTheAnswer() {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 600))
    let now = bench.world.milliseconds
    bench.world.admission = .claimed(retryAfterMilliseconds: 60_000)
    bench.consume(0..<1) { metadata in
      metadata.enqueuedAt = now - 700_000
      metadata.redeliveries = 1
      metadata.firstSeen = now - 700_000
    }
    bench.turn(40)
    #expect(bench.world.arrivals.map(\.takeover) == [.none], "there is nothing to send")
    #expect(bench.world.retryDelays == [1])
    #expect(bench.world.outcomes.isEmpty)
  }

  /// Only a final answer of an orphan is stored.
  @Test func anOrphanIsNotTriedAgain() {
    let bench = LaneBench()
    bench.consume(0..<4)
    bench.turn()
    let orphans = bench.world.requests
    bench.world.loseConsumer()
    bench.turn(1)
    bench.consume(10..<11)
    bench.turn()
    bench.world.answer(orphans[0], status: 503, reason: .serviceUnavailable)
    bench.world.answers.append(PushAnswer(ticket: orphans[1], kind: .notProcessed))
    bench.world.answers.append(PushAnswer(ticket: orphans[2], kind: .timedOut))
    bench.world.answer(orphans[3], status: 400, reason: .badDeviceToken)
    bench.turn()
    #expect(bench.world.requests.count == 5)
    #expect(bench.world.retries.isEmpty)
    #expect(bench.world.remembered.map(\.outcome) == [.rejected])
    #expect(bench.world.pausedTopics.allSatisfy { $0 == "(unknown)" } && !bench.world.pausedTopics.isEmpty)
    // Repeated answers, and answers of unknown requests, are ignored.
    for orphan in orphans { bench.world.answer(orphan) }
    bench.turn()
    #expect(bench.world.remembered.count == 1)
  }

  /// The delivery is lost while its outcome is published and not confirmed.
  @Test func aConfirmOfADeliveryThatIsGoneMeansNothing() {
    let bench = LaneBench()
    bench.world.confirmsPublishes = false
    bench.consume(0..<2)
    bench.turn()
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn()
    #expect(bench.unconfirmedCount == 2)
    bench.world.loseConsumer()
    bench.consume(0..<2)
    bench.turn()
    bench.world.events.append(.confirmed(1...1))
    bench.world.events.append(.refused(2...2))
    bench.turn()
    #expect(bench.unconfirmedCount == 0)
    #expect(bench.jobsInFlight == 2)
    #expect(bench.world.outcomes.count == 2, "published again by those who have it now")
  }

  @Test func anEndingLaneWaitsForWhatIsOnTheWire() {
    let bench = LaneBench()
    bench.consume(0..<3)
    bench.turn()
    bench.world.loseConsumer()
    bench.turn(1)
    bench.lane.beginDrain()
    bench.turn()
    #expect(!bench.isDrained)
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn()
    #expect(bench.isDrained)
    #expect(bench.world.remembered.count == 3)
  }

  /// Tables too small for the prefetch: a precondition fails at the start, before the lane takes a job.
  @Test func tablesThatAreTooSmallAreNotBegunWith() async {
    await #expect(processExitsWith: .failure) {
      _ = LaneBench(prefetch: 20) { $0.jobsMaximum = 20 }
    }
    await #expect(processExitsWith: .failure) {
      _ = LaneBench(prefetch: 20) { $0.sendsMaximum = 20 }
    }
    await #expect(processExitsWith: .success) {
      _ = LaneBench(prefetch: 20) { settings in
        settings.jobsMaximum = 21
        settings.sendsMaximum = 21
      }
    }
  }

  /// A job's age counts from when its producer published it.
  @Test func aJobIsAsOldAsItsTimestampSays() {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 600))
    let now = bench.world.milliseconds
    bench.consume(0..<1) { $0.enqueuedAt = now - 7_200_000 }
    bench.turn()
    #expect(bench.world.requests.isEmpty)
    #expect(bench.world.outcomes.first?.contains("\"outcome\":\"expired\"") == true)
    #expect(bench.world.outcomes.first?.contains("\"enqueued_at\":\(now - 7_200_000),") == true)
    // Redelivered: as old as before. Without a timestamp, the first receipt of the copy counts.
    bench.world.deliver(1) { metadata in
      metadata.enqueuedAt = now - 601_000
      metadata.deliveryCount = 1
    }
    bench.world.deliver(2) { $0.firstSeen = now - 601_000 }
    bench.world.deliver(3) { $0.enqueuedAt = now - 590_000 }
    bench.turn()
    // The same time decides which of two jobs with one collapse id is newer. A timestamp means any moment of its second.
    let times = [now - 7_200_000 + 999, now - 601_000 + 999, now - 601_000, now - 590_000 + 999]
    #expect(bench.world.arrivals.map(\.enqueuedAt) == times)
    #expect(bench.world.outcomes.count == 3)
    #expect(bench.world.outcomes.allSatisfy { $0.contains("\"outcome\":\"expired\"") })
    #expect(bench.world.requests.count == 1)
  }

  /// The broker was blocked, or the pool full, until the job expired.
  @Test func whatRanOutWhileItWaitedIsNotSent() {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 600)) { $0.roomWaitMilliseconds = 60_000 }
    let now = bench.world.milliseconds
    bench.world.decision = .noRoom
    bench.consume(0..<1) { $0.enqueuedAt = now - 595_000 }
    bench.turn()
    #expect(bench.jobsInFlight == 1 && bench.world.outcomes.isEmpty)
    bench.world.milliseconds += 10_000
    bench.world.decision = .sent
    bench.turn()
    #expect(bench.world.requests.isEmpty)
    #expect(bench.world.outcomes.count == 1)
    #expect(bench.world.outcomes.first?.contains("\"outcome\":\"expired\"") == true)
  }

  /// Producers write the times: impossible ones are ignored, and times in the future count as now.
  @Test(arguments: [Int64.min, Int64.min + 1, -1, 0, Int64.max, 1 << 62] as [Int64])
  func timesThatCannotBeHarmNobody(time: Int64) {
    let bench = LaneBench { settings in
      settings.slowWaitersMaximum = 1
      settings.roomWaitMilliseconds = 100
    }
    bench.world.decision = .noRoom
    bench.consume(0..<4) { metadata in
      metadata.firstSeen = time
      metadata.enqueuedAt = time
    }
    bench.turn(40)
    #expect(bench.world.retries.count == 4)
    #expect(bench.world.retries.allSatisfy { abs($0.firstSeen - bench.world.milliseconds) < 1000 })
    #expect(bench.jobsInFlight == 0)
  }

  /// A broadcast that waits for its channel's policy was not sent: the wait counts as no attempt, and it is sent once.
  @Test func aHeldBroadcastIsNoRequest() {
    let bench = LaneBench()
    bench.world.decision = .held
    bench.consume(0..<1)
    bench.turn()
    let ticket = bench.world.requests[0]
    bench.world.decision = .sent
    bench.turn(100)
    #expect(bench.world.requests.count == 1, "it waits until it is given back")
    bench.world.released = [ticket]
    bench.turn()
    #expect(bench.world.requests == [ticket, ticket])
    bench.world.answer(ticket)
    bench.turn()
    #expect(bench.world.outcomes.first?.contains("\"attempts\":1,\"ambiguous\":false") == true)
    // It is released when its delivery is lost.
    bench.world.decision = .held
    bench.world.deliver(1)
    bench.turn()
    bench.world.loseConsumer()
    bench.turn(1)
    bench.world.decision = .sent
    bench.world.released = [bench.world.requests[2]]
    bench.turn()
    #expect(bench.world.requests.count == 3)
  }
}
