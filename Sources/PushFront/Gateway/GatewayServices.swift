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
  private let date = GatewayDate()
  let budget = SharedBudget(
    maximum: GatewayLimits.bodiesBytesMaximum, unkeyedMaximum: GatewayLimits.unkeyedBytesMaximum)
  let pipelineBudget = SharedBudget(
    maximum: GatewayLimits.pipelinedBytesMaximum, unkeyedMaximum: GatewayLimits.unkeyedBytesMaximum)
  let strangers = StrangerTable()
  let largeWork = LargeWork()
  private let connections: Mutex<FairBudget<String>>
  private let intake: Mutex<JobIntake>
  /// For large bodies: small ones do not wait for it.
  private let largeIntake: Mutex<JobIntake>
  private let credentials = Mutex<(apps: [String: [String]], owners: TopicOwners)>(([:], TopicOwners()))

  /// The apps of each credential, by its name, and which topics are theirs.
  var appsOfCredentials: (apps: [String: [String]], owners: TopicOwners) { credentials.withLock { $0 } }

  /// Takes what requests are checked with from a configuration that was read, or read again.
  func use(_ configuration: Configuration) {
    credentials.withLock {
      $0.apps = Dictionary(configuration.credentials.map { ($0.name, $0.apps) }) { first, _ in first }
      $0.owners = TopicOwners(configuration.credentials.lazy.flatMap(\.apps))
    }
  }

  var unixMilliseconds: Int64 { backend.unixMilliseconds }
  /// The value of the field `Date`.
  var dateText: String { date.text(unixMilliseconds: unixMilliseconds) }

  /// Counts a connection for a key. false: the key has too many of them.
  func takeConnection(for key: String) -> Bool { connections.withLock { $0.take(1, for: key) } }
  func giveConnection(from key: String) { connections.withLock { $0.give(1, from: key) } }

  init(
    backend: GatewayBackend, metrics: GatewayMetrics, configuration: Configuration, logger: Logger
  ) {
    connections = Mutex(FairBudget(maximum: configuration.gateway.connectionsMaximum))
    self.backend = backend
    self.metrics = metrics
    let activities = ActivityWriting(
      idAttribute: configuration.activities.idAttribute,
      staleAfterSeconds: configuration.activities.defaultStaleAfterSeconds, takesChannels: true)
    intake = Mutex(JobIntake(activities: activities))
    largeIntake = Mutex(JobIntake(activities: activities))
    liveActivities = LiveActivitiesAPI(
      applications: configuration.gateway.applications, allowsEveryone: configuration.gateway.allowsEveryone,
      activities: activities)
    self.logger = logger
    use(configuration)
  }

  /// The valid API key with this text; nil: none was known when keys were read last.
  func knownKey(_ text: String) -> APIKey? {
    guard case .found(let key) = backend.keys.find(text, now: unixMilliseconds) else { return nil }
    return key
  }

  /// Finds the API key with this text. If it is unknown, reads the keys again, because it may be new.
  func key(_ text: String) async throws(Problem) -> APIKey {
    for isLast in [false, true] {
      switch backend.keys.find(text, now: unixMilliseconds) {
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
  /// - Parameter isLarge: it is, or was with others, in a large body.
  func take(
    _ job: [UInt8], from sender: JobIntake.Sender, isLarge: Bool, newID: () -> UUIDValue
  ) throws(Problem) -> TakenJob {
    if isLarge {
      return try largeIntake.withLock { intake throws(Problem) in try intake.take(job, from: sender, newID: newID) }
    }
    return try intake.withLock { intake throws(Problem) in try intake.take(job, from: sender, newID: newID) }
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
  func publish(_ message: GatewayMessage, of key: APIKey) async throws(Problem) {
    for result in await backend.publish([message], of: key) {
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
    case .full:
      Problem(.unavailable, "too many jobs, or too many of this key, wait for RabbitMQ; nothing was published")
    }
  }
}
