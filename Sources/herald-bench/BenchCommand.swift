import ArgumentParser
import PushCore
import PushWorker

@main
struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "herald-bench",
    abstract: "Measures Herald: CPU per job first, then rates. Quote ratios of one run, medians of several.",
    version: Herald.version,
    subcommands: [
      JSONBench.self, HTTP2Bench.self, RedisBench.self, AMQPBench.self, PipelineBench.self, AudienceBench.self,
      CredentialsBench.self, FaultBench.self, RegistryBench.self, SegmentsBench.self, SimulationBench.self,
    ])
}

/// What every measurement takes.
struct BenchOptions: ParsableArguments {
  @Option(help: "Jobs, requests or messages in one run.")
  var jobs = 100_000

  @Option(help: "Runs; the median is what counts.")
  var runs = 3

  @Flag(help: "Print one JSON object instead of a table.")
  var json = false

  func validate() throws {
    if jobs < 1 { throw ValidationError("--jobs must be at least 1, not \(jobs)") }
    if runs < 1 { throw ValidationError("--runs must be at least 1, not \(runs)") }
  }
}
