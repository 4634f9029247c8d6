import PushCore
import PushIO
import PushStores

/// What each running gateway tells in Redis with every read of the keys: that it is there, and which keys it has. `herald keys revoke` waits
/// for it.
struct GatewayHeartbeat: Sendable {
  /// As in `KeyReader`.
  var name: String
  /// Unix milliseconds, of Redis' clock.
  var at: Int64
  var store: Store
  /// Which keys it has. In Redis: a number that a later revocation makes larger. In a file: `StoredKeys.digest`.
  var revision: Int64

  /// Where a gateway reads its keys.
  enum Store: String, Sendable {
    case redis, file
  }

  /// How long a gateway that tells nothing more counts as one that may still run: one that is cut off from Redis goes on with the keys that
  /// it has.
  static let keptMilliseconds: Int64 = 86_400_000

  /// KEYS: the hash. ARGV: milliseconds that an entry is kept, the gateway's name, its text, a cursor. Stores the text behind the time, and
  /// removes what is too old in the part at the cursor: gateways that are killed again and again may be more than one script should read.
  ///
  /// Replies the cursor of the next part.
  private static let script = LuaScript(
    """
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local part = redis.call('HSCAN', KEYS[1], ARGV[4], 'COUNT', 1000)
    redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f %s', now, ARGV[3]))
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    local all = part[2]
    for index = 1, #all, 2 do
      local at = tonumber(string.match(all[index + 1], '^%d+'))
      if all[index] ~= ARGV[2] and (not at or at + ARGV[1] < now) then redis.call('HDEL', KEYS[1], all[index]) end
    end
    return part[1]
    """)

  /// Tells that a gateway has these keys.
  /// - Parameters:
  ///   - cursor: what `then` received last; at first "0".
  ///   - then: receives the next cursor, or why that failed.
  static func send(
    _ name: String, _ store: Store, revision: Int64, cursor: String, _ redis: RedisClient, _ names: GatewayRedisKeys,
    then: @escaping (Result<String, RedisClient.Failure>) -> Void
  ) {
    var arguments = RedisArguments()
    arguments.append(Int(keptMilliseconds))
    arguments.append(Array(name.utf8))
    arguments.append(Array("\(revision) \(store.rawValue)".utf8))
    arguments.append(cursor)
    redis.run(script, keys: [names.alive], arguments) { result in then(result.map { $0.text ?? "0" }) }
  }

  /// The command that removes gateways.
  static func removing(_ gateways: [String], _ names: GatewayRedisKeys) -> RedisSession.Command {
    RedisSession.Command(["HDEL", names.alive] + gateways, key: names.alive)
  }

  /// Tells that a gateway ends.
  static func remove(_ name: String, _ redis: RedisClient, _ names: GatewayRedisKeys) {
    redis.call(["HDEL", names.alive, name], key: names.alive) { _ in }
  }

  /// Redis' time, and all gateways that ran within `keptMilliseconds`; nil: the time is none.
  /// - Parameters:
  ///   - time: the reply to `TIME`, asked before the hash is read.
  ///   - hash: name of a gateway → what it told.
  static func read(_ time: RedisReply, _ hash: [String: [UInt8]]) -> (now: Int64, all: [GatewayHeartbeat])? {
    guard case .array(let parts) = time, parts.count == 2, let seconds = parts[0].text.flatMap({ Int64($0) }),
      0...Limits.unixSecondsMaximum ~= seconds, let microseconds = parts[1].text.flatMap({ Int64($0) }),
      0..<1_000_000 ~= microseconds
    else { return nil }
    let now = seconds * 1_000 + microseconds / 1_000
    let all = hash.compactMap { name, value in GatewayHeartbeat(name, String(decoding: value, as: UTF8.self)) }
    return (now, all.filter { $0.at + keptMilliseconds >= now }.sorted { $0.name < $1.name })
  }

  private init?(_ name: String, _ value: String) {
    let words = value.split(separator: " ")
    guard words.count == 3, let at = Int64(words[0]), 0...Limits.unixMillisecondsMaximum ~= at,
      let revision = Int64(words[1]), let store = Store(rawValue: String(words[2]))
    else { return nil }
    self.name = name
    self.at = at
    self.revision = revision
    self.store = store
  }
}
