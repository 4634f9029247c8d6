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
    world.roomPerTurn = 10
    bench.turn(8)
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
    worlds[0].roomPerTurn = 10
    turn(8)
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
    turn(60)
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
    #expect(bench.world.arrivals.count == 2 && bench.world.arrivals.last?.isOver == true)
    #expect(bench.world.outcomes.count == 1 && bench.world.outcomes.first?.contains("\"accepted\"") == true)
  }

  /// A wrong clock is set back between question and answer: a job that looked expired is sent, with a claim like any other.
  @Test(arguments: [0, 3_000]) func whatIsNotOverAfterAllLeavesAClaim(answeredAfterMilliseconds: Int64) {
    let bench = LaneBench(retry: RetryPolicy(ageMaximumSeconds: 300))
    bench.world.admitsNothing = true
    bench.consume(0..<1) { $0.enqueuedAt = bench.world.milliseconds }
    bench.world.clockAheadMilliseconds = 600_000
    bench.turn(1)
    #expect(bench.world.arrivals.map(\.isOver) == [true])
    bench.world.clockAheadMilliseconds = 0
    bench.world.milliseconds += answeredAfterMilliseconds
    bench.world.admitsNothing = false
    bench.turn()
    #expect(bench.world.requests.count == 1 && bench.world.outcomes.isEmpty)
    #expect(bench.world.arrivals.last?.isOver == false)
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
    #expect(bench.world.arrivals.map(\.isOver) == [false, true])
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

/// The shared admission store.
private final class ReadmissionRedis {
  var memory = AdmissionMemory(settings: AdmissionMemory.Settings())
  /// No lane reaches it.
  var isAway = false
}

/// One lane's peers.
private final class ReadmissionWorld {
  let peers = LaneBenchWorld()
  let redis: ReadmissionRedis
  /// The lane's seed: two lanes draw different numbers.
  let seed: Int
  /// Requests that the pool takes in each turn; nil: as many as `room` says.
  var roomPerTurn: Int? = 0
  var room = 0
  /// APNs' immediate answer.
  var status: UInt16 = 200
  /// All jobs are for one device.
  var hasOneDevice = false
  /// All jobs have one collapse id.
  var hasCollapseID = false
  /// All jobs have their numbers.
  var isNumbered = false
  var asks = 0
  /// Ids of jobs, in the order of their requests.
  var sent: [String] = []
  var sentCount = 0
  /// Whether `sent` is recorded.
  var isRemembering = true

  init(_ redis: ReadmissionRedis = ReadmissionRedis(), seed: Int = 1) {
    self.redis = redis
    self.seed = seed
  }
}

private final class ReadmissionBench<Store: AdmissionStore> {
  let world: ReadmissionWorld
  var lane: Lane<ReadmissionBroker, Store, ReadmissionPush, LaneBenchClock>

  init(
    _ world: ReadmissionWorld, _ store: Store, prefetch: Int = 20, _ adjust: (inout LaneSettings) -> Void = { _ in }
  ) {
    self.world = world
    var settings = LaneSettings(
      workerName: "bench/0", prefetch: prefetch, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: UInt64(world.seed))
    settings.leavesPoolsAlone()
    adjust(&settings)
    lane = Lane(
      broker: ReadmissionBroker(world: world), state: store, push: ReadmissionPush(world: world),
      clock: LaneBenchClock(world: world.peers), settings: settings)
    world.peers.epoch += 1
    world.peers.events.append(.consuming(epoch: world.peers.epoch))
  }

  func turn(_ count: Int, milliseconds: Int64 = 5) {
    for _ in 0..<count {
      world.peers.milliseconds += milliseconds
      lane.turn()
    }
  }
}

/// Decides as `RedisAdmissionStore` does: from local memory, else from Redis, else alone and marked.
private final class ReadmissionStore: AdmissionStore {
  private let world: ReadmissionWorld
  private let latencyMilliseconds: Int64
  private var local = AdmissionMemory(settings: AdmissionMemory.Settings())
  private var answers: [(at: Int64, ticket: Ticket, admission: Admission)] = []

  init(_ world: ReadmissionWorld, latencyMilliseconds: Int64 = 0) {
    self.world = world
    self.latencyMilliseconds = latencyMilliseconds
  }

  func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    world.asks += 1
    let request = AdmissionRequest(job, device: device, apnsID: apnsID, arrival: arrival, limits: .none)
    let admission =
      if local.mayRecall(now: now), let known = local.recall(request, now: now) {
        known
      } else if world.redis.isAway {
        local.admit(request, now: now).asRepeated
      } else {
        world.redis.memory.admit(request, now: now)
      }
    answers.append((now.unixMilliseconds + latencyMilliseconds, ticket, admission))
  }

  func flush(now: Now) {}

  func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard let first = answers.first, first.at <= now.unixMilliseconds else { return nil }
    answers.removeFirst()
    return (first.ticket, first.admission)
  }

  func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    _ = local.takeClaim(of: request)
    world.redis.memory.remember(outcome, of: request, now: now)
  }

  func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {}
}

private struct ReadmissionPush: PushService {
  let world: ReadmissionWorld

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex { PoolIndex(0) }
  mutating func maintain(now: Now) { if let room = world.roomPerTurn { world.room = room } }
  func room(for pool: PoolIndex) -> Int { world.room }

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    guard world.room > 0 else { return .noRoom }
    world.room -= 1
    world.sentCount += 1
    if world.isRemembering { world.sent.append(String(decoding: job.bytes[job.id.range], as: UTF8.self)) }
    world.peers.answer(ticket, status: world.status)
    return .sent
  }

  mutating func nextAnswer(now: Now) -> PushAnswer? { world.peers.answers.popLast() }
  mutating func apply(_ verdict: Verdict, pool: PoolIndex, now: Now) {}
  mutating func close() {}
}

private struct ReadmissionBroker: Broker {
  let world: ReadmissionWorld
  private var bench: LaneBenchBroker

  init(world: ReadmissionWorld) {
    self.world = world
    bench = LaneBenchBroker(world: world.peers)
  }

  var canPublish: Bool { true }
  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? { bench.nextEvent(takesDeliveries: takesDeliveries) }

  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    bench.copyDelivery(into: &job, metadata: &metadata)
    guard world.hasOneDevice, let number = world.peers.delivered.last?.job else { return }
    let order =
      (world.hasCollapseID ? #""collapse_id":"match","# : "") + (world.isNumbered ? #""sequence":\#(number),"# : "")
    job.bytes = Array(
      """
      {"version":1,"id":"job-\(number)","app":"com.example.app","push_type":"alert",\(order)\
      "to":{"token":"00000000000000aa"},"payload":{"aps":{"alert":"hello"}}}
      """.utf8)
    job.bodyCount = job.bytes.count
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishRetry(body, jobClass: jobClass, delaySeconds: delaySeconds, state: state, metadata: metadata)
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishIsolated(body, jobClass: jobClass, firstSeen: firstSeen, metadata: metadata)
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishDeadLetter(
      body, jobClass: jobClass, reason: reason, detail: detail, apnsID: apnsID, metadata: metadata)
  }

  mutating func acknowledge(upTo tag: DeliveryTag) {}
  mutating func acknowledge(one tag: DeliveryTag) {}
  mutating func reject(_ tag: DeliveryTag, requeue: Bool) {}
  mutating func stopConsuming() {}
}
