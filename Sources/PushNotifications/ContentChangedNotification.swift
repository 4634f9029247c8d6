/// Tells WidgetKit to reload an app's widgets.
///
/// ```swift
/// let reload = WidgetsNotification(priority: .considerate)
/// ```
public struct WidgetsNotification: PushNotification {
  public static let pushType = "widgets"

  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  public init(priority: Priority? = nil, expiration: Expiration = .apnsDefault) {
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] { contentChanged }
}

/// Tells WidgetKit to reload an app's controls.
///
/// ```swift
/// let reload = ControlsNotification()
/// ```
public struct ControlsNotification: PushNotification {
  public static let pushType = "controls"

  private let priority: Priority?
  public let expiration: Expiration

  /// - Parameters:
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  public init(priority: Priority? = nil, expiration: Expiration = .apnsDefault) {
    self.priority = priority
    self.expiration = expiration
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] { contentChanged }
}

/// The parts that both share.
private let contentChanged = Array("{\"aps\":{\"content-changed\":true}}".utf8)
