import ArgumentParser
import Foundation
import PushCore
import PushOperations
import PushStores

struct JobsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "jobs",
    abstract: "Shows, pauses, resumes and cancels jobs for devices, users and segments.",
    discussion: """
      Such a job becomes pages of at most 500 devices, step by step. Redis keeps its progress for 24 hours after its last \
      change. A job that no worker took up yet is not known. Two apps may have jobs with one id, and so may one app in \
      both environments: then name the job's.
      """,
    subcommands: [Show.self, Pause.self, Resume.self, Cancel.self])

  /// Options of all.
  struct Options: ParsableArguments {
    @OptionGroup var common: CommonOptions

    @Flag(help: "Print JSON instead of a table.")
    var json = false

    @Option(help: "The job's app, a bundle id. Default: the only app with a credential that has such a job.")
    var app: String?

    @Option(help: "production or sandbox. Default: the only one that has such a job.")
    var environment: EnvironmentName?

    @Argument(help: "The job's id.")
    var id: String

    func validate() throws { if let app { _ = try DeviceOptions.scope(app, .production) } }

    /// Runs the work on a connection, then prints the job.
    func run(_ work: (AudienceJobs, AudienceID) throws -> Void = { _, _ in }) throws {
      let configuration = try common.load()
      let progress: ExpansionProgress
      do {
        let access = try AudienceJobs(configuration)
        defer { access.close() }
        let job = try find(access)
        try work(access, job)
        guard let found = try access.progress(job) else { throw unknown }
        progress = found
      } catch let exit as ExitCode {
        throw exit
      } catch {
        throw Exit.failure("\(error)")
      }
      let report = JobReport(id, progress, now: Int64(Date().timeIntervalSince1970 * 1000))
      for line in json ? [try report.json()] : report.lines { print(line) }
    }

    func control(_ command: ExpansionState.Command) throws {
      try run { access, job in
        guard let (before, _, isTaken) = try access.control(command, job) else { throw unknown }
        guard isTaken else {
          throw Exit.failure("\(id) is \(before.rawValue): nothing is left to \(command.rawValue)")
        }
        // What was on the wire is counted once its pages have told.
        if command != .resume { try access.waitUntilStill(job) }
      }
    }

    private func find(_ access: AudienceJobs) throws -> AudienceID {
      let jobs = try access.jobs(id, app: app, environment: environment?.environment)
      guard let job = jobs.first else { throw unknown }
      guard jobs.count == 1 else {
        let scopes = jobs.map { "\($0.scope)" }.joined(separator: ", ")
        throw Exit.failure("\(id) is the id of several jobs: \(scopes); name one with --app and --environment")
      }
      return job
    }

    private var unknown: any Error {
      Exit.failure(
        """
        \(id) is not known: no worker has started a job with this id for devices, users or a segment within 24 hours; if it \
        was invalid, its outcome says why
        """)
    }
  }

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints how far a job came: devices found, sent to and ended, rate and estimate.")

    @OptionGroup var options: Options

    func run() throws { try options.run() }
  }

  struct Pause: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Stops a job within a second, but for pushes on the wire, until it is resumed. Prints how many were sent.")

    @OptionGroup var options: Options

    func run() throws { try options.control(.pause) }
  }

  struct Resume: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Goes on with a paused job, at the latest after 30 seconds.")

    @OptionGroup var options: Options

    func run() throws { try options.control(.resume) }
  }

  struct Cancel: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Ends a job within a second, but for pushes on the wire. Prints how many were sent.")

    @OptionGroup var options: Options

    func run() throws { try options.control(.cancel) }
  }
}
