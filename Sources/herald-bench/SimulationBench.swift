import ArgumentParser
import LaneSimulation
import PushIO

struct SimulationBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate",
    abstract:
      "Plays a lane, or whole workers, in simulated worlds where everything goes wrong, seed after seed, and audits each.",
    discussion: """
      No sockets, no servers, no real time: a seed gives the same world everywhere. With --worker, the shipped adapters over a \
      simulated network, and simulated servers that speak the real bytes. Exits 1 where the auditor found a job lost, or something \
      that happened twice without a reason, and says how to repeat it.
      """)

  @Flag(help: "Whole workers, down to the bytes.")
  var worker = false

  @OptionGroup var options: SimulationOptions

  @Option(
    help:
      "Which world of a lane: \(HardWorld.allCases.map(\.rawValue).joined(separator: ", ")); usual is the one with the usual faults."
  )
  var world: String?

  @OptionGroup var workers: WorkerSimulationOptions

  func validate() throws {
    guard !worker else {
      if world != nil { throw ValidationError("--world is one of a lane, and --worker plays whole workers") }
      return
    }
    if let option = workers.used { throw ValidationError("\(option) goes with --worker") }
    if let world, world != "usual", HardWorld(rawValue: world) == nil {
      throw ValidationError("there is no world called \(world)")
    }
  }

  func run() throws {
    // In the order of sets and dictionaries too: else a seed is one of several worlds.
    try ProcessRestart.withEnvironment("SWIFT_DETERMINISTIC_HASHING", "1")
    if worker { try WorkerSimulationRun(options, workers).run() } else { try playLane() }
  }

  private func playLane() throws {
    let hard = world.flatMap { HardWorld(rawValue: $0) }
    var steps = 0
    try options.run { seed in
      var run =
        hard.map { hard in SimulatedRun(hard, seed: seed) { SimulatedBroker(world: $0) } }
        ?? SimulatedRun(seed: seed, faults: .many) { SimulatedBroker(world: $0) }
      run.play()
      steps += run.steps
      guard !run.world.auditor.violations.isEmpty else { return true }
      for (count, first) in run.world.auditor.kinds { SimulationOptions.say("seed \(seed): \(count) times: \(first)") }
      SimulationOptions.say("again: \(hard?.command(seed: seed) ?? "herald-bench simulate --first \(seed) --seeds 1")")
      return false
    } figures: {
      [("steps", steps)]
    }
  }
}
