import ArgumentParser
import PushFront
import PushIO
import PushWorker

struct GatewayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "gateway",
    abstract: "Runs the HTTP front for producers and devices until SIGTERM or SIGINT; then it drains.",
    discussion: """
      It publishes what it takes and answers once RabbitMQ confirmed it; a worker (`herald run`) does the rest. It keeps \
      nothing, so any number may run. Draining accepts no connection, answers the requests in progress and ends, at the \
      latest after drain_timeout_s. SIGHUP, or a changed certificate file, makes it read its certificate again.
      """)

  @OptionGroup var common: CommonOptions

  func run() async throws {
    OpenFiles.raiseLimit()
    let (configuration, logger) = try common.begin()
    let group: GatewayGroup
    do {
      group = try GatewayGroup(configuration, logger: logger, load: common.reader)
    } catch {
      throw Exit.configuration("\(error)")
    }
    do {
      try await group.run()
    } catch {
      throw Exit.failure("\(error)")
    }
  }
}
