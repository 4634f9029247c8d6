import Logging
import PushOperations
import ServiceLifecycle
import Synchronization

/// Logs the begin and the end of a drain, each with what is open.
final class GatewayDrain: Service {
  private let services: GatewayServices
  private let hasBegun = Atomic<Bool>(false)

  init(_ services: GatewayServices) {
    self.services = services
  }

  func run() async throws {
    guard (try? await gracefulShutdown()) != nil else { return }
    services.backend.announceDrain()
    hasBegun.store(true, ordering: .relaxed)
    report("the drain begins")
  }

  /// All requests are answered, or the time is over.
  func end() {
    if hasBegun.load(ordering: .relaxed) { report("the drain has ended") }
  }

  private func report(_ text: String) {
    let status = services.backend.status
    services.logger.notice(
      "\(text)",
      metadata: [
        "connections": "\(services.metrics.connections.load(ordering: .relaxed))", "unconfirmed": "\(status.open)",
        "readers": "\(status.readers)",
      ])
  }
}
