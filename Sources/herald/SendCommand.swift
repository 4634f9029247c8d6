import ArgumentParser
import Foundation
import PushCore
import PushLane
import PushOperations

struct SendCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "send",
    abstract: "Sends jobs (JSON Lines) straight to APNs and prints their outcomes (JSON Lines).",
    discussion: "Needs neither RabbitMQ nor Redis. Exits 1 unless all were accepted.")

  @OptionGroup var common: CommonOptions

  @Argument(help: "A file of jobs, one a line; - reads standard input.")
  var file = "-"

  func run() async throws {
    let (configuration, logger) = try common.begin()
    let input = try openInput(file)
    let sender: DirectSender
    do {
      sender = try DirectSender(configuration, logger: logger)
    } catch {
      throw Exit.configuration("\(error)")
    }
    let counts: [(outcome: Outcome, count: UInt64)]
    do {
      counts = try sender.run(input: input, output: .standardOutput, control: LaneControl(name: "send"))
    } catch {
      throw Exit.failure("\(error)")
    }
    let others = counts.filter { $0.outcome != .accepted && $0.count > 0 }
    if !others.isEmpty {
      throw Exit.failure(
        "APNs did not accept all of them: " + others.map { "\($0.count) \($0.outcome)" }.joined(separator: ", "))
    }
  }
}

/// A file of input lines, or standard input for `-`.
func openInput(_ file: String) throws -> FileHandle {
  if file == "-" { return .standardInput }
  // A folder can be opened like a file, and then reads as empty.
  let path = URL(filePath: file).resolvingSymlinksInPath().path
  let kind = try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
  guard kind != .typeDirectory else { throw Exit.failure("cannot read \(file): it is a folder") }
  guard let handle = FileHandle(forReadingAtPath: file) else {
    let reason = kind == nil ? "there is no such file" : "permission denied"
    throw Exit.failure("cannot read \(file): \(reason)")
  }
  return handle
}
