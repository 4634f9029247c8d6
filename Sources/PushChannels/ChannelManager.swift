public import Foundation
import PushCore
import PushCredentials
public import PushNotifications
import PushSettings

/// Creates, reads, deletes and lists broadcast channels at APNs. Make one for a process and keep it: it reuses its connection, and its
/// provider token, which must not be renewed more than every 20 minutes.
///
/// `Job(broadcasting:to:)` and `LiveActivityStart` take the channels that it creates and lists.
///
/// ```swift
/// struct Score: Encodable, Sendable {
///   var home: Int
///   var away: Int
/// }
///
/// let manager = try ChannelManager(
///   .signingKey(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", file: "AuthKey.p8"), apps: ["com.example.app"])
/// let channel = try await manager.create(of: "com.example.app", storage: .mostRecent).value
/// let goal = LiveActivityUpdate(Score(home: 1, away: 0), expiration: .at(Date(timeIntervalSinceNow: 3600)))
/// let job = try Job(broadcasting: goal, to: channel)
/// print(job.line)
///
/// do throws(ChannelError) {
///   try await manager.delete(channel)
/// } catch {
///   guard error.isUnknownChannel else { throw error }
/// }
/// ```
///
/// A create that may have been carried out is not sent again; its error has `isAmbiguous`. Other requests are repeated once automatically.
/// All methods may be called from any task, and concurrently.
public final class ChannelManager: Sendable {
  /// What APNs answered.
  public struct Answer<Value: Sendable>: Sendable {
    /// What was asked for.
    public let value: Value
    /// `apns-request-id` from the answer.
    public let requestID: UUID
  }

  private let thread: AsyncChannelClient

  /// Loads the key or certificate and starts a thread; it connects at the first request.
  /// - Parameters:
  ///   - credential: a signing key, or a certificate.
  ///   - apps: the bundle ids that the credential is for.
  ///   - options: hosts other than Apple's, a proxy, the timeout.
  public init(
    _ credential: ChannelCredential, apps: [String], options: ChannelManagerOptions = ChannelManagerOptions()
  ) throws(ChannelError) {
    let configuration = try options.configuration()
    do throws(CredentialError) {
      let credentials = try Credentials(
        [
          CredentialConfiguration(
            name: "channels", kind: credential.kind, environments: [.production, .sandbox], apps: apps)
        ], caFile: options.authorityFile)
      thread = AsyncChannelClient(credentials: credentials, configuration: configuration)
    } catch {
      throw ChannelError(invalid: error.text)
    }
  }

  /// Creates a channel. APNs chooses its id. An app may have 10,000 in each environment.
  /// - Parameters:
  ///   - app: the bundle id.
  ///   - environment: where it is created; it does not exist in the other one.
  ///   - storage: cannot be changed later.
  ///   - requestID: `apns-request-id`.
  public func create(
    of app: String, environment: Job.Environment = .production, storage: ChannelStorage = .none,
    requestID: UUID = UUID()
  ) async throws(ChannelError) -> Answer<BroadcastChannel> {
    try await perform(.create(storage.policy), app, environment, requestID) { content in
      guard case .created(let id) = content else { return nil }
      return ChannelManager.channel(id, app, environment)
    }
  }

  /// Asks for a channel's storage policy.
  public func read(
    _ channel: BroadcastChannel, requestID: UUID = UUID()
  ) async throws(ChannelError) -> Answer<ChannelStorage> {
    try await perform(.read(try id(of: channel)), channel.app, channel.environment, requestID) { content in
      guard case .read(let policy) = content else { return nil }
      return ChannelStorage(policy)
    }
  }

  /// Deletes a channel for good: its id is never reused. Messages that it stored may still be delivered.
  @discardableResult
  public func delete(
    _ channel: BroadcastChannel, requestID: UUID = UUID()
  ) async throws(ChannelError) -> Answer<Void> {
    try await perform(.delete(try id(of: channel)), channel.app, channel.environment, requestID) { content in
      content == .deleted ? () : nil
    }
  }

  /// Asks for all channels of an app.
  public func list(
    of app: String, environment: Job.Environment = .production, requestID: UUID = UUID()
  ) async throws(ChannelError) -> Answer<[BroadcastChannel]> {
    try await perform(.list, app, environment, requestID) { content in
      guard case .listed(let ids) = content else { return nil }
      return ids.compactMap { ChannelManager.channel($0, app, environment) }
    }
  }

  /// Takes no more requests, waits for the answers to those in flight, and ends. The release of the last reference does the same.
  public func close() {
    thread.close()
  }

  // MARK: - One request

  private func perform<Value>(
    _ operation: ChannelRequest.Operation, _ app: String, _ environment: Job.Environment, _ requestID: UUID,
    _ value: (ChannelAnswer.Content) -> Value?
  ) async throws(ChannelError) -> Answer<Value> {
    let place: APNsEnvironment =
      switch environment {
      case .production: .production
      case .sandbox: .sandbox
      }
    guard let scope = AppScope(app: app, environment: place) else {
      throw ChannelError(
        invalid: "an app must be a bundle id (letters, digits, dots, hyphens, underscores), not \"\(app.prefix(80))\"")
    }
    let request = ChannelRequest(
      operation, in: scope, requestID: UUIDValue(requestID.uuidString.lowercased().utf8.span))
    let answer: ChannelAnswer
    do throws(ChannelFailure) {
      answer = try await thread.perform(request)
    } catch {
      throw ChannelError(error)
    }
    guard let value = value(answer.content), let returned = UUID(uuidString: answer.requestID.text) else {
      preconditionFailure("an answer is of its operation's kind")
    }
    return Answer(value: value, requestID: returned)
  }

  private func id(of channel: BroadcastChannel) throws(ChannelError) -> PushCore.ChannelID {
    guard let id = PushCore.ChannelID(text: channel.id.text) else {
      throw ChannelError(invalid: "\"\(channel.id.text)\" is not a channel id")
    }
    return id
  }

  /// Both types of id accept the same texts.
  private static func channel(
    _ id: PushCore.ChannelID, _ app: String, _ environment: Job.Environment
  ) -> BroadcastChannel? {
    (try? PushNotifications.ChannelID(id.text)).map { BroadcastChannel($0, of: app, environment: environment) }
  }
}
