import Logging
import PushCore
import PushIO
import PushOperations
import PushStores
import Synchronization

/// What routes use. One for the whole server.
final class GatewayServices: Sendable {
  let backend: GatewayBackend
  let metrics: GatewayMetrics
  let logger: Logger
  let budget = ByteBudget(maximum: GatewayLimits.bodiesBytesMaximum)
  private let intake = Mutex(JobIntake())

  init(backend: GatewayBackend, metrics: GatewayMetrics, logger: Logger) {
    self.backend = backend
    self.metrics = metrics
    self.logger = logger
  }

  func take(
    _ job: [UInt8], from sender: JobIntake.Sender, newID: () -> UUIDValue
  ) throws(Problem) -> TakenJob {
    try intake.withLock { intake throws(Problem) in try intake.take(job, from: sender, newID: newID) }
  }

  /// Asks the backend; its failure is a problem of the gateway's.
  func ask<Value: Sendable>(
    _ question: @escaping @Sendable (GatewayDesk, @escaping GatewayDesk.Then<Value>) -> Void
  ) async throws(Problem) -> Value {
    do throws(GatewayFailure) {
      return try await backend.ask(question)
    } catch {
      switch error {
      case .filter(let text): throw Problem(Problem.Fault(pointer: "/filter", rule: text))
      case .unavailable(let text):
        logger.debug("a request failed: \(text)")
        throw Problem(.unavailable, "Redis did not answer; try again")
      }
    }
  }

  /// Publishes a message alone, or throws.
  func publish(_ message: GatewayMessage) async throws(Problem) {
    guard await backend.publish([message]) == [true] else { throw GatewayServices.unconfirmed }
  }

  static let unconfirmed = Problem(.unavailable, "RabbitMQ did not confirm it in time; it may be taken all the same")
}
