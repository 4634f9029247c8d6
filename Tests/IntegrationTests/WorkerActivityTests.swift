import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Live Activities by id through a worker and real servers: start, update, end, and late or wrong input.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerActivityTests {
  @Test func anActivityIsStartedUpdatedAndEnded() throws {
    let url = try RedisServer.shared().url
    let world = try WorkerWorld("activity", redisURL: url)
    let registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
    let activity = ActivityWorld(world)
    for number in 0..<3 {
      var registration = DeviceRegistration(device: "d-\(number)")
      if number < 2 {
        registration.startTokens = [.init(type: "*", token: [UInt8](repeating: UInt8(number + 1), count: 32))]
      }
      _ = try registry.wait {
        registry.devices.register(registration, at: registry.loop.now.unixMilliseconds, in: registry.scope, then: $0)
      }
    }
    let worker = try world.startWorker()
    defer { _ = worker.drain(seconds: 30) }

    try activity.publish("s1", #"{"devices":["d-0","d-1","d-2"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try activity.end(of: "s1").summary == ["devices": 3, "accepted": 2, "skipped": 1])
    let started = activity.outcomes.filter { $0.job == "s1/0" }
    #expect(started.count == 2 && started.allSatisfy { $0.activity == "ride-17" && $0.revision == 1 }, "\(started)")

    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
    let id = try #require(ActivityID("ride-17"))
    func live() throws -> Int {
      try registry.wait { activities.live(id, in: registry.scope, after: nil, limit: 10, then: $0) }.ordinals.count
    }
    for number in 0..<2 { try activity.register("d-\(number)", "5\(number)50505050505050") }
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { try? live() == 2 ? true : nil } != nil)
    // Three within one second: lanes may hand them over in another order, at least one is never sent, and the last one is the newest.
    let updates = (1...3).map { number in
      ActivityWorld.job(
        "u\(number)", #"{"activity":"ride-17"}"#,
        #"{"aps":{"event":"update","content-state":{"eta":\#(number)}}}"#)
    }
    let enqueued = try world.herald(
      ["enqueue", "--class", "transactional"], input: updates.joined(separator: "\n") + "\n")
    #expect(enqueued.output == "3 of 3 jobs confirmed\n", "\(enqueued.errors)")
    let ends = try ["u1", "u2", "u3"].map { try activity.end(of: $0) }
    let newest = "u3"
    #expect(ends[2].summary == ["devices": 2, "accepted": 2], "\(ends)")
    for end in ends where end.outcome != "completed" {
      #expect(end.outcome == "throttled" && end.cause == "superseded" && end.activity == "ride-17")
    }
    #expect(ends.contains { $0.outcome == "throttled" }, "\(ends)")

    // A late token gets the newest state, and counts in no summary.
    try activity.register("d-2", "5250505050505050")
    #expect(try activity.end(of: "\(newest)/late/d-2").outcome == "accepted")

    try activity.publish("e1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"end"}}"#)
    #expect(try activity.end(of: "e1").summary == ["devices": 3, "accepted": 3])
    try activity.publish("u4", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{}}}"#)
    let late = try activity.end(of: "u4")
    #expect(late.outcome == "invalid" && late.detail?.hasPrefix("to.activity: has ended") == true, "\(late)")
    let shown = try world.herald(["jobs", "show", "u4"])
    #expect(shown.output.contains("note       invalid: \(late.detail ?? "")\n"), "\(shown)")
    try activity.publish("u5", #"{"activity":"unknown"}"#, #"{"aps":{"event":"update","content-state":{}}}"#)
    #expect(try activity.end(of: "u5").detail?.hasPrefix("to.activity: is not known") == true)
    // Its revision is taken before its audience is read.
    try activity.publish("s2", #"{"segment":"NONE"}"#, ActivityWorld.start, #""activity":"ride-18","#)
    let refused = try activity.end(of: "s2")
    let hint = "mend that and repeat this start: another payload needs another id than ride-18"
    #expect(refused.detail == "to.segment: names the segment NONE, which does not exist; \(hint)", "\(refused)")
  }

  /// A job of which nothing is sent ends in the same way each time it comes, whatever became of its activity.
  @Test func aWithdrawnJobStaysWithdrawn() throws {
    let url = try RedisServer.shared().url
    let world = try WorkerWorld("withdrawn", redisURL: url)
    let registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
    let id = try #require(ActivityID("ride-17"))
    let activity = ActivityWorld(world)
    let worker = try world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    func update(_ number: Int) -> String {
      ActivityWorld.job(
        "u\(number)", #"{"activity":"ride-17"}"#,
        #"{"aps":{"event":"update","content-state":{"eta":\#(number)}}}"#)
    }
    func publish(_ number: Int) throws { try world.publish(update(number), routingKey: "transactional") }

    try publish(1)
    #expect(try activity.end(of: "u1").detail?.hasPrefix("to.activity: is not known") == true)
    // Its app starts it: from now on an update is valid.
    try activity.register("d-0", "5050505050505050")
    let isKnown = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
      let state = try? registry.wait { activities.state(id, in: registry.scope, then: $0) }
      return state == nil ? nil : true
    }
    #expect(isKnown != nil)
    try publish(1)
    let refused = try activity.ends(of: "u1", count: 2)
    #expect(refused.allSatisfy { $0.outcome == "invalid" && $0.detail == refused[0].detail }, "\(refused)")

    // Of three within one second at least one is never sent.
    let updates = (2...4).map(update).joined(separator: "\n")
    let enqueued = try world.herald(["enqueue", "--class", "transactional"], input: updates + "\n")
    #expect(enqueued.output == "3 of 3 jobs confirmed\n", "\(enqueued.errors)")
    let ends = try (2...4).map { try (number: $0, end: activity.end(of: "u\($0)")) }
    let overtaken = try #require(ends.first { $0.end.outcome == "throttled" }, "\(ends)")
    try publish(overtaken.number)
    let again = try activity.ends(of: "u\(overtaken.number)", count: 2)
    #expect(again.allSatisfy { $0.outcome == "throttled" && $0.cause == "superseded" }, "\(again)")
    #expect(again[0].revision == again[1].revision && again[0].revision != nil)
    let why = try world.herald(["jobs", "show", "u\(overtaken.number)"]).output
    #expect(why.contains("note       throttled: a newer job of its activity"), "\(why)")
    #expect(activity.outcomes.allSatisfy { $0.job?.hasPrefix("u1/") != true }, "nothing of it was sent")
    let shown = try world.herald(["jobs", "show", "u1", "--json"])
    #expect(shown.output.contains(#""state":"completed""#), "\(shown.output) \(shown.errors)")
  }
}
