/// New data for a watch face's complications, through PushKit.
///
/// ```swift
/// struct Tide: Encodable, Sendable { var level: Double }
///
/// let tide = ComplicationNotification(Tide(level: 1.2))
/// ```
public struct ComplicationNotification: PushNotification {
  public static let pushType = "complication"

  private let data: any Encodable & Sendable
  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - data: the app's own members; must encode to an object.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  public init(_ data: any Encodable & Sendable, priority: Priority? = nil, expiration: Expiration = .apnsDefault) {
    self.data = data
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(data: data)
  }
}

/// Tells a file provider that one of its containers has changed. Needs a signing key.
///
/// ```swift
/// let changed = try FileProviderNotification(containerIdentifier: "NSFileProviderWorkingSetContainerItemIdentifier")
/// ```
public struct FileProviderNotification: PushNotification {
  public static let pushType = "fileprovider"

  private struct Content: Encodable {
    var containerIdentifier: String
    var domain: String?

    enum CodingKeys: String, CodingKey {
      case containerIdentifier = "container-identifier"
      case domain
    }
  }

  private let content: Content
  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - containerIdentifier: of the container that changed; throws `NotificationError.empty` for an empty one.
  ///   - domain: of the file provider, where it has several.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  public init(
    containerIdentifier: String, domain: String? = nil, priority: Priority? = nil,
    expiration: Expiration = .apnsDefault
  ) throws(NotificationError) {
    if containerIdentifier.isEmpty { throw .empty("container identifier") }
    content = Content(containerIdentifier: containerIdentifier, domain: domain)
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(data: content)
  }
}

/// Asks a device for its location; the app's location push extension answers. Needs a signing key.
///
/// ```swift
/// let query = LocationNotification(priority: .immediate)
/// ```
public struct LocationNotification: PushNotification {
  public static let pushType = "location"

  private struct APS: Encodable {}

  private let priority: LivePriority?
  private let data: (any Encodable & Sendable)?
  public let expiration: Expiration

  /// - Parameters:
  ///   - priority: `apns-priority`; nil leaves it to APNs.
  ///   - expiration: until when APNs keeps it for a device that is away.
  ///   - data: the app's own members, beside an empty `aps`; must encode to an object.
  public init(
    priority: LivePriority? = nil, expiration: Expiration = .apnsDefault, data: (any Encodable & Sendable)? = nil
  ) {
    self.priority = priority
    self.expiration = expiration
    self.data = data
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: APS(), data: data)
  }
}

/// Tells a managed device to ask its MDM server for commands. Needs the MDM certificate; the job's app is its topic.
///
/// ```swift
/// let wake = try MDMNotification(pushMagic: "5C1A1F8A-4A8C-4C0F-9C0E-2B2B0C2C1D1E")
/// ```
public struct MDMNotification: PushNotification {
  public static let pushType = "mdm"

  private struct Content: Encodable {
    var mdm: String
  }

  private let content: Content
  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - pushMagic: as the device gave it; throws `NotificationError.empty` for an empty one.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  public init(
    pushMagic: String, priority: Priority? = nil, expiration: Expiration = .apnsDefault
  ) throws(NotificationError) {
    if pushMagic.isEmpty { throw .empty("push magic") }
    content = Content(mdm: pushMagic)
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(data: content)
  }
}
