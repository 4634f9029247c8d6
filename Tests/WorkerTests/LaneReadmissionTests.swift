import PushCore
import PushCredentials
import PushLane
import PushSettings
import Testing

/// Readmission of sends that waited for room: it does not count against the device's rate, and delays no other send.
@Suite struct LaneReadmissionTests {
  private typealias Bench = ReadmissionBench

  /// Asked once while Redis is silent and once in Redis, a send has a claim in two places, and recognises its own in each.
  @Test func aClaimInTwoPlacesIsItsOwn() throws {
    let world = ReadmissionWorld()
    let bench = Bench(world, ReadmissionStore(world))
    world.redis.isAway = true
    world.peers.deliver(0)
    bench.turn(4)
    world.redis.isAway = false
    bench.turn(120)
    world.status = 503
    world.roomPerTurn = 10
    bench.turn(4)
    #expect(world.sent.count == 1)
    // The copy comes back a second later, and APNs has recovered.
    world.status = 200
    bench.turn(200)
    let copy = try #require(world.peers.retries.last)
    world.peers.retries = []
    world.peers.deliver(0) { $0.take(copy) }
    bench.turn(4)
    #expect(world.sent.count == 2 && world.peers.retries.isEmpty)
    #expect(world.peers.outcomes.count == 1)
  }

  /// Asked in Redis, again while Redis is silent, and a third time in Redis.
  @Test func whatWasDecidedWithoutRedisMeantimeIsSent() {
    let world = ReadmissionWorld()
    let bench = Bench(world, ReadmissionStore(world))
    world.peers.deliver(0)
    bench.turn(120)
    world.redis.isAway = true
    world.roomPerTurn = 10
    bench.turn(1)
    world.roomPerTurn = 0
    bench.turn(2)
    world.redis.isAway = false
    bench.turn(120)
    world.roomPerTurn = 10
    bench.turn(6)
    #expect(world.sent.count == 1 && world.peers.retries.isEmpty && world.peers.outcomes.count == 1)
  }

  /// A device is below its rate, and the pool has no room for five seconds: the readmission does not charge the rate again.
  @Test(arguments: [RateLimitPolicy.drop, .delay]) func whatWasAdmittedIsNotOverItsRate(onLimit: RateLimitPolicy) {
    let world = ReadmissionWorld()
    world.hasOneDevice = true
    let store = MemoryAdmissionStore(
      settings: AdmissionMemory.Settings(), limits: RateLimits(RateLimit(burst: 2, perSecond: 5)))
    let bench = Bench(world, store, prefetch: 60) { $0.onLimit = onLimit }
    for number in 0..<20 {
      world.peers.deliver(number)
      bench.turn(50)
    }
    world.roomPerTurn = 100
    bench.turn(100)
    #expect(world.sent.count == 20 && world.peers.retries.isEmpty)
    #expect(world.peers.outcomes.count { $0.contains("\"accepted\"") } == 20)
  }

  /// An older job of a collapse id waits for room while a newer one is admitted.
  @Test func whatIsOlderByItsSequenceIsNotSentAfterTheNewer() {
    let world = ReadmissionWorld()
    world.hasOneDevice = true
    world.hasCollapseID = true
    world.isNumbered = true
    let bench = Bench(world, ReadmissionStore(world))
    world.peers.deliver(1)
    bench.turn(20)
    world.peers.deliver(2)
    bench.turn(20)
    #expect(world.sent.isEmpty)
    world.roomPerTurn = 10
    bench.turn(12)
    #expect(world.sent == ["job-2"])
    #expect(world.peers.outcomes.count { $0.contains("superseded") } == 1 && world.peers.outcomes.count == 2)
  }

