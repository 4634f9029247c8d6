/// Why a notification or a job cannot be created: the value, and the rule that it breaks.
///
/// The types prevent most mistakes; these remain.
public enum NotificationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A device token must have 8 to 256 hexadecimal digits, an even number of them.
  case deviceToken(String)
  /// A channel id must be base64 of at most 128 characters, as APNs gave it.
  case channelID(String)
  /// A job must have 1 to 1000 devices.
  case deviceCount(Int)
  /// A relevance score must be from 0 to 1 (any number in a Live Activity).
  case relevanceScore(Double)
  /// A volume must be from 0 to 1.
  case volume(Double)
  /// A job's id must have 1 to 128 bytes of UTF-8.
  case id(String)
  /// A collapse id must have 1 to 64 bytes and no control characters.
  case collapseID(String)
  /// This text must not be empty.
  case empty(String)
  /// The app's own data cannot be encoded: the error of its `encode(to:)` or of the encoder.
  case dataNotEncodable(String)
  /// The app's own data must encode to a JSON object, not to this.
  case dataNotAnObject(String)
  /// `aps` is reserved: the app's own data must not have a member with this name.
  case dataHasReservedKey(String)
  /// The payload exceeds APNs' maximum for this kind of push.
  case payloadTooLarge(bytes: Int, maximum: Int)
  /// Another rule for jobs is broken, in the words of the outcome `invalid`.
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
