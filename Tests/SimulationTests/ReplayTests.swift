import LaneSimulation
import PushCore
import Testing

/// Jobs that fail for good become dead letters, and an operator replays all of them once APNs has recovered.
@Suite struct ReplayTests {
  /// Most answers are lost after APNs accepted: after its last attempt, a job is a dead letter although APNs accepted it.
  static var faults: Faults {
    var faults = Faults()
    faults.lostAfterProcessing = 600
    faults.serverError = 200
    faults.consumerLost = 4
    faults.publisherLost = 4
    faults.publishRefused = 20
    faults.workerKilled = 1
    return faults
  }

  /// Few attempts in quick succession: time is counted in steps.
  static var settings: WorldSettings {
    var settings = WorldSettings()
    settings.jobs = 40
    settings.retry = RetryPolicy(delaysSeconds: [1, 2], attemptsMaximum: 3)
    return settings
  }

  @Test(arguments: 1...30 as ClosedRange<UInt64>) func whatIsReplayedSaysThatItMayHaveBeenAccepted(seed: UInt64) {
    var run = SimulatedRun(seed: seed, faults: ReplayTests.faults, settings: ReplayTests.settings) {
      SimulatedBroker(world: $0)
    }
    run.play(replaysDeadLetters: true)
    let auditor = run.world.auditor
    #expect(auditor.violations == [], "seed \(seed)")
    #expect(!auditor.deadLetters.isEmpty, "seed \(seed)")
    for job in auditor.deadLetters {
      #expect(auditor.outcomes(ofJob: job).contains("accepted"), "seed \(seed): \(job)")
    }
  }

  /// A worker may have sent a poison job each time before it crashed.
  @Test(arguments: 1...5 as ClosedRange<UInt64>) func poisonIsReplayed(seed: UInt64) {
    var settings = WorldSettings()
    settings.jobs = 20
    var run = SimulatedRun(seed: seed, faults: Faults(), settings: settings, poison: [3, 7]) {
      SimulatedBroker(world: $0)
    }
    run.play(replaysDeadLetters: true)
    let auditor = run.world.auditor
    #expect(auditor.violations == [], "seed \(seed)")
    #expect(auditor.deadLetters == ["job-3", "job-7"], "seed \(seed)")
    for job in auditor.deadLetters {
      #expect(auditor.outcomes(ofJob: job).contains("accepted"), "seed \(seed): \(job)")
    }
  }
}
