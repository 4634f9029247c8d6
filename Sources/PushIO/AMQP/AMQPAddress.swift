import PushCore

/// A broker's address and our login: `amqp://user:password@host:port/vhost?heartbeat=10`, `amqps://` for TLS.
///
/// Source: RabbitMQ URI specification. A missing path means the virtual host `/`; so does an empty path (`…:5672/`), because users mean
/// that by it. User, password and virtual host are percent-decoded. `description` has no password.
package struct AMQPAddress: Equatable, Sendable, CustomStringConvertible {
  package var host: String
  package var port: UInt16
  package var user: String
  package var password: String
  package var virtualHost: String
  package var usesTLS: Bool
  /// Requested seconds between heartbeats; 0 = none. nil if the URL does not set it.
  package var heartbeatSeconds: UInt16?

  /// The login must fit into one small method.
  static let passwordBytesMaximum = 4096

  package var description: String {
    "\(usesTLS ? "amqps" : "amqp")://\(user)@\(hostAndPort)\(virtualHost == "/" ? "/" : "/" + virtualHost)"
  }

  var hostAndPort: String {
    HostPort.text(host, port)
  }

  package init(_ url: String) throws(AMQPError) {
    var rest = Substring(url)
    if AMQPAddress.dropPrefix("amqp://", from: &rest) {
      usesTLS = false
    } else if AMQPAddress.dropPrefix("amqps://", from: &rest) {
      usesTLS = true
    } else {
      throw .badURL("it starts with neither amqp:// nor amqps://")
    }
    let query = AMQPAddress.cut(&rest, at: "?")
    let path = AMQPAddress.cut(&rest, at: "/")
    user = "guest"
    password = "guest"
    if let at = rest.lastIndex(of: "@") {
      let login = rest[..<at]
      rest = rest[rest.index(after: at)...]
      let colon = login.firstIndex(of: ":")
      user = try AMQPAddress.decoded(login[..<(colon ?? login.endIndex)], "user")
      password =
        try colon.map { index throws(AMQPError) in
          try AMQPAddress.decoded(login[login.index(after: index)...], "password")
        } ?? ""
    }
    port = usesTLS ? 5671 : 5672
    var portText: Substring?
    if rest.first == "[" {
      guard let end = rest.firstIndex(of: "]") else { throw .badURL("the address in brackets does not end") }
      host = String(rest[rest.index(after: rest.startIndex)..<end])
      let behind = rest[rest.index(after: end)...]
      if behind.first == ":" {
        portText = behind.dropFirst()
      } else if !behind.isEmpty {
        throw .badURL("something follows the address in brackets")
      }
    } else {
      portText = AMQPAddress.cut(&rest, at: ":")
      host = try AMQPAddress.decoded(rest, "host")
    }
    if host.isEmpty { host = "localhost" }
    if let portText {
      guard let number = UInt16(portText), number > 0 else { throw .badURL("the port is not a number from 1 to 65535") }
      port = number
    }
    virtualHost =
      try path.map { text throws(AMQPError) in
        try AMQPAddress.decoded(text, "virtual host")
      } ?? "/"
    if virtualHost.isEmpty { virtualHost = "/" }
    for (text, name) in [(user, "user"), (virtualHost, "virtual host")] where text.utf8.count > 255 {
      throw .badURL("the \(name) is over 255 bytes")
    }
    guard password.utf8.count <= AMQPAddress.passwordBytesMaximum else {
      throw .badURL("the password is over \(AMQPAddress.passwordBytesMaximum) bytes")
    }
    for option in (query ?? "").split(separator: "&") {
      var name = option
      let value = AMQPAddress.cut(&name, at: "=") ?? ""
      switch name {
      case "heartbeat":
        guard let seconds = UInt16(value) else { throw .badURL("heartbeat is not a number of seconds from 0 to 65535") }
        heartbeatSeconds = seconds
      default:
        // It may be the end of a password with a question mark.
        throw .badURL("an unknown option; known: heartbeat")
      }
    }
  }

  /// Cuts `text` before the first `mark` and returns what follows it; nil if there is no mark.
  private static func cut(_ text: inout Substring, at mark: Character) -> Substring? {
    guard let index = text.firstIndex(of: mark) else { return nil }
    let rest = text[text.index(after: index)...]
    text = text[..<index]
    return rest
  }

  /// A scheme has no case (RFC 3986, 3.1).
  private static func dropPrefix(_ prefix: String, from text: inout Substring) -> Bool {
    guard text.prefix(prefix.count).lowercased() == prefix else { return false }
    text = text.dropFirst(prefix.count)
    return true
  }

  private static func decoded(_ text: Substring, _ what: String) throws(AMQPError) -> String {
    let decoded: String
    do throws(PercentEncoding.Failure) {
      decoded = try PercentEncoding.decode(text)
    } catch {
      switch error {
      case .escape: throw .badURL("a % in the \(what) is not followed by two hexadecimal digits")
      case .notUTF8: throw .badURL("the \(what) is not UTF-8")
      }
    }
    // It would end a host's name for the resolver, and a user in the login.
    guard !decoded.utf8.contains(0) else { throw .badURL("the \(what) has a zero byte") }
    return decoded
  }
}

extension AMQPAddress: CustomDebugStringConvertible, CustomReflectable {
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: ["address": description]) }
}
