import PushCore
import PushIO
import PushStores

/// Stores the ids of confirmed jobs in Redis, where every gateway finds them. Used only on its loop's thread.
struct ConfirmedJobs {
  let redis: RedisClient
  let names: GatewayRedisKeys

  private static let seconds = "\(GatewayBackendLoop.rememberedSeconds)"

  /// Sends the id with the loop's next flush. Without Redis it is not stored.
  func store(_ id: String, in scope: AppScope) {
    guard redis.isConnected else { return }
    let key = names.job(id, in: scope)
    redis.call(["SET", key, "", "EX", ConfirmedJobs.seconds], key: key) { _ in }
  }
}
