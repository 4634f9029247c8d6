import PushCore

/// What the gateway keeps in the registry's Redis.
struct GatewayRedisKeys: Sendable {
  private let prefix: String

  init(prefix: String) {
    self.prefix = prefix
  }

  /// A hash: API keys in JSON by their ids.
  var keys: String { "\(prefix){gateway}:keys" }
  /// A hash: when a key was last used, Unix milliseconds, by its id.
  var used: String { "\(prefix){gateway}:used" }

  /// The answer to a request with this idempotency key, or that there is none yet.
  func idempotency(_ key: APIKey, _ route: String, _ idempotency: IdempotencyKey) -> String {
    "\(prefix)gateway:idempotency:\(key.id):\(route):\(idempotency.text)"
  }

  /// A job that was taken.
  func job(_ id: String, in scope: AppScope) -> String { "\(prefix)gateway:job:\(scope.app):\(id)" }
}
