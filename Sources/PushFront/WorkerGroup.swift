import Foundation
package import Logging
import NIOCore
import PushCore
import PushIO
package import PushSettings
package import PushWorker
import ServiceLifecycle
import UnixSignals

/// A running worker with its admin front: starts the front, then the worker, and ends both in reverse at SIGTERM or SIGINT.
package struct WorkerGroup {
  private let worker: Worker
  private let logger: Logger
  private let untilEmpty: Bool
  private let load: @Sendable () throws -> Configuration

  /// - Parameter load: reads the configuration anew, for a reload.
  package init(
    worker: Worker, logger: Logger, untilEmpty: Bool, load: @escaping @Sendable () throws -> Configuration
  ) {
    self.worker = worker
    self.logger = logger
    self.untilEmpty = untilEmpty
    self.load = load
  }

  /// Returns after an orderly end.
  package func run() async throws {
    let (front, frontIsUp) = AsyncStream.makeStream(of: Void.self)
    let admin = AdminServer.application(
      for: worker, host: worker.configuration.admin.host, port: Int(worker.configuration.admin.port), logger: logger,
      isUp: { frontIsUp.finish() })
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    // Ended in reverse: the admin front answers until the worker is drained.
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [
          .init(service: admin),
          .init(service: ReloadService(worker: worker, logger: logger, load: load)),
          .init(
            service: WorkerService(worker: worker, untilEmpty: untilEmpty, front: front),
            successTerminationBehavior: .gracefullyShutdownGroup),
        ],
        gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet))
    do {
      try await group.run()
    } catch let error as IOError {
      throw AdminFrontError(configuration: worker.configuration.admin, code: error.errnoCode)
    }
  }
}

/// The admin front cannot listen.
package struct AdminFrontError: Error, CustomStringConvertible {
  package let description: String

  init(configuration: Configuration.Admin, code: Int32) {
    let address = HostPort.text(configuration.host, configuration.port)
    description =
      "the admin front cannot listen at \(address): \(systemErrorText(code)); choose another address with admin.host and admin.port"
  }
}

/// The worker as a service: runs until its group shuts down, or until all queues are empty.
struct WorkerService: Service {
  let worker: Worker
  let untilEmpty: Bool
  /// Ends when the admin front listens.
  let front: AsyncStream<Void>

  func run() async throws {
    // A port that somebody else has is found before this worker takes a job, and probes are answered from the first one on.
    await cancelWhenGracefulShutdown { for await _ in front {} }
    if Task.isCancelled || Task.isShuttingDownGracefully { return }
    try worker.start()
    if untilEmpty {
      await cancelWhenGracefulShutdown { [worker] in try? await worker.waitUntilEmpty() }
    } else {
      try await gracefulShutdown()
    }
    // From here on a second signal ends the process at once.
    TerminationSignals.restoreDefaults()
    await worker.drain()
  }
}
