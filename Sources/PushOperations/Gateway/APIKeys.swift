import Foundation
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
      try file.change { $0 + [key] }
    } else {
      _ = try ask(["HSET", redisKeys.keys, key.id, try key.json()])
    }
    return text.text
  }

  /// Lists keys, oldest first.
  /// - Parameter app: the app whose keys to list; nil: all keys.
  package func list(app: String?) throws -> [Listed] {
    let keys = try file?.read() ?? stored()
    let used = (try? hash(redisKeys.used)) ?? [:]
    return keys.filter { app == nil || $0.app == app }.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }.map {
      Listed(key: $0, usedAt: used[$0.id].flatMap { Int64(String(decoding: $0, as: UTF8.self)) })
    }
  }

  /// Deletes a key. Returns whether it existed.
  /// - Parameter name: the key's id, or the whole key.
  package func revoke(_ name: String) throws -> Bool {
    let id = APIKeyText(name)?.id ?? name
    if let file {
      return try file.change { keys in
        keys.contains { $0.id == id } ? keys.filter { $0.id != id } : nil
      }
    }
    return try ask(["HDEL", redisKeys.keys, id]) == .integer(1)
  }

  private func stored() throws -> [APIKey] {
    try hash(redisKeys.keys).map { id, json in
      guard let key = APIKey(json: json) else {
        throw Failure(
          description:
            "redis: \(redisKeys.keys) has an invalid value for \(id): delete it with `herald keys revoke \(id)`")
      }
      return key
    }
  }

  private func hash(_ name: String) throws -> [String: [UInt8]] { try ask(["HGETALL", name]).hash ?? [:] }

  private func ask(_ command: [String]) throws -> RedisReply {
    let session = try connect()
    defer { session.close() }
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
