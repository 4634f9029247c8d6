package import Logging
import NIOCore
import PushCore
import PushIO
import PushOperations
package import PushSettings
import PushWorker
import ServiceLifecycle
import UnixSignals

/// A running gateway: starts its connections to RabbitMQ and Redis, then the HTTP server, and ends both in reverse order at SIGTERM or
/// SIGINT.
package struct GatewayGroup {
  private let configuration: Configuration
  private let logger: Logger
  private let load: @Sendable () throws -> Configuration
  private let tls: GatewayTLS?
  private let backend: GatewayBackend

  /// Throws what is wrong with the configuration.
  /// - Parameter load: reads the configuration again, for a reload.
  package init(
    _ configuration: Configuration, logger: Logger, load: @escaping @Sendable () throws -> Configuration
  ) throws {
    self.configuration = configuration
    self.logger = logger
    self.load = load
    tls = try configuration.gateway.tls.map(GatewayTLS.init)
    backend = GatewayBackend(try GatewaySettings(configuration), logger: logger)
  }

  /// Returns after an orderly end.
  package func run() async throws {
    let services = GatewayServices(
      backend: backend, metrics: GatewayMetrics(), liveActivities: LiveActivitiesAPI(configuration.gateway),
      logger: logger)
    let front = GatewayServer.application(
      services, configuration: configuration.gateway, tls: tls, page: GatewayPage.shared, isUp: {})
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    var group = ServiceGroupConfiguration(
      services: [
        .init(service: GatewayBackendService(backend: backend)),
        .init(service: GatewayReload(tls: tls, logger: logger, load: load)),
        .init(service: GatewayFront(front: front, configuration: configuration.gateway)),
      ],
      gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
    // Clients that neither finish their requests nor go.
    group.maximumGracefulShutdownDuration = .milliseconds(configuration.drainTimeoutMilliseconds)
    try await ServiceGroup(configuration: group).run()
  }
}

/// The connections behind the server.
private struct GatewayBackendService: Service {
  let backend: GatewayBackend

  func run() async throws {
    backend.start()
    try? await gracefulShutdown()
    // From now on a second signal ends the process at once.
    TerminationSignals.restoreDefaults()
    await backend.stop()
  }
}

/// The server as a service with errors that say what to do.
private struct GatewayFront<Front: Service>: Service {
  let front: Front
  let configuration: Configuration.Gateway

  func run() async throws {
    do {
      try await front.run()
    } catch let error as IOError {
      throw GatewayFrontError(configuration, systemErrorText(error.errnoCode))
    } catch is SocketAddressError.UnknownHost {
      throw GatewayFrontError(configuration, "there is no such host")
    }
  }
}

/// The gateway cannot listen.
struct GatewayFrontError: Error, CustomStringConvertible {
  let description: String

  init(_ configuration: Configuration.Gateway, _ reason: String) {
    let address = HostPort.text(configuration.host, configuration.port)
    description =
      "the gateway cannot listen at \(address): \(reason); choose another address with gateway.host and gateway.port"
  }
}
