import ArgumentParser
import Foundation
import LaneSimulation

struct SimulationBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate",
    abstract: "Plays a lane in a simulated world where everything goes wrong, seed after seed, and audits each run.",
    discussion: """
      No sockets, no servers, no real time: a seed gives the same run everywhere. Exits 1 where the auditor found a job lost, or \
      something that happened twice without a reason, and says how to repeat it.
      """)

  @Option(help: "Go on for so long.")
  var minutes: Double?

  @Option(help: "Or play this many seeds.")
  var seeds = 1000

  @Option(help: "The first seed.")
  var first: UInt64 = 1

  @Option(
    help:
      "Which world: \(HardWorld.allCases.map(\.rawValue).joined(separator: ", ")); usual is the one with the usual faults."
  )
  var world = "usual"

  @Flag(help: "Say each seed before it is played: the last one said is the one that ended the process.")
  var trace = false

  @Flag(help: "Print one JSON object instead of a line.")
  var json = false

  func validate() throws {
    guard world == "usual" || HardWorld(rawValue: world) != nil else {
      throw ValidationError("there is no world called \(world)")
    }
  }

  func run() throws {
    let hard = HardWorld(rawValue: world)
    let start = ContinuousClock.now
    var seed = first
    var broken: [UInt64] = []
    var steps = 0
    while minutes.map({ (ContinuousClock.now - start) / .seconds(60) < $0 }) ?? (seed - first < UInt64(seeds)) {
      if trace { say("seed \(seed)") }
      var run =
        hard.map { hard in SimulatedRun(hard, seed: seed) { SimulatedBroker(world: $0) } }
        ?? SimulatedRun(seed: seed, faults: .many) { SimulatedBroker(world: $0) }
      run.play()
      steps += run.steps
      if !run.world.auditor.violations.isEmpty {
        broken.append(seed)
        for (count, first) in run.world.auditor.kinds { say("seed \(seed): \(count) times: \(first)") }
        say("again: \(hard?.command(seed: seed) ?? "herald-bench simulate --first \(seed) --seeds 1")")
      }
      seed += 1
    }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    let count = seed - first
    let rate = Int(Double(count) / seconds * 60)
    if json {
      print(
        """
        {"seeds": \(count), "first": \(first), "steps": \(steps), "seconds": \(Int(seconds)), "seeds_per_minute": \(rate), \
        "broken": \(broken)}
        """)
    } else {
      print(
        """
        \(count) seeds from \(first), \(steps) steps, in \(Int(seconds)) s, \(rate) seeds a minute: \
        \(broken.isEmpty ? "the promise held in all" : "\(broken.count) broke it")
        """)
    }
    if !broken.isEmpty { throw ExitCode(1) }
  }

  private func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
  }
}
