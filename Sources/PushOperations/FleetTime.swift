import PushIO
import PushSettings
import PushStores

/// The time by which the workers of a fleet count, for commands that date jobs or records.
enum FleetTime {
  /// A clock that goes by the registry's Redis; by this machine if Redis does not answer within half a second, or this host lacks what
  /// the worker's has for it.
  static func wallClock(_ configuration: Configuration) -> WallClock {
    let wallClock = WallClock()
    do {
      let redis = try RedisConfiguration(url: configuration.registryURL)
      RedisClient.teach(wallClock, redis, tls: try configuration.redis.tls(redis))
    } catch {
      return wallClock
    }
    return wallClock
  }
}
