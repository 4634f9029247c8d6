import PushCore
import PushIO
import PushStores

/// Stores the ids of confirmed jobs in Redis, many with one write. Used only on its loop's thread.
final class ConfirmedJobs {
  private let loop: EventLoop
  private let redis: RedisClient
  private let names: GatewayRedisKeys
  /// Not written yet.
  private var keys: [String] = []

  private static let delayMilliseconds: Int64 = 5
  private static let keysMaximum = 256

  init(loop: EventLoop, redis: RedisClient, names: GatewayRedisKeys) {
    self.loop = loop
    self.redis = redis
    self.names = names
  }

  /// All ids are written.
  var isIdle: Bool { keys.isEmpty }

  func add(_ id: String, in scope: AppScope) {
    guard redis.isConnected else { return }
    if keys.isEmpty {
      loop.schedule(afterMilliseconds: ConfirmedJobs.delayMilliseconds) { [weak self] in self?.store() }
    }
    keys.append(names.job(id, in: scope))
    if keys.count >= ConfirmedJobs.keysMaximum { store() }
  }

  /// Writes them now.
  func store() {
    for key in keys {
      redis.call(["SET", key, "", "EX", ConfirmedJobs.seconds], key: key) { _ in }
    }
    keys.removeAll(keepingCapacity: true)
  }

  private static let seconds = "\(GatewayBackendLoop.rememberedSeconds)"
}
