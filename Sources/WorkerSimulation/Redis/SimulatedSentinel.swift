/// A Redis Sentinel of the simulated world: it names the primaries that the world sets.
package final class SimulatedSentinel: SimulatedRedisFront {
  /// The address of a primary.
  package struct Primary: Hashable, Sendable {
    package var name: String
    package var host: String
    package var port: UInt16

    package init(name: String, host: String, port: UInt16) {
      self.name = name
      self.host = host
      self.port = port
    }
  }

  /// The primaries that it names; they may be outdated.
  package var primaries: [Primary]
  /// nil: no password.
  package var password: String?
  /// Receives everything that an auditor may need.
  package var observe: ((SimulatedRedisObservation) -> Void)?

  package init(_ primaries: [Primary], password: String? = nil, seed: UInt64) {
    self.primaries = primaries
    self.password = password
    super.init(seed: seed)
  }

  override var asksForPassword: Bool { password != nil }

  override func heardNonsense(_ text: [UInt8], _ session: SimulatedRedisSession) {
    observe?(.protocolViolation(session.connection, text))
  }

  override func answer(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    let command = String(decoding: words[0].map(SimulatedRedis.capital), as: UTF8.self)
    let subcommand = words.count > 1 ? String(decoding: words[1].map(SimulatedRedis.capital), as: UTF8.self) : ""
    switch (command, subcommand) {
    case ("AUTH", _):
      guard let password else {
        return .error(
          "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
        )
      }
      guard words.last == Array(password.utf8) else {
        return .error("WRONGPASS invalid username-password pair or user is disabled.")
      }
      session.isAuthenticated = true
      return .ok
    case ("QUIT", _):
      session.isClosing = true
      return .ok
    case _ where !session.isAuthenticated:
      return .error("NOAUTH Authentication required.")
    case ("PING", _):
      return .status(Array("PONG".utf8))
    case ("ROLE", _):
      return .array([.bulk(Array("sentinel".utf8)), .array(primaries.map { .bulk(Array($0.name.utf8)) })])
    case ("CLIENT", "SETNAME"):
      session.name = words.count > 2 ? words[2] : []
      return .ok
    case ("SENTINEL", "GET-MASTER-ADDR-BY-NAME"):
      guard words.count == 3 else {
        return .error("ERR wrong number of arguments for 'sentinel|get-master-addr-by-name' command")
      }
      guard let primary = primaries.first(where: { Array($0.name.utf8) == words[2] }) else { return .nullArray }
      return .array([.bulk(Array(primary.host.utf8)), .bulk(Array("\(primary.port)".utf8))])
    default:
      observe?(.unsupportedCommand(words))
      return SimulatedRedis.unknown(words)
    }
  }
}
