import PushCore
import PushWorker
import Testing

/// Jobs that end the worker whenever it sends them: they end as dead letters, and nobody else does.
@Suite struct PoisonTests {
  private let poison: Set<Int> = [3, 40, 41]
  /// What may end a job as a dead letter, beside poison, is left out.
  private let faults = Faults(
    consumerLost: 2, publisherLost: 4, brokerBlocked: 2, publishRefused: 20, lostAfterProcessing: 5,
    lostBeforeProcessing: 5, notProcessed: 10, memoryFailsOpen: 20)

  @Test(arguments: 1...20 as ClosedRange<UInt64>) func onlyPoisonBecomesADeadLetter(seed: UInt64) {
    var run = Run(seed: seed, faults: faults, poison: poison) { SimulatedBroker(world: $0) }
    run.play()
    let auditor = run.world.auditor
    #expect(auditor.violations == [], "seed \(seed)")
    #expect(auditor.deadLetters == run.world.poison, "seed \(seed)")
    for job in run.world.poison {
      let outcomes = Set(auditor.outcomes(ofJob: job))
      #expect(outcomes == ["failed"], "seed \(seed): \(job)")
    }
    // None is given up early. A worker that dies between the copy and its acknowledgement leaves two of a job.
    let limit = Int(IsolationPolicy().limit)
    #expect(run.deaths >= limit, "seed \(seed)")
    #expect(run.deaths <= 2 * poison.count * limit, "seed \(seed)")
  }

  /// Without isolation the broker's own limit takes the neighbours away too: the auditor sees it.
  @Test func withoutIsolationNeighboursAreLost() {
    let never = IsolationPolicy(suspectCount: 1000, limit: 2000)
    var run = Run(seed: 1, faults: .none, poison: poison, isolation: never) { SimulatedBroker(world: $0) }
    run.play()
    let taken = run.world.auditor.violations.filter { $0.hasPrefix("taken away by the broker") }
    let neighbours = taken.filter { violation in !run.world.poison.contains { violation.contains("\"\($0)\"") } }
    #expect(!neighbours.isEmpty, "\(taken)")
  }
}
