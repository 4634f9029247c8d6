public import Foundation

/// The alert of a Live Activity when it starts or changes.
public struct ActivityAlert: Hashable, Sendable {
  /// The first line.
  public let title: Text
  /// The message.
  public let body: Text
  /// The sound; nil: none.
  public let sound: Sound?

  /// An alert with plain texts, or with keys of the app's strings.
  public init(title: Text, body: Text, sound: Sound? = nil) {
    self.title = title
    self.body = body
    self.sound = sound
  }
}

extension ActivityAlert: Encodable {
  private enum Key: String, CodingKey {
    case title, body, sound
  }

  private struct Localized: Encodable {
    var key: String
    var arguments: [String]?

    enum CodingKeys: String, CodingKey {
      case key = "loc-key"
      case arguments = "loc-args"
    }
  }

  /// Writes the object of `aps.alert`: a Live Activity has its keys inside the texts, and its sound inside the alert.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: Key.self)
    func write(_ text: Text, _ place: Key) throws {
      switch text {
      case .plain(let text): try container.encode(text, forKey: place)
      case .localized(let key, let arguments):
        try container.encode(Localized(key: key, arguments: arguments.isEmpty ? nil : arguments), forKey: place)
      }
    }
    try write(title, .title)
    try write(body, .body)
    try container.encodeIfPresent(sound, forKey: .sound)
  }
}

/// Starts a Live Activity on a device, with its push-to-start token. Needs a signing key.
///
/// ```swift
/// struct Match: Encodable, Sendable {
///   var home: String
///   var away: String
/// }
/// struct Score: Encodable, Sendable {
///   var home: Int
///   var away: Int
/// }
///
/// let kickOff = LiveActivityStart(
///   Match(home: "Ajax", away: "Porto"), state: Score(home: 0, away: 0),
///   alert: ActivityAlert(title: "Kick-off", body: "Ajax – Porto"), updates: .token)
/// ```
public struct LiveActivityStart<Attributes: Encodable & Sendable, State: Encodable & Sendable>: PushNotification {
  public static var pushType: String { "liveactivity" }

  /// How the new activity receives its updates.
  public enum Updates: Hashable, Sendable {
    /// The app decides.
    case byApp
    /// By pushes to a token of its own, which the app reports.
    case token
    /// By broadcasts to a channel.
    case channel(ChannelID)

    /// By broadcasts to a channel, which must belong to the same app and environment as the start.
    public static func channel(_ channel: BroadcastChannel) -> Updates { .channel(channel.id) }
  }

  private struct APS: Encodable {
    var timestamp: Int64
    var event = "start"
    var contentState: State
    var attributesType: String
    var attributes: Attributes
    var alert: ActivityAlert
    var staleDate: Int64?
    var relevanceScore: Double?
    var inputPushToken: Int?
    var inputPushChannel: String?

    enum CodingKeys: String, CodingKey {
      case timestamp, event, attributes, alert
      case contentState = "content-state"
      case attributesType = "attributes-type"
      case staleDate = "stale-date"
      case relevanceScore = "relevance-score"
      case inputPushToken = "input-push-token"
      case inputPushChannel = "input-push-channel"
    }
  }

  private let aps: APS
  private let priority: LivePriority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - attributes: what stays the same; must encode to an object.
  ///   - attributesType: the name of the app's `ActivityAttributes`; by default that of `Attributes` here.
  ///   - state: what changes (`content-state`); must encode to an object, as the app's `ContentState` decodes it.
  ///   - alert: says the start aloud; Apple demands one.
  ///   - updates: how the activity hears of its changes.
  ///   - timestamp: when this was so; of several pushes the system shows the newest.
  ///   - staleDate: when the state is out of date.
  ///   - relevanceScore: which of the app's activities comes first; any number.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  public init(
    _ attributes: Attributes, attributesType: String = String(describing: Attributes.self), state: State,
    alert: ActivityAlert, updates: Updates = .byApp, timestamp: Date = Date(), staleDate: Date? = nil,
    relevanceScore: Double? = nil, priority: LivePriority? = nil, expiration: Expiration = .apnsDefault
  ) {
    var aps = APS(
      timestamp: timestamp.unixSeconds, contentState: state, attributesType: attributesType, attributes: attributes,
      alert: alert, staleDate: staleDate?.unixSeconds, relevanceScore: relevanceScore)
    switch updates {
    case .byApp: break
    case .token: aps.inputPushToken = 1
    case .channel(let channel): aps.inputPushChannel = channel.text
    }
    self.aps = aps
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: aps, data: nil)
  }
}

