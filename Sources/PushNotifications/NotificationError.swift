/// Why a notification cannot be made, or a job of it: what was given, and the rule that it breaks.
///
/// What a type can rule out is ruled out by the types; these are the rest.
public enum NotificationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A device token is 8 to 256 hexadecimal digits, an even number of them.
  case deviceToken(String)
  /// A channel id is base64 of at most 128 characters, as APNs gave it.
  case channelID(String)
  /// A job goes to 1 to 1000 devices.
  case deviceCount(Int)
  /// A relevance score lies from 0 to 1 (any number in a Live Activity).
  case relevanceScore(Double)
  /// A volume lies from 0 to 1.
  case volume(Double)
  /// A job's id has 1 to 128 bytes of UTF-8.
  case id(String)
  /// A collapse id has 1 to 64 bytes and no control characters.
  case collapseID(String)
  /// A text that must not be empty: which one.
  case empty(String)
  /// The app's own data cannot be encoded: what its `encode(to:)` or the encoder said.
  case dataNotEncodable(String)
  /// The app's own data must encode to a JSON object; what it is instead.
  case dataNotAnObject(String)
  /// `aps` belongs to Apple: the app's own data must not have a member of this name.
  case dataHasReservedKey(String)
  /// The payload is longer than APNs takes for this kind of push.
  case payloadTooLarge(bytes: Int, maximum: Int)
  /// Any other rule of a job that is not kept, as Herald itself would say it in the outcome `invalid`.
  case refused(field: String, rule: String)

  public var description: String {
    switch self {
    case .deviceToken(let text):
      "device token: must be 8 to 256 hexadecimal digits, an even number, not \"\(text.prefix(48))\""
    case .channelID(let text):
      "channel id: must be base64 of 1 to 128 characters, not \"\(text.prefix(48))\""
    case .deviceCount(let count): "devices: must be 1 to 1000, not \(count)"
    case .relevanceScore(let score): "relevance score: must be a number from 0 to 1, not \(score)"
    case .volume(let volume): "volume: must be a number from 0 to 1, not \(volume)"
    case .id(let text): "id: must be 1 to 128 bytes, not \(text.utf8.count)"
    case .collapseID(let text):
      "collapse id: must be 1 to 64 bytes without control characters, not \"\(text.prefix(80))\""
    case .empty(let what): "\(what): must not be empty"
    case .dataNotEncodable(let why): "data: cannot be encoded as JSON: \(why)"
    case .dataNotAnObject(let what): "data: must encode to a JSON object, not \(what)"
    case .dataHasReservedKey(let key): "data: must not have the member \"\(key)\", which is Apple's"
    case .payloadTooLarge(let bytes, let maximum): "payload: must be at most \(maximum) bytes, not \(bytes)"
    case .refused(let field, let rule): "\(field): \(rule)"
    }
  }
}
