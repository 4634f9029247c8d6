import PushCore

/// `http://host:port/path`: where a webhook listens.
struct WebhookAddress: Hashable, Sendable {
  let host: String
  let port: UInt16
  /// With its query; at least `/`.
  let path: String

  /// The rule that a URL breaks.
  struct Refusal: Error {
    let rule: String
  }

  init(_ url: String) throws(Refusal) {
    let start = "http://"
    guard url.prefix(start.count).lowercased() == start else { throw Refusal(rule: "does not begin with http://") }
    guard url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
      throw Refusal(rule: "has a character that no URL has")
    }
    let rest = url.dropFirst(start.count)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    path = rest[end...].hasPrefix("/") ? String(rest[end...]) : "/" + rest[end...]
    let authority = rest[..<end]
    if authority.contains("@") { throw Refusal(rule: "has a user, which is not sent") }
    var name = authority
    var portText: Substring?
    if authority.first == "[" {
      guard let bracket = authority.firstIndex(of: "]") else { throw Refusal(rule: "has a bracket that does not end") }
      name = authority[authority.index(after: authority.startIndex)..<bracket]
      let behind = authority[authority.index(after: bracket)...]
      guard behind.isEmpty || behind.first == ":" else { throw Refusal(rule: "has text behind the bracket") }
      portText = behind.isEmpty ? nil : behind.dropFirst()
    } else if let colon = authority.firstIndex(of: ":") {
      name = authority[..<colon]
      portText = authority[authority.index(after: colon)...]
    }
    guard !name.isEmpty else { throw Refusal(rule: "names no host") }
    host = String(name)
    guard let portText else {
      port = 80
      return
    }
    guard let number = UInt16(portText), number > 0 else {
      throw Refusal(rule: "has a port that is no number from 1 to 65535")
    }
    port = number
  }

  /// The whole request.
  func request(_ body: [UInt8]) -> [UInt8] {
    let head =
      "POST \(path) HTTP/1.1\r\nHost: \(HostPort.text(host, port))\r\nContent-Type: application/json\r\n"
      + "Content-Length: \(body.count)\r\nConnection: close\r\n\r\n"
    return Array(head.utf8) + body
  }
}
