import ArgumentParser
import Foundation
import PushCore
import PushOperations

/// Shows, replays and drops dead letters.
struct DeadLettersCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "dead-letters",
    abstract: "Lists, shows, replays and purges dead letters.",
    discussion: """
      Works on the queue <prefix>.dead, oldest first. While a command runs it holds the messages, so that a second one
      beside it sees the others; what it does not replay or purge goes back to its place at the end, also when the
      command is interrupted.
      """,
    subcommands: [List.self, Show.self, Replay.self, Purge.self])

  /// Which dead letters to select.
  struct Selection: ParsableArguments {
    @OptionGroup var common: CommonOptions

    @Option(help: "Only those with this reason: failed, invalid, or a broker's word such as rejected.")
    var reason: String?

    @Option(help: "Only those of this app.")
    var app: String?

    @Option(help: "Only the job with this id.")
    var id: String?

    @Option(help: "At most this many that match, oldest first.")
    var limit: Int?

    @Flag(help: "Print JSON Lines.")
    var json = false

    func validate() throws {
      if let limit, limit < 1 { throw ValidationError("--limit must be at least 1, not \(limit)") }
    }

    var filter: DeadLetterFilter { DeadLetterFilter(reason: reason, app: app, id: id) }

    /// Runs the work; an error becomes a message and exit 1.
    func run(_ work: (DeadLetterQueue) throws -> DeadLetterQueue.Summary) throws -> DeadLetterQueue.Summary {
      let configuration = try common.load()
      do {
        return try work(try DeadLetterQueue(configuration))
      } catch {
        throw Exit.failure("\(error)")
      }
    }

    /// Prints each as it is reported: a row of the table, or JSON.
    func row(_ letter: DeadLetter) {
      print(json ? letter.jsonLine(withBody: false) : DeadLetterTable.row(letter))
    }

    func header() {
      if !json { print(DeadLetterTable.header) }
    }

    /// A run that its time limit ended has not seen everything, and must say so.
    func failIfCutShort(_ summary: DeadLetterQueue.Summary) throws {
      guard summary.isCutShort else { return }
      throw Exit.failure(
        "stopped at the time limit after \(summary.seen) dead letters; others are left: run it again")
    }

    /// Prints the result, for programs or for people.
    func conclude(_ summary: DeadLetterQueue.Summary, _ verb: String, isDryRun: Bool) throws {
      if json {
        print(
          "{\"matched\":\(summary.matched),\"\(verb)\":\(summary.done),\"left\":\(summary.left),"
            + "\"dry_run\":\(isDryRun),\"cut_short\":\(summary.isCutShort)}"
        )
      } else if isDryRun {
        print("\(summary.matched) would be \(verb); nothing was changed")
      } else {
        print("\(summary.done) of \(summary.matched) matching dead letters \(verb)")
      }
      try failIfCutShort(summary)
      if summary.left > 0 {
        throw Exit.failure("\(summary.left) dead letters are too large to be read and were left in the queue")
      }
    }
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints a table of dead letters; all stay.")

    @OptionGroup var selection: Selection

    func run() throws {
      selection.header()
      let summary = try selection.run { try $0.list(selection.filter, limit: selection.limit, selection.row) }
      if !selection.json {
        Exit.note("\(summary.matched) of \(summary.seen) dead letters")
      }
      try selection.failIfCutShort(summary)
    }
  }

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints dead letters in full: their headers and the job's bytes.")

    @OptionGroup var selection: Selection

    func run() throws {
      let summary = try selection.run { box in
        try box.list(selection.filter, limit: selection.limit) { letter in
          print(selection.json ? letter.jsonLine(withBody: true) : DeadLetterTable.page(letter))
        }
      }
      try selection.failIfCutShort(summary)
      if summary.matched == 0 { throw Exit.failure("no dead letter matches; \(summary.seen) were checked") }
    }
  }

  struct Replay: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Puts fresh copies back where they came from, and then removes the originals.",
      discussion: """
        An original is acknowledged only after the broker confirmed its copy: a command that is killed loses nothing,
        and at worst the job that it was at is sent twice, with the same apns-id. A copy starts anew: attempts and age
        count from its first receipt. Where APNs may have accepted the job before, the outcome of its copy says
        "ambiguous": true.
        """)

    @OptionGroup var selection: Selection

    @Option(help: "At most this many copies a second.")
    var rate: Double?

    @Flag(help: "Only print what would be replayed.")
    var dryRun = false

    func validate() throws {
      if let rate, !(0.001...1_000_000 ~= rate) {
        throw ValidationError("--rate must be from 0.001 to 1000000, not \(rate)")
      }
    }

    func run() throws {
      let summary =
        if dryRun {
          try selection.run { try $0.list(selection.filter, limit: selection.limit, selection.row) }
        } else {
          try selection.run { try $0.replay(selection.filter, limit: selection.limit, ratePerSecond: rate) }
        }
      try selection.conclude(summary, "replayed", isDryRun: dryRun)
    }
  }

  struct Purge: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Drops dead letters for good.", discussion: "Needs --reason, --app, --id, or --all.")

    @OptionGroup var selection: Selection

    @Flag(help: "Purge all dead letters.")
    var all = false

    @Flag(help: "Only print what would be dropped.")
    var dryRun = false

    func validate() throws {
      if selection.filter.isEmpty && !all {
        throw ValidationError("purge needs --reason, --app or --id; or --all to drop every dead letter")
      }
      if !selection.filter.isEmpty && all { throw ValidationError("--all does not go with --reason, --app or --id") }
    }

    func run() throws {
      let summary =
        if dryRun {
          try selection.run { try $0.list(selection.filter, limit: selection.limit, selection.row) }
        } else {
          try selection.run { try $0.purge(selection.filter, limit: selection.limit) }
        }
      try selection.conclude(summary, "purged", isDryRun: dryRun)
    }
  }
}
