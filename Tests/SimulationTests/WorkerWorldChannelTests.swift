import PushStores
import Testing
import WorkerSimulation

/// Channels and broadcasts in worlds of whole workers: a name has one channel, each request has a reply, and nothing happens twice.
@Suite(.timeLimit(.minutes(3)))
struct WorkerWorldChannelTests {
  private static let kinds: [WorkerFault] = [
    .cut, .silence, .killWorker, .restartBroker, .stallRedis, .emptyRedis, .failAPNs, .slowAPNs,
  ]

  private func play(
    _ seed: UInt64, faults: Int, of kinds: [WorkerFault] = WorkerWorldChannelTests.kinds,
    _ adjust: (inout WorkerWorld.Settings) -> Void = { _ in }
  ) throws -> WorkerWorld {
    var settings = WorkerWorld.Settings()
    settings.jobs = 50
    settings.hasPlainJobs = true
    settings.channelRequests = 40
    settings.broadcasts = 40
    settings.faults = kinds
    settings.faultCount = faults
    adjust(&settings)
    let world = try WorkerWorld(seed: seed, settings: settings)
    try world.run()
    return world
  }

  /// A fleet starts while Redis' clock is off: APNs refuses no job and no channel request for longer than it takes to make a token by APNs'
  /// clock, and the fleet shares that one.
  @Test(arguments: [-4_200, -3_000, 1_200, 7_200] as [Int64])
  func aFleetThatStartsByAWrongClockMakesTokensByThatOfAPNs(secondsAhead: Int64) throws {
    let world = try play(1, faults: 0) {
      $0.workers = 3
      $0.redisErrorMilliseconds = secondsAhead * 1_000
    }
    #expect(world.auditor.violations == [])
    #expect(world.auditor.reportedCount == world.auditor.targetCount)
    #expect((1...2).contains(world.workers.reduce(0) { $0 + ($1?.tokensMade ?? 0) }), "two for the fleet")
  }

  /// Mostly channel requests, over a slow network.
  private func askMuch(_ settings: inout WorkerWorld.Settings, workers: Int) {
    settings.workers = workers
    settings.jobs = 5
    settings.channelRequests = 60
    settings.broadcasts = 0
    settings.network.latency = 1_000_000...60_000_000
  }

  @Test func whereNothingIsWrongANameHasOneChannel() throws {
    let world = try play(1, faults: 0)
    #expect(world.auditor.violations == [])
    #expect(world.channelUsers.requestCount == 40 && world.channelUsers.repliedCount == 40)
    #expect(world.channelUsers.namedCount == 5)
    #expect(world.auditor.publishedCount == 90 && world.auditor.reportedCount == 90)
    #expect(world.auditor.repeatedCount == 0 && world.auditor.ambiguousCount == 0)
    let counters = world.workers.compactMap { $0?.channelCounters }
    #expect(counters.reduce(0) { $0 + $1.created } == 5)
    #expect(counters.reduce(0) { $0 + $1.policiesResolved } > 0, "lanes ask for storage policies")
  }

  @Test func aSeedIsAWorldByteForByte() throws {
    let (one, other) = (try play(7, faults: 20), try play(7, faults: 20))
    #expect(one.traceHash == other.traceHash && one.eventCount == other.eventCount)
  }

