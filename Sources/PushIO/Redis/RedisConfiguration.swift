import PushCore

/// A Redis server's address and login.
///
/// `redis://[user[:password]@]host[:port][/database]`, `rediss://…` (TLS), `unix://[user[:password]@]/path[?db=N]`,
/// `redis-cluster://[user[:password]@]host[:port],host[:port],…` (any nodes of the cluster),
/// `redis-sentinel://[user[:password]@]host[:port],…/primary-name[/database]` (the Sentinels; user and password are the primary's;
/// `?sentinel_user=…&sentinel_password=…` are the Sentinels'). The last two also exist with `rediss-`; the Sentinels then use TLS too,
/// unless `?sentinel_tls=no` is set. User, password and path are percent-decoded; `redis://:password@host` is a password without a user.
package struct RedisConfiguration: Hashable, Sendable {
  package enum Address: Hashable, Sendable {
    case network(host: String, port: UInt16)
    case unix(path: String)
  }

  package enum Topology: Hashable, Sendable {
    case single
    case cluster
    /// The Sentinels give the address of the primary with this name.
    case sentinel(primary: String)
  }

  /// The server's address; for a cluster or Sentinels, the first one to ask.
  package var address: Address
  /// Some nodes of the cluster, or the Sentinels.
  private var seeds: [Address] = []
  /// Whom to connect to: the server, some nodes of the cluster, or the Sentinels.
  package var addresses: [Address] { seeds.isEmpty ? [address] : seeds }
  package private(set) var topology = Topology.single
  package var usesTLS = false
  package var user: String?
  package var password: String?
  package var database = 0
  /// The Sentinels' user; nil: they require none.
  package private(set) var sentinelUser: String?
  package private(set) var sentinelPassword: String?
  /// Connections to Sentinels use TLS.
  package private(set) var usesTLSForSentinels = false
  /// `CLIENT SETNAME`: shown by `CLIENT LIST`. No spaces.
  package var clientName = "herald"
  package var connectTimeoutMilliseconds: Int64 = 2000
  /// The connection is closed if commands wait and no answer came for this long.
  package var silenceTimeoutMilliseconds: Int64 = 5000
  package var reconnectDelayMinimumMilliseconds: Int64 = 50
  package var reconnectDelayMaximumMilliseconds: Int64 = 1000
  /// A cluster's node without slots is disconnected after this long.
  package var spareMilliseconds: Int64 = 10_000

  package init(address: Address) {
    self.address = address
  }

  /// The TLS context for the connections; nil if they use no TLS. `caFile`: trusted in addition to the system's authorities, or alone.
  package func tls(caFile: String?, trustsOnlyCAFile: Bool = false) throws(TLSError) -> TLSContext? {
    guard usesTLS || usesTLSForSentinels else { return nil }
    return try TLSContext.client(alpn: [], caFile: caFile, trustsSystem: !trustsOnlyCAFile)
  }

  package init(url: String) throws(RedisError) {
    guard let schemeEnd = RedisConfiguration.firstIndex(of: "://", in: url) else {
      throw .invalidURL(rule: "has no scheme; write redis://host:port/database, rediss:// for TLS or unix:///path")
    }
    let scheme = url[..<schemeEnd].lowercased()
    var rest = url[url.index(schemeEnd, offsetBy: 3)...]
    var query: Substring?
    if let mark = rest.firstIndex(of: "?") {
      query = rest[rest.index(after: mark)...]
      rest = rest[..<mark]
    }
    var credentials: Substring?
    // The last @ before the end of the host part: a socket's path may contain one too, but only after its first slash.
    let authorityEnd = rest.firstIndex(of: "/") ?? rest.endIndex
    if let mark = rest[..<authorityEnd].lastIndex(of: "@") {
      credentials = rest[..<mark]
      rest = rest[rest.index(after: mark)...]
    }
    switch scheme {
    case "redis", "rediss":
      let slash = rest.firstIndex(of: "/") ?? rest.endIndex
      let (host, port) = try RedisConfiguration.hostAndPort(rest[..<slash])
      self.init(address: .network(host: host, port: port))
      usesTLS = scheme == "rediss"
      let path = slash < rest.endIndex ? rest[rest.index(after: slash)...] : ""
      if !path.isEmpty { database = try RedisConfiguration.database(path) }
    case "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel":
      let isCluster = scheme.hasSuffix("cluster")
      let slash = rest.firstIndex(of: "/") ?? rest.endIndex
      var addresses: [Address] = []
      for node in rest[..<slash].split(separator: ",", omittingEmptySubsequences: false) {
        let (host, port) = try RedisConfiguration.hostAndPort(node, defaultPort: isCluster ? 6379 : 26_379)
        addresses.append(.network(host: host, port: port))
      }
      guard addresses.count <= RedisClusterState.nodesMaximum else {
        throw .invalidURL(rule: "names more than \(RedisClusterState.nodesMaximum) servers")
      }
      self.init(address: addresses[0])
      seeds = addresses
      usesTLS = scheme.hasPrefix("rediss")
      let path = rest[slash...].split(separator: "/")
      if isCluster {
        guard path.isEmpty || path == ["0"] else { throw .invalidURL(rule: "a cluster has the database 0 alone") }
        topology = .cluster
      } else {
        guard (1...2).contains(path.count) else {
          throw .invalidURL(
            rule: "lacks the primary's name; write redis-sentinel://host:port,host:port/primary-name/database")
        }
        topology = .sentinel(primary: try RedisConfiguration.decoded(path[0], field: "primary's name"))
        if path.count == 2 { database = try RedisConfiguration.database(path[1]) }
        usesTLSForSentinels = usesTLS
      }
    case "unix":
      let path = try RedisConfiguration.decoded(rest, field: "path")
      guard path.hasPrefix("/"), path.utf8.count <= 107 else {
        throw .invalidURL(rule: "a unix:// path starts with / and has at most 107 bytes")
      }
      self.init(address: .unix(path: path))
    default:
      throw .invalidURL(rule: "has another scheme than redis, rediss, unix, redis-cluster and redis-sentinel")
    }
    if let credentials {
      let parts = credentials.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      let user = try RedisConfiguration.decoded(parts[0], field: "user")
      if parts.count == 2 {
        password = try RedisConfiguration.decoded(parts[1], field: "password")
        self.user = user.isEmpty ? nil : user
      } else if !user.isEmpty {
        throw .invalidURL(
          rule: "has a user without a password; write redis://:password@host or redis://user:password@host")
      }
    }
    if let query { try read(query: query) }
  }

  /// The server's address for messages: never with a password.
  package var serverDescription: String { Self.description(of: address) }

  /// The address, with all nodes or Sentinels that were given.
  package var fullDescription: String {
    let all = addresses.map(Self.description).joined(separator: ", ")
    return switch topology {
    case .single: all
    case .cluster: "cluster \(all)"
    case .sentinel(let primary): "\(primary) of the Sentinels \(all)"
    }
  }

  private static func description(of address: Address) -> String {
    switch address {
    case .network(let host, let port): HostPort.text(host, port)
    case .unix(let path): path
    }
  }

  private mutating func read(query: Substring) throws(RedisError) {
    for item in query.split(separator: "&") {
      let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      switch (parts.count == 2 ? parts[0] : "", topology) {
      case ("db", _), ("database", _):
        guard topology != .cluster else { throw .invalidURL(rule: "a cluster has the database 0 alone") }
        database = try RedisConfiguration.database(parts[1])
      case ("sentinel_user", .sentinel):
        sentinelUser = try RedisConfiguration.decoded(parts[1], field: "sentinel_user")
      case ("sentinel_password", .sentinel):
        sentinelPassword = try RedisConfiguration.decoded(parts[1], field: "sentinel_password")
      case ("sentinel_tls", .sentinel) where parts[1] == "yes" || parts[1] == "no":
        usesTLSForSentinels = parts[1] == "yes"
      default:
        throw .invalidURL(
          rule:
            "has another query parameter than db, and of Sentinels sentinel_user, sentinel_password and sentinel_tls=yes|no"
        )
      }
    }
    if sentinelUser != nil, sentinelPassword == nil {
      throw .invalidURL(rule: "has a sentinel_user without a sentinel_password")
    }
  }

  private static func firstIndex(of separator: String, in text: String) -> String.Index? {
    var index = text.startIndex
    while index < text.endIndex {
      if text[index...].hasPrefix(separator) { return index }
      index = text.index(after: index)
    }
    return nil
  }

  private static func database(_ text: Substring) throws(RedisError) -> Int {
    guard let number = UInt16(text) else { throw .invalidURL(rule: "the database is a number from 0 to 65535") }
    return Int(number)
  }

  private static func hostAndPort(
    _ text: Substring, defaultPort: UInt16 = 6379
  ) throws(RedisError) -> (host: String, port: UInt16) {
    var host = text
    var portText: Substring?
    if text.first == "[" {
      guard let end = text.firstIndex(of: "]") else { throw .invalidURL(rule: "an IPv6 address ends with ]") }
      host = text[text.index(after: text.startIndex)..<end]
      let rest = text[text.index(after: end)...]
      if rest.first == ":" { portText = rest.dropFirst() } else if !rest.isEmpty { portText = "" }
    } else if let colon = text.firstIndex(of: ":") {
      host = text[..<colon]
      portText = text[text.index(after: colon)...]
    }
    guard !host.isEmpty else { throw .invalidURL(rule: "has no host") }
    // Else it may be the end of a password with an @ in it.
    guard host.utf8.allSatisfy(isHostByte) else {
      throw .invalidURL(rule: "has a host that is none (percent-encode : / @ ? # in user and password)")
    }
    guard let portText else { return (String(host), defaultPort) }
    guard let port = UInt16(portText), port > 0 else {
      throw .invalidURL(rule: "the port is a number from 1 to 65535 (percent-encode : / @ ? in user and password)")
    }
    return (String(host), port)
  }

  /// Of a name or an address.
  private static func isHostByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "._-:%".utf8.contains(byte)
    }
  }

  private static func decoded(_ text: Substring, field: String) throws(RedisError) -> String {
    let decoded: String
    do throws(PercentEncoding.Failure) {
      decoded = try PercentEncoding.decode(text)
    } catch {
      switch error {
      case .escape: throw .invalidURL(rule: "a % in the \(field) is followed by two hex digits")
      case .notUTF8: throw .invalidURL(rule: "the \(field) is no UTF-8 text")
      }
    }
    guard !decoded.utf8.contains(0) else { throw .invalidURL(rule: "the \(field) is no UTF-8 text") }
    return decoded
  }
}

extension RedisConfiguration: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var description: String { serverDescription }
  package var debugDescription: String { serverDescription }
  package var customMirror: Mirror { Mirror(self, children: ["server": serverDescription]) }
}
