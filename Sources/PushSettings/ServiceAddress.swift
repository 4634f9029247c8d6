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

  /// A URL (or several, in a list) with `***` instead of every password.
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
      if let colon = login.firstIndex(of: ":") {
        result += login[..<colon] + ":***"
      } else {
        result += login
      }
      rest = rest[mark...]
    }
    return result + rest
  }

  /// Of a text that is not a URL that we can read: everything before its last `@` is hidden, or behind a colon what is no port, and its query.
  /// Nobody knows what is a password there.
  /// - Parameter isURL: it was to be one.
  package static func hidden(_ text: String, isURL: Bool = false) -> String {
    let scheme = text[..<endOfScheme(text)]
    let query = text.firstIndex(of: "?") ?? text.endIndex
    guard let mark = text.lastIndex(of: "@") else {
      // The host was forgotten, or the `@`.
      let authority = text[scheme.endIndex..<max(query, scheme.endIndex)]
      if isURL, let colon = authority.firstIndex(of: ":"), !isPort(authority[authority.index(after: colon)...]) {
        return scheme + authority[...colon] + "***"
      }
      return query < text.endIndex && (isURL || !scheme.isEmpty) ? text[..<query] + "?***" : text
    }
    let shown = scheme.endIndex <= mark ? scheme : ""
    if query < mark { return shown + "***" }
    return shown + "***" + text[mark..<query] + (query < text.endIndex ? "?***" : "")
  }

  /// Behind `://`, if only a scheme's characters are before it (RFC 3986, section 3.1); else the beginning.
  private static func endOfScheme(_ text: String) -> String.Index {
    guard let mark = text.firstRange(of: "://"),
      text[..<mark.lowerBound].allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) })
    else { return text.startIndex }
    return mark.upperBound
  }

  /// Digits up to a path, or to another host of a list.
  private static func isPort(_ text: Substring) -> Bool {
    let port = text.prefix { $0 != "/" && $0 != "," }
    guard port.utf8.count <= 5, port.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      return false
    }
    guard let colon = text.firstIndex(of: ":") else { return true }
    return isPort(text[text.index(after: colon)...])
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
