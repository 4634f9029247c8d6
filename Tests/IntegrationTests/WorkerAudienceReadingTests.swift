import Foundation
import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// What becomes of jobs whose devices cannot be read.
extension WorkerAudienceTests {
  /// Another program's value is where the registry of one app keeps the devices of a user.
  @Test func aJobWhoseDevicesCannotBeRead_endsWithItsTime() throws {
    let world = try AudienceWorld("unreadable")
    try world.registry.register(0..<2, user: { ["u-1", "u-2"][$0] })
    let redis = try RedisServer.shared()
    let keys = try redis.cli(["--scan", "--pattern", "\(world.world.prefix):{*}:p:*"]).split(separator: "\n")
    #expect(!keys.isEmpty)
    for key in keys.map(String.init) { try redis.cli(["SET", key, "another program's"]) }
    let end = Int64(Date().timeIntervalSince1970) + 4
    try world.publish("lost", to: #"{"users":["u-1"]}"#, more: #""expiration":\#(end),"#)
    try world.world.runUntilEmpty()
    let outcome = try world.waitForEnd(of: "lost")
    #expect(outcome.outcome == "expired" && outcome.summary == nil)
    #expect(
      outcome.detail?.hasPrefix("to.users: the job expired while its devices could not be read: ") ?? false
        && outcome.detail?.contains("does something else use this key?") ?? false, "\(outcome.detail ?? "")")
    #expect(try world.jobs("show", "lost").errors.contains("lost is not known"))
  }

