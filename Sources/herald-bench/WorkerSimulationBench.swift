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

  @Flag(
    help:
      "Make the first seed that breaks the promise as small as it gets, and print what happens then. Implies --until-broken."
  )
  var shrink = false

  @Option(help: "Only these faults of a seed, by number, separated by commas: what --shrink found.")
  var faults: String?

  @Option(help: "Only these jobs.")
  var jobs: String?

  @Option(help: "So many workers.")
  var workers: Int?

  @Option(help: "So many lanes each.")
  var lanes: Int?

  @Flag(help: "Bytes come as they were sent, in one piece.")
  var plain = false

  private func plan(seed: UInt64) throws -> WorkerPlan {
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
    if let workers { plan.settings.workers = workers }
    if let lanes { plan.settings.lanes = lanes }
    if plain { plan.settings.network.splits = 0 }
    return plan
  }

  private func explain(_ plan: WorkerPlan) throws {
    let shrinker = WorkerShrinker()
    let (small, violations) = try shrinker.shrink(plan)
    let world = try WorkerWorld(small)
    world.keepsTrace = true
    try world.run()
    print(world)
    for text in violations { say("seed \(small.seed): \(text)") }
    func list(_ numbers: [Int]) -> String { numbers.map(String.init).joined(separator: ",") }
    say(
      """
      \(small.faultCount) faults and \(small.jobCount) jobs are left after \(shrinker.played) worlds; again: herald-bench \
      simulate-workers --first \(small.seed) --seeds 1 --faults "\(list(small.faultNumbers))" --jobs \(list(small.jobNumbers)) \
      --workers \(small.settings.workers) --lanes \(small.settings.lanes)\(small.settings.network.splits == 0 ? " --plain" : "") --trace
      """)
  }

  private func print(_ world: WorkerWorld) {
    for line in world.trace { Swift.print(line) }
    for worker in world.workers { for line in worker?.log ?? [] { Swift.print(line) } }
    Swift.print("hash \(String(world.traceHash, radix: 16)), \(world.eventCount) events")
  }

  func run() throws {
    let start = ContinuousClock.now
    var seed = first
    var broken = 0
    var (events, milliseconds, faultCount, repeated, ambiguous) = (0, Int64(0), 0, 0, 0)
    while minutes.map({ (ContinuousClock.now - start) / .seconds(60) < $0 }) ?? (seed - first < UInt64(seeds)) {
      if names { say("seed \(seed)") }
      let plan = try plan(seed: seed)
      let world = try WorkerWorld(plan)
      world.keepsTrace = trace
      try world.run()
      if trace { print(world) }
      events += world.eventCount
      milliseconds += world.network.now / 1_000_000
      faultCount += plan.faultCount
      repeated += world.auditor.repeatedCount
      ambiguous += world.auditor.ambiguousCount
      if !world.auditor.violations.isEmpty {
        broken += 1
        for text in world.auditor.violations.prefix(5) { say("seed \(seed): \(text)") }
        say("again: herald-bench simulate-workers --first \(seed) --seeds 1 --trace, or --shrink")
        if shrink {
          try explain(plan)
          throw ExitCode(1)
        }
      }
      seed += 1
      if untilBroken, broken > 0 { break }
    }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    let count = seed - first
    Swift.print(
      """
      \(count) seeds from \(first), \(events) events, \(faultCount) faults, \(milliseconds / 1000) s simulated in \(Int(seconds)) s, \
      \(Int(Double(count) / seconds * 60)) seeds a minute; sent twice \(repeated), marked \(ambiguous): \
      \(broken == 0 ? "the promise held in all" : "\(broken) broke it")
      """)
    if broken > 0 { throw ExitCode(1) }
  }

  private func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
  }
}
