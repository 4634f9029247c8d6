import PushStores
import Testing
import WorkerSimulation

/// Whole workers with audiences and activities: each device has one end for a job, and shows the newest state.
@Suite(.timeLimit(.minutes(5)))
struct WorkerWorldAudienceTests {
  private func play(
    _ seed: UInt64, _ adjust: (inout WorkerWorld.Settings) -> Void = { _ in }
  ) throws -> WorkerWorld {
    var settings = WorkerWorld.Settings()
    settings.jobs = 20
    settings.audienceDevices = 20
    settings.audienceJobs = 12
    settings.activities = 2
    adjust(&settings)
    let world = try WorkerWorld(seed: seed, settings: settings)
    try world.run()
    return world
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func whereNothingIsWrongNobodyIsMissedAndNobodyGetsItTwice(
    seed: UInt64
  ) throws {
    let world = try play(seed) { settings in
      settings.hasPlainJobs = true
      settings.stormMilliseconds = 10_000
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.publishedCount >= 14 && world.audiences.endCount > 40)
    #expect(world.audiences.repeatedCount == 0, "APNs accepted each once")
    #expect(world.audiences.memberCount > 0, "members whose newest state was checked")
    #expect(world.workers.allSatisfy { $0?.expansionCounters?.isConnected == true }, "each consumes push.expansions")
    #expect(world.workers.allSatisfy { $0?.registrationCounters?.isConnected == true })
  }

  /// Activities on channels, with devices that have none beside them.
  @Test(arguments: 1...3 as ClosedRange<UInt64>) func whoIsOnAChannelIsShownTheNewestState(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.hasPlainJobs = true
      settings.stormMilliseconds = 10_000
      settings.channelAbove = 0
      settings.activities = 3
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.subscriberCount > 0, "devices on a channel whose newest state was checked")
    #expect(world.channelUsers.namedCount > 0)
  }

  /// A start may be on its way: an update before it waits in the first retry queue, and is invalid once half a minute is over.
  @Test(arguments: [nil, 25, 40] as [Int64?]) func updateBeforeItsStart_waitsForItHalfAMinute(startSeconds: Int64?)
    throws
  {
    var settings = WorkerWorld.Settings()
    settings.jobs = 0
    settings.audienceDevices = 1
    settings.stormMilliseconds = 60_000
    var plan = WorkerPlan(seed: 1, settings: settings)
    let at: Int64 = 4_000_000_000
    plan.audiences = SimulatedAudienceEvent.earlyUpdate(
      at: at, startAt: startSeconds.map { at + $0 * 1_000_000_000 }, settings)
    let world = try WorkerWorld(plan)
    world.keepsTrace = true
    try world.run()
    #expect(world.auditor.violations == [])
    // The world's microseconds of each line about the update.
    func times(_ what: String) -> [Int64] {
      world.trace.filter { $0.contains("broker stored in \(what): ") && $0.contains(", job a000000003e9") }.compactMap {
        Int64($0.prefix { $0 != " " })
      }
    }
    let waits = times("push.retry.expansions.1")
    let end = try #require(times("push.results.log").first)
    let outcome = world.trace.first { $0.contains("results.log") && $0.contains("job a000000003e9") } ?? ""
    let waited = end - at / 1_000
    if startSeconds == 25 {
      #expect(outcome.contains(", completed") && 25_000_000...28_000_000 ~= waited, "\(outcome) after \(waited) µs")
    } else {
      #expect(outcome.contains(", invalid") && 25_000_000...30_000_000 ~= waited, "\(outcome) after \(waited) µs")
      #expect(waits.count == 28, "\(waits)")
    }
    #expect(zip(waits, waits.dropFirst()).allSatisfy { $1 - $0 >= 1_000_000 })
  }

  @Test func aSeedIsAWorldByteForByte() throws {
    func settings(_ settings: inout WorkerWorld.Settings) {
      settings.faults = WorkerFault.allCases
      settings.faultCount = 20
    }
    let (one, other) = (try play(7, settings), try play(7, settings))
    #expect(one.traceHash == other.traceHash && one.eventCount == other.eventCount)
  }

