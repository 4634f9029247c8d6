/// What all kinds of push share: a type, a payload, and delivery options.
///
/// Each kind is a type that conforms to this protocol and has only the options that Apple allows. Make a `Job` of one, and publish its
/// bytes to Herald:
///
/// ```swift
/// let push = try AlertNotification(Alert(title: "Shipped", body: "Your order is on its way."))
/// let job = try Job(push, to: .device("00fc13adff785122"), of: "com.example.app")
/// ```
public protocol PushNotification: Sendable {
  /// `push_type` of the job.
  static var pushType: String { get }

  /// `priority` of the job; nil: APNs' default, 10.
  var priorityNumber: Int? { get }

  /// When APNs stops trying to deliver.
  var expiration: Expiration { get }

  /// `collapse_id` of the job: a later push with the same id replaces an earlier one.
  var collapseID: CollapseID? { get }

  /// The payload's bytes.
  func payload() throws(NotificationError) -> [UInt8]
}

extension PushNotification {
  public var priorityNumber: Int? { nil }
  public var expiration: Expiration { .apnsDefault }
  public var collapseID: CollapseID? { nil }
}

/// A push that may go to a broadcast channel: a Live Activity's update or end.
public protocol BroadcastNotification: PushNotification {}
