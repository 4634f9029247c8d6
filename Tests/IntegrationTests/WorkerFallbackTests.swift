import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Which devices get a start and which the fallback, through a worker and real servers.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerFallbackTests {
  private struct Notification: Decodable {
    struct Request: Decodable {
      let type: String
      let topic: String

      private enum CodingKeys: String, CodingKey {
        case type = "push_type"
        case topic
      }
    }
    struct Payload: Decodable {
      struct Alert: Decodable, Equatable {
        let title: String
        let body: String
      }
      struct APS: Decodable {
        let event: String?
        let alert: Alert
      }
      let aps: APS
    }
    let request: Request
    let payload: Payload
  }

  private struct Shown: Decodable {
    let members: [String: Int]
  }

  /// Some devices of an audience are started and some alerted, more than fit in a page: each once, despite redeliveries.
  @Test func whoCannotShowItIsAlerted() throws {
    let url = try RedisServer.shared().url
    let world = try WorkerWorld("fallback", redisURL: url)
    let registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
    // The last one has no token of any kind.
    try registry.register(0..<606, user: { _ in "u" }, hasToken: { $0 < 605 })
    for (number, type) in [(0, "*"), (300, "Ride"), (604, "*"), (7, "Other")] {
      var registration = DeviceRegistration(device: "d-\(number)")
      registration.startTokens = [
        .init(type: type, token: [0xEE] + AudienceRegistry.token(number))
      ]
      _ = try registry.wait {
        registry.devices.register(registration, at: registry.loop.now.unixMilliseconds, in: registry.scope, then: $0)
      }
    }
    // One device of its page gets no push.
    let dead = AudienceRegistry.token(600)
    let digits = dead.flatMap { [Hex.digit($0 >> 4), Hex.digit($0 & 15)] }
    let now = registry.loop.now.unixMilliseconds
    try world.simulator.setDevices("\(String(decoding: digits, as: UTF8.self)) unregistered \(now)")
    let worker = try world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    let activity = ActivityWorld(world)
    func start(_ id: String, _ more: String) throws {
      try activity.publish(
        id, #"{"users":["u"]}"#, ActivityWorld.start,
        more + #""activity":"ride-18","fallback":{"title":"A ride","body":"is on its way"},"#)
    }

    try start("count", #""dry_run":true,"#)
    #expect(try activity.end(of: "count").summary == ["devices": 606])
    try start("s1", "")
    #expect(try activity.end(of: "s1").summary == ["devices": 606, "accepted": 604, "unregistered": 1, "skipped": 1])
    let started = activity.outcomes.filter { $0.pushType == "liveactivity" && $0.to?.device != nil }
    #expect(started.compactMap { $0.to?.device }.sorted() == ["d-0", "d-300", "d-604"])
    #expect(started.allSatisfy { $0.job == "s1/0" && $0.topic == "com.example.app.push-type.liveactivity" })
    let alerted = activity.outcomes.filter { $0.pushType == "alert" }
    #expect(alerted.count == 602 && Set(alerted.compactMap { $0.to?.device }).count == 602)
    #expect(Set(alerted.compactMap(\.job)) == ["s1/1", "s1/2"])
    #expect(alerted.contains { $0.to?.device == "d-7" }, "a start token of another type is of no use")
    #expect(
      alerted.allSatisfy {
        $0.outcome == ($0.to?.device == "d-600" ? "unregistered" : "accepted") && $0.topic == "com.example.app"
          && $0.activity == "ride-18" && $0.revision == 1
      })
    let seen = try #require(LoopbackHTTP.request("GET", "/notifications", port: world.simulator.controlPort))
    let notifications = try JSONDecoder().decode([Notification].self, from: Data(seen.body.utf8))
    let alerts = notifications.filter { $0.request.type == "alert" }
    #expect(!alerts.isEmpty && alerts.allSatisfy { $0.request.topic == "com.example.app" })
    #expect(alerts.allSatisfy { $0.payload.aps.alert == .init(title: "A ride", body: "is on its way") })
    #expect(alerts.allSatisfy { $0.payload.aps.event == nil })

    try start("s2", "")
    #expect(try activity.end(of: "s2").summary == ["devices": 606, "skipped": 606])
    let show = try world.herald([
      "activities", "show", "ride-18", "--app", "com.example.app", "--environment", "production", "--json",
    ])
    let shown = try JSONDecoder().decode(Shown.self, from: Data(show.output.utf8))
    #expect(shown.members == ["starting": 0, "started": 3, "alerted": 601, "live": 0, "over": 0, "left": 0], "\(show)")
  }

  /// The job's pages were made by another job with the same id, which had a fallback.
  @Test func aJobWithoutAFallbackEndsNoWorker() throws {
    let url = try RedisServer.shared().url
    let world = try WorkerWorld("twin", redisURL: url)
    let registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
    try registry.register(0..<1)
    let opening = try registry.wait {
      registry.store.open(
        registry.job("twin"), ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(),
        body: Array("{}".utf8), then: $0)
    }
    #expect(opening == .evaluate(from: 0))
    let pages = [PageOrdinals([0], epoch: 0, .fallback)]
    let fixed = try registry.wait {
      registry.store.fix(registry.job("twin"), step: 0, pages: pages, counted: 0, next: nil, ordinals: 1, then: $0)
    }
    #expect(fixed?.pages == 0..<1)
    let worker = try world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try world.publish(
      """
      {"id":"twin","app":"com.example.app","push_type":"alert","to":{"devices":["d-0"]},\
      "payload":{"aps":{"alert":"x"}}}
      """)
    // The worker reads the body in Redis by the job's id; it has no fallback.
    let end = try ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 100) {
      () throws -> ActivityWorld.Outcome? in
      let messages = try world.outside.drain(world.outcomesQueue)
      return messages.compactMap { try? JSONDecoder().decode(ActivityWorld.Outcome.self, from: Data($0.body)) }.first {
        $0.summary != nil
      }
    }
    #expect(end?.summary == ["devices": 1, "accepted": 1], "\(worker.log.suffix(2_000))")
  }
}
