import ArgumentParser
import Foundation

/// Which seeds a simulation plays, and its report.
struct SimulationOptions: ParsableArguments {
  @Option(help: "Play seeds for this many minutes.")
  var minutes: Double?

  @Option(help: "Or play this many seeds.")
  var seeds = 100

  @Option(help: "The first seed.")
  var first: UInt64 = 1

  @Flag(help: "Print each seed before it is played: if the process crashes, the last one printed caused it.")
  var names = false

  @Flag(help: "Stop at the first seed that breaks the promise.")
  var untilBroken = false

  @Flag(help: "Print one JSON object instead of a line.")
  var json = false

  /// Plays seed after seed, then prints a summary.
  /// - Parameters:
  ///   - play: plays one seed; false: it broke the promise.
  ///   - figures: counts of the run, by name.
  func run(_ play: (UInt64) throws -> Bool, figures: () -> [(name: String, count: Int)]) throws {
    let start = ContinuousClock.now
    var seed = first
    var broken: [UInt64] = []
    while minutes.map({ (ContinuousClock.now - start) / .seconds(60) < $0 }) ?? (seed - first < UInt64(seeds)) {
      if names { SimulationOptions.say("seed \(seed)") }
      if try !play(seed) { broken.append(seed) }
      seed += 1
      if untilBroken, !broken.isEmpty { break }
    }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    let count = seed - first
    let rate = Int(Double(count) / seconds * 60)
    let figures = figures()
    if json {
      let counted = figures.map { "\"\($0.name.replacing(" ", with: "_"))\": \($0.count), " }.joined()
      print(
        """
        {"seeds": \(count), "first": \(first), \(counted)"seconds": \(Int(seconds)), "seeds_per_minute": \(rate), \
        "broken": \(broken)}
        """)
    } else {
      let counted = figures.map { "\($0.count) \($0.name), " }.joined()
      print(
        """
        \(count) seeds from \(first), \(counted)in \(Int(seconds)) s, \(rate) seeds a minute: \
        \(broken.isEmpty ? "the promise held in all" : "\(broken.count) broke it")
        """)
    }
    if !broken.isEmpty { throw ExitCode(1) }
  }

  static func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
  }
}
