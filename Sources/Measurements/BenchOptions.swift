import ArgumentParser

/// What every measurement takes.
struct BenchOptions: ParsableArguments {
  @Option(help: "Jobs, requests or messages in one run.")
  var jobs = 100_000

  @Option(help: "Number of runs; the table shows their median.")
  var runs = 3

  @Flag(help: "Print one JSON object instead of a table.")
  var json = false

  func validate() throws {
    if jobs < 1 { throw ValidationError("--jobs must be at least 1, not \(jobs)") }
    if runs < 1 { throw ValidationError("--runs must be at least 1, not \(runs)") }
  }
}
