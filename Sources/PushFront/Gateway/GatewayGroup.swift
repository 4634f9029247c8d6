package import Logging
import NIOCore
import NIOPosix
import PushCore
import PushIO
import PushOperations
package import PushSettings
import PushWorker
import ServiceLifecycle
import UnixSignals

/// Runs the gateway: starts the connections to RabbitMQ and Redis, then the HTTP server. Stops them in reverse order on SIGTERM or SIGINT.
package struct GatewayGroup {
  private let configuration: Configuration
  private let logger: Logger
  private let load: @Sendable () throws -> Configuration
  private let tls: GatewayTLS?
  private let backend: GatewayBackend

  /// Throws an error that says what is wrong with the configuration.
  /// - Parameter load: reads the configuration again, for a reload.
  package init(
    _ configuration: Configuration, logger: Logger, load: @escaping @Sendable () throws -> Configuration
  ) throws {
    self.configuration = configuration
    self.logger = logger
    self.load = load
    tls = try configuration.gateway.tls.map(GatewayTLS.init)
    backend = GatewayBackend(try GatewaySettings(configuration), logger: logger) { work in
      NIOSingletons.posixEventLoopGroup.any().execute(work)
    }
  }

  /// Returns after a graceful shutdown.
  package func run() async throws {
    // Requests run on the event loop of their connections, and all on one: a request changes threads twice instead of six times. What that
    // is worth: docs/measurements/gateway.md. More gateways use more cores.
    NIOSingletons.groupLoopCountSuggestion = 1
    if !NIOSingletons.unsafeTryInstallSingletonPosixEventLoopGroupAsConcurrencyGlobalExecutor() {
      logger.warning("requests cost more CPU: this Swift runtime does not run tasks on event loops")
    }
    let services = GatewayServices(
      backend: backend, metrics: GatewayMetrics(), configuration: configuration, logger: logger)
    let drain = GatewayDrain(services)
    let front = GatewayServer.service(
      services, configuration: configuration.gateway, tls: tls, page: GatewayPage.shared, isUp: {})
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    var group = ServiceGroupConfiguration(
      services: [
        .init(service: GatewayBackendService(backend: backend, drain: drain)),
        .init(service: GatewayReload(tls: tls, services: services, load: load)),
        .init(
          service: ListeningService(
            server: front, name: "the gateway", section: "gateway", host: configuration.gateway.host,
            port: configuration.gateway.port)),
        // The last one is stopped first.
        .init(service: drain),
      ],
      gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
    // Bounds the wait for clients that neither finish their requests nor disconnect.
    group.maximumGracefulShutdownDuration = .milliseconds(configuration.drainTimeoutMilliseconds)
    try await ServiceGroup(configuration: group).run()
  }
}

/// Starts and stops the backend with the service group.
private struct GatewayBackendService: Service {
  let backend: GatewayBackend
  let drain: GatewayDrain

  func run() async throws {
    backend.start()
    try? await gracefulShutdown()
    // From now on a second signal ends the process at once.
    TerminationSignals.restoreDefaults()
    drain.end()
    await backend.stop()
  }
}
