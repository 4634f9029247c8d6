import ArgumentParser
import WorkerSimulation

/// Whole workers, seed after seed: `herald-bench simulate --worker`.
final class WorkerSimulationRun {
  private let options: SimulationOptions
  private let workers: WorkerSimulationOptions
  private var (events, milliseconds, faultCount, repeated, ambiguous, kept) = (0, Int64(0), 0, 0, 0, 0)

  init(_ options: SimulationOptions, _ workers: WorkerSimulationOptions) {
    self.options = options
    self.workers = workers
  }

  func run() throws {
    try options.run { seed in
      weak var network: SimulatedNetwork?
      let holds = try play(seed: seed, &network)
      if network != nil {
        kept += 1
        SimulationOptions.say("seed \(seed): something of its world holds itself, and is kept in memory")
      }
      return holds
    } figures: {
      [
        ("events", events), ("faults", faultCount), ("s simulated", Int(milliseconds / 1000)), ("sent twice", repeated),
        ("marked", ambiguous), ("kept", kept),
      ]
    }
  }

  /// false: it broke the promise.
  /// - Parameter network: the world's.
  private func play(seed: UInt64, _ network: inout SimulatedNetwork?) throws -> Bool {
    let plan = try workers.plan(seed: seed)
    let world = try WorkerWorld(plan)
    network = world.network
    world.keepsTrace = workers.trace
    try world.run()
    if workers.trace { print(world) }
    events += world.eventCount
    milliseconds += world.network.now / 1_000_000
    faultCount += plan.faultCount
    repeated += world.auditor.repeatedCount
    ambiguous += world.auditor.ambiguousCount
    guard !world.auditor.violations.isEmpty else { return true }
    for text in world.auditor.violations.prefix(5) { SimulationOptions.say("seed \(seed): \(text)") }
    SimulationOptions.say("again: herald-bench simulate --worker --first \(seed) --seeds 1 --trace, or --shrink")
    guard workers.shrink else { return false }
    try explain(plan)
    throw ExitCode(1)
  }

  private func explain(_ plan: WorkerPlan) throws {
    let shrinker = WorkerShrinker()
    let (small, violations) = try shrinker.shrink(plan)
    let world = try WorkerWorld(small)
    world.keepsTrace = true
    try world.run()
    print(world)
    for text in violations { SimulationOptions.say("seed \(small.seed): \(text)") }
    func list(_ numbers: [Int]) -> String { numbers.map(String.init).joined(separator: ",") }
    SimulationOptions.say(
      """
      \(small.faultCount) faults and \(small.jobCount) jobs are left after \(shrinker.played) worlds; again: herald-bench \
      simulate --worker --first \(small.seed) --seeds 1 --faults "\(list(small.faultNumbers))" --jobs \
      "\(list(small.jobNumbers))"\(small.audiences.isEmpty ? "" : " --audiences \"\(list(small.audienceNumbers))\"") \
      --worker-count \(small.settings.workers) --lane-count \(small.settings.lanes)\
      \(small.settings.network.splits == 0 ? " --plain" : "") --trace
      """)
  }

  private func print(_ world: WorkerWorld) {
    for line in world.trace { Swift.print(line) }
    for worker in world.workers { for line in worker?.logLines ?? [] { Swift.print(line) } }
    Swift.print("hash \(String(world.traceHash, radix: 16)), \(world.eventCount) events")
  }
}
