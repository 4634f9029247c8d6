import Foundation
import Glibc
import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// Jobs for users, devices and segments through real servers: pages, outcomes by device, one outcome of the whole job.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerAudienceTests {
  /// Its segment was not there yet. Once it is, the dead letter is replayed.
  @Test func aReplayedJobIsProcessedAgain() throws {
    let world = try AudienceWorld("replayed")
    try world.registry.register(0..<3)
    try world.publish("early", to: #"{"segment":"LATE"}"#)
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "early").outcome == "invalid")
    try world.registry.put(segment: "LATE", filter: #"{"has":"token"}"#)
    let replay = try world.world.herald(["dead-letters", "replay", "--id", "early"])
    #expect(replay.output == "1 of 1 matching dead letters replayed\n", "\(replay.output)\(replay.errors)")
    try world.world.runUntilEmpty()
    try world.take()
    #expect(world.outcomes.filter { $0.job == "early" }.map(\.outcome) == ["invalid", "completed"])
    #expect(world.children(of: "early").count == 3)
  }

  @Test func usersDevicesAndNobody() throws {
    let world = try AudienceWorld("audience")
    // Three users have four devices, one without a token; d-9 has no user.
    try world.registry.register(0..<5, user: { ["u-1", "u-1", "u-2", "u-3", "u-3"][$0] }, hasToken: { $0 != 4 })
    try world.registry.register(9..<10)
    try world.publish("users", to: #"{"users":["u-1","u-2","u-3","u-1","nobody"]}"#, routingKey: "transactional")
    let token = Hex.text(AudienceRegistry.token(9))
    try world.publish("devices", to: #"{"devices":["d-0","\#(token)","other"]}"#, routingKey: "transactional")
    try world.publish("nobody", to: #"{"users":["nobody"]}"#)
    try world.publish("count", to: #"{"users":["u-1","u-3"]}"#, more: #""dry_run":true,"#)
    try world.publish("unknown", to: #"{"segment":"NONE"}"#)
    try world.world.runUntilEmpty()
    try world.take()
    let users = try world.waitForEnd(of: "users")
    #expect(users.outcome == "completed" && users.summary == ["devices": 5, "accepted": 4, "skipped": 1])
    #expect(users.meta == ["campaign": "42"] && users.cancelled == nil)
    #expect(Set(world.children(of: "users").map { $0.to?.device }) == ["d-0", "d-1", "d-2", "d-3"])
    #expect(world.children(of: "users").allSatisfy { $0.job == "users/0" && $0.meta == ["campaign": "42"] })
    #expect(try world.waitForEnd(of: "devices").summary == ["devices": 2, "accepted": 2])
    #expect(try world.waitForEnd(of: "nobody").summary == ["devices": 0])
    #expect(try world.waitForEnd(of: "count").summary == ["devices": 4])
    #expect(world.children(of: "count").isEmpty)
    let unknown = try world.waitForEnd(of: "unknown")
    #expect(unknown.outcome == "invalid")
    #expect(unknown.detail == "to.segment: names the segment NONE, which does not exist")
    #expect(world.outcomes.count == 5 + 4 + 2, "each once")
    #expect(try world.show("users")["state"] as? String == "completed")
    let shown = try world.jobs("show", "users")
    #expect(shown.status == 0 && shown.output.contains("5 in 1 pages") && shown.output.contains("accepted"))
    let strange = try world.jobs("pause", "never")
    #expect(strange.status == 1 && strange.errors.contains("never is not known"))
    #expect(try world.jobs("cancel", "users").status == 1, "it is completed")
  }

  /// Of two copies of a page, one finds no token and completes the job; then the device registers one.
  @Test func aCopyOfASettledPageSendsNothing() throws {
    let world = try AudienceWorld("settled")
    try world.registry.register(0..<3, hasToken: { $0 != 2 })
    try world.prepare("all", ordinals: [0, 1, 2])
    try world.publishPage(of: "all", ordinals: [0, 1, 2])
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "all").summary == ["devices": 3, "accepted": 2, "skipped": 1])
    try world.registry.register(2..<3)
    try world.publishPage(of: "all", ordinals: [0, 1, 2])
    try world.world.runUntilEmpty()
    #expect(try world.take().count == 3 && world.world.simulator.counters().accepted == 2)
  }

  /// A device whose push failed has its end, and gets its push when the dead letter is replayed.
  @Test func aReplayedPageIsSent() throws {
    let world = try AudienceWorld("replayed-page")
    try world.registry.register(0..<2)
    try world.prepare("all", ordinals: [0, 1])
    try world.world.simulator.setFaults("status=503,reason=ServiceUnavailable,times=1")
    let once = world.world.configuration().replacing("attempts_max: 10", with: "attempts_max: 1")
    let worker = try world.world.startWorker(configuration: once)
    try world.publishPage(of: "all", ordinals: [0, 1])
    #expect(try world.waitForEnd(of: "all").summary == ["devices": 2, "accepted": 1, "failed": 1])
    try world.world.simulator.clearFaults()
    let replay = try world.world.herald(["dead-letters", "replay", "--reason", "failed"])
    #expect(replay.output == "1 of 1 matching dead letters replayed\n", "\(replay.output)\(replay.errors)")
    let ends = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) {
      (try? world.take())?.count == 4 ? world.children(of: "all") : nil
    }
    #expect(ends?.count { $0.outcome == "accepted" } == 2 && ends?.contains(where: \.ambiguous) == false)
    #expect(worker.drain(seconds: 20) == 0)
  }

  /// An emptied Redis gives the ordinals to other devices.
  @Test func aPageFromBeforeRedisWasEmptiedReachesNobody() throws {
    let redis = try RedisServer()
    let world = try AudienceWorld("emptied", redis: redis)
    let registry = world.registry
    try registry.register(0..<3)
    let before = try registry.wait { registry.devices.epoch(in: registry.scope, then: $0) }
    try world.publishPage(of: "before", ordinals: [0, 1], epoch: before)
    try redis.cli(["FLUSHALL"])
    try registry.register(10..<13)
    let after = try registry.wait { registry.devices.epoch(in: registry.scope, then: $0) }
    #expect(before > 0 && after > before)
    try world.publishPage(of: "after", ordinals: [2], epoch: after)
    try world.world.runUntilEmpty()
    try world.take()
    #expect(world.outcomes.map { $0.to?.device } == ["d-12"])
    #expect(try world.world.simulator.counters().accepted == 1)
  }

  /// Redis failed over, or was restored, to a moment ago: it gives an ordinal that a page names to another device.
  @Test func pageFromBeforeRedisWasRewound_reachesNoOtherDevice() throws {
    let redis = try RedisServer()
    let world = try AudienceWorld("rewound", redis: redis)
    let registry = world.registry
    try registry.register(0..<1)
    let keys = try redis.cli(["KEYS", "*"]).split(separator: "\n").map(String.init)
    let dumps = try keys.map { key in try registry.wait { registry.redis.call(["DUMP", key], key: key, then: $0) } }
    try registry.register(1..<2)
    let epoch = try registry.wait { registry.devices.epoch(in: registry.scope, then: $0) }
    let fingerprints = try registry.wait { registry.devices.fingerprints(of: [0, 1], in: registry.scope, then: $0) }
    #expect(Set(fingerprints).count == 2 && !fingerprints.contains(0))
    try redis.cli(["FLUSHALL"])
    for (key, dump) in zip(keys, dumps) {
      guard case .bulk(let bytes) = dump else { throw TestFailure("\(key) has no dump") }
      _ = try registry.wait { registry.redis.call(["RESTORE", key, "0"], last: bytes, key: key, then: $0) }
    }
    try registry.register(5..<6)
    let other = try registry.wait {
      registry.devices.members(of: .id("d-5"), limit: 1, in: registry.scope, then: $0)
    }
    #expect(other == [1])
    try world.prepare("sale", ordinals: [0, 1], epoch: epoch, fingerprints: fingerprints)
    try world.publishPage(of: "sale", ordinals: [0, 1], epoch: epoch, fingerprints: fingerprints)
    // A page of the build before names no fingerprints.
    try world.publishPage(of: "older", ordinals: [0], epoch: epoch)
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "sale").summary == ["devices": 2, "accepted": 1, "forgotten": 1])
    #expect(world.children(of: "sale").map { $0.to?.device } == ["d-0"])
    #expect(world.children(of: "older").map { $0.to?.device } == ["d-0"])
    #expect(try world.world.simulator.counters().accepted == 2)
  }

  /// From the job to its pages, and once more from the remembered summary.
  @Test func completedJobThatIsPublishedAgain_hasItsOutcomeAgain() throws {
    let world = try AudienceWorld("again")
    try world.registry.register(0..<3, user: { _ in "u" })
    for count in 1...2 {
      try world.publish("job", to: #"{"users":["u"]}"#)
      try world.world.runUntilEmpty()
      let ends = try world.take().filter { $0.job == "job" }
      #expect(ends.count == count && ends.allSatisfy { $0.outcome == "completed" }, "\(ends)")
      #expect(ends.allSatisfy { $0.summary == ["devices": 3, "accepted": 3] && $0.meta == ["campaign": "42"] })
    }
    #expect(try world.world.simulator.counters().accepted == 3)
  }

  /// Of thousands of devices whose pages are all published, only those on the wire are sent after a command.
  @Test func cancelAndPause_holdForPublishedPages() throws {
    let world = try AudienceWorld("hold")
    try world.registry.register(0..<8_000)
    try world.registry.put(segment: "ALL", filter: #"{"has":"token"}"#)
    try world.world.simulator.setFaults("latency=1000")
    let one = world.world.configuration().replacing("request_timeout_ms: 5000", with: "connections_max: 1")
    let worker = try world.world.startWorker(configuration: one)
    func accepted() throws -> Int { try world.world.simulator.counters().accepted }
    /// What a command said.
    func sent(_ output: ChildProcess.Output) -> Int? {
      output.output.firstMatch(of: /(?m)^sent +([0-9]+)$/).flatMap { Int($0.1) }
    }
    try world.publish("paused", to: #"{"segment":"ALL"}"#)
    try world.world.waitForAccepted(100)
    let paused = try world.jobs("pause", "paused")
    let before = try accepted()
    #expect(paused.status == 0 && sent(paused) == before, "\(before) in \(paused.output)")
    #expect(before < 7_000, "the rest waits")
    let isMore = ChildProcess.poll(timeoutMilliseconds: 3_000, everyMilliseconds: 200) {
      ((try? accepted()) ?? before) > before ? true : nil
    }
    #expect(isMore == nil, "nothing is sent while it is paused")
    #expect(try world.show("paused")["sent"] as? Int == before, "as pause says")
    #expect(try world.jobs("resume", "paused").status == 0)
    #expect(try world.waitForEnd(of: "paused").summary == ["devices": 8_000, "accepted": 8_000])
    let counters = try world.world.simulator.counters()
    #expect(counters.accepted == 8_000 && counters.acceptedIDs == 8_000, "each exactly once")

    try world.publish("cancelled", to: #"{"segment":"ALL"}"#)
    try world.world.waitForAccepted(8_100)
    let cancelled = try world.jobs("cancel", "cancelled")
    #expect(cancelled.status == 0 && cancelled.output.contains("cancelled"), "\(cancelled.output)")
    let end = try world.waitForEnd(of: "cancelled")
    let more = try accepted() - 8_000
    #expect(end.cancelled == true && more < 7_000, "\(end)")
    #expect(end.summary == ["devices": 8_000, "accepted": more, "cancelled": 8_000 - more])
    #expect(sent(cancelled) == more, "\(more) in \(cancelled.output)")
    #expect(worker.drain(seconds: 20) == 0)
  }

  /// A copy of a page from before counts nobody of the page that was made anew.
  @Test func aPageFromBeforeRedisWasEmptiedSettlesNobody() throws {
    let redis = try RedisServer()
    let world = try AudienceWorld("emptied-page", redis: redis)
    let registry = world.registry
    try registry.register(0..<3)
    let before = try registry.wait { registry.devices.epoch(in: registry.scope, then: $0) }
    try redis.cli(["FLUSHALL"])
    try registry.register(10..<13)
    let after = try registry.wait { registry.devices.epoch(in: registry.scope, then: $0) }
    try world.prepare("all", ordinals: [0, 1, 2], epoch: after)
    try world.publishPage(of: "all", ordinals: [0, 1, 2], epoch: before)
    try world.world.runUntilEmpty()
    #expect(try world.take().isEmpty)
    try world.publishPage(of: "all", ordinals: [0, 1, 2], epoch: after)
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "all").summary == ["devices": 3, "accepted": 3])
  }

  /// The same, where the devices of both pages are known: Redis forgot only that the first one was made.
  @Test func aPageOfOthersCountsNowhere() throws {
    let world = try AudienceWorld("others")
    try world.registry.register(0..<2)
    try world.prepare("all", ordinals: [1])
    try world.publishPage(of: "all", ordinals: [0])
    try world.world.runUntilEmpty()
    #expect(try world.take().map { $0.to?.device } == ["d-0"])
    try world.publishPage(of: "all", ordinals: [1])
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "all").summary == ["devices": 1, "accepted": 1])
    #expect(world.children(of: "all").map { $0.to?.device } == ["d-0", "d-1"])
  }

  /// The same from a job to its devices, whose copies wait for their next attempt.
  @Test func copiesFromBeforeRedisWasEmptiedReachNobody() throws {
    let redis = try RedisServer()
    let world = try AudienceWorld("emptied-copies", redis: redis)
    try world.registry.register(0..<3, user: { _ in "u" })
    try world.world.simulator.setFaults("status=503,reason=ServiceUnavailable")
    let worker = try world.world.startWorker()
    try world.publish("all", to: #"{"users":["u"]}"#, routingKey: "transactional")
    let areRefused = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) {
      (try? world.world.simulator.counters().requests) ?? 0 >= 3 ? true : nil
    }
    #expect(areRefused == true)
    #expect(worker.drain(seconds: 30) == 0)
    try redis.cli(["FLUSHALL"])
    try world.registry.register(10..<13)
    try world.world.simulator.clearFaults()
    try world.world.runUntilEmpty()
    #expect(try world.take().isEmpty)
    #expect(try world.world.simulator.counters().accepted == 0)
  }

  @Test func aSegmentOfThousands() throws {
    let world = try AudienceWorld("segment")
    let gold = [DeviceRegistration.Tag(name: "plan", change: .set(.text("gold")))]
    try world.registry.register(0..<3_000, tags: gold)
    try world.registry.register(3_000..<3_200)
    try world.registry.put(segment: "GOLD", filter: #"{"tag":"plan","is":"gold"}"#)
    try world.publish("all", to: #"{"segment":"GOLD"}"#)
    try world.world.runUntilEmpty()
    let end = try world.waitForEnd(of: "all")
    #expect(end.summary == ["devices": 3_000, "accepted": 3_000])
    let children = world.children(of: "all")
    #expect(children.count == 3_000 && Set(children.map { $0.to?.device }).count == 3_000)
    #expect(Set(children.map(\.job)).count == 6)
    #expect(try world.world.simulator.counters().accepted == 3_000)
  }

  /// Killed in the middle, three times: each device gets its push once, or its outcome is marked ambiguous.
  @Test func aWorkerThatIsKilledLeavesNobodyOut() throws {
    let world = try AudienceWorld("killed")
    try world.registry.register(0..<12_000)
    try world.registry.put(segment: "ALL", filter: #"{"has":"token"}"#)
    try world.world.simulator.setFaults("latency=20-60")
    try world.publish("all", to: #"{"segment":"ALL"}"#)
    for accepted in [300, 4_000, 9_000] {
      let worker = try world.world.startWorker()
      try world.world.waitForAccepted(accepted)
      worker.child.kill()
    }
    try world.world.simulator.clearFaults()
    let worker = try world.world.startWorker()
    let end = try world.waitForEnd(of: "all", seconds: 100)
    #expect(worker.drain(seconds: 20) == 0)
    try world.take()
    #expect(end.summary == ["devices": 12_000, "accepted": 12_000])
    #expect(world.outcomes.count { $0.job == "all" } == 1)
    let children = world.children(of: "all")
    #expect(Set(children.map { $0.to?.device }).count == 12_000)
    let counters = try world.world.simulator.counters()
    let twice = counters.accepted - 12_000
    #expect(counters.acceptedIDs == 12_000)
    #expect(children.count { $0.ambiguous } >= twice, "\(twice) devices were sent twice")
  }

  @Test func pauseResumeAndCancel() throws {
    let world = try AudienceWorld("commands")
    try world.registry.register(0..<1_500)
    try world.registry.put(segment: "ALL", filter: #"{"has":"token"}"#)
    let worker = try world.world.startWorker()
    try world.world.simulator.setFaults("latency=300-600")
    try world.publish("paused", to: #"{"segment":"ALL"}"#)
    #expect(world.waitForState("running", of: "paused", devices: 1_500))
    #expect(try world.jobs("pause", "paused").status == 0)
    #expect(try world.show("paused")["state"] as? String == "paused")
    #expect(try world.jobs("resume", "paused").status == 0)
    #expect(try world.waitForEnd(of: "paused").summary == ["devices": 1_500, "accepted": 1_500])

    // Stored before its first step: all of it is still to come.
    let _: ExpansionStore.Opening = try world.registry.wait {
      world.registry.store.open(
        world.registry.job("cancelled"), ExpansionCursor(), openMaximum: 1, isDryRun: false,
        metadata: MessageMetadata(), body: Array(#"{"id":"cancelled"}"#.utf8), then: $0)
    }
    #expect(try world.jobs("pause", "cancelled").status == 0)
    try world.publish("cancelled", to: #"{"segment":"ALL"}"#)
    #expect(world.waitForMetric("herald_expansions_waits_total{for=\"resume\"}"))
    #expect(try world.jobs("cancel", "cancelled").status == 0)
    let end = try world.waitForEnd(of: "cancelled")
    #expect(end.summary == ["devices": 0] && end.cancelled == true)
    #expect(worker.drain(seconds: 20) == 0)
  }

  /// Nobody else is sent it, and its outcome says why.
  @Test func aSegmentIsDeletedWhileItIsExpanded() throws {
    let world = try AudienceWorld("deleted")
    try world.registry.register(0..<5)
    // What the first step did, with the segment still there.
    let _: ExpansionStore.Opening = try world.registry.wait {
      world.registry.store.open(
        world.registry.job("cut"), ExpansionCursor(), openMaximum: 9, isDryRun: false,
        metadata: MessageMetadata(), body: Array(#"{"id":"cut","app":"com.example.app"}"#.utf8), then: $0)
    }
    _ = try world.registry.wait {
      world.registry.store.fix(
        world.registry.job("cut"), step: 0, pages: [PageOrdinals(0..<3, epoch: 0)], counted: 0, next: 3, ordinals: 5,
        then: $0)
    }
    let paused = try world.jobs("pause", "cut").output
    #expect(paused.contains("up to 3 devices have no end yet; only those on the wire"), "\(paused)")
    #expect(try world.jobs("resume", "cut").status == 0)
    let worker = try world.world.startWorker()
    try world.publish("cut", to: #"{"segment":"GONE"}"#)
    let end = try world.waitForEnd(of: "cut")
    #expect(end.outcome == "completed" && end.summary == ["devices": 3, "accepted": 3], "\(end)")
    #expect(end.detail == "ended early: to.segment names the segment GONE, which does not exist", "\(end)")
    #expect(worker.drain(seconds: 20) == 0)
  }

  @Test func theRegistryStandsStill() throws {
    let redis = try RedisServer()
    let world = try AudienceWorld("frozen", redis: redis)
    try world.registry.register(0..<900)
    try world.registry.put(segment: "ALL", filter: #"{"has":"token"}"#)
    try world.prepare("page", ordinals: Array(0..<10))
    let worker = try world.world.startWorker()
    #expect(world.world.waitUntilReady())
    redis.pause()
    try world.publish("all", to: #"{"segment":"ALL"}"#)
    try world.publishPage(of: "page", ordinals: Array(0..<10))
    #expect(world.waitForMetric("herald_pages_postponed_total"))
    #expect(world.waitForMetric("herald_expansions_waits_total{for=\"redis\"}"))
    redis.resume()
    #expect(try world.waitForEnd(of: "all").summary == ["devices": 900, "accepted": 900])
    #expect(try world.waitForEnd(of: "page").summary == ["devices": 10, "accepted": 10])
    #expect(worker.drain(seconds: 20) == 0)
    #expect(Set(world.children(of: "all").map { $0.to?.device }).count == 900)
  }

  /// A user is forgotten while the page is queued: nothing is sent to that user.
  @Test func whoIsForgottenGetsNothing() throws {
    let world = try AudienceWorld("forgotten")
    try world.registry.register(0..<3, user: { "u-\($0)" })
    try world.prepare("page", ordinals: [0, 1, 2])
    try world.publishPage(of: "page", ordinals: [0, 1, 2])
    #expect(try world.registry.forget(user: "u-1") == 1)
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "page").summary == ["devices": 3, "accepted": 2, "skipped": 1])
    #expect(Set(world.children(of: "page").map { $0.to?.device }) == ["d-0", "d-2"])
    #expect(try world.world.simulator.counters().requests == 2)
  }

  /// APNs reports a token as gone: the registry forgets it, and the next audience does not include the device.
  @Test func aTokenThatIsGoneLeavesTheRegistry() throws {
    let world = try AudienceWorld("gone")
    try world.registry.register(0..<2)
    try world.registry.put(segment: "ALL", filter: #"{"has":"token"}"#)
    let token = Hex.text(AudienceRegistry.token(1))
    let now = Int64(Date().timeIntervalSince1970 * 1000)
    try world.world.simulator.setDevices("\(token) unregistered \(now)")
    try world.publish("first", to: #"{"segment":"ALL"}"#)
    try world.world.runUntilEmpty()
    #expect(try world.waitForEnd(of: "first").summary == ["devices": 2, "accepted": 1, "unregistered": 1])
    try world.publish("second", to: #"{"segment":"ALL"}"#)
    try world.world.runUntilEmpty()
    let second = try world.waitForEnd(of: "second")
    #expect(second.summary == ["devices": 1, "accepted": 1], "\(second)")
  }

  /// A part of a job that connections ended with: a copy of it goes on. One that nobody finished is given up, and can be put back.
  @Test func aPartThatNobodyFinishesIsCopiedAndGivenUp() throws {
    let world = try AudienceWorld("audience-part")
    try world.registry.register(0..<2, user: { _ in "u" })
    let topology = Topology(prefix: world.world.prefix, retryDelaysSeconds: [1, 2])
    let admin = try AMQPAdmin(patientURL: world.world.rabbitmq.url)
    defer { admin.close() }
    for (id, carried) in [("copied", 0), ("given-up", 40)] as [(String, Int64)] {
      let properties = AMQPProperties()
      if carried > 0 { properties.addHeader("x-herald-deliveries", carried) }
      let body =
        #"{"version":1,"id":"\#(id)","app":"com.example.app","push_type":"alert","to":{"users":["u"]},"payload":{"aps":{"alert":"x"}}}"#
      try admin.publish(
        to: AMQPExchange("", isMandatory: true), routingKey: topology.expansionsQueue(.transactional),
        properties: properties,
        body: Array(body.utf8))
      try admin.waitForConfirms()
      var deliveries = 0
      try admin.consume(queue: topology.expansionsQueue(.transactional), limit: 10, idleMilliseconds: 5_000) { _ in
        deliveries += 1
        return .requeue
      }
      #expect(deliveries == 10)
      let worker = try world.world.startWorker()
      let end = try world.waitForEnd(of: id)
      #expect(world.waitForMetric("herald_expansions_\(carried == 0 ? "replaced" : "given_up")_total"))
      #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
      if carried == 0 {
        #expect(end.outcome == "completed" && end.summary == ["devices": 2, "accepted": 2], "\(worker.log)")
      } else {
        #expect(end.outcome == "failed" && end.detail?.hasPrefix("given up: 5") == true, "\(end)")
      }
    }
    let replay = try world.world.herald(["dead-letters", "replay", "--reason", "failed"])
    #expect(replay.output == "1 of 1 matching dead letters replayed\n", "\(replay.output)\(replay.errors)")
    try world.world.runUntilEmpty()
    try world.take()
    let ends = world.outcomes.filter { $0.job == "given-up" }
    #expect(ends.map(\.outcome) == ["failed", "completed"], "\(ends)")
  }

  /// A later step that nobody finished ends its job early, with the devices that it has.
  @Test func aLaterStepThatNobodyFinishesEndsItsJobEarly() throws {
    let world = try AudienceWorld("audience-early")
    try world.registry.register(0..<2, user: { _ in "u" })
    let id = "early"
    let body =
      #"{"version":1,"id":"\#(id)","app":"com.example.app","push_type":"alert","to":{"users":["u"]},"payload":{"aps":{"alert":"x"}}}"#
    let opening = try world.registry.wait {
      world.registry.store.open(
        world.registry.job(id), ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(),
        body: Array(body.utf8), then: $0)
    }
    #expect(opening == .evaluate(from: 0))
    let fixed = try world.registry.wait {
      world.registry.store.fix(
        world.registry.job(id), step: 0, pages: [PageOrdinals([0], epoch: 0)], counted: 0, next: 1, ordinals: 10,
        then: $0)
    }
    let cursor = try #require(fixed?.next)
    try world.publishPage(of: id, ordinals: [0])
    let properties = AMQPProperties()
    properties.addHeader("x-herald-deliveries", 50 as Int64)
    properties.addHeader("x-herald-cursor", cursor.text)
    let topology = Topology(prefix: world.world.prefix, retryDelaysSeconds: [1, 2])
    let admin = try AMQPAdmin(patientURL: world.world.rabbitmq.url)
    defer { admin.close() }
    try admin.publish(
      to: AMQPExchange("", isMandatory: true), routingKey: topology.expansionsQueue(.transactional),
      properties: properties,
      body: Array(body.utf8))
    try admin.waitForConfirms()
    let worker = try world.world.startWorker(["--until-empty"])
    #expect(worker.waitForExit(seconds: 60) == 0, "\(worker.log)")
    let end = try world.waitForEnd(of: id)
    #expect(end.outcome == "completed" && end.summary == ["devices": 1, "accepted": 1], "\(end)")
    #expect(end.detail == "ended early: given up: 50 deliveries were not finished", "\(end)")
    #expect(worker.log.contains("the job early for an audience is given up"), "\(worker.log)")
    #expect(try admin.messageCount(queue: topology.deadQueue) == 0)
  }
}
