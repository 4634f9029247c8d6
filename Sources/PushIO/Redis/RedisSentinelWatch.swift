import PushCore

/// Asks Sentinels, one at a time, for the primary's address: at the start, once a second, and immediately after a loss.
///
/// The owner pulls: `turn` returns an address when a Sentinel gave one. Not Sendable: it belongs to its loop's thread.
final class RedisSentinelWatch {
  private let loop: EventLoop
  private let configuration: RedisConfiguration
  private let primary: String
  private let seed: UInt64
  private let tls: TLSContext?
  private var connection: RedisConnection
  private var sentinel = 0
  private var pending: UInt64?
  private var nextAsk = Instant(nanoseconds: .min)
  /// Each Sentinel is tried once in a second: if none is of use, the next round starts a second later.
  private var round = Instant(nanoseconds: .min)
  private var dialledInRound = 0
  private var isResting = false
  /// The one that is connected has named a server.
  private var hasAnswered = false
  /// Why a Sentinel gave no useful answer; each is reported once.
  private var failure: RedisError?

  private static let askMilliseconds: Int64 = 1_000
  /// A Sentinel without an answer for this long is given up, and another one asked.
  private static let silenceMilliseconds: Int64 = 1_000
  private static let roundMilliseconds: Int64 = 1_000

  init(loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, primary: String, seed: UInt64) {
    self.loop = loop
    self.configuration = configuration
    self.primary = primary
    self.seed = seed
    self.tls = tls
    connection = RedisSentinelWatch.connection(loop, configuration, tls, 0, seed)
  }

  private static func connection(
    _ loop: EventLoop, _ configuration: RedisConfiguration, _ tls: TLSContext?, _ index: Int, _ seed: UInt64
  ) -> RedisConnection {
    // Sentinels have no databases, and separate users.
    var own = RedisConfiguration(address: configuration.addresses[index])
    own.usesTLS = configuration.usesTLSForSentinels
    own.user = configuration.sentinelUser
    own.password = configuration.sentinelPassword
    own.clientName = configuration.clientName
    own.connectTimeoutMilliseconds = configuration.connectTimeoutMilliseconds
    own.silenceTimeoutMilliseconds = RedisSentinelWatch.silenceMilliseconds
    own.reconnectDelayMinimumMilliseconds = 200
    return RedisConnection(loop: loop, configuration: own, tls: tls, seed: seed)
  }

  func connect() { connection.connect() }

  func close() { connection.close() }

  /// The primary may have changed.
  func hurry() {
    nextAsk = Instant(nanoseconds: .min)
  }

  /// The server that was named is not a primary: another Sentinel may know better. Not one that was asked since: its answer is on its way,
  /// however often the server refuses meanwhile.
  func askAnother() {
    hurry()
    if hasAnswered { tryNext() }
  }

  func takeFailure() -> RedisError? { failure.take() }

  /// The primary's address, if a Sentinel has just given it.
  func turn() -> RedisConfiguration.Address? {
    var found: RedisConfiguration.Address?
    if isResting, !isRoundOver { return nil }
    if isResting { dialNext() }
    while let event = connection.nextEvent() {
      switch event {
      case .ready:
        nextAsk = Instant(nanoseconds: .min)
      case .reply(let tag, _) where tag == pending:
        pending = nil
        if let address = RedisSentinelWatch.address(connection.copyReply()) {
          found = address
          hasAnswered = true
        } else {
          fail("the one at \(connection.configuration.serverDescription) knows none of this name")
          return nil
        }
      case .reply, .lost:
        pending = nil
      case .disconnected(let error):
        fail("\(error)")
        return found
      }
    }
    if connection.isReady, pending == nil, loop.now.monotonic >= nextAsk {
      pending = connection.request(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary])
      nextAsk = loop.now.monotonic.adding(milliseconds: RedisSentinelWatch.askMilliseconds)
    }
    return found
  }

  private func fail(_ cause: String) {
    failure = .sentinel(primary: primary, cause: cause)
    tryNext()
  }

  private func tryNext() {
    guard configuration.addresses.count > 1 else { return }
    connection.close()
    pending = nil
    isResting = !isRoundOver && dialledInRound >= configuration.addresses.count
    if !isResting { dialNext() }
  }

  private var isRoundOver: Bool {
    round.nanoseconds == .min || loop.now.monotonic.milliseconds(since: round) >= RedisSentinelWatch.roundMilliseconds
  }

  private func dialNext() {
    if isRoundOver {
      round = loop.now.monotonic
      dialledInRound = 0
    }
    dialledInRound += 1
    isResting = false
    hasAnswered = false
    sentinel = (sentinel + 1) % configuration.addresses.count
    connection = RedisSentinelWatch.connection(loop, configuration, tls, sentinel, seed)
    connection.connect()
  }

  private static func address(_ reply: RedisReply) -> RedisConfiguration.Address? {
    guard case .array(let parts) = reply, parts.count == 2, let host = parts[0].text,
      let port = parts[1].text.flatMap({ UInt16($0) })
    else { return nil }
    return .network(host: host, port: port)
  }
}
