import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// One worker of a fleet whose clock is two hours off, through real servers: it does others' work by Redis' clock.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerClockTests {
  private struct Notification: Decodable {
    struct Payload: Decodable {
      struct APS: Decodable {
        struct State: Decodable {
          let eta: Int?
        }
        let event: String?
        let timestamp: Int64?
        let state: State?

        private enum CodingKeys: String, CodingKey {
          case event, timestamp
          case state = "content-state"
        }
      }
      let aps: APS
    }
    let payload: Payload
  }

  /// It numbers jobs by Redis' clock, or others' later jobs would be older for an hour.
  @Test func aProducersHostThatIsAheadDropsNobodysLaterJobs() throws {
    let world = try WorkerWorld("ahead", redisURL: try RedisServer.shared().url)
    for (id, secondsAhead) in [("first", 3_600), ("second", 0)] {
      let job = """
        {"id":"\(id)","app":"com.example.app","to":{"token":"00fc13ad"},"push_type":"alert","collapse_id":"score",\
        "payload":{"aps":{"alert":"x"}}}
        """
      let enqueued = try world.herald(["enqueue"], input: job + "\n", secondsAhead: secondsAhead)
      #expect(enqueued.status == 0, "\(enqueued.errors)")
      try world.runUntilEmpty()
    }
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["accepted", "accepted"])
  }

  /// Nor does it by a clock that Redis could not correct.
  @Test func aProducersHostThatIsAhead_numbersNothingWithoutRedis() throws {
    let world = try WorkerWorld("ahead-alone", redisURL: try RedisServer.shared().url)
    let gone = try LoopbackPort.free()
    for (id, secondsAhead) in [("first", 3_600), ("second", 0)] {
      let job = world.job(id).replacing("\"payload\"", with: "\"collapse_id\":\"score\",\"payload\"")
      let enqueued = try world.herald(
        ["enqueue"],
        configuration: secondsAhead == 0 ? nil : world.configuration(redisURL: "redis://127.0.0.1:\(gone)"),
        input: job + "\n", secondsAhead: secondsAhead)
      #expect(enqueued.status == 0 && enqueued.errors.contains("Redis does not tell the time") == (secondsAhead != 0))
      try world.runUntilEmpty()
    }
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["accepted", "accepted"])
  }

  /// Redis is not there from its start: APNs refuses its provider token, and tells the time for the next one.
  @Test(arguments: [-7_200, 7_200])
  func withoutRedisItsTokensGoByAPNsClock(secondsAhead: Int) throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("alone", redisURL: redis.url)
    redis.stop()
    // By its own clock, the jobs may be two hours old.
    let worker = try world.startWorker(
      configuration: world.configuration().replacing("age_max_s: 300", with: "age_max_s: 36000"),
      secondsAhead: secondsAhead)
    defer { _ = worker.drain(seconds: 30) }
    try world.publishJobs(0..<10)
    try world.waitForAccepted(10)
    #expect(worker.log.contains("APNs': provider tokens go by APNs' clock"), "\(worker.log.suffix(2_000))")
  }

  /// Redis comes a little later: until then nobody has confirmed its clock, by which all jobs are over.
  /// - Parameter areRedelivered: another worker had them, and was killed.
  @Test(arguments: [false, true]) func whatIsOverByItsClockAlone_waitsForRedis(areRedelivered: Bool) throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("unsure", redisURL: redis.url)
    let expiration = Int(Date().timeIntervalSince1970) + 90
    let jobs = (0..<20).map { number in
      let job = world.job("job-\(number)", number: number)
      return number < 10 ? job : job.replacing("\"payload\"", with: "\"expiration\":\(expiration),\"payload\"")
    }
    let enqueued = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
    #expect(enqueued.status == 0, "\(enqueued.errors)")
    if areRedelivered {
      try world.simulator.setFaults("silence")
      let killed = try world.startWorker()
      let haveAll = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        world.admin("/metrics")?.body.contains("herald_jobs_in_flight 20\n") == true ? true : nil
      }
      #expect(haveAll == true, "\(killed.log)")
      killed.child.kill()
      try world.simulator.clearFaults()
    }
    redis.stop()
    let worker = try world.startWorker(secondsAhead: 7_200)
    defer { _ = worker.drain(seconds: 30) }
    usleep(4_000_000)
    #expect(try world.takeOutcomes().map(\.outcome) == [])
    try redis.start()
    try world.waitForAccepted(20)
    redis.stop()
  }

  @Test(arguments: [-7_200, 7_200])
  func itEndsNothingEarlyAndSendsNoOldState(secondsAhead: Int) throws {
    let url = try RedisServer.shared().url
    let world = try WorkerWorld("clock", redisURL: url)
    let registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
    var registration = DeviceRegistration(device: "d-0")
    registration.startTokens = [.init(type: "*", token: [UInt8](repeating: 0xE0, count: 32))]
    _ = try registry.wait {
      registry.devices.register(registration, at: registry.loop.now.unixMilliseconds, in: registry.scope, then: $0)
    }
    let activity = ActivityWorld(world)
    let wrong = try world.startWorker(secondsAhead: secondsAhead)
    defer { _ = wrong.drain(seconds: 30) }
    #expect(wrong.waitForLine("this machine's clock is 7200 s", "Redis': Herald goes by Redis'"), "\(wrong.log)")

    // A start that lives for a minute; this worker alone makes it known, and numbers its update.
    let expiration = Int(Date().timeIntervalSince1970) + 60
    try activity.publish(
      "s1", #"{"devices":["d-0"]}"#, ActivityWorld.start, #""expiration":\#(expiration),"activity":"ride-17","#)
    #expect(try activity.end(of: "s1").summary == ["devices": 1, "accepted": 1], "\(wrong.log.suffix(2_000))")
    try activity.register("d-0", "5050505050505050")
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
    let id = try #require(ActivityID("ride-17"))
    let isLive = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
      (try? registry.wait { activities.live(id, in: registry.scope, after: nil, limit: 1, then: $0) })?.ordinals.isEmpty
        == false ? true : nil
    }
    #expect(isLive != nil)
    let right = try world.startWorker(
      configuration: world.configuration().replacing("admin: {port: \(world.adminPort)}", with: "admin: {port: 0}"))
    defer { _ = right.drain(seconds: 30) }
    for number in 1...6 {
      try activity.publish(
        "u\(number)", #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":\#(number)}}}"#)
      #expect(try activity.end(of: "u\(number)").summary == ["devices": 1, "accepted": 1], "u\(number)")
    }
    // Jobs of both workers, each with a minute to live.
    for number in 0..<40 {
      let job = world.job("job-\(number)", number: number).replacing(
        #""push_type""#, with: #""expiration":\#(expiration + 30),"push_type""#)
      try world.publish(job)
    }
    for number in 0..<40 { #expect(try activity.end(of: "job-\(number)").outcome == "accepted", "job-\(number)") }

    let seen = try #require(LoopbackHTTP.request("GET", "/notifications", port: world.simulator.controlPort))
    let pushes = try JSONDecoder().decode([Notification].self, from: Data(seen.body.utf8))
    let states = pushes.map(\.payload.aps).filter { $0.timestamp != nil }
    let timestamps = states.compactMap(\.timestamp)
    let now = Int64(Date().timeIntervalSince1970)
    #expect(timestamps.count == 7 && timestamps.allSatisfy { ($0 - now).magnitude < 60 }, "\(timestamps) at \(now)")
    let shown = states.filter { $0.event == "update" }.sorted { $0.timestamp ?? 0 < $1.timestamp ?? 0 }
    #expect(shown.compactMap(\.state?.eta) == Array(1...6), "what devices show last is the newest")
    registry.turn()
    let snapshot = try #require(try registry.wait { activities.show(id, in: registry.scope, then: $0) })
    #expect((snapshot.activity.createdAt / 1_000 - now).magnitude < 60)
  }
}