  /// An older job waits for room in its lane while another lane sends a newer one.
  @Test(arguments: JobKind.allCases) func whatIsOlderIsNotSentAfterTheNewerOfAnotherLane(kind: JobKind) {
    let redis = ReadmissionRedis()
    let worlds = [ReadmissionWorld(redis, seed: 1), ReadmissionWorld(redis, seed: 2)]
    let benches = worlds.map { Bench($0, ReadmissionStore($0)) }
    func turn(_ count: Int) {
      for _ in 0..<count { for bench in benches { bench.turn(1) } }
    }
    for (number, world) in worlds.enumerated() {
      world.hasOneDevice = true
      world.hasCollapseID = true
      world.isNumbered = kind == .numbered
      world.peers.deliver(number + 1) { [kind] in
        if kind == .stamped { $0.timestamp = world.peers.milliseconds / 1_000 }
      }
      turn(4)
      world.roomPerTurn = number * 10
      turn(4)
    }
    turn(12)
    #expect(worlds.map(\.sent) == [[], []])
    worlds[0].roomPerTurn = 10
    turn(12)
    #expect(worlds.map(\.sent) == [[], ["job-2"]])
    #expect(worlds[0].peers.outcomes.count == 1 && worlds[0].peers.outcomes.allSatisfy { $0.contains("superseded") })
  }

  /// The same where it waits before the admission store is asked about it at all.
  @Test(arguments: JobKind.allCases) func whatWaitsForItsFirstAskIsNotSentAfterTheNewer(kind: JobKind) {
    let redis = ReadmissionRedis()
    let worlds = [ReadmissionWorld(redis, seed: 1), ReadmissionWorld(redis, seed: 2)]
    let benches = [
      Bench(worlds[0], ReadmissionStore(worlds[0], latencyMilliseconds: 100)) { $0.admissionsMaximum = 1 },
      Bench(worlds[1], ReadmissionStore(worlds[1])),
    ]
    for world in worlds {
      world.hasOneDevice = true
      world.hasCollapseID = true
      world.isNumbered = kind == .numbered
      world.roomPerTurn = 10
    }
    func deliver(_ number: Int, _ world: ReadmissionWorld) {
      world.peers.deliver(number) { if kind == .stamped { $0.timestamp = world.peers.milliseconds / 1_000 } }
    }
    func turn(_ count: Int) {
      for _ in 0..<count { for bench in benches { bench.turn(1) } }
    }
    deliver(1, worlds[0])
    deliver(2, worlds[0])
    turn(10)
    deliver(3, worlds[1])
    turn(100)
    #expect(worlds.map(\.sent) == [[], ["job-3"]])
    #expect(worlds[0].peers.outcomes.count == 2 && worlds[0].peers.outcomes.allSatisfy { $0.contains("superseded") })
  }

  /// What a producer says about the order of its jobs with one collapse id.
  enum JobKind: CaseIterable { case numbered, stamped, unstamped }

  /// Two copies take over, in two lanes whose pools have a queue of three seconds: only one of them is sent.
  @Test func twoThatTakeOverDoNotHoldEachOtherUp() {
    let redis = ReadmissionRedis()
    let worlds = [ReadmissionWorld(redis, seed: 1), ReadmissionWorld(redis, seed: 2)]
    let benches = worlds.map { Bench($0, ReadmissionStore($0), prefetch: 1500) }
    var number = 10
    func deliver(_ world: ReadmissionWorld, _ count: Int) {
      for _ in 0..<count {
        number += 1
        world.peers.deliver(number)
      }
    }
    func step(_ count: Int) {
      for _ in 0..<count {
        for (world, bench) in zip(worlds, benches) {
          deliver(world, 1)
          bench.turn(1, milliseconds: 10)
        }
      }
    }
    func deliverCopy(_ world: ReadmissionWorld) {
      world.peers.deliver(0) {
        $0.redeliveries = 1
        $0.isAmbiguous = true
        $0.firstSeen = world.peers.milliseconds - 5000
      }
    }
    for world in worlds {
      world.roomPerTurn = 1
      deliver(world, 300)
    }
    step(50)
    deliverCopy(worlds[0])
    step(70)
    deliverCopy(worlds[1])
    step(7 * 100)
    #expect(worlds.contains { $0.sent.contains("job-0") })
  }

