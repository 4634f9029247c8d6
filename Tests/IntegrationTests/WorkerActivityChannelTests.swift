import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// An activity for many devices through a worker and real servers: those that can have its updates on a broadcast channel, the others by
/// token.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerActivityChannelTests {
  private struct Notification: Decodable {
    struct Payload: Decodable {
      struct APS: Decodable {
        let event: String?
        let channel: String?

        private enum CodingKeys: String, CodingKey {
          case event
          case channel = "input-push-channel"
        }
      }
      let aps: APS
    }
    let payload: Payload
  }

  private struct Way {
    let world: WorkerWorld
    let registry: AudienceRegistry
    let activity: ActivityWorld

    init(_ name: String) throws {
      let url = try RedisServer.shared().url
      world = try WorkerWorld(name, redisURL: url)
      registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
      activity = ActivityWorld(world)
    }

    func register(_ number: Int, _ version: OSVersion?) throws {
      var registration = DeviceRegistration(device: "d-\(number)")
      registration.user = .set("u")
      if let version { registration.osVersion = .set(version) }
      registration.startTokens = [.init(type: "*", token: [UInt8](repeating: UInt8(number + 1), count: 32))]
      _ = try registry.wait {
        registry.devices.register(registration, at: registry.loop.now.unixMilliseconds, in: registry.scope, then: $0)
      }
    }

    func start(above maximum: Int) throws -> WorkerProcess {
      try world.startWorker(
        configuration: world.configuration(furtherLines: "activities: {channel_above: \(maximum)}"))
    }

    func starts() throws -> [Notification] {
      let seen = try #require(LoopbackHTTP.request("GET", "/notifications", port: world.simulator.controlPort))
      return try JSONDecoder().decode([Notification].self, from: Data(seen.body.utf8)).filter {
        $0.payload.aps.event == "start"
      }
    }

    /// Waits until so many devices are live.
    func live(_ count: Int) throws {
      let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
      let id = try #require(ActivityID("ride-17"))
      let isLive = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        let live = try? registry.wait {
          activities.live(id, in: registry.scope, after: nil, limit: 100, then: $0)
        }
        return live?.ordinals.count == count ? true : nil
      }
      #expect(isLive != nil)
    }

    func shown() throws -> String {
      try world.herald(
        ["activities", "show", "ride-17", "--app", "com.example.app", "--environment", "production", "--json"]
      ).output
    }

    /// The id of a second broadcast of a job's state, for the devices of a start.
    static func broadcast(of job: String, after start: String) -> String {
      "\(job)/channel/\(Hex.text(ActivityJobs.word(of: start.utf8.span), count: 16))"
    }

    func channels() throws -> String {
      try world.herald(["channels", "list", "--app", "com.example.app", "--environment", "production", "--json"]).output
    }

    /// Of a job's devices, by their ids, and of its broadcast.
    func ends(of job: String) -> (devices: [String], broadcasts: [ActivityWorld.Outcome]) {
      let outcomes = activity.outcomes.filter { $0.job?.hasPrefix("\(job)/") == true }
      return (outcomes.compactMap { $0.to?.device }.sorted(), outcomes.filter { $0.to?.channel != nil })
    }
  }

  /// The activity is known by then, but whether it takes a channel is decided once its audience is there.
  @Test func aStartForASegmentThatIsMissingDecidesNothing() throws {
    let way = try Way("activity-refused")
    for number in 0..<3 { try way.register(number, OSVersion(major: 18, minor: 0)) }
    let worker = try way.start(above: 2)
    defer { _ = worker.drain(seconds: 30) }
    let (riders, more) = (#"{"segment":"RIDERS"}"#, #""activity":"ride-17","#)
    try way.activity.publish("s1", riders, ActivityWorld.start, more)
    #expect(try way.activity.end(of: "s1").outcome == "invalid")
    try way.registry.put(segment: "RIDERS", filter: #"{"os_at_least":"18"}"#)
    try way.activity.publish("s2", riders, ActivityWorld.start, more)
    #expect(try way.activity.end(of: "s2").summary == ["devices": 3, "accepted": 3], "\(worker.log.suffix(2_000))")
    #expect(try way.starts().compactMap(\.payload.aps.channel).count == 3)
  }

  @Test func aboveTheLimitAnUpdateIsOneBroadcastBesideTheTokensOfTheOthers() throws {
    let way = try Way("activity-channel")
    // Four of seven can; of one nobody knows.
    for number in 0..<4 { try way.register(number, OSVersion(major: 18, minor: UInt16(number))) }
    for number in 4..<6 { try way.register(number, OSVersion(major: 17, minor: 7)) }
    try way.register(6, nil)
    let worker = try way.start(above: 3)
    defer { _ = worker.drain(seconds: 30) }

    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 7, "accepted": 7], "\(worker.log.suffix(2_000))")
    let starts = try way.starts()
    let channel = try #require(starts.compactMap(\.payload.aps.channel).first)
    #expect(starts.count == 7 && starts.filter { $0.payload.aps.channel == channel }.count == 4)
    let listed = try way.channels()
    #expect(listed.contains(channel) && listed.contains(#""name":"activity:ride-17""#), "\(listed)")

    // One whose start names the channel registers a token all the same: its updates come by token.
    for number in [0, 4, 5, 6] { try way.activity.register("d-\(number)", "5\(number)50505050505050") }
    try way.live(4)
    try way.activity.publish(
      "u1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#)
    #expect(try way.activity.end(of: "u1").summary == ["devices": 4, "accepted": 4])
    #expect(try way.activity.end(of: "u1/channel").outcome == "accepted")
    let updated = way.ends(of: "u1")
    #expect(updated.devices == ["d-0", "d-4", "d-5", "d-6"])
    #expect(updated.broadcasts.count == 1 && updated.broadcasts[0].to?.channel == channel)
    #expect(updated.broadcasts[0].activity == "ride-17" && updated.broadcasts[0].revision == 2)

    // Who is added later is on it too, however few they are; the newest state is broadcast once more.
    try way.register(7, OSVersion(major: 26))
    try way.activity.publish("s2", #"{"devices":["d-7"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s2").summary == ["devices": 1, "accepted": 1])
    #expect(try way.starts().filter { $0.payload.aps.channel == channel }.count == 5)
    let again = try way.activity.end(of: Way.broadcast(of: "u1", after: "s2"))
    #expect(again.outcome == "accepted" && again.to?.channel == channel && again.revision == 2)

    // It ends for some: by token, whoever has one; no broadcast ends it for one device.
    try way.activity.publish(
      "l1", #"{"devices":["d-0","d-1","d-4"]}"#, #"{"aps":{"event":"end"}}"#, #""activity":"ride-17","#)
    let left = try way.activity.end(of: "l1")
    #expect(left.outcome == "completed" && left.summary == ["devices": 3, "accepted": 2, "skipped": 1])
    #expect(left.detail?.hasPrefix("not ended for d-1: ") == true, "\(left.detail ?? "")")
    #expect(way.ends(of: "l1").devices == ["d-0", "d-4"] && way.ends(of: "l1").broadcasts.isEmpty)
    // Its producer publishes it again.
    try way.activity.publish(
      "l1", #"{"devices":["d-0","d-1","d-4"]}"#, #"{"aps":{"event":"end"}}"#, #""activity":"ride-17","#)
    let repeated = try way.activity.ends(of: "l1", count: 2)[1]
    #expect(repeated.summary == left.summary && repeated.detail == left.detail, "\(repeated)")
    let shown = try way.shown()
    #expect(shown.contains(#""channel":"\#(channel)""#), "\(shown)")
    #expect(shown.contains(#""device":"d-1","on_channel":true,"revision":0,"#), "\(shown)")
    let keys = ActivityKeys(tag: RegistryKeys(prefix: "\(way.world.prefix):", scope: way.registry.scope).tag)
    let key = keys.activity(try #require(ActivityID("ride-17")))
    let kept = try way.registry.wait { way.registry.redis.call(["HGET", key, "l"], key: key, then: $0) }
    #expect(kept.text?.contains(#""id":"l1""#) == true && kept.text?.contains("d-0") == false, "\(kept)")
    try way.activity.register("d-1", "5150505050505050")
    #expect(try way.activity.end(of: "l1/late/d-1").outcome == "accepted", "its token ends it")

    try way.activity.publish("e1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"end"}}"#)
    #expect(try way.activity.end(of: "e1").summary == ["devices": 2, "accepted": 2])
    #expect(try way.activity.end(of: "e1/channel").outcome == "accepted")
    #expect(way.ends(of: "e1").devices == ["d-5", "d-6"])
  }

  /// A worker died after it may have published the second broadcast: the next one that does marks it.
  @Test func aSecondBroadcastThatMayBeARepetitionSaysSo() throws {
    let way = try Way("activity-repeated")
    for number in 0..<2 { try way.register(number, OSVersion(major: 18)) }
    let worker = try way.start(above: 1)
    defer { _ = worker.drain(seconds: 30) }
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 2, "accepted": 2])
    try way.activity.publish(
      "u1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#)
    #expect(try way.activity.end(of: "u1/channel").ambiguous == false)
    try way.register(2, OSVersion(major: 18))
    try way.world.simulator.setFaults("latency=3000")
    try way.activity.publish("s2", #"{"devices":["d-2"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    let store = way.registry.store
    let isFirst = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 20) {
      (try? way.registry.wait { store.repeatBroadcast(way.registry.job("s2"), then: $0) }) == true ? true : nil
    }
    #expect(isFirst != nil, "as the worker that died did")
    try way.world.simulator.clearFaults()
    #expect(try way.activity.end(of: "s2").summary == ["devices": 1, "accepted": 1])
    let again = try way.activity.end(of: Way.broadcast(of: "u1", after: "s2"))
    #expect(again.outcome == "accepted" && again.ambiguous == true)
  }

  /// APNs takes seconds to create the channel.
  @Test func anUpdateThatOvertakesTheChannelGoesOutOnIt() throws {
    let way = try Way("activity-overtaken")
    for number in 0..<2 { try way.register(number, OSVersion(major: 18)) }
    let worker = try way.start(above: 1)
    defer { _ = worker.drain(seconds: 30) }
    try way.world.simulator.setFaults("latency=4000")
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    let activities = ActivityRegistry(
      loop: way.registry.loop, redis: way.registry.redis, prefix: "\(way.world.prefix):")
    let id = try #require(ActivityID("ride-17"))
    let isAwaited = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 20) {
      let state = try? way.registry.wait { activities.state(id, in: way.registry.scope, then: $0) }
      return state?.updateWay == .awaited ? true : nil
    }
    #expect(isAwaited != nil, "\(worker.log.suffix(2_000))")
    for number in 1...2 {
      try way.activity.publish(
        "u\(number)", #"{"activity":"ride-17"}"#,
        #"{"aps":{"event":"update","content-state":{"eta":\#(number)}}}"#)
      #expect(try way.activity.end(of: "u\(number)").summary == ["devices": 0])
    }
    try way.world.simulator.clearFaults()
    #expect(try way.activity.end(of: "s1").summary == ["devices": 2, "accepted": 2], "\(worker.log.suffix(2_000))")
    #expect(try way.starts().allSatisfy { $0.payload.aps.channel != nil })
    let newest = try way.activity.end(of: Way.broadcast(of: "u2", after: "s1"))
    #expect(newest.outcome == "accepted" && newest.revision == 3)
    #expect(way.ends(of: "u1").broadcasts.isEmpty, "it is older")
  }

  @Test func upToTheLimitAllHaveTokens() throws {
    let way = try Way("activity-tokens")
    for number in 0..<3 { try way.register(number, OSVersion(major: 18)) }
    try way.register(3, OSVersion(major: 17))
    let worker = try way.start(above: 3)
    defer { _ = worker.drain(seconds: 30) }
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 4, "accepted": 4], "\(worker.log.suffix(2_000))")
    #expect(try way.starts().allSatisfy { $0.payload.aps.channel == nil })
    #expect(try way.channels().isEmpty)
    try way.activity.register("d-0", "5050505050505050")
    try way.live(1)
    try way.activity.publish(
      "u1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#)
    #expect(try way.activity.end(of: "u1").summary == ["devices": 1, "accepted": 1])
    #expect(way.ends(of: "u1").broadcasts.isEmpty)
  }

  /// APNs makes no channel: the start waits some seconds for it.
  @Test func withoutAChannelAllHaveTokens() throws {
    let way = try Way("activity-no-channel")
    for number in 0..<2 { try way.register(number, OSVersion(major: 18)) }
    let port = way.world.simulator.controlPort
    _ = LoopbackHTTP.request("POST", "/apps", port: port, body: "com.example.app broadcast=off")
    let worker = try way.start(above: 0)
    defer { _ = worker.drain(seconds: 30) }
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 2, "accepted": 2], "\(worker.log.suffix(2_000))")
    #expect(try way.starts().allSatisfy { $0.payload.aps.channel == nil })
    #expect(worker.log.contains("no channel for ride-17 in time"))
  }

  @Test func aRunningActivitysChannelIsInUse() throws {
    let way = try Way("activity-reap")
    for number in 0..<2 { try way.register(number, OSVersion(major: 18)) }
    let worker = try way.start(above: 1)
    defer { _ = worker.drain(seconds: 30) }
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 2, "accepted": 2], "\(worker.log.suffix(2_000))")
    let channel = try #require(try way.starts().compactMap(\.payload.aps.channel).first)
    let keys = ChannelKeys(prefix: "\(way.world.prefix):", scope: way.registry.scope)
    /// As if it was made, and last used, an hour ago.
    func age() throws {
      let hour = Int64(Date().timeIntervalSince1970) - 3_600
      let entry = "\(StoragePolicy.mostRecent.rawValue)\t\(hour * 1_000)\t\tactivity:ride-17"
      _ = try way.registry.wait {
        way.registry.redis.call(["HSET", keys.ids, channel, entry], key: keys.ids, then: $0)
      }
      _ = try way.registry.wait {
        way.registry.redis.call(["ZADD", keys.used, "\(hour)", channel], key: keys.used, then: $0)
      }
    }
    func reap() throws -> ChildProcess.Output {
      try way.world.herald([
        "channels", "reap", "--unused-for", "30m", "--app", "com.example.app", "--environment", "production",
      ])
    }
    try age()
    let kept = try reap()
    #expect(kept.status == 0 && kept.output.isEmpty && kept.errors.contains("0 channels deleted"), "\(kept)")
    #expect(kept.errors.contains("in use by activities: 1"), "\(kept)")
    try way.activity.publish(
      "u1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#)
    #expect(try way.activity.end(of: "u1/channel").outcome == "accepted")
    try way.activity.publish("e1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"end"}}"#)
    #expect(try way.activity.end(of: "e1/channel").outcome == "accepted")
    #expect(worker.drain(seconds: 30) == 0, "it stores the last uses")
    _ = try way.registry.wait { way.registry.redis.call(["DEL", keys.used], key: keys.used, then: $0) }
    try age()
    // APNs still keeps its end for devices that are offline.
    let ended = try reap()
    #expect(ended.output.isEmpty && ended.errors.contains("in use by activities: 1"), "\(ended)")
    // It is forgotten.
    let index = ActivityKeys(tag: RegistryKeys(prefix: "\(way.world.prefix):", scope: way.registry.scope).tag).index
    _ = try way.registry.wait { way.registry.redis.call(["DEL", index], key: index, then: $0) }
    let reaped = try reap()
    #expect(reaped.output.hasPrefix(channel) && reaped.errors.contains("1 channels deleted"), "\(reaped)")
  }

  @Test func aBroadcastThatFailsIsToldByItsJob() throws {
    let way = try Way("activity-gone")
    for number in 0..<2 { try way.register(number, OSVersion(major: 18)) }
    let worker = try way.start(above: 1)
    defer { _ = worker.drain(seconds: 30) }
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 2, "accepted": 2], "\(worker.log.suffix(2_000))")
    let state = #"{"aps":{"event":"update","content-state":{"eta":5}}}"#
    try way.activity.publish("u1", #"{"activity":"ride-17"}"#, state)
    let good = try way.activity.end(of: "u1")
    #expect(good.summary == ["devices": 0] && good.detail == nil, "\(good)")
    let channel = try #require(try way.starts().compactMap(\.payload.aps.channel).first)
    let deleted = try way.world.herald([
      "channels", "delete", "--channel", channel, "--app", "com.example.app", "--environment", "production",
    ])
    #expect(deleted.status == 0, "\(deleted)")
    try way.activity.publish("u2", #"{"activity":"ride-17"}"#, state)
    #expect(try way.activity.end(of: "u2/channel").outcome == "rejected")
    let end = try way.activity.end(of: "u2")
    #expect(end.outcome == "completed" && end.summary == ["devices": 0])
    #expect(end.detail == "the broadcast on the activity's channel ended rejected: ChannelNotRegistered", "\(end)")
  }

  /// A worker counted a broadcast with the job's pages and died; then Redis lost the activity's channel.
  @Test func aJobWhoseChannelIsLostCompletes() throws {
    let way = try Way("activity-lost-channel")
    try way.register(0, OSVersion(major: 18))
    let worker = try way.start(above: 1)
    defer { _ = worker.drain(seconds: 30) }
    try way.activity.publish("s1", #"{"users":["u"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try way.activity.end(of: "s1").summary == ["devices": 1, "accepted": 1], "\(worker.log.suffix(2_000))")
    let (to, state) = (#"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#)
    // With a revision, as the worker that died published it for itself.
    let job = ActivityWorld.job("u1", to, state, #""revision":2,"#)
    let store = way.registry.store
    var metadata = MessageMetadata()
    metadata.jobClass = .transactional
    _ = try way.registry.wait {
      store.open(
        way.registry.job("u1"), ExpansionCursor(), openMaximum: 100, isDryRun: false, metadata: metadata,
        body: Array(job.utf8), then: $0)
    }
    _ = try way.registry.wait { store.expectBroadcast(way.registry.job("u1"), then: $0) }
    _ = try way.registry.wait {
      store.fix(way.registry.job("u1"), step: 0, pages: [], counted: 0, next: nil, ordinals: 1, then: $0)
    }
    try way.world.outside.publish(job, exchange: "", routingKey: "\(way.world.prefix).expansions")
    let end = try way.activity.end(of: "u1")
    #expect(end.outcome == "completed" && end.summary == ["devices": 0], "\(end)")
    #expect(end.detail == "the broadcast on the activity's channel ended failed: Redis lost the channel", "\(end)")
  }

  /// No job names more devices than the limit; all of them together are more. A start that names the same ones again adds none.
  @Test func severalStartsAreCountedTogether() throws {
    let way = try Way("activity-several")
    for number in 0..<4 { try way.register(number, OSVersion(major: 18)) }
    let worker = try way.start(above: 3)
    defer { _ = worker.drain(seconds: 30) }
    func start(_ id: String, _ devices: String, accepted: Int, skipped: Int = 0) throws {
      try way.activity.publish(id, #"{"devices":[\#(devices)]}"#, ActivityWorld.start, #""activity":"ride-17","#)
      var summary = ["devices": accepted + skipped]
      if accepted > 0 { summary["accepted"] = accepted }
      if skipped > 0 { summary["skipped"] = skipped }
      #expect(try way.activity.end(of: id).summary == summary, "\(worker.log.suffix(2_000))")
    }
    try start("s1", #""d-0","d-1""#, accepted: 2)
    try start("s2", #""d-0","d-1""#, accepted: 0, skipped: 2)
    #expect(try way.channels().isEmpty, "two devices are not four")
    try start("s3", #""d-1","d-2","d-3""#, accepted: 2, skipped: 1)
    let channels = try way.starts().map(\.payload.aps.channel)
    #expect(channels.count == 4 && channels.compactMap(\.self).count == 2, "\(channels)")
    // Who was started before it has a token.
    try way.activity.register("d-0", "5050505050505050")
    try way.live(1)
    try way.activity.publish(
      "u1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#)
    #expect(try way.activity.end(of: "u1").summary == ["devices": 1, "accepted": 1])
    #expect(try way.activity.end(of: "u1/channel").outcome == "accepted")
  }
}
