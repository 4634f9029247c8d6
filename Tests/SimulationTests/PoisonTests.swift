import LaneSimulation
import PushCore
import Testing

/// Jobs that crash the worker whenever it sends them: they, and no other jobs, become dead letters.
@Suite struct PoisonTests {
  private let poison: Set<Int> = [3, 40, 41]
  /// Leaves out all other faults that can make a job a dead letter.
  private var faults: Faults {
    var faults = Faults()
    faults.consumerLost = 2
    faults.publisherLost = 4
    faults.brokerBlocked = 2
    faults.publishRefused = 20
    faults.lostAfterProcessing = 5
    faults.lostBeforeProcessing = 5
    faults.notProcessed = 10
    faults.memoryFailsOpen = 20
    return faults
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>) func onlyPoisonBecomesADeadLetter(seed: UInt64) {
    var run = SimulatedRun(seed: seed, faults: faults, poison: poison) { SimulatedBroker(world: $0) }
    run.play()
    let auditor = run.world.auditor
    #expect(auditor.violations == [], "seed \(seed)")
    #expect(auditor.deadLetters == run.world.poison, "seed \(seed)")
    for job in run.world.poison {
      let outcomes = Set(auditor.outcomes(ofJob: job))
      #expect(outcomes == ["failed"], "seed \(seed): \(job)")
    }
    // No job is given up early. A message ends at most three workers before it is copied; a worker that dies between the copy and its
    // acknowledgement leaves one more copy.
    let policy = IsolationPolicy()
    #expect(run.deaths >= Int(policy.isolationCount + policy.aloneLimit), "seed \(seed)")
    #expect(
      run.deaths <= Int(policy.isolationCount) * (poison.count + run.world.broker.isolatedCopies), "seed \(seed)")
  }

  /// Without isolation, a poison job crashes workers until it expires, and remains unknown.
  @Test func withoutIsolationPoisonIsNoDeadLetter() {
    var settings = WorldSettings()
    settings.isolation = IsolationPolicy(isolationCount: 100_000, aloneLimit: 100_000)
    var run = SimulatedRun(seed: 1, faults: Faults(), settings: settings, poison: [3]) { SimulatedBroker(world: $0) }
    run.play()
    #expect(run.world.auditor.deadLetters.isEmpty)
    #expect(Set(run.world.auditor.outcomes(ofJob: "job-3")) == ["expired"])
  }
}
