import ArgumentParser
import Measurements
import PushCore

@main
struct MeasureCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "herald-measure",
    abstract: "The measurements of herald-bench, without its simulations: they build in less time.",
    version: Herald.version,
    subcommands: MeasurementCommands.all)
}
