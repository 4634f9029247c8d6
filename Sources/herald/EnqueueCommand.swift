import ArgumentParser
import Foundation
import PushCore
import PushOperations

struct EnqueueCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "enqueue",
    abstract: "Publishes jobs (JSON Lines) into the jobs exchange, persistent and confirmed.",
    discussion: "Jobs are published as they are; the worker checks them. Exits 1 unless all were confirmed.")

  @OptionGroup var common: CommonOptions

  @Option(name: .customLong("class"), help: "transactional or bulk.")
  var jobClass = JobClassName.transactional

  @Flag(help: "Print one JSON object instead of a sentence.")
  var json = false

  @Argument(help: "A file of jobs, one a line; - reads standard input.")
  var file = "-"

  func run() throws {
    let configuration = try common.load()
    let input = try openInput(file)
    let result: Enqueuer.Result
    do {
      result = try Enqueuer(configuration).run(input, jobClass: jobClass.jobClass, tell: Exit.note)
    } catch {
      throw Exit.failure("\(error)")
    }
    if json {
      print("{\"read\":\(result.read),\"confirmed\":\(result.confirmed),\"refused\":\(result.read - result.confirmed)}")
    } else {
      print("\(result.confirmed) of \(result.read) jobs confirmed")
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
