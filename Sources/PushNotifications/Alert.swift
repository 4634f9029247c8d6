/// A plain text, or a key that the app's own strings translate on the device.
public enum Text: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
  /// The text itself.
  case plain(String)
  /// A key in the app's localised strings, and the arguments for its `%@`.
  case localized(key: String, arguments: [String] = [])

  public init(stringLiteral text: String) {
    self = .plain(text)
  }
}

/// The visible text of a push.
///
/// ```swift
/// let plain = Alert(title: "Shipped", subtitle: "Order 123", body: "It is on its way.")
/// let translated = Alert(title: .localized(key: "SHIPPED"), body: .localized(key: "ETA", arguments: ["Monday"]))
/// ```
public struct Alert: Hashable, Sendable {
  /// The first line.
  public let title: Text?
  /// The line below the title.
  public let subtitle: Text?
  /// The message.
  public let body: Text?
  /// The image that the app shows while it launches; newer systems ignore it.
  public let launchImage: String?

  /// An alert with a title.
  public init(title: Text, subtitle: Text? = nil, body: Text? = nil, launchImage: String? = nil) {
    self.title = title
    self.subtitle = subtitle
    self.body = body
    self.launchImage = launchImage
  }

  /// An alert without a title.
  public init(subtitle: Text? = nil, body: Text, launchImage: String? = nil) {
    title = nil
    self.subtitle = subtitle
    self.body = body
    self.launchImage = launchImage
  }
}

extension Alert: Encodable {
  private enum Key: String, CodingKey {
    case title, subtitle, body
    case titleKey = "title-loc-key"
    case titleArguments = "title-loc-args"
    case subtitleKey = "subtitle-loc-key"
    case subtitleArguments = "subtitle-loc-args"
    case bodyKey = "loc-key"
    case bodyArguments = "loc-args"
    case launchImage = "launch-image"
  }

  /// Writes the object of `aps.alert`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: Key.self)
    func write(_ text: Text?, _ plain: Key, _ key: Key, _ arguments: Key) throws {
      switch text {
      case nil: break
      case .plain(let text): try container.encode(text, forKey: plain)
      case .localized(let name, let values):
        try container.encode(name, forKey: key)
        if !values.isEmpty { try container.encode(values, forKey: arguments) }
      }
    }
    try write(title, .title, .titleKey, .titleArguments)
    try write(subtitle, .subtitle, .subtitleKey, .subtitleArguments)
    try write(body, .body, .bodyKey, .bodyArguments)
    try container.encodeIfPresent(launchImage, forKey: .launchImage)
  }
}
