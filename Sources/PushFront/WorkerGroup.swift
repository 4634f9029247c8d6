import Foundation
package import Logging
import PushCore
import PushIO
package import PushSettings
package import PushWorker
import ServiceLifecycle
import UnixSignals

/// A running worker with its admin port: starts the port, then the worker, and ends both in reverse order at SIGTERM or SIGINT.
package struct WorkerGroup {
  private let worker: Worker
  private let logger: Logger
  private let untilEmpty: Bool
  private let load: @Sendable () throws -> Configuration

  /// - Parameter load: reads the configuration again, for a reload.
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
    // Ended in reverse order: the admin port answers until the worker is drained.
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [
          .init(
            service: ListeningService(
              server: admin, name: "the admin front", section: "admin", host: worker.configuration.admin.host,
              port: worker.configuration.admin.port)),
          .init(service: ReloadService(worker: worker, logger: logger, load: load)),
          .init(
            service: WorkerService(worker: worker, untilEmpty: untilEmpty, front: front),
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
  /// Ends when the admin port listens.
  let front: AsyncStream<Void>

  func run() async throws {
    // An occupied port is found before this worker takes a job, and probes are answered from the start.
    await cancelWhenGracefulShutdown { for await _ in front {} }
    if Task.isCancelled || Task.isShuttingDownGracefully { return }
    try worker.start()
    if untilEmpty {
      await cancelWhenGracefulShutdown { [worker] in try? await worker.waitUntilEmpty() }
    } else {
      try await gracefulShutdown()
    }
    // From now on a second signal ends the process at once.
    TerminationSignals.restoreDefaults()
    await worker.drain()
  }
}
