import Logging
import PushCore
import PushIO
import PushOperations
import PushSettings
import PushStores
import Synchronization

/// What all routes share. One for the whole server.
final class GatewayServices: Sendable {
  let backend: GatewayBackend
  let metrics: GatewayMetrics
  let logger: Logger
  let liveActivities: LiveActivitiesAPI
  let date = GatewayDate()
  let budget = ByteBudget(maximum: GatewayLimits.bodiesBytesMaximum)
  let pipelineBudget = ByteBudget(maximum: GatewayLimits.pipelinedBytesMaximum)
  private let intake = Mutex(JobIntake())
  private let credentials = Mutex<[String: [String]]>([:])

  /// The apps of each credential, by its name.
  var appsOfCredentials: [String: [String]] { credentials.withLock { $0 } }

  /// Takes what requests are checked with from a configuration that was read, or read again.
  func use(_ configuration: Configuration) {
    credentials.withLock {
      $0 = Dictionary(configuration.credentials.map { ($0.name, $0.apps) }) { first, _ in first }
    }
  }

  init(backend: GatewayBackend, metrics: GatewayMetrics, liveActivities: LiveActivitiesAPI, logger: Logger) {
    self.backend = backend
    self.metrics = metrics
    self.liveActivities = liveActivities
    self.logger = logger
  }

  /// Finds the API key with this text. If it is unknown, reads the keys again, because it may be new.
  func key(_ text: String) async throws(Problem) -> APIKey {
    for isLast in [false, true] {
      switch backend.keys.find(text, now: GatewayClock.unixMilliseconds) {
      case .found(let key): return key
      case .invalid: throw Problem(.unauthorized, "the key is not valid")
      case .unknown where isLast: break
      // It may have been created since the last read.
      case .unknown:
        guard await backend.reloadKeys() else { throw Problem(.unavailable, "the API keys cannot be read; try again") }
      }
    }
    throw Problem(.unauthorized, "the key is not valid")
  }

  /// Checks a job. See `JobIntake`.
  func take(
    _ job: [UInt8], from sender: JobIntake.Sender, newID: () -> UUIDValue
  ) throws(Problem) -> TakenJob {
    try intake.withLock { intake throws(Problem) in try intake.take(job, from: sender, newID: newID) }
  }

  /// Asks the backend. Throws its failure as a `Problem`.
  func ask<Value: Sendable>(
    _ question: @escaping @Sendable (GatewayBackendLoop, @escaping GatewayBackendLoop.Then<Value>) -> Void
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

  /// Publishes a message. Throws unless RabbitMQ confirms it in time.
  func publish(_ message: GatewayMessage) async throws(Problem) {
    for result in await backend.publish([message]) {
      if let problem = GatewayServices.problem(result) { throw problem }
    }
  }

  /// Why a message was not confirmed; nil: it was.
  static func problem(_ result: PublishResult) -> Problem? {
    switch result {
    case .confirmed: nil
    case .unconfirmed:
      Problem(.unavailable, "RabbitMQ refused it or did not confirm it in time, but may have stored it; send it again")
    case .disconnected: Problem(.unavailable, "RabbitMQ is not connected; nothing was published")
    case .blocked: Problem(.unavailable, "RabbitMQ has a memory or disk alarm; nothing was published")
    case .full: Problem(.unavailable, "too many jobs wait for RabbitMQ; nothing was published")
    }
  }
}
