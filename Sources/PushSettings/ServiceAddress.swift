import PushCore

/// Host, port and login of an `http://` or `https://` URL without a path.
package struct ServiceAddress: Hashable, Sendable {
  package let host: String
  package let port: UInt16
  package let user: String?
  package let password: String?

  /// nil if the text is not such a URL.
  package init?(_ text: String, scheme: String, defaultPort: UInt16) {
    guard text.lowercased().hasPrefix("\(scheme)://") else { return nil }
    var rest = text.dropFirst(scheme.count + 3)
    if rest.last == "/" { rest = rest.dropLast() }
    guard !rest.contains(where: { "/?# \t\r\n".contains($0) }) else { return nil }
    var user: String?
    var password: String?
    if let mark = rest.lastIndex(of: "@") {
      let login = rest[..<mark].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = Self.decoded(login[0]), !name.isEmpty else { return nil }
      user = name
      if login.count == 2 {
        guard let secret = Self.decoded(login[1]) else { return nil }
        password = secret
      }
      rest = rest[rest.index(after: mark)...]
    }
    var portText: Substring?
    if rest.first == "[" {
      guard let end = rest.firstIndex(of: "]") else { return nil }
      let behind = rest[rest.index(after: end)...]
      guard behind.isEmpty || behind.first == ":" else { return nil }
      host = String(rest[rest.index(after: rest.startIndex)..<end])
      portText = behind.isEmpty ? nil : behind.dropFirst()
    } else if let colon = rest.firstIndex(of: ":") {
      host = String(rest[..<colon])
      portText = rest[rest.index(after: colon)...]
    } else {
      host = String(rest)
    }
    guard ConfigurationTextRule.host.accepts(host) else { return nil }
    if let portText {
      guard let number = UInt16(portText), number > 0 else { return nil }
      port = number
    } else {
      port = defaultPort
    }
    self.user = user
    self.password = password
  }

  /// A URL (or several, in a list) with `***` instead of every password, and of a user name alone: it may be a password whose colon was
  /// forgotten.
  package static func redacted(_ text: String) -> String {
    var result = ""
    var rest = Substring(withoutSentinelPassword(text))
    while let scheme = rest.firstRange(of: "://") {
      result += rest[..<scheme.upperBound]
      rest = rest[scheme.upperBound...]
      // A list's next URL begins after a comma with its own scheme; a password may contain anything else.
      let end = rest.firstRange(of: "://")?.lowerBound ?? rest.endIndex
      guard let mark = rest[..<end].lastIndex(of: "@") else { continue }
      let login = rest[..<mark]
      if let colon = login.firstIndex(of: ":") { result += login[...colon] }
      result += "***"
      rest = rest[mark...]
    }
    return result + rest
  }

  /// What a message says of a text that was to be a URL and cannot be read, or that looks like one where none belongs: its scheme, if that
  /// is one of ours, and its length. Nobody knows which part of it is a password.
  /// - Parameter isURL: it was to be one.
  package static func hidden(_ text: String, isURL: Bool = false) -> String {
    guard !text.isEmpty, isURL || looksLikeURL(text) else { return text }
    let lowerCased = text.lowercased()
    guard let scheme = schemes.first(where: { lowerCased.hasPrefix($0 + "://") }) else {
      return "a text of \(text.count) characters"
    }
    return "\(scheme)://… (\(text.count) characters)"
  }

  /// Another word in front of `://` may be part of a password.
  private static let schemes = [
    "amqp", "amqps", "http", "https", "redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel",
    "rediss-sentinel", "unix",
  ]

  /// It has a login, or something behind a colon that is no port. A rate limit has colons of its own.
  private static func looksLikeURL(_ text: String) -> Bool {
    if text.contains("@") || text.contains("//") { return true }
    guard let colon = text.firstIndex(of: ":") else { return false }
    let port = text[text.index(after: colon)...]
    let limit = text.prefix { $0 != "=" }
    return UInt16(port) == nil
      && !(limit.contains("/")
        && limit.utf8.allSatisfy { ConfigurationTextRule.isNameByte($0) || "*/".utf8.contains($0) })
  }

  /// Hides the value of `sentinel_password=` in a Redis URL, up to the next parameter.
  private static func withoutSentinelPassword(_ text: String) -> String {
    guard let name = text.firstRange(of: "sentinel_password=") else { return text }
    let value = text[name.upperBound...]
    let next = value.firstIndex(of: "&") ?? value.endIndex
    return text[..<name.upperBound] + "***" + withoutSentinelPassword(String(value[next...]))
  }

  private static func decoded(_ text: Substring) -> String? { try? PercentEncoding.decode(text) }
}
