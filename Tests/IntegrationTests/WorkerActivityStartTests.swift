import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Starts of a Live Activity whose pushes APNs does not accept, through a worker and real servers.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerActivityStartTests {
  private struct Shown: Decodable {
    let members: [String: Int]
  }

  private struct Start {
    let world: WorkerWorld
    let registry: AudienceRegistry
    let activity: ActivityWorld

    init(_ name: String) throws {
      let url = try RedisServer.shared().url
      world = try WorkerWorld(name, redisURL: url)
      registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
      activity = ActivityWorld(world)
    }

    func register(_ number: Int, startToken: [UInt8]? = nil, token: [UInt8]? = nil) throws {
      var registration = DeviceRegistration(device: "d-\(number)")
      registration.user = .set("u")
      if let startToken {
        registration.startTokens = [.init(type: "*", token: startToken + [UInt8](repeating: 7, count: 30))]
      }
      if let token { registration.token = .set(token + [UInt8](repeating: 7, count: 30)) }
      _ = try registry.wait {
        registry.devices.register(registration, at: registry.loop.now.unixMilliseconds, in: registry.scope, then: $0)
      }
    }

    /// - Parameter more: further members of the job, each with a comma.
    func start(_ id: String, _ more: String = "") throws {
      try activity.publish(id, #"{"users":["u"]}"#, ActivityWorld.start, more + #""activity":"ride-17","#)
    }

    /// The members by state, without the zeros.
    func members() throws -> [String: Int] {
      let show = try world.herald([
        "activities", "show", "ride-17", "--app", "com.example.app", "--environment", "production", "--json",
      ])
      return try JSONDecoder().decode(Shown.self, from: Data(show.output.utf8)).members.filter { $0.value > 0 }
    }
  }

  @Test func aStartThatWasSurelyNotAcceptedLeavesItsDeviceFree() throws {
    let start = try Start("start-refused")
    try start.register(0, startToken: [0xE0, 0])
    try start.register(1, startToken: [0xE1, 0])
    try start.register(2, startToken: [0xBA, 0xD0])
    try start.register(3, token: [0xE3, 0])
    try start.register(4, startToken: [0xE4, 0])
    try start.world.simulator.setFaults(
      """
      prefix=e0,status=503,reason=ServiceUnavailable
      prefix=e1,status=500,reason=InternalServerError
      prefix=e3,status=503,reason=ServiceUnavailable
      prefix=e4,silence,processed
      """)
    let configuration = start.world.configuration().replacing("attempts_max: 10", with: "attempts_max: 2").replacing(
      "request_timeout_ms: 5000", with: "request_timeout_ms: 1000")
    let worker = try start.world.startWorker(configuration: configuration)
    defer { _ = worker.drain(seconds: 30) }
    let fallback = #""fallback":{"title":"A ride","body":"is on its way"},"#
    try start.start("s1", fallback)
    #expect(
      try start.activity.end(of: "s1").summary == ["devices": 5, "failed": 4, "rejected": 1],
      "\(worker.log.suffix(2_000))")
    #expect(try start.members() == ["started": 1], "APNs may have taken one of them")

    try start.world.simulator.clearFaults()
    try start.register(2, startToken: [0xE2, 0])
    try start.start("s2", fallback)
    #expect(
      try start.activity.end(of: "s2").summary == ["devices": 5, "accepted": 4, "skipped": 1],
      "\(worker.log.suffix(2_000))")
    #expect(try start.members() == ["started": 4, "alerted": 1])
    let outcomes = start.activity.outcomes.filter { $0.job?.hasPrefix("s2/") == true }
    #expect(outcomes.compactMap { $0.to?.device }.sorted() == ["d-0", "d-1", "d-2", "d-3"])
    try start.start("s3", fallback)
    #expect(try start.activity.end(of: "s3").summary == ["devices": 5, "skipped": 5])
  }

  @Test func aStartThatExpiresWhileAPNsIsAwayIsRepeated() throws {
    let start = try Start("start-away")
    for number in 0..<3 { try start.register(number, startToken: [0xE0, UInt8(number)]) }
    let worker = try start.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    start.world.simulator.stop()
    let expiration = Int(Date().timeIntervalSince1970) + 4
    try start.start("s1", #""expiration":\#(expiration),"#)
    let isStarting = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
      (try? start.members()) == ["starting": 3] ? true : nil
    }
    #expect(isStarting != nil)
    #expect(try start.activity.end(of: "s1").summary == ["devices": 3, "expired": 3])
    #expect(try start.members().isEmpty)
    try start.world.simulator.start()
    try start.start("s2")
    #expect(
      try start.activity.end(of: "s2").summary == ["devices": 3, "accepted": 3], "\(worker.log.suffix(2_000))")
    #expect(try start.members() == ["started": 3])
  }

  /// APNs refuses the whole credential, or its topic: nothing is sent until the start expires.
  @Test(arguments: ["status=403,reason=InvalidProviderToken", "status=400,reason=TopicDisallowed"])
  func aStartThatExpiresInAPauseIsRepeated(fault: String) throws {
    let start = try Start("start-paused")
    for number in 0..<3 { try start.register(number, startToken: [0xE0, UInt8(number)]) }
    let worker = try start.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    func publish(_ number: Int) throws {
      let token = "00fc" + String(repeating: "0", count: 56) + "\(1_000 + number)"
      let now = Int(Date().timeIntervalSince1970)
      try start.activity.publish(
        "other-\(number)", #"{"token":"\#(token)"}"#,
        ActivityWorld.start.replacing(#""event""#, with: #""timestamp":\#(now),"event""#))
    }
    // APNs knows the provider token, and refuses it from then on.
    try publish(0)
    try start.world.waitForAccepted(1)
    try start.world.simulator.setFaults(fault)
    func isPaused() throws -> Bool { try start.world.herald(["pauses", "list", "--json"]).output.contains("{") }
    var number = 0
    let pause = try ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 100) { () throws -> Bool? in
      number += 1
      try publish(number)
      return try isPaused() ? true : nil
    }
    try #require(pause == true, "\(worker.log.suffix(2_000))")
    let expiration = Int(Date().timeIntervalSince1970) + 4
    try start.start("s1", #""expiration":\#(expiration),"#)
    _ = try start.activity.end(of: "s1")
    let ends = start.activity.outcomes.filter { $0.job?.hasPrefix("s1/") == true }
    let unsent = ends.filter { $0.outcome == "expired" && $0.attempts == 0 }
    #expect(ends.count == 3 && unsent.count >= 2, "at most one was a probe: \(ends)")
    #expect(try start.members().isEmpty)
    try start.world.simulator.clearFaults()
    // A probe may have ended the pause.
    _ = try start.world.herald(["pauses", "lift"])
    try start.start("s2")
    #expect(
      try start.activity.end(of: "s2").summary == ["devices": 3, "accepted": 3], "\(worker.log.suffix(2_000))")
    #expect(try start.members() == ["started": 3])
  }

  /// What registrations of tokens refuse, no job starts.
  @Test func anIdWithControlCharactersStartsNothing() throws {
    let start = try Start("start-id")
    try start.register(0, startToken: [0xE0, 0])
    let worker = try start.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    for (number, id) in [#"ride\t17"#, #"ride\n17"#, #"ride\u000017"#, #"ride\u007f17"#].enumerated() {
      try start.activity.publish(
        "s\(number)", #"{"devices":["d-0"]}"#, ActivityWorld.start, #""activity":"\#(id)","#)
      let end = try start.activity.end(of: "s\(number)")
      #expect(end.outcome == "invalid" && end.detail == "activity: must hold no control characters", "\(end)")
      try start.activity.publish(
        "u\(number)", #"{"activity":"\#(id)"}"#, #"{"aps":{"event":"update","content-state":{}}}"#)
      let update = try start.activity.end(of: "u\(number)")
      #expect(
        update.outcome == "invalid" && update.detail == "to.activity: must hold no control characters", "\(update)")
    }
    let device = #"{"devices":["d\t0"]}"#
    try start.activity.publish("d1", device, ActivityWorld.start, #""activity":"ride-17","#)
    let end = try start.activity.end(of: "d1")
    #expect(end.outcome == "invalid" && end.detail == "to.devices[0]: must hold no control characters", "\(end)")
  }

  /// APNs takes nothing until the end's expiration.
  @Test func anEndThatReachedNobodyIsRepeated() throws {
    let start = try Start("start-ends")
    try start.register(0, startToken: [0xE0, 0])
    let worker = try start.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try start.start("s1")
    #expect(try start.activity.end(of: "s1").summary == ["devices": 1, "accepted": 1])
    try start.activity.register("d-0", "e0e0e0e0e0e0e0e0")
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        (try? start.members()) == ["live": 1] ? true : nil
      } != nil)
    try start.world.simulator.setFaults("prefix=e0,status=503,reason=ServiceUnavailable")
    let end = #"{"aps":{"event":"end","content-state":{"eta":0}}}"#
    let expiration = Int64(Date().timeIntervalSince1970) + 2
    try start.activity.publish("e1", #"{"activity":"ride-17"}"#, end, #""expiration":\#(expiration),"#)
    #expect(try start.activity.end(of: "e1").summary == ["devices": 1, "expired": 1], "\(worker.log.suffix(2_000))")
    try start.world.simulator.clearFaults()
    try start.activity.publish("e2", #"{"activity":"ride-17"}"#, end)
    let repeated = try start.activity.end(of: "e2")
    #expect(repeated.summary == ["devices": 1, "accepted": 1], "\(repeated)")
  }

  @Test func aDryRunOfAnUpdateKnowsItsActivity() throws {
    let start = try Start("start-dry")
    try start.register(0, startToken: [0xE0, 0])
    let worker = try start.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    let state = #"{"aps":{"event":"update","content-state":{"eta":1}}}"#
    try start.activity.publish("u1", #"{"activity":"ride-17"}"#, state, #""dry_run":true,"#)
    let unknown = try start.activity.end(of: "u1")
    #expect(
      unknown.outcome == "invalid" && unknown.detail?.hasPrefix("to.activity: is not known: ") == true, "\(unknown)")
    try start.start("s1")
    #expect(try start.activity.end(of: "s1").summary == ["devices": 1, "accepted": 1])
    try start.activity.publish("u2", #"{"activity":"ride-17"}"#, state, #""dry_run":true,"#)
    #expect(try start.activity.end(of: "u2").summary == ["devices": 0])
    try start.activity.publish("e1", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"end"}}"#)
    _ = try start.activity.end(of: "e1")
    try start.activity.publish("u3", #"{"activity":"ride-17"}"#, state, #""dry_run":true,"#)
    let ended = try start.activity.end(of: "u3")
    #expect(ended.outcome == "invalid" && ended.detail?.hasPrefix("to.activity: has ended") == true, "\(ended)")
  }
}