  /// A pool has no room for a second: after that, the lane sends as fast as before.
  @Test func aLaneRecoversFromAWait() {
    let prefetch = 500
    let world = ReadmissionWorld()
    world.peers.targetCount = 3
    world.roomPerTurn = 100_000
    world.isRemembering = false
    let bench = Bench(
      world, ReadmissionStore(world, latencyMilliseconds: 40), prefetch: prefetch)
    var number = 0
    func sent(inMilliseconds milliseconds: Int) -> Int {
      let before = world.sentCount
      for _ in 0..<milliseconds / 2 {
        while bench.lane.jobsInFlight + world.peers.ready.count < prefetch {
          number += 1
          world.peers.deliver(number)
        }
        bench.turn(1, milliseconds: 2)
        world.peers.outcomes = []
      }
      return world.sentCount - before
    }
    _ = sent(inMilliseconds: 300)
    let before = sent(inMilliseconds: 500)
    world.roomPerTurn = 0
    _ = sent(inMilliseconds: 1000)
    world.roomPerTurn = 100_000
    _ = sent(inMilliseconds: 1000)
    let after = sent(inMilliseconds: 500)
    #expect(after * 10 >= before * 9, "\(before) targets, then \(after)")
  }

  /// A pool takes twenty requests a second: the lane readmits only as many sends as find room.
  @Test func aSlowPoolCostsFewAsks() {
    let world = ReadmissionWorld()
    let bench = Bench(world, ReadmissionStore(world), prefetch: 400)
    var number = 0
    for turn in 0..<200 * 10 {
      while bench.lane.jobsInFlight + world.peers.ready.count < 400 {
        number += 1
        world.peers.deliver(number)
      }
      world.roomPerTurn = nil
      if turn.isMultiple(of: 10) { world.room = min(3, world.room + 1) }
      bench.turn(1)
    }
    #expect(world.sent.count >= 195)
    #expect(world.asks <= number + 2 * world.sent.count, "\(world.asks) asks for \(number) jobs")
  }

  /// Many sends were readmitted while there was room for all, and the room is gone when the answers come: they leave one after another,
  /// although the last admission becomes old long before its turn.
  @Test func onesThatWereAskedAboutTogetherLeaveOneAfterTheOther() {
    let world = ReadmissionWorld()
    let bench = Bench(world, ReadmissionStore(world, latencyMilliseconds: 40), prefetch: 100)
    for number in 0..<40 { world.peers.deliver(number) }
    bench.turn(200)
    world.roomPerTurn = 40
    bench.turn(1)
    world.roomPerTurn = 0
    bench.turn(200)
    #expect(world.sent.isEmpty && world.asks == 80)
    world.roomPerTurn = 1
    bench.turn(1000)
    #expect(world.sent == (0..<40).map { "job-\($0)" })
  }

  /// A send waits for another copy's answer while a backlog uses the whole capacity of the admission store.
  @Test func aBacklogKeepsNoCopyFromItsAnswer() {
    let world = ReadmissionWorld()
    world.roomPerTurn = 100_000
    let bench = Bench(world, ReadmissionStore(world, latencyMilliseconds: 40), prefetch: 500)
    for _ in 0..<2 {
      world.peers.deliver(0) {
        $0.redeliveries = 1
        $0.isAmbiguous = true
        $0.firstSeen = world.peers.milliseconds - 5000
      }
    }
    var number = 0
    var ends = 0
    for turn in 0..<1500 {
      while turn > 50, bench.lane.jobsInFlight + world.peers.ready.count < 500 {
        number += 1
        world.peers.deliver(number)
      }
      bench.turn(1, milliseconds: 2)
      ends += world.peers.outcomes.count { $0.contains("\"job-0\"") }
      world.peers.outcomes = []
    }
    #expect(ends == 2)
  }

