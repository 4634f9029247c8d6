import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// A forgotten device is a member of no Live Activity, and none of its tokens is left: with a real Redis and RabbitMQ.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ActivityForgetTests {
  private static let payload = #"{"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{}}}"#

  private static func token(_ ride: Int, _ device: Int) -> [UInt8] {
    [UInt8](repeating: UInt8(0xA0 + ride), count: 15) + [UInt8(device)]
  }

  /// Redis' data about devices and activities, as text in which bytes are `\x…`; without sets of ordinals.
  private func dump(_ redis: RedisServer) throws -> String {
    let script = """
      local reads = {hash = {'HGETALL'}, string = {'GET'}, set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1}}
      local all = {}
      for _, key in ipairs(redis.call('KEYS', '*')) do
        local isSet = key:find(':free', 1, true) or key:find(':p:', 1, true) or key:find(':c:', 1, true)
        local read = reads[redis.call('TYPE', key).ok]
        if read and (not isSet or key:find(':a:', 1, true)) then
          all[#all + 1] = {key, redis.call(read[1], key, unpack(read, 2))}
        end
      end
      return all
      """
    return try redis.cli(["--no-raw", "EVAL", script, "0"])
  }

  @Test func nothingOfAForgottenUserIsLeft() throws {
    let redis = try RedisServer()
    defer { redis.stop() }
    let registry = try AudienceRegistry(url: redis.url, prefix: "f:")
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "f:")
    let forgetter = DeviceForgetter(devices: registry.devices, activities: activities)
    let scope = registry.scope
    let now = registry.loop.now.unixMilliseconds
    // Enough devices to be found in several parts.
    try registry.register(0..<300, user: { $0 == 7 ? "other" : "user" })
    let rides = try (0..<40).map { try #require(ActivityID("ride-\($0)")) }
    let payload = try ActivityPayload(Array(Self.payload.utf8))
    let ordinals = try [5, 6, 7, 200].map { number in
      try #require(
        try registry.wait { registry.devices.members(of: .id("d-\(number)"), limit: 1, in: scope, then: $0) }.first)
    }
    _ = try registry.wait { activities.start(rides[0], in: scope, payload: payload, job: 1, then: $0) }
    _ = try registry.wait {
      activities.resolveStart(of: rides[0], in: scope, job: 1, to: Array(ordinals[..<3]), then: $0)
    }
    for (number, ride) in rides.enumerated() {
      for index in 1...3 {
        let token = Self.token(number, index)
        _ = try registry.wait {
          activities.register(ride, in: scope, ordinal: ordinals[index], token: token, at: now, then: $0)
        }
      }
    }
    /// How many activities still have the token of the user's first device, of the other user's, and of the user's last device.
    func found(_ text: String) -> [Int] {
      (1...3).map { index in
        rides.indices.count { ride in
          let byte = "\\x\(String(0xA0 + ride, radix: 16))"
          return text.contains("\(byte)\(byte)\\x0\(index)")
        }
      }
    }
    let everything = try dump(redis)
    #expect(found(everything) == [40, 40, 40] && everything.contains("user"))

    // A device that was seen since stays, with its memberships.
    let kept = try registry.wait {
      forgetter.forget(.user("user"), at: now - 3_600_000, in: scope, then: $0)
    }
    #expect(kept == 0)
    #expect(try members(of: rides[0], activities, registry) == ordinals.sorted())

    let count = try registry.wait {
      forgetter.forget(.user("user"), at: registry.loop.now.unixMilliseconds, in: scope, then: $0)
    }
    #expect(count == 299)
    for ride in rides { #expect(try members(of: ride, activities, registry) == [ordinals[2]]) }
    let left = try dump(redis)
    #expect(found(left) == [0, 40, 0] && !left.contains("user") && left.contains("other"), "\(left)")
    // The other user's device, by its id.
    let last = try registry.wait {
      forgetter.forget(.device("d-7"), at: registry.loop.now.unixMilliseconds, in: scope, then: $0)
    }
    #expect(last == 1)
    for ride in rides { #expect(try members(of: ride, activities, registry) == []) }
    // Nothing tells which activities a device was in, and the marks tell nobody's name.
    let keys = try redis.cli(["KEYS", "*"])
    #expect(!keys.contains(":a:d:") && !keys.contains("d-7") && keys.contains("forgotten:"))
  }

  /// The number of scripts and other commands that Redis has run, without those that only read this number.
  private func commandCount(_ redis: RedisServer) throws -> Int {
    try redis.cli(["INFO", "commandstats"]).split(whereSeparator: \.isNewline).reduce(0) { sum, line in
      guard line.hasPrefix("cmdstat_"), !line.hasPrefix("cmdstat_info") else { return sum }
      let calls = line.split(separator: "calls=").dropFirst().first?.prefix { $0 != "," }
      return sum + (calls.flatMap { Int($0) } ?? 0)
    }
  }

  /// An app may have 100,000 activities: a user who is in none of them is forgotten for the same price.
  @Test func forget_costsWhatTheUserHas_notWhatTheAppHas() throws {
    let redis = try RedisServer()
    defer { redis.stop() }
    let registry = try AudienceRegistry(url: redis.url, prefix: "cost:")
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "cost:")
    let forgetter = DeviceForgetter(devices: registry.devices, activities: activities)
    let scope = registry.scope
    try registry.register(0..<4, user: { "u-\($0)" })
    let now = registry.loop.now.unixMilliseconds
    func join(_ rides: Range<Int>) throws {
      for number in rides {
        let id = try #require(ActivityID("ride-\(number)"))
        _ = try registry.wait {
          activities.register(
            id, in: scope, ordinal: 3, token: [1, 2, 3, 4], at: now, then: $0)
        }
      }
    }
    func cost(_ user: Int) throws -> Int {
      let before = try commandCount(redis)
      let count = try registry.wait {
        forgetter.forget(.user("u-\(user)"), at: registry.loop.now.unixMilliseconds, in: scope, then: $0)
      }
      #expect(count == 1)
      return try commandCount(redis) - before
    }
    try join(0..<1)
    // The first one loads the scripts.
    _ = try cost(0)
    let few = try cost(1)
    try join(1..<200)
    let many = try cost(2)
    #expect(many == few && 5..<60 ~= few, "\(few) commands, then \(many)")
    #expect(try members(of: #require(ActivityID("ride-199")), activities, registry) == [3])
    _ = try cost(3)
    #expect(try members(of: #require(ActivityID("ride-199")), activities, registry) == [])
    #expect(try members(of: #require(ActivityID("ride-0")), activities, registry) == [])
  }

  /// The marks of the build before named devices and users.
  @Test func aMarkOfTheBuildBefore_isHeeded() throws {
    let registry = try AudienceRegistry(
      url: RedisServer.shared().url, prefix: "marks-\(UInt32.random(in: 0 ... .max)):")
    let scope = registry.scope
    let now = registry.loop.now.unixMilliseconds
    for (subject, hasSecret) in [("d:d-1", false), ("u:u-1", true)] {
      if hasSecret {
        let forgetter = DeviceForgetter(
          devices: registry.devices,
          activities: ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "marks:"))
        #expect(try registry.wait { forgetter.forget(.device("d-9"), at: now, in: scope, then: $0) } == 0)
      }
      let key = registry.devices.keys(scope).tag + "forgotten:" + subject
      _ = try registry.wait { registry.redis.call(["SET", key, "\(now)"], key: key, then: $0) }
      var registration = DeviceRegistration(device: "d-1")
      registration.user = .set("u-1")
      #expect(
        try registry.wait { registry.devices.register(registration, at: now - 1, in: scope, then: $0) } == .forgotten)
      _ = try registry.wait { registry.redis.call(["DEL", key], key: key, then: $0) }
    }
    // The forget that the mark asked for has left a mark of this build.
    #expect(
      try registry.wait {
        registry.devices.register(DeviceRegistration(device: "d-1"), at: now - 1, in: scope, then: $0)
      } == .forgotten)
  }

  private func members(
    of id: ActivityID, _ activities: ActivityRegistry, _ registry: AudienceRegistry
  ) throws -> [UInt32]? {
    try registry.wait { activities.show(id, in: registry.scope, then: $0) }?.members.keys.sorted()
  }

  /// A device that was seen since the forget stays a member of what it joined since, whoever it belongs to now.
  @Test(arguments: [ForgottenSubject.user("u"), .device("d-1")])
  func deviceThatStays_leavesOlderActivitiesOnly(subject: ForgottenSubject) throws {
    let registry = try AudienceRegistry(url: RedisServer.shared().url, prefix: "stay-\(UInt32.random(in: 0 ... .max)):")
    let scope = registry.scope
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: registry.prefix)
    let forgetter = DeviceForgetter(devices: registry.devices, activities: activities)
    let now = registry.loop.now.unixMilliseconds
    func register(at: Int64, _ change: (inout DeviceRegistration) -> Void) throws {
      var registration = DeviceRegistration(device: "d-1")
      change(&registration)
      _ = try registry.wait { registry.devices.register(registration, at: at, in: scope, then: $0) }
    }
    func device() throws -> (ordinal: UInt32, fingerprint: UInt32) {
      let ordinals = try registry.wait { registry.devices.members(of: .id("d-1"), limit: 1, in: scope, then: $0) }
      let ordinal = try #require(ordinals.first)
      let fingerprints = try registry.wait { registry.devices.fingerprints(of: [ordinal], in: scope, then: $0) }
      return (ordinal, fingerprints[0])
    }
    try register(at: now - 10_000) {
      $0.user = .set("u")
      $0.token = .set([1, 2, 3, 4])
    }
    let before = try device()
    // More than are read at once.
    let (older, newer) = try (
      (0..<70).map { try #require(ActivityID("old-\($0)")) },
      (0..<70).map { try #require(ActivityID("new-\($0)")) }
    )
    for (rides, at) in [(older, now - 9_000), (newer, now - 1_000)] {
      for (number, ride) in rides.enumerated() {
        _ = try registry.wait {
          activities.register(
            ride, in: scope, ordinal: before.ordinal, device: before.fingerprint, token: [9, UInt8(number), 1, 1],
            at: at, then: $0)
        }
      }
    }
    try register(at: now - 2_000) { $0.locale = .set("de") }
    for _ in 0..<2 {
      _ = try registry.wait { forgetter.forget(subject, at: now - 5_000, in: scope, then: $0) }
      let after = try device()
      #expect(after.ordinal == before.ordinal && after.fingerprint != before.fingerprint, "its user is gone")
      for ride in older { #expect(try members(of: ride, activities, registry) ?? [] == []) }
      for ride in newer {
        let found = try registry.wait { activities.show(ride, in: scope, then: $0) }?.members
        #expect(found?[after.ordinal]?.device == after.fingerprint, "it left \(ride.text)")
      }
    }
    // Forgotten as of now, it leaves all.
    _ = try registry.wait { forgetter.forget(.device("d-1"), at: now, in: scope, then: $0) }
    for ride in newer { #expect(try members(of: ride, activities, registry) ?? [] == []) }
  }

  /// A forget of a user who had no device then, stored after the device became the user's: it stays in what it joined before.
  @Test func lateForgetOfAUser_leavesWhatTheDeviceJoinedBefore() throws {
    let registry = try AudienceRegistry(url: RedisServer.shared().url, prefix: "late-\(UInt32.random(in: 0 ... .max)):")
    let scope = registry.scope
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: registry.prefix)
    let forgetter = DeviceForgetter(devices: registry.devices, activities: activities)
    let now = registry.loop.now.unixMilliseconds
    let ride = try #require(ActivityID("ride"))
    func register(at: Int64, _ user: String?) throws {
      var registration = DeviceRegistration(device: "d-1")
      registration.user = user.map { .set($0) } ?? .keep
      _ = try registry.wait { registry.devices.register(registration, at: at, in: scope, then: $0) }
    }
    try register(at: now - 9_000, "other")
    let ordinal = try #require(
      try registry.wait { registry.devices.members(of: .id("d-1"), limit: 1, in: scope, then: $0) }.first)
    _ = try registry.wait {
      activities.register(ride, in: scope, ordinal: ordinal, token: [1, 2, 3, 4], at: now - 8_000, then: $0)
    }
    // The user's now, then somebody's again: found in both places.
    for user in ["user", "somebody"] {
      try register(at: now - 3_000 + (user == "user" ? 0 : 1_000), user)
      let count = try registry.wait { forgetter.forget(.user("user"), at: now - 5_000, in: scope, then: $0) }
      #expect(count == 0)
      #expect(try members(of: ride, activities, registry) == [ordinal], "\(user)")
    }
  }

  /// A device that registers again after it was forgotten is known. An update token from before the forget is ignored all the same.
  @Test func aTokenFromBeforeTheForgetIsIgnored() throws {
    let queue = try RegistrationQueue("before")
    defer { queue.admin.close() }
    let registry = queue.registry
    let activities = queue.activities
    let ride = try #require(ActivityID("ride"))
    let forgetter = DeviceForgetter(devices: registry.devices, activities: activities)
    let now = registry.loop.now.unixMilliseconds
    func register(at: Int64) throws -> RegistrationAnswer {
      try registry.wait {
        registry.devices.register(DeviceRegistration(device: "d-1"), at: at, in: registry.scope, then: $0)
      }
    }
    func publish(token: String, at: Int64) throws -> [String: UInt64] {
      try queue.publish([
        #"{"kind":"activity","at":\#(at),"app":"com.example.app","device":"d-1","activity":"ride","token":"\#(token)"}"#
      ])
      let results = try queue.consume()
      return Dictionary(results.flatMap { $0.map { ($0.key.result, $0.value) } }, uniquingKeysWith: +)
    }
    #expect(try register(at: now - 30) == .added)
    #expect(try registry.wait { forgetter.forget(.device("d-1"), at: now - 20, in: registry.scope, then: $0) } == 1)
    #expect(try register(at: now - 10) == .added)
    #expect(try publish(token: "5050505050505050", at: now - 25) == ["forgotten": 1])
    #expect(try members(of: ride, activities, registry) == nil)
    #expect(try publish(token: "5151515151515151", at: now - 5) == ["changed": 1])
    #expect(try members(of: ride, activities, registry)?.count == 1)
  }

  /// Another token may make the device known again just before it.
  @Test func aTokenFromBeforeTheForgetIsIgnoredBesideANewerOne() throws {
    let queue = try RegistrationQueue("beside")
    defer { queue.admin.close() }
    let registry = queue.registry
    let forgetter = DeviceForgetter(devices: registry.devices, activities: queue.activities)
    let now = registry.loop.now.unixMilliseconds
    for number in 0..<200 {
      let registration = DeviceRegistration(device: "d-\(number)")
      _ = try registry.wait { registry.devices.register(registration, at: now - 30, in: registry.scope, then: $0) }
      let count = try registry.wait {
        forgetter.forget(.device("d-\(number)"), at: now - 20, in: registry.scope, then: $0)
      }
      try #require(count == 1)
    }
    func token(_ number: Int, _ activity: String, at: Int64) -> String {
      """
      {"kind":"activity","at":\(at),"app":"com.example.app","device":"d-\(number)","activity":"\(activity)",\
      "token":"50505050\(number + 10_000_000)"}
      """
    }
    try queue.publish(
      (0..<200).flatMap { number in
        let both = [token(number, "new", at: now - 10), token(number, "old", at: now - 25)]
        return number % 2 == 0 ? both : both.reversed()
      })
    let results = try queue.consume()
    let forgotten = results.reduce(0) { $0 + $1[.init(kind: "activity", result: "forgotten"), default: 0] }
    #expect(forgotten == 200, "\(results)")
    #expect(try members(of: #require(ActivityID("new")), queue.activities, registry)?.count == 200)
    #expect(try members(of: #require(ActivityID("old")), queue.activities, registry) ?? [] == [])
  }

  /// A device of the user appears, with an update token, at any moment of the forget: in the end it is in no activity.
  @Test func aDeviceThatComesWithTheForgetIsNoMember() throws {
    let redis = try RedisServer.shared()
    let prefix = "amid-\(UInt32.random(in: 0 ... .max)):"
    let one = try AudienceRegistry(url: redis.url, prefix: prefix)
    let other = try AudienceRegistry(url: redis.url, prefix: prefix)
    let scope = one.scope
    let activities = ActivityRegistry(loop: one.loop, redis: one.redis, prefix: prefix)
    let others = ActivityRegistry(loop: other.loop, redis: other.redis, prefix: prefix)
    let forgetter = DeviceForgetter(devices: one.devices, activities: activities)
    let ride = try #require(ActivityID("ride"))
    let now = one.loop.now.unixMilliseconds
    var addedCount = 0
    for turns in 0..<16 {
      let (user, device) = ("u-\(turns)", "d-\(turns)")
      var count: Result<Int, DeviceRegistryFailure>?
      forgetter.forget(.user(user), at: now, in: scope) { count = $0 }
      for _ in 0..<turns where count == nil { one.turn() }
      var registration = DeviceRegistration(device: device)
      registration.user = .set(user)
      let answer = try other.wait { other.devices.register(registration, at: now - 10, in: scope, then: $0) }
      if answer == .added {
        addedCount += 1
        let ordinals = try other.wait { other.devices.members(of: .id(device), limit: 1, in: scope, then: $0) }
        if let ordinal = ordinals.first {
          _ = try other.wait {
            others.register(ride, in: scope, ordinal: ordinal, token: [1, 2, 3, 4], at: now - 5, then: $0)
          }
        }
      }
      while count == nil { _ = try one.wait { one.devices.members(of: .everyone, limit: 1, in: scope, then: $0) } }
      #expect(try members(of: ride, activities, one) ?? [] == [], "after \(turns) turns")
    }
    #expect(addedCount > 0, "some came before the mark")
  }

  /// A token from before a forget takes away, at any moment, the device that a newer token made known: the newer one counts all the same.
  @Test func aNewerTokenCountsWhileAnOlderOneIsForgotten() throws {
    let redis = try RedisServer.shared()
    let prefix = "newer-\(UInt32.random(in: 0 ... .max)):"
    let one = try AudienceRegistry(url: redis.url, prefix: prefix)
    let other = try AudienceRegistry(url: redis.url, prefix: prefix)
    let scope = one.scope
    let activities = ActivityRegistry(loop: one.loop, redis: one.redis, prefix: prefix)
    let topology = Topology(prefix: "newer", retryDelaysSeconds: [1])
    // No state is late here: it publishes nothing.
    let publisher = ConfirmedPublisher(
      loop: one.loop,
      settings: RabbitMQSettings(
        addresses: [try AMQPAddress("amqp://guest:guest@127.0.0.1:1")], tls: nil, topology: topology, laneName: "test",
        prefetch: 2, randomSeed: 1)
    ) { _, _ in }
    let registrar = ActivityRegistrar(
      devices: one.devices, activities: activities, publisher: publisher, topology: topology)
    let forgetter = DeviceForgetter(devices: one.devices, activities: activities)
    let ride = try #require(ActivityID("ride"))
    let now = one.loop.now.unixMilliseconds
    var count = 0
    for (turns, others) in (0..<8).flatMap({ turns in (0..<6).map { (turns, $0) } }) {
      let device = "d-\(turns)-\(others)"
      _ = try one.wait { one.devices.register(DeviceRegistration(device: device), at: now - 30, in: scope, then: $0) }
      _ = try one.wait { forgetter.forget(.device(device), at: now - 20, in: scope, then: $0) }
      var older: Result<RegistrationAnswer, DeviceRegistryFailure>?
      var newer: Result<RegistrationAnswer, DeviceRegistryFailure>?
      other.devices.appear(device, at: now - 25, in: scope) { older = $0 }
      for _ in 0..<others where older == nil { other.turn() }
      registrar.register(
        ActivityRegistration(device: device, activity: "ride", token: [1, 2, 3, 4]), at: now - 10, in: scope
      ) { newer = $0 }
      for _ in 0..<turns where newer == nil { one.turn() }
      while older == nil { other.turn() }
      while newer == nil { one.turn() }
      #expect(try newer?.get() == .changed, "after \(turns) turns and \(others) of the other")
      count += 1
    }
    #expect(try members(of: ride, activities, one)?.count == count)
  }

  /// Update tokens and forgets reach two consumers in any order: in the end, every member is a device.
  @Test func aTokenThatComesWithTheForgetStaysNowhere() throws {
    let queue = try RegistrationQueue("forget")
    defer { queue.admin.close() }
    let registry = queue.registry
    let head = #""app":"com.example.app""#
    try registry.register(0..<200)
    let later = registry.loop.now.unixMilliseconds + 1
    try queue.publish(
      (0..<200).flatMap { number in
        [
          #"{"kind":"activity","at":\#(later),\#(head),"device":"d-\#(number)","activity":"ride","token":"50505050\#(number + 10_000_000)"}"#,
          #"{"kind":"forget","at":\#(later + 1),\#(head),"device":"d-\#(number)"}"#,
        ]
      })
    let results = try queue.consume()
    let forgets = results.reduce(0) { $0 + $1[.init(kind: "forget", result: "changed"), default: 0] }
    let answered = results.reduce(0) { sum, results in
      sum + results.filter { $0.key.kind == "activity" }.values.reduce(0, +)
    }
    #expect(forgets == 200 && answered == 200, "\(results)")
    let activities = queue.activities
    #expect(try members(of: #require(ActivityID("ride")), activities, registry) ?? [] == [])
  }
}

