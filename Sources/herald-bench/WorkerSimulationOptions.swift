import ArgumentParser
import WorkerSimulation

/// Which parts of a world of whole workers are played, and what is printed.
struct WorkerSimulationOptions: ParsableArguments {
  @Flag(help: "With --worker: print a line for each event on the network, and the workers' logs.")
  var trace = false

  @Flag(help: "With --worker: shrink the first seed that breaks the promise as far as possible, and print its events.")
  var shrink = false

  @Option(help: "With --worker: only these faults of a seed, by number, separated by commas, as --shrink prints them.")
  var faults: String?

  @Option(help: "With --worker: only these jobs.")
  var jobs: String?

  @Option(help: "With --worker: only these changes of devices, audience jobs and activities.")
  var audiences: String?

  @Option(help: "With --worker: the number of workers.")
  var workerCount: Int?

  @Option(help: "With --worker: lanes of each worker.")
  var laneCount: Int?

  @Flag(help: "With --worker: bytes arrive as they were sent, in one piece.")
  var plain = false

  /// One of these options that was given; nil: none.
  var used: String? {
    let given: [(Bool, String)] = [
      (trace, "--trace"), (shrink, "--shrink"), (faults != nil, "--faults"), (jobs != nil, "--jobs"),
      (audiences != nil, "--audiences"),
      (workerCount != nil, "--worker-count"), (laneCount != nil, "--lane-count"), (plain, "--plain"),
    ]
    return given.first { $0.0 }?.1
  }

  func plan(seed: UInt64) throws -> WorkerPlan {
    func numbers(_ text: String) throws -> Set<Int> {
      let words = text.split(separator: ",")
      let numbers = words.compactMap { Int($0) }
      guard numbers.count == words.count else {
        throw ValidationError("\"\(text)\" is no list of numbers, such as 3,17")
      }
      return Set(numbers)
    }
    var plan = WorkerPlan(seed: seed, settings: .swarm(seed: seed))
    if let faults { plan = plan.keeping(faults: try numbers(faults)) }
    if let jobs { plan = plan.keeping(jobs: try numbers(jobs)) }
    if let audiences { plan = plan.keeping(audiences: try numbers(audiences)) }
    if let workerCount { plan.settings.workers = workerCount }
    if let laneCount { plan.settings.lanes = laneCount }
    if plain { plan.settings.network.splits = 0 }
    return plan
  }
}
