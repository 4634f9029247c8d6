import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Live Activities by id through a worker and real servers: start, update, end, and what becomes of what is late or wrong.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerActivityTests {
  private struct Outcome: Decodable {
    struct To: Decodable { let device: String? }
    let job: String?
    let outcome: String
    let detail: String?
    let to: To?
    let activity: String?
    let revision: Int?
    let cause: String?
    let summary: [String: Int]?

    private enum CodingKeys: String, CodingKey {
      case job = "job_id"
      case outcome, detail, to, activity, revision, cause, summary
    }
  }

  private static let start = #"""
    {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{"eta":9},"alert":{"title":"t","body":"b"}}}
    """#

  @Test func anActivityIsStartedUpdatedAndEnded() throws {
    let url = try RedisServer.shared().url
    let world = try WorkerWorld("activity", redisURL: url)
    let registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
    var outcomes: [Outcome] = []
    func end(of id: String) throws -> Outcome {
      let end = ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 100) { () -> Outcome? in
        for message in (try? world.outside.drain(world.outcomesQueue)) ?? [] {
          if let outcome = try? JSONDecoder().decode(Outcome.self, from: Data(message.body)) {
            outcomes.append(outcome)
          }
        }
        return outcomes.first { $0.job == id }
      }
      return try #require(end, "\(id) did not end: \(outcomes)")
    }
    func publish(_ id: String, _ to: String, _ payload: String, _ more: String = "") throws {
      try world.publish(
        """
        {"id":"\(id)","app":"com.example.app","push_type":"liveactivity","to":\(to),\(more)"payload":\(payload)}
        """, routingKey: "transactional")
    }
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

    try publish("s1", #"{"devices":["d-0","d-1","d-2"]}"#, Self.start, #""activity":"ride-17","#)
    #expect(try end(of: "s1").summary == ["devices": 3, "accepted": 2, "skipped": 1])
    #expect(outcomes.filter { $0.job == "s1/0" }.allSatisfy { $0.activity == "ride-17" && $0.revision == 1 })

    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
    let id = try #require(ActivityID("ride-17"))
    func live() throws -> Int {
      try registry.wait { activities.live(id, in: registry.scope, after: nil, limit: 10, then: $0) }.ordinals.count
    }
    // Apps say the update tokens of what was started.
    func register(_ device: String, _ token: String) throws {
      try world.outside.publish(
        """
        {"kind":"activity","at":\(registry.loop.now.unixMilliseconds),"app":"com.example.app","device":"\(device)",\
        "activity":"ride-17","token":"\(token)"}
        """, exchange: "", routingKey: "\(world.prefix).registrations")
    }
    for number in 0..<2 { try register("d-\(number)", "5\(number)50505050505050") }
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { try? live() == 2 ? true : nil } != nil)
    // Three of one second: lanes may hand them over in another order, and one of them at least is never sent.
    let updates = (1...3).map { number in
      #"{"id":"u\#(number)","app":"com.example.app","push_type":"liveactivity","to":{"activity":"ride-17"},"#
        + #""payload":{"aps":{"event":"update","content-state":{"eta":\#(number)}}}}"#
    }
    let enqueued = try world.herald(
      ["enqueue", "--class", "transactional"], input: updates.joined(separator: "\n") + "\n")
    #expect(enqueued.output == "3 of 3 jobs confirmed\n", "\(enqueued.errors)")
    let ends = try ["u1", "u2", "u3"].map { try end(of: $0) }
    let newest = try #require(ends.max { ($0.revision ?? 0) < ($1.revision ?? 0) }?.job)
    #expect(ends.first { $0.job == newest }?.summary == ["devices": 2, "accepted": 2], "\(ends)")
    for end in ends where end.outcome != "completed" {
      #expect(end.outcome == "throttled" && end.cause == "superseded" && end.activity == "ride-17")
    }
    #expect(ends.contains { $0.outcome == "throttled" }, "\(ends)")

    // A late token is due the newest state, and counts in no summary.
    try register("d-2", "5250505050505050")
    #expect(try end(of: "\(newest)/late/d-2").outcome == "accepted")

    try publish("e1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"end"}}"#)
    #expect(try end(of: "e1").summary == ["devices": 3, "accepted": 3])
    try publish("u4", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{}}}"#)
    let late = try end(of: "u4")
    #expect(late.outcome == "invalid" && late.detail?.hasPrefix("to.activity: has ended") == true, "\(late)")
    try publish("u5", #"{"activity":"unknown"}"#, #"{"aps":{"event":"update","content-state":{}}}"#)
    #expect(try end(of: "u5").detail?.hasPrefix("to.activity: is not known") == true)
  }
}