  /// Redis refuses for a moment, as where a connection is lost, and jobs expire meanwhile: each of their devices has its end all the same.
  @Test func jobsThatExpireWhileRedisIsSilent_haveAnEndForEachDevice() throws {
    let redis = try RedisServer()
    let world = try AudienceWorld("silent", redis: redis)
    let store = world.registry.store
    try world.registry.register(0..<5)
    try world.registry.put(segment: "ALL", filter: #"{"has":"token"}"#)
    // What the first step of one of them did.
    let _: ExpansionStore.Opening = try world.registry.wait {
      store.open(
        world.registry.job("rest"), ExpansionCursor(), openMaximum: 9, isDryRun: false,
        metadata: MessageMetadata(), body: Array(#"{"id":"rest","app":"com.example.app"}"#.utf8), then: $0)
    }
    _ = try world.registry.wait {
      store.fix(
        world.registry.job("rest"), step: 0, pages: [PageOrdinals(0..<3, epoch: 0)], counted: 0, next: 3, ordinals: 5,
        then: $0)
    }
    // Of what a worker does here only the look-up of a segment needs it.
    try redis.cli(["ACL", "SETUSER", "worker", "on", ">p", "~\(world.world.prefix):*", "+@all", "-sscan"])
    let worker = try world.world.startWorker(
      configuration: world.world.configuration(redisURL: "redis://worker:p@127.0.0.1:\(redis.port)/0"))
    #expect(world.world.waitUntilReady(), "\(worker.log)")
    let end = Int64(Date().timeIntervalSince1970) + 5
    for id in ["rest", "whole"] {
      try world.publish(id, to: #"{"segment":"ALL"}"#, more: #""expiration":\#(end),"#)
    }
    #expect(worker.waitForLine("NOPERM", "audiences wait"), "\(worker.log)")
    // They are read once a second.
    Thread.sleep(until: Date(timeIntervalSince1970: Double(end + 4)))
    try redis.cli(["ACL", "SETUSER", "worker", "+sscan"])
    for (id, count) in [("rest", 2), ("whole", 5)] {
      let outcome = try world.waitForEnd(of: id)
      #expect(outcome.outcome == "completed" && outcome.detail == nil, "\(outcome)")
      #expect(outcome.summary?["devices"] == 5 && outcome.summary?["expired"] ?? 0 >= count, "\(outcome)")
    }
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
    redis.stop()
  }

  /// The same of a start and an update of an activity.
  @Test func anActivitysJobsThatCannotBeRead_endWithTheirTime() throws {
    let world = try AudienceWorld("unread-activity")
    let redis = try RedisServer.shared()
    func overwrite(_ pattern: String) throws {
      let keys = try redis.cli(["--scan", "--pattern", "\(world.world.prefix):{*}:a:\(pattern)"]).split(separator: "\n")
      try #require(!keys.isEmpty)
      for key in keys.map(String.init) {
        try redis.cli(["DEL", key])
        try redis.cli(["SET", key, "another program's"])
      }
    }
    let device = """
      {"kind":"device","at":1700000000000,"app":"com.example.app","device":"d-1","user":"u-1",\
      "push_to_start":{"*":"\(String(repeating: "ab", count: 32))"}}
      """
    let scope = ["--app", "com.example.app", "--environment", "production"]
    #expect(try world.world.herald(["devices", "import"] + scope, input: device).status == 0)
    func publish(_ id: String, _ event: String = "update") throws {
      let end = Int64(Date().timeIntervalSince1970) + 4
      let isStart = event == "start"
      let job = ActivityWorld.job(
        id, isStart ? #"{"users":["u-1"]}"# : #"{"activity":"ride"}"#,
        isStart ? ActivityWorld.start : #"{"aps":{"event":"update","content-state":{}}}"#,
        #"\#(isStart ? #""activity":"ride","# : "")"expiration":\#(end),"#)
      try world.world.publish(job, routingKey: "bulk")
    }
    func expectExpired(_ id: String) throws {
      let outcome = try world.waitForEnd(of: id)
      #expect(outcome.outcome == "expired" && outcome.summary == nil, "\(outcome)")
      #expect(outcome.detail?.contains("the job expired while its devices could not be read: ") ?? false, "\(outcome)")
    }
    try publish("start", "start")
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "start").summary == ["devices": 1, "accepted": 1])
    try overwrite("c:ride")
    try publish("members")
    try world.world.runUntilEmpty()
    try expectExpired("members")
    try overwrite("h:ride")
    try publish("update")
    try publish("again", "start")
    try world.world.runUntilEmpty()
    for id in ["update", "again"] { try expectExpired(id) }
  }

  /// The same of a page that is published already.
  @Test func aPageWhoseDevicesCannotBeRead_endsWithItsTime() throws {
    let world = try AudienceWorld("unread-page")
    try world.registry.register(0..<2)
    let redis = try RedisServer.shared()
    let keys = try redis.cli(["--scan", "--pattern", "\(world.world.prefix):{*}:d:*"]).split(separator: "\n")
    try #require(!keys.isEmpty)
    for key in keys.map(String.init) {
      try redis.cli(["DEL", key])
      try redis.cli(["SET", key, "another program's"])
    }
    try world.prepare("all", ordinals: [0, 1])
    let end = Int64(Date().timeIntervalSince1970) + 4
    try world.publish(
      "all/0", to: #"{"page":0,"ordinals":[0,1]}"#, more: #""parent_id":"all","expiration":\#(end),"#)
    let worker = try world.world.startWorker()
    #expect(try world.waitForEnd(of: "all").summary == ["devices": 2, "expired": 2])
    #expect(worker.waitForLine("pages of audiences wait, and end with their jobs' time"), "\(worker.log)")
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
    let outcome = try #require(world.children(of: "all").first, "\(world.outcomes)")
    #expect(world.children(of: "all").count == 1 && outcome.outcome == "expired", "\(world.outcomes)")
    #expect(
      outcome.detail?.hasPrefix("the page expired while its devices could not be read: ") ?? false
        && outcome.detail?.contains("does something else use this key?") ?? false, "\(outcome)")
  }

  /// A page's report, whose job's progress cannot be read for so long as jobs are retried.
  @Test func aReportThatCannotBeStored_isADeadLetterAtLast() throws {
    let world = try AudienceWorld("unstored")
    try world.prepare("all", ordinals: [0])
    let redis = try RedisServer.shared()
    let keys = try redis.cli(["--scan", "--pattern", "\(world.world.prefix):*all}*"]).split(separator: "\n")
    try #require(!keys.isEmpty)
    for key in keys.map(String.init) {
      try redis.cli(["DEL", key])
      try redis.cli(["SET", key, "another program's"])
    }
    let admin = try AMQPAdmin(patientURL: world.world.rabbitmq.url)
    defer { admin.close() }
    let worker = try world.world.startWorker()
    #expect(world.world.waitUntilReady(), "\(worker.log)")
    for hours in [0, 48] as [Int64] {
      let properties = AMQPProperties()
      let now = Int64(Date().timeIntervalSince1970)
      properties.addHeader("x-herald-first-seen", (now - hours * 3_600) * 1_000)
      try admin.publish(
        to: AMQPExchange("", isMandatory: true), routingKey: "\(world.world.prefix).expansions", properties: properties,
        body: Array(
          #"""
          {"settles":"all","app":"com.example.app","environment":"production","page":0,"position":0,"ends":"a",\#
          "ordinals":"0:0"}
          """#.utf8))
      try admin.waitForConfirms()
    }
    #expect(worker.waitForLine("is now a dead letter: its job's progress cannot be read"), "\(worker.log)")
    #expect(worker.waitForLine("correct that key, then replay the dead letter"), "\(worker.log)")
    let letters = try world.world.outside.drain("\(world.world.prefix).dead")
    #expect(letters.count == 1 && letters[0].headers["x-herald-reason"] == "failed", "the young one waits: \(letters)")
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  /// The end of an activity for some devices, whose outcome names those that nothing can tell. Another program's value is where the activity is.
  @Test func anEndWhoseActivityCannotBeRead_completesAfterItsTime() throws {
    let world = try AudienceWorld("unread")
    try world.registry.register(0..<1)
    let job = world.registry.job("leave")
    let body =
      #"{"version":1,"id":"leave","app":"com.example.app","push_type":"liveactivity","activity":"ride","revision":2,"#
      + #""to":{"devices":["d-0"]},"payload":{"aps":{"event":"end","timestamp":1,"content-state":{}}}}"#
    let _: ExpansionStore.Opening = try world.registry.wait {
      world.registry.store.open(
        job, ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(), body: Array(body.utf8),
        then: $0)
    }
    _ = try world.registry.wait {
      world.registry.store.fix(job, step: 0, pages: [], counted: 0, next: nil, ordinals: 1, then: $0)
    }
    let tag = "\(world.world.prefix):{devices:production:com.example.app}:"
    try RedisServer.shared().cli(["SET", "\(tag)a:h:ride", "another program's"])
    let admin = try AMQPAdmin(patientURL: world.world.rabbitmq.url)
    defer { admin.close() }
    let worker = try world.world.startWorker()
    #expect(world.world.waitUntilReady(), "\(worker.log)")
    func publish(hoursAgo hours: Int64) throws {
      let properties = AMQPProperties()
      properties.addHeader(
        "x-herald-first-seen", (Int64(Date().timeIntervalSince1970) - hours * 3_600) * 1_000)
      try admin.publish(
        to: AMQPExchange("", isMandatory: true), routingKey: "\(world.world.prefix).expansions", properties: properties,
        body: Array(body.utf8))
      try admin.waitForConfirms()
    }
    try publish(hoursAgo: 0)
    #expect(worker.waitForLine("audiences wait"), "\(worker.log)")
    #expect(try world.take().isEmpty, "it may be read yet")
    try publish(hoursAgo: 48)
    let end = try world.waitForEnd(of: "leave")
    #expect(end.outcome == "completed" && end.summary == ["devices": 0], "\(end)")
    #expect(
      end.detail?.hasPrefix("what its activity shows is not known: a key under \(tag) cannot be read: ") ?? false,
      "\(end)")
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  /// An analyst's queue is full: the end of a job waits, and is told once its limit is lifted.
  @Test func anEndThatTheResultsRefuse_isToldOnceTheyTakeIt() throws {
    let world = try AudienceWorld("full")
    let full = try world.world.makeFullQueue()
    try world.world.outside.bind(queue: full, to: "\(world.world.prefix).results")
    let worker = try world.world.startWorker()
    try world.publish("nobody", to: #"{"users":["unknown"]}"#)
    #expect(worker.waitForLine("results refuses messages", seconds: 20), "\(worker.log)")
    try world.world.liftLimit(of: full)
    #expect(worker.waitForLine("results takes messages of com.example.app again", seconds: 40), "\(worker.log)")
    let ends = try world.world.outside.drain(full).compactMap {
      try? JSONDecoder().decode(AudienceOutcome.self, from: Data($0.body))
    }
    #expect(ends.map(\.job) == ["nobody"] && ends.first?.outcome == "completed", "\(ends)")
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  /// It was paused for hours: the first reading that fails is not its end.
  @Test func anOldJobWhoseDevicesCannotBeReadForAMoment_isSent() throws {
    let world = try AudienceWorld("moment")
    try world.registry.register(0..<2, user: { ["u-1", "u-2"][$0] })
    let redis = try RedisServer.shared()
    let keys = try redis.cli(["--scan", "--pattern", "\(world.world.prefix):{*}:p:*"]).split(separator: "\n")
      .map(String.init)
    for key in keys {
      try redis.cli(["RENAME", key, "\(key)-kept"])
      try redis.cli(["SET", key, "another program's"])
    }
    let admin = try AMQPAdmin(patientURL: world.world.rabbitmq.url)
    defer { admin.close() }
    try world.world.runUntilEmpty()
    let properties = AMQPProperties()
    properties.addHeader("x-herald-first-seen", Int64(Date().timeIntervalSince1970 - 7_200) * 1_000)
    try admin.publish(
      to: AMQPExchange("", isMandatory: true), routingKey: "\(world.world.prefix).expansions", properties: properties,
      body: Array(
        #"{"version":1,"id":"old","app":"com.example.app","push_type":"alert","to":{"users":["u-1"]},"payload":{"aps":{"alert":"x"}}}"#
          .utf8))
    try admin.waitForConfirms()
    let worker = try world.world.startWorker()
    #expect(worker.waitForLine("does something else use this key?"))
    for key in keys { try redis.cli(["RENAME", "\(key)-kept", key]) }
    #expect(try world.waitForEnd(of: "old").summary == ["devices": 1, "accepted": 1])
    #expect(worker.drain(seconds: 20) == 0)
  }
}
