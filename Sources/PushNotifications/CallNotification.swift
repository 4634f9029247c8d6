/// Announces a call: PushKit wakes the app, which must report the call to CallKit. Up to 5120 bytes.
///
/// ```swift
/// struct Call: Encodable, Sendable {
///   var caller: String
///   var call: String
/// }
///
/// let ring = VoIPNotification(Call(caller: "Ada", call: "7"), expiration: .notStored)
/// ```
public struct VoIPNotification: PushNotification {
  public static let pushType = "voip"

  private let data: any Encodable & Sendable
  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - data: the app's own members; must encode to an object.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: short, or not stored: nobody wants to hear of a call that is over.
  public init(_ data: any Encodable & Sendable, priority: Priority? = nil, expiration: Expiration = .notStored) {
    self.data = data
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(data: data, maximum: 5120)
  }
}

/// Somebody speaks in a Push to Talk channel. Always sent at once, never stored.
///
/// ```swift
/// struct Speaker: Encodable, Sendable { var activeSpeaker: String }
///
/// let talk = PushToTalkNotification(Speaker(activeSpeaker: "Ada"))
/// ```
public struct PushToTalkNotification: PushNotification {
  public static let pushType = "pushtotalk"

  private let data: any Encodable & Sendable

  /// - Parameter data: the app's own members; must encode to an object.
  public init(_ data: any Encodable & Sendable) {
    self.data = data
  }

  public var priorityNumber: Int? { 10 }
  public var expiration: Expiration { .notStored }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(data: data)
  }
}