  /// Redis and RabbitMQ fail, and workers die, but Redis loses no data. In the world of seed 3 Redis fails until all jobs are expanded, before
  /// any device is registered.
  @Test(arguments: [1, 2, 4] as [UInt64]) func everythingButRedisMemoryGoesWrong(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.faults = WorkerFault.allCases.filter { $0.family != .memory && $0 != .setClock }
      settings.faultCount = 30
      settings.killsAtAnyByte = true
    }
    #expect(world.auditor.violations == [], "seed \(seed)")
    #expect(world.audiences.endCount > 20)
  }

  /// Worlds of the swarm with audiences.
  @Test(arguments: [10_000_000, 10_000_001, 20_000_000, 20_000_001, 40_000_000] as [UInt64])
  func swarm(seed: UInt64) throws {
    let world = try WorkerWorld(seed: seed, settings: .swarm(seed: seed))
    try world.run()
    #expect(world.auditor.violations == [], "herald-bench simulate --worker --first \(seed) --seeds 1 --trace")
  }

  /// Seeds of the swarm that broke the promise once.
  /// - 10000033: a worker found an empty audience and died before it reported this; the worker that got the step next did not report it either.
  /// - 10000064: a device that was known by an activity's token ignored its own registration, which was older and came later.
  /// - 10500026, 10500051: a step came twice and published its pages twice, unmarked, where Redis could not tell what had been sent.
  /// - 10500019: the auditor took a device that was forgotten and registered again for the same one.
  /// - 10500045: the auditor took the acknowledgement of a registration that became a dead letter for Redis' having it.
  /// - 20000014: a worker whose clock was hours ahead numbered an update, and the end waited for hours.
  /// - 20100563: Redis failed over and lost the ends of pages, and the next step waited for them for ever.
  /// - 20601175: a page came again, and a device had a token that had none; the auditor took the end for one too many.
  /// - 41002735, 41003614, 41004206: a page came again after a user was forgotten, or a device had registered; the auditor missed marks.
  /// - 40600237: of two copies of an update, one was refused because its activity was not known, and the other got a revision.
  /// - 40600981: the auditor forgot a dead letter that came before its job's confirm.
  /// - 40601375: an update token from before a forget came back beside a newer one.
  /// - 41004416: somebody deleted an activity's channel, and a copy of the request made another; the auditor counted both.
  /// - 43000738: the queue of a late push was deleted; the auditor missed the push although it was a dead letter.
  /// - 43001381: a worker that had lost its delivery claimed a late push and died; its registration had been taken by another, and the pages of
  ///   that state left the device to the late push.
  /// - 45001759: workers crashed while they held what a lane told about a page; the auditor missed whose dead letter it was.
  /// - 46005502: a device that had left got the end that another job had made, which failed; the auditor looked for its own.
  /// - 47004301: Redis answered too late, so a start was sent twice; the second copy found that the activity had ended, and has no end.
  /// - 48002974: parts of an update, and of an end for one device, were dead letters; the auditor took an older update for the newest, and
  ///   expected it on the device.
  /// - 45002356: connections were closed so often that RabbitMQ's delivery limit took a step of an audience.
  /// - 44002001: a job expired by a wrong clock and came again; the auditor took the expiration for an acceptance.
  /// - 42000141: Redis forgot a job, whose first step found all devices then; an older second step waited for its devices for ever.
  /// - 40000005: an end for some devices came again after the end for all, was refused, and its devices got neither.
  @Test(
    arguments: [
      10_000_033, 10_000_064, 10_500_019, 10_500_026, 10_500_045, 10_500_051, 20_000_014, 20_100_563, 20_601_175,
      40_000_005, 40_600_237, 40_600_981, 40_601_375, 41_002_735, 41_003_614, 41_004_206, 41_004_416, 42_000_141,
      43_000_738, 43_001_381, 44_002_001, 45_001_759, 45_002_356, 46_005_502, 47_004_301, 48_002_974,
    ] as [UInt64])
  func whatWasFoundHolds(seed: UInt64) throws {
    let world = try WorkerWorld(seed: seed, settings: .swarm(seed: seed))
    try world.run()
    #expect(world.auditor.violations == [], "herald-bench simulate --worker --first \(seed) --seeds 1 --trace")
  }

  /// A worker that is killed while changes of devices or jobs of one activity wait, or while it searches a channel, leaves nothing that holds
  /// itself.
  @Test(arguments: [10_400_007, 10_400_051, 40_000_136, 40_000_201, 40_000_206, 40_000_241] as [UInt64])
  func nothingOfAWorldIsKept(seed: UInt64) throws {
    weak var network: SimulatedNetwork?
    try {
      let world = try WorkerWorld(seed: seed, settings: .swarm(seed: seed))
      try world.run()
      network = world.network
    }()
    #expect(network == nil)
  }
}
