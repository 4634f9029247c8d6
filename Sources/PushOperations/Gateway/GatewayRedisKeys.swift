import PushCore

/// Names of the gateway's keys in the registry's Redis.
struct GatewayRedisKeys: Sendable {
  private let prefix: String

  init(prefix: String) {
    self.prefix = prefix
  }

  /// A hash: id of an API key → the key's JSON.
  var keys: String { "\(prefix){gateway}:keys" }
  /// A number that grows with each revocation.
  var revision: String { "\(prefix){gateway}:revision" }
  /// A hash: name of a running gateway → `GatewayHeartbeat`.
  var alive: String { "\(prefix){gateway}:alive" }
  /// A hash: id of an API key → time of its last use, Unix milliseconds.
  var used: String { "\(prefix){gateway}:used" }

  /// The last `sequence` that a gateway took for a job.
  var sequence: String { "\(prefix){gateway}:sequence" }

  /// A hash: `<app>:<environment>:<id>` of a job that a gateway numbered in this period → its number.
  func numbers(period: Int64) -> String { "\(prefix){gateway}:numbers:\(period)" }

  /// The answer to a request with this idempotency key, or a mark that the request is in progress.
  func idempotency(_ key: APIKey, _ route: String, _ idempotency: IdempotencyKey) -> String {
    "\(prefix)gateway:idempotency:\(key.id):\(route):\(idempotency.text)"
  }

  /// Exists for a day after RabbitMQ confirmed the job.
  func job(_ id: String, in scope: AppScope) -> String {
    "\(prefix)gateway:job:\(scope.app):\(scope.environment.name):\(id)"
  }
}
