import ArgumentParser
import Foundation
import PushCore
import PushOperations
import PushStores

struct ActivitiesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "activities",
    abstract: "Lists, shows and ends Live Activities that are known by id.",
    discussion: """
      An activity is known for \(ActivityState.memoryMilliseconds / 3_600_000) hours from its start, or from its first \
      update token. A member is starting (a start is on its way to APNs), started (APNs took it, and no update token \
      came), alerted (APNs took the start's fallback), live (it has an update token), over (swiped away, or APNs knows \
      its token no more) or left (it was ended for this device alone).
      """,
    subcommands: [List.self, Show.self, End.self])

  /// Options of all three.
  struct Options: ParsableArguments {
    @OptionGroup var common: CommonOptions

    @Option(help: "The app's bundle id.")
    var app: String

    @Option(help: "production or sandbox.")
    var environment: EnvironmentName

    @Flag(help: "Print JSON Lines instead of a table.")
    var json = false

    func validate() throws { _ = try scope() }

    func scope() throws -> AppScope {
      guard let scope = AppScope(app: app, environment: environment.environment) else {
        throw ValidationError(
          "--app must be a bundle id (letters, digits, dots, hyphens, underscores), not \"\(app.prefix(80))\"")
      }
      return scope
    }

    func id(_ text: String) throws -> ActivityID {
      guard let id = ActivityID(text) else {
        throw ValidationError("an activity's id \(NameText.rule)")
      }
      return id
    }

    /// Runs the work on a connection.
    func run(_ work: (ActivitiesClient, ActivitiesTable) throws -> Void) throws {
      let configuration = try common.load()
      do {
        let client = try ActivitiesClient(configuration)
        defer { client.close() }
        try work(client, ActivitiesTable(try scope(), now: client.now))
      } catch let code as ExitCode {
        throw code
      } catch {
        throw Exit.failure("\(error)")
      }
    }
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints an app's activities, the newest first.")

    @OptionGroup var options: Options

    @Option(help: "At most so many.")
    var limit = 100

    func validate() throws {
      if !(1...10_000).contains(limit) { throw ValidationError("--limit must be from 1 to 10000") }
    }

    func run() throws {
      try options.run { client, table in
        let activities = try client.list(try options.scope(), limit: limit)
        for line in options.json ? try table.jsonLines(activities) : table.lines(activities) { print(line) }
      }
    }
  }

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints an activity with its members.", discussion: "Exits 1 where it is not known.")

    @OptionGroup var options: Options

    @Argument(help: "The activity's id.")
    var id: String

    func validate() throws { _ = try options.id(id) }

    func run() throws {
      try options.run { client, table in
        guard let shown = try client.show(try options.id(id), in: try options.scope()) else {
          throw ActivitiesClient.NotRunning.unknown(try options.id(id))
        }
        for line in options.json ? [try table.jsonLine(shown)] : table.lines(shown) { print(line) }
      }
    }
  }

  struct End: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Publishes a job that ends an activity, for all its devices or for some.",
      discussion: "Devices go on showing its last state. The outcomes tell what became of it.")

    @OptionGroup var options: Options

    @Option(help: "End it for this device alone; may be given again, up to 1000 times.")
    var device: [String] = []

    @Option(help: "When devices stop showing it, Unix seconds; in the past: at once. Default: within four hours.")
    var dismissalDate: Int64?

    @Argument(help: "The activity's id.")
    var id: String

    func validate() throws {
      _ = try options.id(id)
      if device.count > Limits.targetsMaximum { throw ValidationError("--device may be given 1000 times at most") }
      if let dismissalDate, !(0...Limits.unixSecondsMaximum).contains(dismissalDate) {
        throw ValidationError("--dismissal-date must be Unix seconds, not \(dismissalDate)")
      }
    }

    func run() throws {
      try options.run { client, _ in
        let job = try client.end(
          try options.id(id), in: try options.scope(), devices: device, dismissalDate: dismissalDate)
        let part = device.isEmpty ? "" : " on \(device.map { TextTable.printable($0) }.joined(separator: ", "))"
        print(options.json ? "{\"job_id\":\"\(job)\"}" : "job \(job) ends \(TextTable.printable(id))\(part)")
      }
    }
  }
}