  /// The worker was stopped while Redis answered: the claim is older than the answer's arrival suggests.
  @Test func anAnswerThatWasTakenLateIsOldAtOnce() {
    let bench = LaneBench()
    bench.consume(0..<1)
    bench.turn(1)
    #expect(bench.world.arrivals.count == 1)
    bench.world.admission = .proceed
    #expect(bench.world.requests.count == 1, "the answer came in time")
    let late = LaneBench()
    late.world.admitsNothing = true
    late.consume(0..<1)
    late.turn(1)
    late.world.milliseconds += 3_000
    late.world.admitsNothing = false
    late.turn(1)
    #expect(late.world.arrivals.count == 2 && late.world.requests.isEmpty)
    late.turn(1)
    #expect(late.world.arrivals.count == 2 && late.world.requests.count == 1)
  }

  /// A job expires while it waits for room: another copy's outcome is its outcome too.
  @Test func whatIsOverWhileItWaitsForRoomIsAskedAboutAgain() {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 600))
    bench.world.decision = .noRoom
    bench.consume(0..<1) { $0.firstSeen = bench.world.milliseconds - 595_000 }
    bench.turn(900)
    #expect(bench.world.arrivals.count == 1 && bench.world.outcomes.isEmpty)
    bench.world.admission = .duplicate(
      RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 1, completedAt: 2))
    bench.turn(110)
    #expect(bench.world.arrivals.count == 2 && bench.world.arrivals.last?.claim == 0)
    #expect(bench.world.outcomes.count == 1 && bench.world.outcomes.first?.contains("\"accepted\"") == true)
  }

  /// A wrong clock is set back between question and answer: a job that looked expired is sent, with a claim like any other.
  @Test(arguments: [0, 3_000]) func whatIsNotOverAfterAllLeavesAClaim(answeredAfterMilliseconds: Int64) {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 300))
    bench.world.admitsNothing = true
    bench.consume(0..<1) { $0.enqueuedAt = bench.world.milliseconds }
    bench.world.clockAheadMilliseconds = 600_000
    bench.turn(1)
    #expect(bench.world.arrivals.map { $0.claim == 0 } == [true])
    bench.world.clockAheadMilliseconds = 0
    bench.world.milliseconds += answeredAfterMilliseconds
    bench.world.admitsNothing = false
    bench.turn()
    #expect(bench.world.requests.count == 1 && bench.world.outcomes.isEmpty)
    #expect(bench.world.arrivals.last.map { $0.claim != 0 } == true)
    #expect(bench.world.arrivals.dropFirst().allSatisfy { $0.claim != 0 })
  }

  /// The same for a send that waited for room and had a claim: the lane asks again with that claim.
  @Test func whatWaitsIsNotOverAfterAll() {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 300))
    bench.world.decision = .noRoom
    bench.consume(0..<1) { $0.enqueuedAt = bench.world.milliseconds }
    bench.turn(1)
    let claim = bench.world.arrivals.last?.claim
    bench.world.milliseconds += 3_000
    bench.world.clockAheadMilliseconds = 600_000
    bench.world.admitsNothing = true
    bench.turn(1)
    #expect(bench.world.arrivals.map { $0.claim == 0 } == [false, true])
    bench.world.clockAheadMilliseconds = 0
    bench.world.admitsNothing = false
    bench.world.decision = .sent
    bench.turn()
    #expect(bench.world.requests.count >= 1 && bench.world.outcomes.isEmpty)
    #expect(bench.world.arrivals.count == 3 && bench.world.arrivals.last?.claim == claim && claim != 0)
  }
}

extension MessageMetadata {
  /// The headers of a retry copy.
  fileprivate mutating func take(_ copy: RetryState) {
    claim = copy.claim
    attempts = copy.attempts
    firstSeen = copy.firstSeen
    isAmbiguous = copy.isAmbiguous
    redeliveries = copy.redeliveries
  }
}
