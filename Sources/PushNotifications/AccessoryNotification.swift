import Foundation

/// An accessory's response to a notification that iOS 26.5 forwarded to it, back to the phone. Needs a signing key.
///
/// ```swift
/// let response = try AccessoryNotification(
///   encryptedData: [0x3E, 0x8F, 0xBF], sessionIdentifier: "0F6B1E0C-6A0B-4B7C-9C2B-0E6F3A1D2C4B",
///   keyID: [0x01], messageIndex: 7)
/// ```
///
/// Send it to the `pushToken` that the accessory's session came with: it is no token of the app, and the device registry does not have it.
/// No response replaces another one, so there is no collapse id. Apple does not say whether APNs keeps one for a phone that is away.
public struct AccessoryNotification: PushNotification {
  public static let pushType = "accessory"

  private struct APS: Encodable {
    var encryptedData: String
    var sessionIdentifier: String
    var keyID: String
    var messageIndex: String
  }

  private let aps: APS
  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - encryptedData: the response as the accessory encrypted it; throws `NotificationError.empty` for no bytes.
  ///   - sessionIdentifier: of the session that the notification came in; throws `NotificationError.empty` for an empty one.
  ///   - keyID: of the accessory's outgoing ratchet; throws `NotificationError.empty` for no bytes.
  ///   - messageIndex: the ratchet's step that encrypted the response.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs may keep it for a phone that is away.
  public init(
    encryptedData: some Sequence<UInt8>, sessionIdentifier: String, keyID: some Sequence<UInt8>, messageIndex: UInt64,
    priority: Priority? = nil, expiration: Expiration = .apnsDefault
  ) throws(NotificationError) {
    let (encrypted, key) = (Data(encryptedData), Data(keyID))
    if encrypted.isEmpty { throw .empty("encrypted data") }
    if sessionIdentifier.isEmpty { throw .empty("session identifier") }
    if key.isEmpty { throw .empty("key id") }
    aps = APS(
      encryptedData: encrypted.base64EncodedString(), sessionIdentifier: sessionIdentifier,
      keyID: key.base64EncodedString(), messageIndex: String(messageIndex))
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: aps, data: nil)
  }
}
