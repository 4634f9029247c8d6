import ArgumentParser
import Foundation
import PushOperations

struct ResultsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "results",
    abstract: "Prints outcomes from the results log as JSON Lines.",
    discussion: "Reads the stream <prefix>.results.log; other readers are not disturbed.")

  @OptionGroup var common: CommonOptions

  @Flag(help: "Keep waiting for new outcomes.")
  var follow = false

  @Option(help: "Where to start: first, last (the last chunk) or next (only new ones).")
  var from = ResultsReader.Start.first

  @Option(help: "Print at most this many outcomes.")
  var limit: Int?

  func validate() throws {
    if let limit, limit < 1 { throw ValidationError("--limit must be at least 1, not \(limit)") }
  }

  func run() throws {
    let configuration = try common.load()
    do {
      try ResultsReader(configuration).run(from: from, follow: follow, limit: limit, output: .standardOutput)
    } catch {
      throw Exit.failure("\(error)")
    }
  }
}

extension ResultsReader.Start: ExpressibleByArgument {}
