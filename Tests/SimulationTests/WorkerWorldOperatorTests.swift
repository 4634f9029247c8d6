import Testing
import WorkerSimulation

/// Worlds with operators who run commands beside jobs and activities, and worlds that go on after Redis lost data, or a clock was wrong.
@Suite(.timeLimit(.minutes(5)))
struct WorkerWorldOperatorTests {
  private func play(_ seed: UInt64, _ adjust: (inout WorkerWorld.Settings) -> Void) throws -> WorkerWorld {
    var settings = WorkerWorld.Settings()
    settings.jobs = 20
    settings.hasPlainJobs = true
    settings.audienceDevices = 20
    settings.audienceJobs = 12
    settings.activities = 4
    settings.stormMilliseconds = 10_000
    adjust(&settings)
    let world = try WorkerWorld(seed: seed, settings: settings)
    world.keepsTrace = true
    try world.run()
    return world
  }

  @Test(arguments: 1...4 as ClosedRange<UInt64>) func whatIsPausedOrCancelledIsNotSent(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.commands = 60
      settings.hasBursts = true
      settings.outageNanoseconds = 20_000_000_000
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.orderedCount > 3, "orders whose pushes were checked")
    #expect(world.audiences.memberCount > 0)
  }

  @Test func alsoWhileAPNsIsInTroubleForMinutes() throws {
    let world = try play(1) { settings in
      settings.commands = 60
      settings.hasBursts = true
      settings.outageNanoseconds = 120_000_000_000
      settings.faults = [.killWorker, .restartBroker, .pauseWorker]
      settings.faultCount = 4
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.orderedCount > 5)
  }

  @Test(arguments: 1...2 as ClosedRange<UInt64>) func unusedChannelsAreDeletedBesideActivities(seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.channelAbove = 0
      settings.channelCommands = 4
      settings.hasAftermath = true
    }
    #expect(world.auditor.violations == [])
    #expect(world.trace.contains { $0.contains("operator: reap channels") })
    #expect(world.audiences.subscriberCount > 0)
  }

  /// The faults are long over when the aftermath begins: it is judged like a world without them.
  @Test(arguments: [[.emptyRedis, .rewindRedis], [.setClock]] as [[WorkerFault]], 1...2 as ClosedRange<UInt64>)
  func afterFaultsEverythingIsExactAgain(faults: [WorkerFault], seed: UInt64) throws {
    let world = try play(seed) { settings in
      settings.faults = faults
      settings.faultCount = 4
      settings.hasAftermath = true
      settings.activities = 1
    }
    #expect(world.auditor.violations == [])
    #expect(world.audiences.memberCount > 0, "members whose newest state was checked")
  }

  @Test func aSeedIsAWorldByteForByte() throws {
    func settings(_ settings: inout WorkerWorld.Settings) {
      settings.faults = WorkerFault.allCases
      settings.faultCount = 20
      settings.commands = 20
      settings.channelAbove = 0
      settings.channelCommands = 3
      settings.hasAftermath = true
    }
    let (one, other) = (try play(7, settings), try play(7, settings))
    #expect(one.traceHash == other.traceHash && one.eventCount == other.eventCount)
  }

  /// Worlds of the swarm in which several commands concerned one activity.
  @Test(
    arguments: [
      // Ends for some devices, one of which is cancelled.
      700_100_243, 700_100_306, 700_100_434,
      // A cancelled state that was sent comes back, since a newer one is cancelled.
      700_100_410,
      // An end that came after a newer update; a push cut off by its job's cancel.
      700_100_413, 700_100_384,
    ] as [UInt64])
  func swarm(seed: UInt64) throws {
    let world = try WorkerWorld(seed: seed, settings: .swarm(seed: seed))
    try world.run()
    #expect(world.auditor.violations == [])
  }
}
