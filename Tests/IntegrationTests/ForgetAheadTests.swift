import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// What a forget reaches, over a real Redis.
@Suite(.timeLimit(.minutes(1)))
struct ForgetAheadTests {
  /// An app's server with a wrong clock dated what it registered: that yields to what comes now, also to a forget.
  @Test(arguments: [90_000, 7_200_000, 30 * 86_400_000] as [Int64], [nil, "u", "other"])
  func forgetOfAUser_reachesWhatIsDatedTooFarAhead(ahead: Int64, before: String?) throws {
    let registry = try AudienceRegistry(url: RedisServer.shared().url, prefix: "far-\(UInt32.random(in: 0 ... .max)):")
    let scope = registry.scope
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: registry.prefix)
    let forgetter = DeviceForgetter(devices: registry.devices, activities: activities)
    let now = registry.loop.now.unixMilliseconds
    let ride = try #require(ActivityID("ride"))
    for (user, at) in [(before, now - 10_000), ("u", now + ahead)] where user != nil {
      var registration = DeviceRegistration(device: "d-1")
      registration.user = user.map { .set($0) } ?? .keep
      registration.token = .set([1, 2, 3, 4])
      _ = try registry.wait { registry.devices.register(registration, at: at, in: scope, then: $0) }
    }
    let ordinals = try registry.wait { registry.devices.members(of: .user("u"), limit: 2, in: scope, then: $0) }
    let ordinal = try #require(ordinals.first)
    _ = try registry.wait {
      activities.register(ride, in: scope, ordinal: ordinal, token: [9, 9, 1, 1], at: now + ahead, then: $0)
    }
    #expect(try registry.wait { forgetter.forget(.user("u"), at: now, in: scope, then: $0) } == 1)
    #expect(try registry.wait { registry.devices.members(of: .user("u"), limit: 2, in: scope, then: $0) }.isEmpty)
    let members = try registry.wait { activities.show(ride, in: scope, then: $0) }?.members ?? [:]
    #expect(members.isEmpty)
  }
}
