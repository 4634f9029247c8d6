import Foundation
package import Logging
import PushIO
package import PushSettings
package import PushWorker
import ServiceLifecycle
import UnixSignals

/// A running worker with its admin front: starts both, and ends both in order at SIGTERM or SIGINT.
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
    let admin = AdminServer.application(
      for: worker, host: worker.configuration.admin.host, port: Int(worker.configuration.admin.port), logger: logger)
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    // Ended in reverse: the admin front answers until the worker is drained.
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [
          .init(service: admin),
          .init(service: ReloadService(worker: worker, logger: logger, load: load)),
          .init(
            service: WorkerService(worker: worker, untilEmpty: untilEmpty),
            successTerminationBehavior: .gracefullyShutdownGroup),
        ],
        gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet))
    try await group.run()
  }
}

/// The worker as a service: runs until its group shuts down, or until all queues are empty.
struct WorkerService: Service {
  let worker: Worker
  let untilEmpty: Bool

  func run() async throws {
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
