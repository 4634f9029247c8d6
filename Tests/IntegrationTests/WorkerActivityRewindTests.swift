import Foundation
import PushCore
import PushStores
import TestSupport
import Testing

/// Updates of a Live Activity through a worker while Redis is restored to a moment ago.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerActivityRewindTests {
  /// An update that waits for its second is lost, and an older one comes: it is no reason to end the one that waits.
  @Test func updateThatIsHeld_isNotEndedByAnOlderOne() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("rewind", redisURL: redis.url)
    let registry = try AudienceRegistry(url: redis.url, prefix: "\(world.prefix):")
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: registry.prefix)
    let activity = ActivityWorld(world)
    let id = try #require(ActivityID("ride-17"))
    let worker = try world.startWorker()
    try registry.register(0..<2)
    try activity.register("d-0", "5050505050505050")
    func wait(_ isThere: @escaping (ActivityState) -> Bool) -> Bool {
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 5) { () -> Bool? in
        guard let state = try? registry.wait({ activities.state(id, in: registry.scope, then: $0) }) else { return nil }
        return isThere(state) ? true : nil
      } ?? false
    }
    func number() throws -> UInt32 {
      try registry.wait { activities.state(id, in: registry.scope, then: $0) }?.content?.revision.number ?? 0
    }
    #expect(wait { _ in true }, "\(worker.log)")
    let first = Int64(Date().timeIntervalSince1970 * 1_000_000)
    func update(_ name: String, _ sequence: Int64) throws {
      try activity.publish(
        name, #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":5}}}"#,
        #""sequence":\#(first + sequence),"#)
    }
    for round in 0..<3 as Range<Int64> {
      try update("before-\(round)", round * 1_000)
      #expect(try activity.end(of: "before-\(round)").summary == ["devices": 1, "accepted": 1])
      // Each has a second of its own, the next one after the last: the update has to wait for its own.
      let others = (0..<6).map { "other-\(round)-\($0)" }
      for other in others {
        try activity.publish(
          other, #"{"devices":["d-1"]}"#, #"{"aps":{"event":"end"}}"#, #""activity":"ride-17","#)
      }
      for end in try activity.ends(ofEach: others) { #expect(end.outcome == "completed") }
      try redis.mark(world.prefix)
      let known = try number()
      let requests = try world.simulator.counters().requests
      try update("held-\(round)", round * 1_000 + 300)
      #expect(wait { $0.content?.revision.number ?? 0 > known })
      try redis.rewind(world.prefix, ends: false)
      #expect(try world.simulator.counters().requests == requests)
      try update("older-\(round)", round * 1_000 + 200)
      #expect(
        try activity.end(of: "held-\(round)").summary == ["devices": 1, "accepted": 1], "\(worker.log.suffix(2_000))")
      _ = try activity.end(of: "older-\(round)")
    }
    #expect(worker.drain(seconds: 20) == 0)
  }
}