  /// Workers that die in the middle of requests are freed: their loops and sockets would keep the network alive.
  @Test func aWorldLeavesNothingBehind() throws {
    weak var network: SimulatedNetwork?
    do {
      let world = try play(3, faults: 40, of: [.killWorker, .drainWorker, .slowAPNs, .stallRedis])
      network = world.network
      #expect(world.channelUsers.repliedCount == 40)
    }
    #expect(network == nil)
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func everythingGoesWrong(seed: UInt64) throws {
    let world = try play(seed, faults: 40)
    #expect(world.auditor.violations == [])
    #expect(world.auditor.reportedCount == 90 && world.channelUsers.repliedCount == 40)
  }

  /// While Redis keeps its data, a name keeps its channel, and no channel is left without a name.
  @Test(arguments: 1...3 as ClosedRange<UInt64>) func aNameKeepsItsChannel(seed: UInt64) throws {
    let world = try play(seed, faults: 40, of: WorkerWorldChannelTests.kinds.filter { $0 != .emptyRedis })
    #expect(world.auditor.violations == [])
    #expect(world.auditor.reportedCount == 90 && world.channelUsers.repliedCount == 40)
    #expect(world.apns.channels(of: SimulatedChannelUsers.app).count == world.channelUsers.namedCount)
  }

  /// RabbitMQ confirms nothing under its memory alarm, and nothing is lost.
  @Test func anAnswerThatWaitsForTheEndOfAnAlarmIsPublishedOnce() throws {
    var settings = WorkerWorld.Settings()
    settings.jobs = 50
    settings.hasPlainJobs = true
    settings.channelRequests = 40
    settings.faults = [.alarm]
    settings.faultCount = 1
    var plan = WorkerPlan(seed: 3, settings: settings)
    plan.faults[0]?.at = 3_000_000_000
    plan.faults[0]?.nanoseconds = 90_000_000_000
    let world = try WorkerWorld(plan)
    try world.run()
    #expect(world.auditor.violations == [])
    #expect(world.network.now > 90_000_000_000 && world.channelUsers.repliedCount == 40)
    let log = world.workers.flatMap { $0?.logLines ?? [] }
    #expect(!log.contains { $0.contains("confirm") }, "\(log)")
  }

  /// A request does not wait for ever for a confirm.
  @Test func anAnswerWhoseConfirmIsLostIsPublishedAgain() throws {
    let world = try play(1, faults: 0) { $0.rabbitmq.confirmDropped = 50 }
    #expect(world.auditor.violations == [])
    #expect(world.auditor.reportedCount == 90 && world.channelUsers.repliedCount == 40)
  }

  /// Workers stop, and lose requests that APNs is processing: no request is answered because of that.
  @Test(arguments: [6, 13] as [UInt64]) func aDrainAnswersNothingThatIsNotDone(seed: UInt64) throws {
    let world = try play(seed, faults: 24, of: [.drainWorker, .restartBroker, .slowAPNs]) {
      $0.network.latency = 1_000_000...60_000_000
      $0.jobs = 5
    }
    #expect(world.auditor.violations == [])
    #expect(world.channelUsers.repliedCount == 40)
  }

  /// The binding of the results queue is removed: it is bound again, and no answer is lost.
  @Test(arguments: 1...3 as ClosedRange<UInt64>) func anAnswerThatNoQueueTakesIsPublishedAgain(seed: UInt64) throws {
    let world = try play(seed, faults: 8, of: [.unbind]) {
      $0.productionMilliseconds = $0.stormMilliseconds
      $0.jobs = 5
    }
    #expect(world.auditor.violations == [])
    #expect(world.channelUsers.repliedCount == 40)
  }

  /// Several lost creates of one storage policy are investigated at once: a channel that one of them takes is not free for the others.
  @Test(arguments: [1014, 1019, 1043, 1075] as [UInt64]) func lostCreatesTakeTurns(seed: UInt64) throws {
    var settings = WorkerWorld.Settings()
    settings.workers = 1
    settings.jobs = 20
    settings.channelRequests = 60
    settings.broadcasts = 30
    settings.prefetch = 20
    settings.network.splits = 100
    settings.rabbitmq.confirmsSingle = 500
    settings.rabbitmq.publishRefused = 20
    settings.rabbitmq.handedOnTwice = 300
    settings.faults = [.cut, .killWorker, .stallRedis, .slowAPNs]
    settings.faultCount = 53
    settings.network.latency = 50_000...2_000_000
    settings.network.bufferBytes = 4096
    let world = try WorkerWorld(seed: seed, settings: settings)
    try world.run()
    #expect(world.auditor.violations == [])
  }

  /// One worker investigates a lost create for several requests for its name: each flow has a lock of its own.
  @Test(arguments: [17, 40, 67] as [UInt64]) func requestsForOneNameTakeTurns(seed: UInt64) throws {
    let world = try play(seed, faults: 60, of: [.dropAPNs, .resetStreams, .refuseStreams, .silenceStreams]) {
      askMuch(&$0, workers: 1)
    }
    #expect(world.auditor.violations == [])
    #expect(world.apns.channels(of: SimulatedChannelUsers.app).count == world.channelUsers.namedCount)
  }

  /// Connections are lost so often that RabbitMQ would drop requests by its delivery limit, unanswered: channels of lost creates would have no
  /// owner.
  @Test func noRequestIsGivenUpByTheBroker() throws {
    // The first of them where it comes to that.
    var isolatedCount = 0
    for seed in 3_000..<3_200 as Range<UInt64> where isolatedCount == 0 {
      let world = try WorkerWorld(seed: seed, settings: .swarm(seed: seed))
      try world.run()
      #expect(world.auditor.violations == [], "\(seed)")
      isolatedCount = world.channelUsers.isolatedCount
    }
    #expect(isolatedCount > 0)
  }

  /// A request crashes each worker that carries it out: it is given up after three crashes beside others and 17 isolated, with a reply; all
  /// other requests are answered, and no job is affected.
  @Test func aRequestThatEndsWorkersIsGivenUp() throws {
    let world = try play(1, faults: 0) {
      $0.hasChannelPoison = true
      $0.channelRequests = 20
      $0.broadcasts = 0
    }
    #expect(world.auditor.violations == [])
    #expect(world.channelUsers.repliedCount == 20 && world.auditor.reportedCount == 50)
    #expect(world.poisonedCount == 20)
  }

  /// The same beside all other faults: a worker that crashed at once, again and again, took innocent jobs with it (4104).
  @Test func aRequestThatEndsWorkersTakesNothingWithIt() throws {
    let world = try WorkerWorld(seed: 4104, settings: .swarm(seed: 4104))
    try world.run()
    #expect(world.auditor.violations == [])
    #expect(world.poisonedCount > 10)
  }

  /// Lost confirms leave several isolated copies of it. Each was tried 17 times: 111 crashes, and audiences beside them had no outcome.
  @Test func copiesOfAPoisonRequestAreTriedTogether() throws {
    let world = try WorkerWorld(seed: 200_000_927, settings: .swarm(seed: 200_000_927))
    try world.run()
    #expect(world.auditor.violations == [])
    #expect(world.channelUsers.isolatedCount > 10 && world.poisonedCount < 40, "\(world.poisonedCount)")
  }

  /// Locks expire early because Redis' clock jumps, and two workers make a channel for one name: the surplus one is deleted although APNs is
  /// slow, and no other name takes it meanwhile.
  @Test(arguments: [25, 218] as [UInt64]) func aChannelMadeInVainIsDeleted(seed: UInt64) throws {
    let world = try play(
      seed, faults: 40,
      of: [.jumpRedisClock, .jumpRedisClock, .jumpRedisClock, .slowAPNs, .slowAPNs, .silenceStreams, .dropAPNs]
    ) { askMuch(&$0, workers: 3) }
    #expect(world.auditor.violations == [])
    #expect(world.workers.reduce(0) { $0 + ($1?.channelCounters.discarded ?? 0) } > 0)
  }
}
