import PushCore
import PushIO

/// The rule for a text option.
package enum ConfigurationTextRule: Sendable, CustomStringConvertible {
  case brokerURL
  case redisURL
  /// `https://host:port`.
  case serviceURL
  /// `http://user:password@host:port`.
  case proxyURL
  /// `http://user:password@host:port` or `https://…`.
  case managementURL
  case file
  /// The start of the names of exchanges and queues.
  case brokerPrefix
  /// The start of the names of Redis keys.
  case keyPrefix
  /// A stream's maximum age: a number and one of Y, M, D, h, m, s.
  case age
  case host
  /// `<app>/<push type>=<burst>:<per second>`.
  case rateLimit
  /// Keys from the outermost on, with dots between them.
  case attributePath

  package var description: String {
    switch self {
    case .brokerURL: "a URL amqp://user:password@host:port/vhost (amqps:// for TLS)"
    case .redisURL:
      "a URL redis://user:password@host:port/database (rediss:// for TLS, unix:///path, redis-cluster:// or redis-sentinel://)"
    case .serviceURL: "a URL https://host:port"
    case .proxyURL: "a URL http://user:password@host:port"
    case .managementURL: "a URL http://user:password@host:port (https:// for TLS)"
    case .file: "a file's path, relative to the configuration file"
    case .brokerPrefix: "1 to 64 letters, digits, '.', '_' and '-'"
    case .keyPrefix: "at most 64 printable characters without spaces and braces"
    case .age: "a number of Y, M, D, h, m or s, such as 7D"
    case .host: "an address or host name"
    case .attributePath: "1 to 8 keys with dots between them, such as herald.activityId, at most 128 bytes"
    case .rateLimit: "<app>/<push type>=<burst>:<per second>, * for every app or type, =0 for no limit"
    }
  }

  var mayHoldPassword: Bool {
    switch self {
    case .brokerURL, .redisURL, .serviceURL, .proxyURL, .managementURL: true
    case .file, .brokerPrefix, .keyPrefix, .age, .host, .rateLimit, .attributePath: false
    }
  }

  func accepts(_ text: String) -> Bool {
    switch self {
    case .brokerURL:
      return (try? AMQPAddress(text)) != nil
    case .redisURL:
      return (try? RedisConfiguration(url: text)) != nil
    case .serviceURL:
      guard let address = ServiceAddress(text, scheme: "https", defaultPort: 443) else { return false }
      return address.user == nil
    case .proxyURL:
      return ServiceAddress(text, scheme: "http", defaultPort: 8080) != nil
    case .managementURL:
      return ManagementAddress(text) != nil
    case .file:
      return !text.isEmpty && !text.utf8.contains(0) && !Self.isSecret(text)
    case .brokerPrefix:
      return (1...64).contains(text.utf8.count) && text.utf8.allSatisfy(Self.isNameByte)
    case .keyPrefix:
      return text.utf8.count <= 64
        && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "{") && $0 != UInt8(ascii: "}") }
    case .age:
      guard let unit = text.utf8.last, "YMDhms".utf8.contains(unit), let number = Int(text.dropLast()) else {
        return false
      }
      return number > 0 && number <= 1_000_000
    case .rateLimit:
      return RateLimitText.parse(text) != nil
    case .attributePath:
      return ActivityIDAttribute(text) != nil
    case .host:
      return (1...255).contains(text.utf8.count)
        && text.utf8.allSatisfy { Self.isNameByte($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "%") }
    }
  }

  /// What a message says instead of a secret that stands where its file's path belongs.
  static let secret = "what looks like a secret (a file of such a name needs ./ in front)"

  /// Where a path belongs, its file's content: a key, or a long token.
  static func isSecret(_ text: String) -> Bool {
    if text.contains(where: \.isNewline) || text.contains("-----BEGIN") { return true }
    return text.utf8.count >= 32
      && text.utf8.allSatisfy { isNameByte($0) && $0 != UInt8(ascii: ".") || "+=".utf8.contains($0) }
  }

  static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default:
      false
    }
  }
}
