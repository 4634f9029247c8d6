import PushCore

/// A Redis server's error reply, by its first word, with advice.
package struct RedisServerError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// NOSCRIPT: the script cache was flushed, or the server restarted.
    case noScript
    /// LOADING: the server is reading its data set; it will be ready soon.
    case loading
    /// READONLY: a replica.
    case readOnly
    /// OOM: over `maxmemory`, and the policy evicts nothing.
    case outOfMemory
    /// NOAUTH: a password is required.
    case authenticationRequired
    /// WRONGPASS: unknown user or wrong password.
    case wrongPassword
    /// NOPERM: the ACL user may not run this command or touch this key.
    case notPermitted
    /// BUSY: another client's script blocks the server.
    case busy
    /// MISCONF, NOREPLICAS: the server refuses writes until its persistence or its replicas are restored.
    case notWritable
    /// MASTERDOWN: a replica without its primary.
    case primaryDown
    /// MOVED, ASK, CROSSSLOT, CLUSTERDOWN, TRYAGAIN: a cluster node.
    case cluster
    /// WRONGTYPE, or a script met a value that is no number: something else wrote a key.
    case foreignData
    case other
  }

  package var kind: Kind
  /// The server's text: printable, at most 200 bytes.
  package var message: String

  package init(kind: Kind, message: String) {
    self.kind = kind
    self.message = message
  }

  package init(_ bytes: Span<UInt8>) {
    kind = RedisServerError.kind(bytes)
    var printable: [UInt8] = []
    for index in 0..<min(bytes.count, 200) {
      printable.append(bytes[index] >= 0x20 && bytes[index] < 0x7F ? bytes[index] : UInt8(ascii: "?"))
    }
    message = String(decoding: printable, as: UTF8.self)
    if kind == .other, RedisServerError.foreignTexts.contains(where: message.contains) { kind = .foreignData }
  }

  /// Without a password, and without the arguments of a command, which may be cut.
  func hiding(_ password: String?) -> RedisServerError {
    var shown = self
    if let arguments = message.firstRange(of: ", with args") {
      shown.message = String(message[..<arguments.lowerBound])
    }
    if let password, !password.isEmpty { shown.message = shown.message.replacing(password, with: "***") }
    return shown
  }

  /// The server answers, but refuses writes.
  package var isWriteRefusal: Bool {
    switch kind {
    case .readOnly, .outOfMemory, .notWritable: true
    case .noScript, .loading, .authenticationRequired, .wrongPassword, .notPermitted, .busy, .primaryDown, .cluster,
      .foreignData, .other:
      false
    }
  }

  package var description: String {
    advice.isEmpty ? message : "\(message) (\(advice))"
  }

  private var advice: String {
    switch kind {
    case .noScript: "the script will be loaded again"
    case .loading: "wait until its data set is loaded"
    case .readOnly: "this is a replica; configure the primary's address"
    case .outOfMemory: "raise maxmemory, or choose an eviction policy such as volatile-ttl"
    case .authenticationRequired:
      "set user and password in redis.url; for a Sentinel, sentinel_user and sentinel_password"
    case .wrongPassword: "check user and password in redis.url; for a Sentinel, sentinel_user and sentinel_password"
    case .notPermitted:
      """
      allow the ACL user evalsha, eval, script|load, get, mget, set, append, del, time and ttl on the configured prefix, \
      and in a cluster cluster|slots, asking and ping
      """
    case .busy: "a script of another client blocks the server"
    case .notWritable: "check the server's persistence and replicas"
    case .primaryDown: "this is a replica without its primary"
    case .cluster: "for a cluster write redis-cluster://host:port,host:port"
    case .foreignData: "does something else use this key?"
    case .other: ""
    }
  }

  /// Of commands, of a script's commands, whose errors older servers quote, and of a script that meets what it did not write.
  private static let foreignTexts = [
    "WRONGTYPE", "is not an integer", "is not a valid float", "would overflow", "attempt to ", "bad argument",
    "data string too short",
  ]

  private static func kind(_ bytes: Span<UInt8>) -> Kind {
    var count = 0
    while count < bytes.count, bytes[count] != UInt8(ascii: " "), count < 32 { count += 1 }
    let word = bytes.extracting(0..<count)
    if word.equals("NOSCRIPT") { return .noScript }
    if word.equals("LOADING") { return .loading }
    if word.equals("READONLY") { return .readOnly }
    if word.equals("OOM") { return .outOfMemory }
    if word.equals("NOAUTH") { return .authenticationRequired }
    if word.equals("WRONGPASS") { return .wrongPassword }
    if word.equals("NOPERM") { return .notPermitted }
    if word.equals("BUSY") { return .busy }
    if word.equals("MISCONF") || word.equals("NOREPLICAS") { return .notWritable }
    if word.equals("MASTERDOWN") { return .primaryDown }
    if word.equals("MOVED") || word.equals("ASK") || word.equals("CROSSSLOT") || word.equals("CLUSTERDOWN")
      || word.equals("TRYAGAIN")
    {
      return .cluster
    }
    return .other
  }
}
