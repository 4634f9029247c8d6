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

  /// Stores the text for a gateway behind the time, removes what is too old, and returns everything: Redis' time, then names and values.
  private static let source = """
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local all = redis.call('HGETALL', KEYS[1])
    if ARGV[2] ~= '' then
      redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f %s', now, ARGV[3]))
      redis.call('PEXPIRE', KEYS[1], ARGV[1])
    end
    for index = 1, #all, 2 do
      local at = tonumber(string.match(all[index + 1], '^%d+'))
      if all[index] ~= ARGV[2] and (not at or at + ARGV[1] < now) then redis.call('HDEL', KEYS[1], all[index]) end
    end
    return {string.format('%.0f', now), all}
    """
  private static let script = LuaScript(source)

  /// Tells that a gateway has these keys.
  /// - Parameter then: receives why that failed; nil: it did not.
  static func send(
    _ name: String, _ store: Store, revision: Int64, _ redis: RedisClient, _ names: GatewayRedisKeys,
    then: @escaping (String?) -> Void
  ) {
    var arguments = RedisArguments()
    arguments.append(Int(keptMilliseconds))
    arguments.append(Array(name.utf8))
    arguments.append(Array("\(revision) \(store.rawValue)".utf8))
    redis.run(script, keys: [names.alive], arguments) { result in
      if case .failure(let failure) = result { then(failure.text) } else { then(nil) }
    }
  }

  /// The command that removes gateways.
  static func removing(_ gateways: [String], _ names: GatewayRedisKeys) -> RedisSession.Command {
    RedisSession.Command(["HDEL", names.alive] + gateways, key: names.alive)
  }

  /// Tells that a gateway ends.
  static func remove(_ name: String, _ redis: RedisClient, _ names: GatewayRedisKeys) {
    redis.call(["HDEL", names.alive, name], key: names.alive) { _ in }
  }

  /// The command whose reply `read` reads.
  static func reading(_ names: GatewayRedisKeys) -> RedisSession.Command {
    RedisSession.Command(
      ["EVAL", source, "1", names.alive, "\(keptMilliseconds)", "", ""], key: names.alive)
  }

  /// Redis' time, and all gateways that ran within `keptMilliseconds`; nil: the reply is another one.
  static func read(_ reply: RedisReply) -> (now: Int64, all: [GatewayHeartbeat])? {
    guard case .array(let parts) = reply, parts.count == 2, let now = parts[0].text.flatMap({ Int64($0) }),
      0...Limits.unixMillisecondsMaximum ~= now, let hash = parts[1].hash
    else { return nil }
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
