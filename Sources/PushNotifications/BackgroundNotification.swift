/// Wakes the app for a while, invisibly. APNs sends it with priority 5 and may drop some if there are many.
///
/// ```swift
/// struct Sync: Encodable, Sendable { var collection: String }
///
/// let sync = BackgroundNotification(data: Sync(collection: "messages"))
/// ```
public struct BackgroundNotification: PushNotification {
  public static let pushType = "background"

  private struct APS: Encodable {
    var contentAvailable = 1

    enum CodingKeys: String, CodingKey {
      case contentAvailable = "content-available"
    }
  }

  private let data: (any Encodable & Sendable)?
  public let expiration: Expiration
  public let collapseID: CollapseID?

  /// - Parameters:
  ///   - expiration: until when APNs keeps it for a device that is away.
  ///   - collapseID: a later push with the same one takes the place of this one.
  ///   - data: the app's own members, beside `aps`; must encode to an object.
  public init(
    expiration: Expiration = .apnsDefault, collapseID: CollapseID? = nil, data: (any Encodable & Sendable)? = nil
  ) {
    self.expiration = expiration
    self.collapseID = collapseID
    self.data = data
  }

  public var priorityNumber: Int? { 5 }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: APS(), data: data)
  }
}
