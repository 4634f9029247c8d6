import ArgumentParser
import PushFront
import PushIO
import PushWorker

struct RunCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Runs the worker until SIGTERM or SIGINT; then it drains.",
    discussion: """
      Draining takes no new jobs, finishes those in flight, and gives the rest back to its queue after drain_timeout_s.
      A second signal ends the process at once; the broker then delivers what was in flight again. SIGHUP, or a changed key
      file, makes it read its configuration again: credentials, limits and the log's level.
      """)

  @OptionGroup var common: CommonOptions

  @Flag(
    help: "Drain and exit 0 once the queues of jobs, retries and channel requests and everything in flight are empty.")
  var untilEmpty = false

  func run() async throws {
    OpenFiles.raiseLimit()
    let (configuration, logger) = try common.begin()
    let worker: Worker
    do {
      worker = try Worker(configuration, logger: logger, untilEmpty: untilEmpty)
    } catch {
      throw Exit.configuration("\(error)")
    }
    do {
      try await WorkerGroup(worker: worker, logger: logger, untilEmpty: untilEmpty, load: common.reader).run()
    } catch {
      throw Exit.failure("\(error)")
    }
  }
}