/// Updates a Live Activity: on one device, or on all subscribers of a channel.
///
/// ```swift
/// struct Score: Encodable, Sendable {
///   var home: Int
///   var away: Int
/// }
///
/// let goal = LiveActivityUpdate(
///   Score(home: 1, away: 0), alert: ActivityAlert(title: "Goal", body: .localized(key: "GOAL", arguments: ["Ajax"])))
/// let here = try Job(goal, to: .device("00fc13adff785122"), of: "com.example.app")
/// let everywhere = try Job(broadcasting: goal, to: ChannelID("dHN0LXNyY2gtY2hubA=="), of: "com.example.app")
/// ```
public struct LiveActivityUpdate<State: Encodable & Sendable>: BroadcastNotification {
  public static var pushType: String { "liveactivity" }

  private struct APS: Encodable {
    var timestamp: Int64
    var event = "update"
    var contentState: State
    var alert: ActivityAlert?
    var staleDate: Int64?
    var relevanceScore: Double?

    enum CodingKeys: String, CodingKey {
      case timestamp, event, alert
      case contentState = "content-state"
      case staleDate = "stale-date"
      case relevanceScore = "relevance-score"
    }
  }

  private let aps: APS
  private let priority: LivePriority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - state: the new state (`content-state`); must encode to an object.
  ///   - alert: says the change aloud.
  ///   - timestamp: when this was so; the system ignores a push older than what it shows.
  ///   - staleDate: when the state is out of date.
  ///   - relevanceScore: which of the app's activities comes first; any number.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: of a broadcast at most 8 hours ahead, and `.notStored` for a channel without storage.
  public init(
    _ state: State, alert: ActivityAlert? = nil, timestamp: Date = Date(), staleDate: Date? = nil,
    relevanceScore: Double? = nil, priority: LivePriority? = nil, expiration: Expiration = .apnsDefault
  ) {
    aps = APS(
      timestamp: timestamp.unixSeconds, contentState: state, alert: alert, staleDate: staleDate?.unixSeconds,
      relevanceScore: relevanceScore)
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: aps, data: nil, maximum: 5120)
  }
}

/// Ends a Live Activity: on one device, or on all subscribers of a channel.
///
/// ```swift
/// struct Score: Encodable, Sendable {
///   var home: Int
///   var away: Int
/// }
///
/// let final = LiveActivityEnd(Score(home: 2, away: 1), dismissal: .at(Date(timeIntervalSinceNow: 900)))
/// let gone = LiveActivityEnd(dismissal: .immediately)
/// ```
public struct LiveActivityEnd: BroadcastNotification {
  public static var pushType: String { "liveactivity" }

  /// When the ended activity disappears from the screen.
  public enum Dismissal: Hashable, Sendable {
    /// The system decides: after up to four hours.
    case bySystem
    /// At once.
    case immediately
    /// At this moment, within four hours.
    case at(Date)
  }

  private struct APS: Encodable {
    var timestamp: Int64
    var event = "end"
    var contentState: AnyState?
    var alert: ActivityAlert?
    var dismissalDate: Int64?

    enum CodingKeys: String, CodingKey {
      case timestamp, event, alert
      case contentState = "content-state"
      case dismissalDate = "dismissal-date"
    }
  }

  /// The last state, of any type.
  private struct AnyState: Encodable, Sendable {
    var state: any Encodable & Sendable

    func encode(to encoder: any Encoder) throws { try state.encode(to: encoder) }
  }

  private let aps: APS
  private let priority: LivePriority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - state: the last state, which stays on the screen; must encode to an object. Advised.
  ///   - dismissal: when it leaves the screen.
  ///   - alert: says the end aloud.
  ///   - timestamp: when this was so.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: of a broadcast at most 8 hours ahead, and `.notStored` for a channel without storage.
  public init(
    _ state: (any Encodable & Sendable)? = nil, dismissal: Dismissal = .bySystem, alert: ActivityAlert? = nil,
    timestamp: Date = Date(), priority: LivePriority? = nil, expiration: Expiration = .apnsDefault
  ) {
    let date: Int64? =
      switch dismissal {
      case .bySystem: nil
      // Any past moment.
      case .immediately: 1
      case .at(let date): max(0, date.unixSeconds)
      }
    aps = APS(
      timestamp: timestamp.unixSeconds, contentState: state.map(AnyState.init), alert: alert, dismissalDate: date)
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: aps, data: nil, maximum: 5120)
  }
}
