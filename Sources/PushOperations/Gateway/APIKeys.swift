import Foundation
import Glibc
package import PushCore
import PushIO
package import PushSettings

/// The gateway's API keys, for `herald keys`: stored in the keys file or in Redis. The time of a key's last use is always in Redis.
package struct APIKeys {
  package struct Listed: Sendable {
    package let key: APIKey
    /// Unix milliseconds, a few seconds behind; nil: never used, or Redis does not answer.
    package let usedAt: Int64?
  }

  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// What became of a revocation.
  package struct Revocation: Sendable {
    /// false: there was no such key, or no more.
    package let wasKnown: Bool
    /// Running gateways that no longer take the key.
    package let taken: Int
    /// Gateways that may still take it, each with what is known of it.
    package let missing: [String]
  }

  /// How long gateways have to read a revocation.
  private static let confirmMilliseconds: Int64 = 6_000
  /// A gateway that Redis has forgotten tells within this time that it runs.
  private static let tellMilliseconds: Int64 = KeyReader.readMilliseconds + 500
  private static let askMilliseconds: UInt32 = 200
  /// A gateway that has read no keys for so long is cut off from their store, or gone.
  private static let silentMilliseconds: Int64 = 10_000

  private let file: APIKeyFile?
  private let redisKeys: GatewayRedisKeys
  private let connect: () throws -> RedisSession

  package init(_ configuration: Configuration) throws {
    file = configuration.gateway.keysFile.map(APIKeyFile.init)
    redisKeys = GatewayRedisKeys(prefix: configuration.redis.prefix)
    let redis = try RedisConfiguration(url: configuration.registryURL)
    connect = { try RedisSession(configuration: redis, tls: try configuration.redis.tls(redis)) }
  }

  /// Creates a key and stores its hash. Returns the key, which cannot be recovered later.
  package func create(
    app: String?, environment: APNsEnvironment?, scopes: Set<KeyScope>, rate: Int?, now: Int64
  ) throws -> String {
    var random = SystemRandomNumberGenerator()
    let text = APIKeyText(using: &random)
    let key = APIKey(
      id: text.id, hash: SHA256Digest.of(text.text.utf8.span), app: app, environment: environment, scopes: scopes,
      rate: rate, createdAt: now)
    if let file {
      try file.change { $0 + [try APIKeyFile.Line(key)] }
    } else {
      _ = try ask(["HSET", redisKeys.keys, key.id, try key.json()])
    }
    return text.text
  }

  /// Lists keys, oldest first.
  /// - Parameter app: the app whose keys to list; nil: all keys.
  /// - Returns: also, which values in the store are no keys; nil: all are.
  package func list(app: String?) throws -> (keys: [Listed], unreadable: String?) {
    let stored = try file?.read() ?? stored()
    let used = (try? hash(redisKeys.used)) ?? [:]
    let keys = stored.keys.filter { app == nil || $0.app == app }
    return (
      keys.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }.map {
        Listed(key: $0, usedAt: used[$0.id].flatMap { Int64(String(decoding: $0, as: UTF8.self)) })
      },
      stored.unreadable.isEmpty
        ? nil : StoredKeys.text(ofUnreadable: stored.unreadable.sorted(), file?.path, redisKeys)
    )
  }

  /// Numbers a revocation: by Redis' time, µs, so that it is larger than all before, also those that a Redis which was restored has lost.
  private static let number = """
    local time = redis.call('TIME')
    local number = math.max(time[1] * 1000000 + time[2], (tonumber(redis.call('GET', KEYS[1])) or 0) + 1)
    redis.call('SET', KEYS[1], string.format('%.0f', number))
    return number
    """

  /// Deletes a key, and waits until all running gateways have read that, some seconds at most; also where it was deleted before.
  /// - Parameters:
  ///   - name: the key's id, or the whole key.
  ///   - gone: gateways that have ended without telling it; not waited for, now or later.
  package func revoke(_ name: String, gone: [String] = []) throws -> Revocation {
    let id = APIKeyText(name)?.id ?? name
    guard let file else {
      let session = try connect()
      defer { session.close() }
      let replies = try session.run([
        RedisSession.Command(["HDEL", redisKeys.keys, id], key: redisKeys.keys),
        RedisSession.Command(["EVAL", APIKeys.number, "1", redisKeys.revision], key: redisKeys.revision),
        RedisSession.Command(["HDEL", redisKeys.used, id], key: redisKeys.used),
      ])
      try forget(gone, session)
      for case .error(let error) in replies { throw Failure(description: "Redis refuses: \(error)") }
      guard case .integer(let count) = replies[0], case .integer(let revision) = replies[1] else {
        throw Failure(description: "redis: \(redisKeys.keys) or \(redisKeys.revision) is another value")
      }
      return try confirm(session, .redis, wasKnown: count == 1) { gateway, _ in gateway.revision < revision }
    }
    let wasKnown = try file.change { lines in
      lines.contains { $0.key?.id == id } ? lines.filter { $0.key?.id != id } : nil
    }
    do {
      let session = try connect()
      defer { session.close() }
      try forget(gone, session)
      var content: Data?
      var digests: Set<Int64> = []
      return try confirm(session, .file, wasKnown: wasKnown) { gateway, since in
        // Other commands may change the file meanwhile: whatever it was without the key will do.
        if let stored = try? file.read(since: &content), !stored.keys.contains(where: { $0.id == id }) {
          digests.insert(stored.digest)
        }
        // What was told before may be of a time before the key.
        return gateway.at <= since || !digests.contains(gateway.revision)
      }
    } catch {
      return Revocation(
        wasKnown: wasKnown, taken: 0,
        missing: ["all gateways: Redis, which would know them, does not answer (\(error))"])
    }
  }

  private func forget(_ gateways: [String], _ session: RedisSession) throws {
    if !gateways.isEmpty { _ = try session.run([GatewayHeartbeat.removing(gateways, redisKeys)]) }
  }

  /// - Parameter mayHave: whether a gateway that reads its keys from `store` may have the key, which was gone at a time of Redis' clock.
  private func confirm(
    _ session: RedisSession, _ store: GatewayHeartbeat.Store, wasKnown: Bool,
    _ mayHave: (GatewayHeartbeat, _ since: Int64) -> Bool
  ) throws -> Revocation {
    let clock = ContinuousClock()
    let begun = clock.now
    let end = begun + .milliseconds(APIKeys.confirmMilliseconds)
    var start: Int64?
    while true {
      let time = try session.run([RedisSession.Command(["TIME"], key: redisKeys.alive)])[0]
      guard let found = GatewayHeartbeat.read(time, try hash(redisKeys.alive, session)) else {
        throw Failure(description: "redis: unexpected reply to TIME")
      }
      let since = start ?? found.now
      start = since
      let missing = found.all.filter { $0.store != store || mayHave($0, since) }
      let hasToldAll = clock.now >= begun + .milliseconds(APIKeys.tellMilliseconds)
      if missing.isEmpty && hasToldAll || clock.now >= end {
        return Revocation(
          wasKnown: wasKnown, taken: found.all.count - missing.count,
          missing: missing.map { describe($0, store, since: since, now: found.now) })
      }
      usleep(APIKeys.askMilliseconds * 1_000)
    }
  }

  /// - Parameter since: when the key was gone, Redis' clock.
  private func describe(
    _ gateway: GatewayHeartbeat, _ store: GatewayHeartbeat.Store, since: Int64, now: Int64
  ) -> String {
    let name = TextTable.printable(gateway.name)
    let seconds = max(0, now - gateway.at) / 1_000
    let age = seconds < 120 ? "\(seconds) s" : seconds < 7_200 ? "\(seconds / 60) min" : "\(seconds / 3_600) h"
    if now - gateway.at >= APIKeys.silentMilliseconds {
      return """
        \(name): last seen \(age) ago. Cut off from Redis it goes on with the keys of then: end it, or mend its Redis. If it has \
        ended (killed, its host lost), repeat with --gone '\(name)'
        """
    }
    if gateway.store != store {
      return """
        \(name): it reads its keys from \(gateway.store == .file ? "a file" : "Redis"), this command from \
        \(store == .file ? "a file" : "Redis"): give both the same gateway.keys_file
        """
    }
    if let file, gateway.revision >= 0 {
      return "\(name): its build cannot tell which keys of \(file.path) it has: run this one, and repeat"
    }
    if let file, gateway.at > since {
      return """
        \(name): its keys file has other keys than \(file.path) here: put a copy of this in its place, or let both use one \
        file
        """
    }
    return "\(name): it last read its keys \(age) ago, and not since: see its log"
  }

  private func stored() throws -> StoredKeys {
    var stored = StoredKeys()
    for (id, json) in try hash(redisKeys.keys) {
      if let key = APIKey(id: id, json: json) { stored.keys.append(key) } else { stored.unreadable.append(id) }
    }
    return stored
  }

  private func hash(_ name: String) throws -> [String: [UInt8]] {
    let session = try connect()
    defer { session.close() }
    return try hash(name, session)
  }

  /// In parts: no reply may outgrow the client's limits.
  private func hash(_ name: String, _ session: RedisSession) throws -> [String: [UInt8]] {
    var all: [String: [UInt8]] = [:]
    var cursor = "0"
    repeat {
      let reply = try ask(["HSCAN", name, cursor, "COUNT", "500"], session)
      guard case .array(let parts) = reply, parts.count == 2, let next = parts[0].text, let part = parts[1].hash else {
        throw Failure(description: "redis: unexpected reply to HSCAN of \(name)")
      }
      all.merge(part) { _, newer in newer }
      cursor = next
    } while cursor != "0"
    return all
  }

  private func ask(_ command: [String]) throws -> RedisReply {
    let session = try connect()
    defer { session.close() }
    return try ask(command, session)
  }

  private func ask(_ command: [String], _ session: RedisSession) throws -> RedisReply {
    let reply = try session.run([RedisSession.Command(command, key: command[1])])[0]
    if case .error(let error) = reply { throw Failure(description: "Redis refuses: \(error)") }
    return reply
  }
}

extension RedisReply {
  /// The fields of a hash; nil: the reply is not a hash.
  var hash: [String: [UInt8]]? {
    guard case .array(let values) = self, values.count.isMultiple(of: 2) else { return nil }
    var fields: [String: [UInt8]] = [:]
    for index in stride(from: 0, to: values.count, by: 2) {
      guard let name = values[index].text, case .bulk(let value) = values[index + 1] else { return nil }
      fields[name] = value
    }
    return fields
  }
}
