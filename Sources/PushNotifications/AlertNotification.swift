/// A push that people notice: an alert, a badge, a sound, or several of them.
///
/// ```swift
/// struct Order: Encodable, Sendable { var order: String }
///
/// let shipped = try AlertNotification(
///   Alert(title: "Shipped", body: "Your order is on its way."), badge: 1, sound: .default, threadID: "orders",
///   interruptionLevel: .timeSensitive, relevanceScore: 0.8, collapseID: CollapseID("order-123"),
///   data: Order(order: "123"))
/// let counted = try AlertNotification(badge: 0)
/// let heard = try AlertNotification(sound: .critical("siren.caf", volume: 0.9))
/// ```
public struct AlertNotification: PushNotification {
  public static let pushType = "alert"

  private struct APS: Encodable {
    var alert: Alert?
    var badge: UInt32?
    var sound: Sound?
    var threadID: String?
    var category: String?
    var mutableContent: Int?
    var contentAvailable: Int?
    var targetContentID: String?
    var interruptionLevel: InterruptionLevel?
    var relevanceScore: Double?
    var filterCriteria: String?

    enum CodingKeys: String, CodingKey {
      case alert, badge, sound, category
      case threadID = "thread-id"
      case mutableContent = "mutable-content"
      case contentAvailable = "content-available"
      case targetContentID = "target-content-id"
      case interruptionLevel = "interruption-level"
      case relevanceScore = "relevance-score"
      case filterCriteria = "filter-criteria"
    }
  }

  private let aps: APS
  private let data: (any Encodable & Sendable)?
  private let priority: Priority?
  public let expiration: Expiration
  public let collapseID: CollapseID?

  /// - Parameters:
  ///   - alert: what people see.
  ///   - badge: the number on the app's icon; 0 takes it away.
  ///   - sound: what people hear.
  ///   - threadID: groups notifications.
  ///   - category: which of the app's actions are offered.
  ///   - isMutable: the app's service extension may change it before it is shown.
  ///   - wakesApp: the app is woken in the background as well (`content-available`).
  ///   - targetContentID: the window to bring forward.
  ///   - interruptionLevel: how much it may interrupt.
  ///   - relevanceScore: 0 to 1; throws `NotificationError.relevanceScore` outside.
  ///   - filterCriteria: which focus filters let it through.
  ///   - priority: `apns-priority`; nil leaves it to APNs, which takes 10.
  ///   - expiration: until when APNs keeps it for a device that is away.
  ///   - collapseID: a later push with the same one takes the place of this one.
  ///   - data: the app's own members, beside `aps`; must encode to an object.
  public init(
    _ alert: Alert, badge: UInt32? = nil, sound: Sound? = nil, threadID: String? = nil, category: String? = nil,
    isMutable: Bool = false, wakesApp: Bool = false, targetContentID: String? = nil,
    interruptionLevel: InterruptionLevel? = nil, relevanceScore: Double? = nil, filterCriteria: String? = nil,
    priority: Priority? = nil, expiration: Expiration = .apnsDefault, collapseID: CollapseID? = nil,
    data: (any Encodable & Sendable)? = nil
  ) throws(NotificationError) {
    if let relevanceScore, !(relevanceScore >= 0 && relevanceScore <= 1) { throw .relevanceScore(relevanceScore) }
    self.init(
      APS(
        alert: alert, badge: badge, sound: sound, threadID: threadID, category: category,
        mutableContent: isMutable ? 1 : nil, contentAvailable: wakesApp ? 1 : nil, targetContentID: targetContentID,
        interruptionLevel: interruptionLevel, relevanceScore: relevanceScore, filterCriteria: filterCriteria),
      priority, expiration, collapseID, data)
  }

  /// A number on the app's icon, perhaps with a sound, without text.
  public init(
    badge: UInt32, sound: Sound? = nil, priority: Priority? = nil, expiration: Expiration = .apnsDefault,
    collapseID: CollapseID? = nil, data: (any Encodable & Sendable)? = nil
  ) throws(NotificationError) {
    self.init(APS(badge: badge, sound: sound), priority, expiration, collapseID, data)
  }

  /// A sound without text.
  public init(
    sound: Sound, priority: Priority? = nil, expiration: Expiration = .apnsDefault, collapseID: CollapseID? = nil,
    data: (any Encodable & Sendable)? = nil
  ) throws(NotificationError) {
    self.init(APS(sound: sound), priority, expiration, collapseID, data)
  }

  private init(
    _ aps: APS, _ priority: Priority?, _ expiration: Expiration, _ collapseID: CollapseID?,
    _ data: (any Encodable & Sendable)?
  ) {
    self.aps = aps
    self.priority = priority
    self.expiration = expiration
    self.collapseID = collapseID
    self.data = data
  }

  public var priorityNumber: Int? { priority?.rawValue }

  public func payload() throws(NotificationError) -> [UInt8] {
    try PayloadWriter.payload(aps: aps, data: data)
  }
}

/// Tells Wallet that a pass has changed: an alert push without content. The job's app is the pass type id.
///
/// ```swift
/// let job = try Job(WalletNotification(), to: .device("00fc13adff785122"), of: "pass.com.example.ticket")
/// ```
public struct WalletNotification: PushNotification {
  public static let pushType = "alert"

  /// The push has no content: Wallet asks the pass's web service what changed.
  public init() {}

  public func payload() throws(NotificationError) -> [UInt8] { Array("{\"aps\":{}}".utf8) }
}
