import ArgumentParser
import Foundation
import PushCore
import PushOperations

struct EnqueueCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "enqueue",
    abstract: "Publishes jobs (JSON Lines) into the jobs exchange, persistent and confirmed.",
    discussion: "A line that is no job is told and not published. Exits 1 unless all were confirmed.")

  @OptionGroup var common: CommonOptions

  @Option(name: .customLong("class"), help: "transactional or bulk.")
  var jobClass = JobClassName.transactional

  @Flag(help: "Publish what is no job too: its outcome will be invalid.")
  var unchecked = false

  @Flag(help: "Print one JSON object instead of a sentence.")
  var json = false

  @Argument(help: "A file of jobs, one a line; - reads standard input.")
  var file = "-"

  func run() throws {
    let configuration = try common.load()
    let input = try openInput(file)
    let result: Enqueuer.Result
    do {
      result = try Enqueuer(configuration).run(
        input, jobClass: jobClass.jobClass, isChecked: !unchecked, tell: Exit.note)
    } catch {
      throw Exit.failure("\(error)")
    }
    if json {
      let refused = result.read - result.invalid - result.confirmed
      print(
        "{\"read\":\(result.read),\"confirmed\":\(result.confirmed),\"refused\":\(refused),\"invalid\":\(result.invalid)}"
      )
    } else {
      let invalid = result.invalid == 0 ? "" : "; \(result.invalid) are no jobs and were not published"
      print("\(result.confirmed) of \(result.read) jobs confirmed\(invalid)")
    }
    if result.confirmed < result.read { throw ExitCode(1) }
  }
}

enum JobClassName: String, ExpressibleByArgument, CaseIterable {
  case transactional, bulk

  var jobClass: JobClass {
    switch self {
    case .transactional: .transactional
    case .bulk: .bulk
    }
  }
}
