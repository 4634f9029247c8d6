import ArgumentParser
import Measurements
import PushCore

@main
struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "herald-bench",
    abstract: "Measures Herald: CPU per job first, then rates. Quote ratios of one run, medians of several.",
    version: Herald.version,
    subcommands: MeasurementCommands.all + [FaultBench.self, SimulationBench.self])
}