/// A queue of registrations of its own, and the registry that they go to.
private final class RegistrationQueue {
  let admin: AMQPAdmin
  let registry: AudienceRegistry
  let activities: ActivityRegistry
  private let topology: Topology
  private let address: AMQPAddress
  private let redis: RedisServer
  private let prefix: String

  init(_ name: String) throws {
    redis = try RedisServer.shared()
    prefix = "\(name)-\(UInt32.random(in: 0 ... .max))"
    topology = Topology(prefix: prefix, resultsLog: nil)
    address = try AMQPAddress(RabbitMQServer.shared().url)
    admin = try AMQPAdmin(patient: address)
    try admin.perform(all: topology.declarations)
    registry = try AudienceRegistry(url: redis.url, prefix: "\(prefix):")
    activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(prefix):")
  }

  func publish(_ bodies: [String]) throws {
    for body in bodies {
      try admin.publish(
        to: AMQPExchange("", isMandatory: true), routingKey: topology.registrationsQueue, properties: AMQPProperties(),
        body: Array(body.utf8))
    }
    try admin.waitForConfirms()
  }

  /// What two consumers made of everything in the queue.
  func consume() throws -> [[RegistrationCounters.Key: UInt64]] {
    let consumers = try (0..<2).map { number in
      var settings = RegistrationConsumerSettings(
        rabbitmq: RabbitMQSettings(
          addresses: [address], tls: nil, topology: topology, laneName: "test/\(number)", prefetch: 2, randomSeed: 1),
        redis: try RedisConfiguration(url: redis.url), redisTLS: nil, prefix: "\(prefix):")
      settings.drainTimeoutMilliseconds = 10_000
      settings.registrationsMaximum = 50
      return RegistrationConsumer(settings, logger: Logger(label: "test"), untilEmpty: true)
    }
    for consumer in consumers { consumer.start(WallClock()) }
    let isDone = ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 20) { () -> Bool? in
      consumers.allSatisfy(\.isExhausted) ? true : nil
    }
    #expect(isDone == true)
    for consumer in consumers {
      consumer.drain()
      consumer.join()
    }
    return consumers.map(\.counters.results)
  }
}
