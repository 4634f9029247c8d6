import Foundation
import Glibc
import TestSupport
import Testing

/// Channels by the request queue and by commands: real servers, workers as processes, a producer that is not ours.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ChannelConsumerTests {
  /// The fields of an answer's body that the tests use.
  private struct Reply: Decodable {
    struct Failure: Decodable {
      let kind: String
      let detail: String
    }

    let id: String?
    let ok: Bool
    let channel: String?
    let name: String?
    let created: Bool?
    let error: Failure?
  }

  private func reply(_ body: String) throws -> Reply {
    try JSONDecoder().decode(Reply.self, from: Data(body.utf8))
  }

  private func request(_ id: String, _ rest: String) -> String {
    "{\"version\":1,\"id\":\"\(id)\",\"app\":\"com.example.app\",\(rest)}"
  }

  /// A short timeout for requests to APNs: it decides how soon a lost create is investigated.
  private func quick(_ world: WorkerWorld) -> String {
    world.configuration().replacing("request_timeout_ms: 5000", with: "request_timeout_ms: 1000")
  }

  private func channels(_ world: WorkerWorld) throws -> [String] {
    let listed = try world.herald(
      ["channels", "list", "--app", "com.example.app", "--environment", "production", "--json"])
    #expect(listed.status == 0, "\(listed.errors)")
    return listed.output.split(separator: "\n").map(String.init)
  }

  private func broadcast(_ id: String, _ channel: String, _ rest: String = "") -> String {
    "{\"id\":\"\(id)\",\"app\":\"com.example.app\",\"push_type\":\"liveactivity\",\"to\":{\"channel\":\"\(channel)\"}\(rest),"
      + "\"payload\":{\"aps\":{\"timestamp\":1796000000,\"event\":\"update\",\"content-state\":{\"home\":1}}}}"
  }

  @Test func aHundredRacingRequestsAtFourWorkersMakeOneChannel() throws {
    let world = try WorkerWorld("channels-race")
    let workers = try (0..<4).map { _ in
      let port = try LoopbackPort.free()
      return try world.startWorker(
        configuration: world.configuration().replacing("port: \(world.adminPort)", with: "port: \(port)"))
    }
    for worker in workers {
      #expect(worker.waitForLine("rabbitmq (consumer): connected"), "\(worker.log)")
    }
    let requests = (0..<100).map { number in
      ChannelRequester.Request(
        request("race-\(number)", "\"action\":\"ensure\",\"name\":\"final\",\"storage\":\"none\""),
        correlationID: "c-\(number)")
    }
    let answers = try ChannelRequester(port: world.rabbitmq.port).ask(requests, queue: "\(world.prefix).channels")
    #expect(answers.count == 100)
    #expect(Set(answers.compactMap(\.correlationID)).count == 100)
    let replies = try answers.map { try reply($0.body) }
    #expect(replies.allSatisfy { $0.ok && $0.name == "final" })
    #expect(Set(replies.compactMap(\.channel)).count == 1)
    #expect(replies.count { $0.created == true } == 1)
    #expect(try world.simulator.counters().answers["201"] == 1, "APNs was asked for one channel")
    let listed = try channels(world)
    #expect(listed.count == 1 && listed[0].contains("\"name\":\"final\""), "\(listed)")
    for worker in workers { #expect(worker.drain(seconds: 20) == 0, "\(worker.log)") }
  }

  @Test func theHolderIsKilledBetweenCreateAndStore() throws {
    let world = try WorkerWorld("channels-kill")
    // The second request of the connection is the create: APNs carries it out and never answers.
    try world.simulator.setFaults("after=1,times=1,silence,processed")
    let arguments = [
      "channels", "ensure", "final", "--storage", "most-recent", "--app", "com.example.app", "--environment",
      "production",
    ]
    let file = try world.folder.write(quick(world), to: "quick.yaml")
    let holder = try ChildProcess(
      [try BuiltProgram.path("herald")] + arguments + ["--config", file], environment: WorkerWorld.environment,
      output: world.folder.path("holder.log"), errors: world.folder.path("holder.log"))
    let isCreating = ChildProcess.poll(timeoutMilliseconds: 20_000) { () -> Bool? in
      (try? world.simulator.counters().requests) ?? 0 >= 2 ? true : nil
    }
    holder.kill()
    #expect(isCreating == true)
    try world.simulator.clearFaults()
    let second = try world.herald(arguments, configuration: quick(world))
    #expect(second.status == 0, "\(second.errors)")
    #expect(second.errors.contains("an earlier create made it"), "\(second.errors)")
    let listed = try channels(world)
    #expect(listed.count == 1, "\(listed)")
    #expect(listed.first?.contains(second.output.split(separator: "\n").first ?? "?") == true)
  }

  @Test func requestsAreAnsweredWhereTheyAsk() throws {
    let world = try WorkerWorld("channels-desk")
    let requester = ChannelRequester(port: world.rabbitmq.port)
    let queue = "\(world.prefix).channels"
    let worker = try world.startWorker(configuration: quick(world))
    #expect(worker.waitForLine("rabbitmq (consumer): connected"), "\(worker.log)")
    let create = request("create-1", "\"action\":\"create\",\"storage\":\"none\"")
    let first = try requester.ask([.init(create, correlationID: "c1")], queue: queue)
    let made = try #require(first.first)
    #expect(made.type == "push.channel.v1" && made.messageID == "create-1" && made.correlationID == "c1")
    let channel = try #require(try reply(made.body).channel)
    // The same request again, a broken one, and one whose id is only in the message's properties.
    let broken = request("broken", "\"action\":\"ensure\",\"storage\":\"none\"")
    let answers = try requester.ask(
      [
        .init(create, correlationID: "c2"), .init(broken, correlationID: "c3"),
        .init("{\"action\":\"read\",\"app\":\"com.example.app\",\"channel\":\"\(channel)\"}", messageID: "m4"),
        .init(request("d5", "\"action\":\"delete\",\"name\":\"nobody\"")),
      ], queue: queue)
    #expect(answers.count == 4)
    let byID = Dictionary(grouping: answers) { $0.messageID ?? "" }
    #expect(byID["create-1"]?.first?.body == made.body, "remembered, and not created again")
    let fault = try reply(try #require(byID["broken"]?.first?.body))
    #expect(!fault.ok && fault.error?.kind == "invalid" && fault.error?.detail == "name: is missing")
    #expect(try reply(try #require(byID["m4"]?.first?.body)).ok)
    #expect(try reply(try #require(byID["d5"]?.first?.body)).error?.kind == "not_found")
    #expect(try world.simulator.counters().answers["201"] == 1)
    let dead = try world.outside.drain("\(world.prefix).dead")
    #expect(dead.map(\.body) == [Array(broken.utf8)])
    #expect(dead.first?.headers["x-herald-detail"] == "name: is missing")
    #expect(dead.first?.headers["x-herald-class"] == "channels")

    // Without a `reply_to` the reply goes to the results exchange, under a routing key of its own.
    _ = try requester.ask(
      [
        .init(request("list-1", "\"action\":\"list\""), replyTo: nil),
        .init(request("list-2", "\"action\":\"list\""), replyTo: "no-such-queue-\(world.prefix)"),
      ], queue: queue)
    var results: [OutsideClient.Message] = []
    let isThere = try ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 50) { () throws -> Bool? in
      results += try world.outside.drain(world.outcomesQueue)
      return results.count >= 2 ? true : nil
    }
    #expect(isThere == true && Set(results.compactMap(\.messageID)) == ["list-1", "list-2"])
    #expect(results.allSatisfy { $0.routingKey == "channel.production.com.example.app" && $0.deliveryMode == 2 })

    // APNs is away: the request waits, and is carried out when APNs is back.
    world.simulator.stop()
    _ = try requester.ask(
      [.init(request("later", "\"action\":\"ensure\",\"name\":\"later\",\"storage\":\"none\""), replyTo: nil)],
      queue: queue)
    let metrics = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 50) { () -> String? in
      let text = world.admin("/metrics")?.body ?? ""
      return text.contains(/\nherald_channels_requests_postponed_total [1-9]/) ? text : nil
    }
    #expect(metrics?.contains("herald_channels_requests_total{action=\"create\",result=\"ok\"} 1\n") == true)
    try world.simulator.start()
    results = []
    let isDone = try ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { () throws -> Bool? in
      results += try world.outside.drain(world.outcomesQueue)
      return results.isEmpty ? nil : true
    }
    #expect(isDone == true, "\(worker.log)")
    #expect(try results.first.map { try reply(String(decoding: $0.body, as: UTF8.self)) }?.ok == true)
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  /// A channel is of one app: a job of another one, though the same credential sends both, reaches nobody, and makes it dead for nobody.
  @Test func aBroadcastReachesNoOtherAppsChannel() throws {
    let world = try WorkerWorld("channels-apart")
    try world.folder.write(
      world.configuration().replacing("[com.example.app]", with: "[com.example.app, com.example.other]"),
      to: "herald.yaml")
    let made = try world.herald([
      "channels", "ensure", "match", "--storage", "none", "--app", "com.example.other", "--environment", "production",
    ])
    #expect(made.status == 0, "\(made.errors)")
    let channel = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
    let foreign = ",\"topic\":\"com.example.other.push-type.liveactivity\""
    try world.publish(broadcast("foreign", channel))
    try world.publish(broadcast("topic", channel, foreign))
    try world.publish(broadcast("named", channel, foreign + ",\"credential\":\"main\""))
    try world.runUntilEmpty()
    try world.publish(broadcast("own", channel).replacing("com.example.app", with: "com.example.other"))
    try world.runUntilEmpty()
    let outcomes = Dictionary(grouping: try world.takeOutcomes()) { $0.jobID ?? "" }
    #expect(outcomes["foreign"]?.map(\.outcome) == ["rejected"], "\(outcomes)")
    #expect(outcomes["foreign"]?.first?.reason == "ChannelNotRegistered")
    for id in ["topic", "named"] {
      #expect(outcomes[id]?.map(\.outcome) == ["invalid"] && outcomes[id]?.first?.attempts == 0, "\(outcomes)")
      #expect(outcomes[id]?.first?.detail?.hasPrefix("topic: \"com.example.other.push-type") == true, "\(outcomes)")
    }
    #expect(outcomes["own"]?.map(\.outcome) == ["accepted"], "\(outcomes)")
    #expect(try world.simulator.counters().acceptedIDs == 1)
  }

  @Test func broadcastsFollowTheChannelsPolicyAndAreSentOnce() throws {
    let world = try WorkerWorld("channels-lane")
    func ensure(_ name: String, _ storage: String) throws -> String {
      let result = try world.herald([
        "channels", "ensure", name, "--storage", storage, "--app", "com.example.app", "--environment", "production",
      ])
      #expect(result.status == 0, "\(result.errors)")
      return result.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }
    let stored = try ensure("stored", "most-recent")
    let unstored = try ensure("unstored", "none")
    let before = try world.simulator.counters().requests
    let soon = Int(Date().timeIntervalSince1970) + 600
    try world.publish(broadcast("one", stored))
    try world.publish(broadcast("two", stored, ",\"expiration\":\(soon)"))
    try world.publish(broadcast("three", unstored))
    try world.publish(broadcast("wrong", unstored, ",\"expiration\":\(soon)"))
    try world.publish(broadcast("far", stored, ",\"expiration\":\(soon + 36_000)"))
    try world.publish(broadcast("gone", "Z29uZQ=="))
    try world.runUntilEmpty()
    let outcomes = Dictionary(grouping: try world.takeOutcomes()) { $0.jobID ?? "" }
    for id in ["one", "two", "three"] {
      #expect(outcomes[id]?.first?.outcome == "accepted" && outcomes[id]?.first?.attempts == 1, "\(outcomes)")
    }
    let wrong = try #require(outcomes["wrong"]?.first)
    #expect(wrong.outcome == "invalid" && wrong.attempts == 0)
    #expect(wrong.detail == "expiration: must be 0 for a channel whose storage policy is none, not \(soon)")
    let far = try #require(outcomes["far"]?.first)
    #expect(far.outcome == "invalid" && far.detail?.hasPrefix("expiration: must be at most 8 hours ahead") == true)
    let gone = try #require(outcomes["gone"]?.first)
    #expect(gone.outcome == "rejected" && gone.reason == "ChannelNotRegistered")
    // Three accepted, one refused; and the worker asked APNs for the policy of the unknown channel.
    #expect(try world.simulator.counters().requests == before + 5)

    // Redelivered after success: the worker publishes the outcome again and sends nothing. It remembers a dead channel.
    for _ in 0..<3 { try world.publish(broadcast("one", stored)) }
    try world.publish(broadcast("after", "Z29uZQ=="))
    try world.runUntilEmpty()
    #expect(try world.simulator.counters().requests == before + 5)
    let all = Dictionary(grouping: try world.takeOutcomes()) { $0.jobID ?? "" }
    #expect(all["one"]?.map(\.outcome) == ["accepted", "accepted", "accepted", "accepted"])
    #expect(all["after"]?.first?.outcome == "unregistered")
    // The worker stored the uses when it ended: both channels were used too recently to be reaped.
    let reaped = try world.herald([
      "channels", "reap", "--unused-for", "10m", "--app", "com.example.app", "--environment", "production",
    ])
    #expect(reaped.status == 0 && reaped.output.isEmpty && reaped.errors.contains("0 channels deleted"))
  }

  @Test func reapAndReconcileKeepNamesTrue() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("channels-keep", redisURL: redis.url)
    let options = ["--app", "com.example.app", "--environment", "production"]
    func herald(_ words: String...) throws -> ChildProcess.Output {
      try world.herald(["channels"] + words + options)
    }
    let old = try herald("ensure", "old").output.trimmingCharacters(in: .whitespacesAndNewlines)
    let used = try herald("ensure", "used").output.trimmingCharacters(in: .whitespacesAndNewlines)
    let foreign = try herald("create", "--json").output
    let tag = "\(world.prefix):{channels:production:com.example.app}:"
    // Two old channels, of which one was used recently, and a name whose channel is gone.
    for (id, name) in [(old, "old"), (used, "used"), ("Z29uZQ==", "gone")] {
      try redis.cli(["HSET", tag + "ids", id, "0\t1700000000000\t\t\(name)"])
    }
    try redis.cli(["HSET", tag + "names", "gone", "Z29uZQ=="])
    try redis.cli(["ZADD", tag + "used", String(Int(Date().timeIntervalSince1970)), used])

    let dry = try herald("reconcile", "--dry-run")
    #expect(
      dry.errors.contains("3 of 10000 channels; 1 gone, 1 unknown, 0 unfinished, 0 restored (nothing was changed)"))
    let found = try herald("reconcile")
    #expect(found.status == 0 && found.output.contains("gone        Z29uZQ==  gone"), "\(found.output)\(found.errors)")
    let again = try herald("reconcile", "--json")
    #expect(again.output.contains("\"gone\":[]") && again.output.contains("\"unknown\":[]"), "\(again.output)")

    #expect(try herald("reap", "--unused-for", "1d", "--dry-run").output.hasPrefix("\(old)  old  never used"))
    let reaped = try herald("reap", "--unused-for", "1d", "--json")
    #expect(reaped.output.split(separator: "\n").count == 1 && reaped.output.contains("\"deleted\":true"))
    let left = try channels(world)
    #expect(left.count == 2 && left.contains { $0.contains("\"name\":\"used\"") } && !left.joined().contains(old))
    #expect(left.contains { line in foreign.contains(line.split(separator: "\"")[7]) }, "a foreign channel stays")
    #expect(try herald("ensure", "old").output.hasPrefix(old) == false, "the name is free again")
    #expect(try herald("reap", "--unused-for", "5m").status == 64)
  }

  /// As many as an app can have, all but the newest of them unused: Redis is asked for many at a time, and each is told.
  @Test func tenThousandToReapAreToldAfterFewCommands() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("channels-many", redisURL: redis.url)
    let tag = "\(world.prefix):{channels:production:com.example.app}:"
    let now = Int64(Date().timeIntervalSince1970)
    try redis.cli([
      "EVAL",
      """
      for number = 1, ARGV[1] do
        local id = 'Y2hhbm5lbC0' .. (100000 + number)
        redis.call('HSET', KEYS[1], 'event-' .. number, id)
        redis.call('HSET', KEYS[2], id, '0\\t1700000000000\\t\\tevent-' .. number)
        redis.call('ZADD', KEYS[3], number == tonumber(ARGV[1]) and ARGV[2] or 1700000000, id)
      end
      """, "3", tag + "names", tag + "ids", tag + "used", "10000", "\(now)",
    ])
    try redis.cli(["CONFIG", "RESETSTAT"])
    let reaped = try world.herald([
      "channels", "reap", "--unused-for", "1d", "--dry-run", "--app", "com.example.app", "--environment", "production",
    ])
    #expect(reaped.status == 0 && reaped.errors.contains("9999 channels would be deleted"), "\(reaped.errors)")
    #expect(reaped.output.split(separator: "\n").count == 9_999)
    let calls = try redis.cli(["INFO", "commandstats"]).split(whereSeparator: \.isNewline).compactMap { line -> Int? in
      guard line.hasPrefix("cmdstat_") else { return nil }
      return line.firstRange(of: "calls=").flatMap { Int(line[$0.upperBound...].prefix { $0 != "," }) }
    }
    // A thousand in an answer, or a few less.
    #expect(30...80 ~= calls.reduce(0, +), "\(calls)")
  }
}
