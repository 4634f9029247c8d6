import ArgumentParser
import PushOperations
import PushSettings
import PushWorker

/// `herald pauses`: what APNs refuses so that it waits, and an end to that.
struct PausesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pauses",
    abstract: "Shows and ends the pauses of the worker on this machine.",
    discussion: """
      Where APNs refuses a whole credential, a topic, a class of its pushes or its broadcasts, their jobs wait in the retry queues, and a \
      probe goes out now and then. Each lane pauses by itself. Run it beside each worker.
      """,
    subcommands: [List.self, Lift.self])

  struct Filter: ParsableArguments {
    @Option(help: "Only those of this credential.")
    var credential: String?

    @Option(help: "Only those of this topic.")
    var topic: String?
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Shows what is paused, why and since when.")

    @OptionGroup var common: CommonOptions
    @OptionGroup var filter: Filter

    @Flag(help: "Print one JSON object a line.")
    var json = false

    func run() throws {
      let configuration = try common.load()
      do {
        let pauses = try AdminClient(configuration.admin).status().status.pauses.filter {
          $0.isOf(credential: filter.credential, topic: filter.topic)
        }
        for line in json ? try PausesTable.jsonLines(pauses) : PausesTable.lines(pauses) { print(line) }
      } catch {
        throw Exit.failure("\(error)")
      }
    }
  }

  struct Lift: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Ends pauses at once, once their cause is mended.",
      discussion: """
        In every lane of the worker. If APNs still refuses, they begin again. Jobs that wait in retry queues come back when \
        their delay is over.
        """)

    @OptionGroup var common: CommonOptions
    @OptionGroup var filter: Filter

    func run() throws {
      let configuration = try common.load()
      do {
        let count = try AdminClient(configuration.admin).liftPauses(credential: filter.credential, topic: filter.topic)
        print("\(count) \(count == 1 ? "pause" : "pauses") lifted")
      } catch {
        throw Exit.failure("\(error)")
      }
    }
  }
}
