import ArgumentParser
import Foundation
import WorkerSimulation

struct WorkerSimulationBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate-workers",
    abstract:
      "Plays whole workers over a simulated network where everything goes wrong, seed after seed, and audits each world.",
    discussion: """
      The shipped adapters, and simulated servers that speak the real bytes. A seed gives the same world everywhere, byte for byte. \
      Exits 1 where the auditor found something, and says how to repeat it.
      """)

  @Option(help: "Go on for so long.")
  var minutes: Double?

  @Option(help: "Or play this many seeds.")
  var seeds = 100

  @Option(help: "The first seed.")
  var first: UInt64 = 1

  @Flag(help: "Print what happened on the network, a line for each event, and what the workers logged.")
  var trace = false

  @Flag(help: "Stop at the first seed that breaks the promise.")
  var untilBroken = false

  @Flag(help: "Say each seed before it is played: the last one said is the one that ended the process.")
  var names = false

  func run() throws {
    let start = ContinuousClock.now
    var seed = first
    var broken = 0
    var (events, milliseconds, faults, repeated, ambiguous) = (0, Int64(0), 0, 0, 0)
    while minutes.map({ (ContinuousClock.now - start) / .seconds(60) < $0 }) ?? (seed - first < UInt64(seeds)) {
      if names { say("seed \(seed)") }
      let settings = WorkerWorld.Settings.swarm(seed: seed)
      let world = try WorkerWorld(seed: seed, settings: settings)
      world.keepsTrace = trace
      try world.run()
      if trace {
        for line in world.trace { print(line) }
        for worker in world.workers { for line in worker?.log ?? [] { print(line) } }
        print("hash \(String(world.traceHash, radix: 16)), \(world.eventCount) events")
      }
      events += world.eventCount
      milliseconds += world.network.now / 1_000_000
      faults += settings.faults.isEmpty ? 0 : settings.faultCount
      repeated += world.auditor.repeatedCount
      ambiguous += world.auditor.ambiguousCount
      if !world.auditor.violations.isEmpty {
        broken += 1
        for text in world.auditor.violations.prefix(5) { say("seed \(seed): \(text)") }
        say("again: herald-bench simulate-workers --first \(seed) --seeds 1 --trace")
      }
      seed += 1
      if untilBroken, broken > 0 { break }
    }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    let count = seed - first
    print(
      """
      \(count) seeds from \(first), \(events) events, \(faults) faults, \(milliseconds / 1000) s simulated in \(Int(seconds)) s, \
      \(Int(Double(count) / seconds * 60)) seeds a minute; sent twice \(repeated), marked \(ambiguous): \
      \(broken == 0 ? "the promise held in all" : "\(broken) broke it")
      """)
    if broken > 0 { throw ExitCode(1) }
  }

  private func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
  }
}
