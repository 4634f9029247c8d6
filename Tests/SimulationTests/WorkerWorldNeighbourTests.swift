import Testing
import WorkerSimulation

/// Worlds with others in them: other tenants, wrong clocks, ids that look the same, and a Redis that goes back in time.
@Suite(.timeLimit(.minutes(5)))
struct WorkerWorldNeighbourTests {
  private func play(_ seed: UInt64, _ adjust: (inout WorkerWorld.Settings) -> Void) throws -> WorkerWorld {
    var settings = WorkerWorld.Settings()
    settings.jobs = 20
    settings.hasPlainJobs = true
    settings.audienceDevices = 20
    settings.audienceJobs = 12
    settings.activities = 2
    settings.stormMilliseconds = 10_000
    adjust(&settings)
    let world = try WorkerWorld(seed: seed, settings: settings)
    try world.run()
    return world
  }

  /// Behind twice as many jobs as a lane takes at once.
  @Test(arguments: WorkerWorld.Settings.Trouble.allCases, [1, 2])
  func aTenantInTroubleHoldsUpNobody(trouble: WorkerWorld.Settings.Trouble, lanes: Int) throws {
    let world = try play(1) { $0.addTrouble(trouble, prefetch: 400, lanes: lanes, faultCount: 0) }
    #expect(world.auditor.violations == [])
    #expect(world.fairness.checkedCount == world.plan.settings.punctualJobs, "jobs that had to be on time")
    #expect(world.auditor.reportedCount == world.auditor.targetCount)
  }

  @Test(arguments: WorkerWorld.Settings.Trouble.allCases, [64, 200])
  func alsoWithASmallPrefetch(trouble: WorkerWorld.Settings.Trouble, prefetch: Int) throws {
    let world = try play(1) { $0.addTrouble(trouble, prefetch: prefetch, lanes: 1, faultCount: 0) }
    #expect(world.auditor.violations == [])
    #expect(world.fairness.checkedCount == world.plan.settings.punctualJobs)
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func updatesAtTheSameTimeKeepTheirOrder(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.hasBursts = true
      settings.lanes = 3
      settings.faults = [.pauseWorker, .cut]
      settings.faultCount = 4
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.memberCount > 0)
  }

  /// Of several lanes and workers.
  @Test(arguments: 1...4 as ClosedRange<UInt64>) func whatReplacesOthersIsSentAfterThem(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.rivalJobs = 120
      settings.stormMilliseconds = 30_000
      settings.lanes = 3
      settings.faults = [.killWorker, .failAPNs, .slowAPNs, .goAwayAPNs, .restartBroker]
      settings.faultCount = 3
    }
    #expect(world.auditor.violations == [])
    #expect(world.auditor.orderedCount > 10, "pushes of theirs")
  }

  /// Also beside workers that end: each has one outcome.
  @Test(arguments: 1...4 as ClosedRange<UInt64>) func whatRabbitMQGivesUpHasItsOutcome(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.fleetingJobs = 100
      settings.stormMilliseconds = 30_000
      settings.faults = [.killWorker, .pauseWorker, .slowAPNs, .restartBroker, .cut, .dropConfirms, .loadRedis]
      settings.faultCount = 6
    }
    #expect(world.auditor.violations == [])
    #expect(world.undeliveredCount > 10)
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func aRewoundRedisShowsNobodyWhatIsForOthers(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.registersThroughout = true
      settings.faults = [.rewindRedis, .rewindRedis, .emptyRedis, .failAPNs, .throttleAPNs]
      settings.faultCount = 20
      settings.stormMilliseconds = 30_000
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.endCount > 10)
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func registrationsInPartsAddUp(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.registersInParts = true
      settings.workers = 3
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.endCount > 40)
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func idsThatLookTheSameAreDifferent(seed: UInt64) throws {
    let world = try play(seed) { $0.hasTwins = true }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.endCount > 40 && world.audiences.memberCount > 0)
  }

  @Test(arguments: 1...3 as ClosedRange<UInt64>) func appsWithTheSameIdsHaveNothingInCommon(seed: UInt64) throws {
    let world = try play(seed) { $0.hasSecondApp = true }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.endCount > 40 && (world.otherAudiences?.endCount ?? 0) > 40)
    #expect(world.audiences.memberCount > 0 && (world.otherAudiences?.memberCount ?? 0) > 0)
  }

  @Test(arguments: [3_600_000, -3_600_000], 1...2 as ClosedRange<UInt64>)
  func aWorkerWithAWrongClockChangesNothing(milliseconds: Int64, seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.workers = 3
      settings.clockErrorMilliseconds = milliseconds
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.endCount > 40 && world.audiences.memberCount > 0)
  }

  @Test(arguments: 1...4 as ClosedRange<UInt64>) func aStartThatWasNotAcceptedIsMadeUpFor(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.repeatsStarts = true
      settings.activities = 6
      settings.faults = [.failAPNs, .throttleAPNs, .slowAPNs, .refuseStreams]
      settings.faultCount = 30
      settings.stormMilliseconds = 40_000
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.restartedCount > 0)
  }

  /// Worlds of the swarm with all of this.
  /// - 600000763: a job was superseded, its confirm was lost, and it was delivered again after its time: it expired.
  /// - 700002473: eight transactional jobs waited for a pool that cannot connect, and bulk ones behind them, in front of another pool's.
  /// - 700003316: an accepted job came again to a lane that remembered a newer one from a silence of Redis: it was superseded.
  /// - 700003685, 700004867: the claim of a worker with a shorter timeout looked old at once, and a newer job of its collapse id overtook it.
  /// - 700002112, 700006628: a worker stood still; what it had not read yet was given up by RabbitMQ, and told.
  /// - 700008383: between two reads about a page, Redis went back to before its devices' words.
  /// - 700002737, 700004467: a start expired and was delivered again while the next one came: it held devices that it did not start.
  /// - 700004566: a batch lost its confirms, and its copies failed before it was delivered again.
  /// - 700007161: a start expired while its second step waited for Redis: its summary lacked the devices of that step.
  @Test(
    arguments: [
      100_000_000, 100_000_001, 100_000_002, 100_000_003, 600_000_763, 700_000_000, 700_000_001, 700_002_112,
      700_002_473, 700_002_737, 700_003_316, 700_003_685, 700_004_467, 700_004_566, 700_004_867, 700_006_628,
      700_007_161, 700_008_383,
    ] as [UInt64])
  func swarm(seed: UInt64) throws {
    let world = try WorkerWorld(seed: seed, settings: .swarm(seed: seed))
    try world.run()
    #expect(world.auditor.violations == [], "herald-bench simulate --worker --first \(seed) --seeds 1 --trace")
  }
}
