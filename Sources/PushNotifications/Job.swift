public import Foundation
import PushCore

/// A job for Herald: one notification, its targets, and the bytes to publish.
///
/// It is checked with Herald's own rules: a job that could be created ends as `invalid` only if no credential serves its app.
///
/// ```swift
/// let push = try AlertNotification(Alert(title: "Shipped"), expiration: .at(Date(timeIntervalSinceNow: 3600)))
/// let job = try Job(push, to: .device("00fc13adff785122"), of: "com.example.app", meta: ["campaign": "42"])
/// // Publish job.body to the exchange push.jobs: routing key job.routingKey, message_id job.id, content type
/// // application/json, delivery mode 2, mandatory, with a publisher confirm. Or print a job a line for `herald enqueue`.
/// print(job.line)
/// ```
public struct Job: Sendable {
  /// The APNs environment of a job: for apps from the store and TestFlight, or for apps built with Xcode.
  public enum Environment: String, Hashable, Sendable {
    /// Apps from the store and TestFlight.
    case production
    /// Apps built with Xcode.
    case sandbox
  }

  /// The queue for a job. Transactional jobs overtake bulk ones.
  public enum Class: String, Hashable, Sendable {
    /// For pushes that somebody waits for.
    case transactional
    /// Campaigns.
    case bulk
  }

  /// Identifies the job: Herald sends each id once to each device. Use the same id for the same push.
  public let id: String
  /// The message's body: a job of version 1, JSON.
  public let body: [UInt8]
  /// The class of its queue.
  public let jobClass: Class

  /// The routing key at the exchange of jobs.
  public var routingKey: String { jobClass.rawValue }

  /// The body as text, without a newline: for `herald enqueue` and `herald send`.
  public var line: String { String(decoding: body, as: UTF8.self) }

  /// A job for one device, or for up to 1000.
  /// - Parameters:
  ///   - notification: what is sent.
  ///   - target: where it goes.
  ///   - app: the bundle id (Wallet: the pass type id; MDM: the certificate's topic). Herald adds the suffix of the kind.
  ///   - environment: where the tokens were registered.
  ///   - id: 1 to 128 bytes; by default a new UUID.
  ///   - topic: in place of the one that app and kind make.
  ///   - credential: one of Herald's by its name, where several serve the app.
  ///   - sequence: 0 to 2^53: of two jobs with one collapse id, the one with the larger number is newer, whichever comes first. Left out,
  ///     `herald enqueue` numbers them by the clock.
  ///   - tokenRegisteredAt: when the app last reported the token: a device that came back later than APNs saw it go is not
  ///     taken for dead.
  ///   - jobClass: which queue it waits in.
  ///   - meta: comes back in the outcome; an object of at most 2 KiB.
  public init(
    _ notification: some PushNotification, to target: Target, of app: String,
    environment: Environment = .production, id: String = UUID().uuidString.lowercased(), topic: String? = nil,
    credential: String? = nil, sequence: Int64? = nil, tokenRegisteredAt: Date? = nil,
    class jobClass: Class = .transactional,
    meta: (any Encodable & Sendable)? = nil
  ) throws(NotificationError) {
    let to: Content.To =
      switch target.kind {
      case .device(let token): .init(token: token.text)
      case .devices(let tokens): .init(tokens: tokens.map(\.text))
      }
    try self.init(
      notification, to, app, environment, id, topic, credential, sequence, tokenRegisteredAt, jobClass, meta)
  }

  /// A job for all subscribers of a channel: an update or an end of a Live Activity.
  public init(
    broadcasting notification: some BroadcastNotification, to channel: ChannelID, of app: String,
    environment: Environment = .production, id: String = UUID().uuidString.lowercased(), credential: String? = nil,
    class jobClass: Class = .transactional, meta: (any Encodable & Sendable)? = nil
  ) throws(NotificationError) {
    try self.init(
      notification, .init(channel: channel.text), app, environment, id, nil, credential, nil, nil, jobClass, meta)
  }

  /// A job for all subscribers of a channel: its app and environment are the channel's own.
  public init(
    broadcasting notification: some BroadcastNotification, to channel: BroadcastChannel,
    id: String = UUID().uuidString.lowercased(), credential: String? = nil, class jobClass: Class = .transactional,
    meta: (any Encodable & Sendable)? = nil
  ) throws(NotificationError) {
    try self.init(
      broadcasting: notification, to: channel.id, of: channel.app, environment: channel.environment, id: id,
      credential: credential, class: jobClass, meta: meta)
  }

  private init(
    _ notification: some PushNotification, _ to: Content.To, _ app: String, _ environment: Environment, _ id: String,
    _ topic: String?, _ credential: String?, _ sequence: Int64?, _ tokenRegisteredAt: Date?, _ jobClass: Class,
    _ meta: (any Encodable & Sendable)?
  ) throws(NotificationError) {
    guard (1...128).contains(id.utf8.count) else { throw .id(id) }
    let content = Content(
      id: id, app: app, pushType: type(of: notification).pushType, environment: environment.rawValue, to: to,
      topic: topic, credential: credential, priority: notification.priorityNumber,
      expiration: notification.expiration.unixSeconds, collapseID: notification.collapseID?.text,
      sequence: sequence, tokenRegisteredAt: tokenRegisteredAt?.unixMilliseconds)
    var body = try PayloadWriter.encode(content)
    body.removeLast()
    if let meta { body += Array(",\"meta\":".utf8) + (try PayloadWriter.encode(Erased(value: meta))) }
    // The payload's bytes reach APNs unchanged, so they are written unchanged.
    body += Array(",\"payload\":".utf8) + (try notification.payload()) + Array("}".utf8)
    try Job.check(body)
    self.id = id
    self.body = body
    self.jobClass = jobClass
  }

  /// Checks with Herald's own parser and rules.
  private static func check(_ body: [UInt8]) throws(NotificationError) {
    var parser = JobParser()
    var job = PushJob()
    job.bytes = body
    job.bodyCount = body.count
    let none: [UInt8] = []
    do throws(JobError) {
      try parser.parse(into: &job, fallbackID: none.span)
    } catch {
      throw .refused(field: error.field, rule: error.rule)
    }
  }

  /// Encodes a value of unknown type.
  private struct Erased: Encodable {
    var value: any Encodable

    func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
  }

  /// A job without its payload and meta.
  private struct Content: Encodable {
    struct To: Encodable {
      var token: String?
      var tokens: [String]?
      var channel: String?
    }

    var version = 1
    var id: String
    var app: String
    var pushType: String
    var environment: String
    var to: To
    var topic: String?
    var credential: String?
    var priority: Int?
    var expiration: Int64?
    var collapseID: String?
    var sequence: Int64?
    var tokenRegisteredAt: Int64?

    enum CodingKeys: String, CodingKey {
      case version, id, app, environment, to, topic, credential, priority, expiration, sequence
      case pushType = "push_type"
      case collapseID = "collapse_id"
      case tokenRegisteredAt = "token_registered_at"
    }
  }
}
