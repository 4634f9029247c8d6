import Foundation
import Glibc
import PushIO
import PushStores
import TestSupport
import Testing

/// The channel consumer during outages, with real servers and workers as processes: no request is lost,
/// and no channel is created twice.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct ChannelConsumerFaultTests {
  /// The fields of an answer's body that the tests use.
  private struct Reply: Decodable {
    let id: String?
    let ok: Bool
    let channel: String?
  }

  /// The longest wait for anything; everything takes much less.
  private static let patienceMilliseconds = 60_000

  private func ensure(_ name: String) -> String {
    "{\"version\":1,\"id\":\"ensure-\(name)\",\"app\":\"com.example.app\",\"action\":\"ensure\",\"name\":\"\(name)\","
      + "\"storage\":\"none\"}"
  }

  /// Publishes requests whose answers go to `queue`; nil: to the results.
  private func ask(_ world: WorkerWorld, _ body: String, correlationID: String? = nil, replyTo queue: String? = nil)
    throws
  {
    _ = try ChannelRequester(port: world.rabbitmq.port).ask(
      [.init(body, correlationID: correlationID, replyTo: queue)], queue: "\(world.prefix).channels")
  }

  /// Waits for this many messages in a queue; returns those that came.
  private func take(_ count: Int, from queue: String, _ world: WorkerWorld) throws -> [OutsideClient.Message] {
    var messages: [OutsideClient.Message] = []
    _ = try ChildProcess.poll(timeoutMilliseconds: Self.patienceMilliseconds, everyMilliseconds: 100) {
      () throws -> Bool? in
      messages += try world.outside.drain(queue)
      return messages.count >= count ? true : nil
    }
    return messages
  }

  private func replies(_ messages: [OutsideClient.Message]) throws -> [Reply] {
    try messages.map { try JSONDecoder().decode(Reply.self, from: Data($0.body)) }
  }

  private func waitForRequests(_ count: Int, _ world: WorkerWorld) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: Self.patienceMilliseconds, everyMilliseconds: 10) { () -> Bool? in
      (try? world.simulator.counters().requests) ?? 0 >= count ? true : nil
    } ?? false
  }

  private func waitForMetric(_ line: String, _ world: WorkerWorld) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: Self.patienceMilliseconds, everyMilliseconds: 50) { () -> Bool? in
      world.admin("/metrics")?.body.contains("\n\(line)\n") == true ? true : nil
    } ?? false
  }

  private func waitForPostponed(atLeast count: Int, _ world: WorkerWorld) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: Self.patienceMilliseconds, everyMilliseconds: 50) { () -> Bool? in
      let metrics = world.admin("/metrics")?.body ?? ""
      let reported = metrics.firstMatch(of: /\nherald_channels_requests_postponed_total ([0-9]+)/)
      return reported.flatMap { Int($0.1) } ?? 0 >= count ? true : nil
    } ?? false
  }

  private func channels(_ world: WorkerWorld) throws -> [Substring] {
    let listed = try world.herald(
      ["channels", "list", "--app", "com.example.app", "--environment", "production", "--json"])
    #expect(listed.status == 0, "\(listed.errors)")
    return listed.output.split(separator: "\n")
  }

  private func patient(_ world: WorkerWorld) -> String {
    world.configuration().replacing("request_timeout_ms: 5000", with: "request_timeout_ms: 30000")
      .replacing("drain_timeout_s: 20", with: "drain_timeout_s: 40")
  }

  /// A replayed request is answered to its `reply_to`, with its `correlation_id`.
  @Test func aReplayedRequestKeepsWhereItWantsItsAnswer() throws {
    let world = try WorkerWorld("channels-replay")
    let answers = "\(world.prefix).answers"
    try world.outside.bind(queue: answers, to: "amq.fanout")
    let worker = try world.startWorker()
    try ask(world, ensure("cup").replacing("none", with: "nothing"), correlationID: "c-7", replyTo: answers)
    let first = try take(1, from: answers, world)
    #expect(first.map(\.correlationID) == ["c-7"], "\(worker.log)")
    let replay = try world.herald(["dead-letters", "replay", "--reason", "invalid"])
    #expect(replay.output == "1 of 1 matching dead letters replayed\n", "\(replay.output)\(replay.errors)")
    let second = try take(1, from: answers, world)
    #expect(second.map(\.correlationID) == ["c-7"] && second.map(\.body) == first.map(\.body), "\(worker.log)")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// More requests than are carried out at a time, whose reply queue is full, hold up nobody else's; their answers go to the results.
  @Test func aReplyQueueThatRefusesHoldsUpNoOtherClient() throws {
    let world = try WorkerWorld("channels-refused")
    let answers = try world.makeFullQueue()
    let worker = try world.startWorker()
    let requester = ChannelRequester(port: world.rabbitmq.port)
    let queue = "\(world.prefix).channels"
    let count = 2 * Int(ChannelConsumerSettings.requestsMaximum)
    _ = try requester.ask((1...count).map { .init(ensure("cup-\($0)"), replyTo: answers) }, queue: queue)
    #expect(try requester.ask([.init(ensure("other"))], queue: queue).count == 1, "\(worker.log)")
    let redirected = try replies(take(count, from: world.outcomesQueue, world))
    #expect(Set(redirected.compactMap(\.id)).count == count && redirected.allSatisfy(\.ok), "\(worker.log)")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// RabbitMQ ends the connection that publishes to such a name.
  @Test func aReplyThatEndsTheConnection_holdsUpNoOtherClient() throws {
    let world = try WorkerWorld("channels-deadly")
    let worker = try world.startWorker()
    let requester = ChannelRequester(port: world.rabbitmq.port)
    let queue = "\(world.prefix).channels"
    #expect(try requester.ask([.init(ensure("cup"))], queue: queue).count == 1, "\(worker.log)")
    for number in 1...3 {
      let deadly = "amq.rabbitmq.reply-to.g1h2AA.BBB"
      try ask(world, ensure("deadly-\(number)"), correlationID: "d-\(number)", replyTo: deadly)
    }
    for number in 1...5 {
      #expect(try requester.ask([.init(ensure("other-\(number)"))], queue: queue).count == 1, "\(worker.log)")
    }
    let told = try replies(take(3, from: world.outcomesQueue, world))
    #expect(Set(told.compactMap(\.id)) == ["ensure-deadly-1", "ensure-deadly-2", "ensure-deadly-3"], "\(told)")
    #expect(worker.lines.count { $0.contains("541") } <= 9, "\(worker.log)")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// An analyst's queue is full: the answer waits, and is told once its limit is lifted.
  @Test func anAnswerThatTheResultsRefuse_isToldOnceTheyTakeIt() throws {
    let world = try WorkerWorld("channels-full")
    let full = try world.makeFullQueue()
    try world.outside.bind(queue: full, to: "\(world.prefix).results")
    let worker = try world.startWorker()
    try ask(world, ensure("cup"), correlationID: "c")
    #expect(worker.waitForLine("results refuses messages", seconds: 20), "\(worker.log)")
    try world.liftLimit(of: full)
    #expect(
      worker.waitForLine("results takes messages of com.example.app again", seconds: 40), "\(worker.log)")
    #expect(try replies(take(1, from: full, world).filter { $0.correlationID == "c" }).map(\.id) == ["ensure-cup"])
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// A copy of a request that was given up gets the same answer, and is not carried out. Put back, the request is.
  @Test func aRequestThatWasGivenUpIsCarriedOutOnlyIfItIsPutBack() throws {
    let world = try WorkerWorld("channels-given-up")
    let worker = try world.startWorker()
    let requester = ChannelRequester(port: world.rabbitmq.port)
    let isolated = "\(world.prefix).channels.isolated"
    // One of the copies was alone with 17 workers that crashed, the other one with none.
    for deliveries in [17, nil] as [Int64?] {
      _ = try requester.ask([.init(ensure("cup"), replyTo: nil, deliveries: deliveries)], queue: isolated)
      let replies = try take(1, from: world.outcomesQueue, world).map { String(decoding: $0.body, as: UTF8.self) }
      #expect(replies.count == 1 && replies.first?.contains("unavailable") == true, "\(replies)\n\(worker.log)")
      #expect(replies.first?.contains("given up: 17 deliveries") == true, "\(replies)")
    }
    #expect(try world.simulator.counters().requests == 0)
    let replay = try world.herald(["dead-letters", "replay", "--reason", "failed"])
    #expect(replay.output == "1 of 1 matching dead letters replayed\n", "\(replay.output)\(replay.errors)")
    let done = try replies(take(1, from: world.outcomesQueue, world))
    #expect(done.map(\.id) == ["ensure-cup"] && done.allSatisfy(\.ok), "\(worker.log)")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// Messages in the queues where requests wait.
  private func postponed(_ world: WorkerWorld) -> Int {
    guard let listed = try? world.rabbitmq.rabbitmqctl(["list_queues", "name", "messages"]) else { return 0 }
    return listed.split(separator: "\n").reduce(0) { sum, line in
      let words = line.split(separator: "\t")
      guard words.count == 2, words[0].hasPrefix("\(world.prefix).retry.channels.") else { return sum }
      return sum + (Int(words[1]) ?? 0)
    }
  }

  /// APNs' management host is down: a request waits in the retry queues, its age counts from its producer's timestamp, and it ends
  /// `unavailable`, with its original as a dead letter. It stays far below the delivery limit of one message.
  @Test func aRequestKeepsItsAgeWhileItWaits() throws {
    let world = try WorkerWorld("channels-age")
    let port = try LoopbackPort.free()
    let down = world.configuration().replacing("127.0.0.1:\(world.simulator.managePort)", with: "127.0.0.1:\(port)")
      .replacing("request_timeout_ms: 5000", with: "request_timeout_ms: 1000")
    let worker = try world.startWorker(configuration: down)
    let queue = "\(world.prefix).channels"
    // This one's hour ends in a few seconds, the other's does not.
    let soon = Int(Date.now.timeIntervalSince1970) - 3_590
    _ = try ChannelRequester(port: world.rabbitmq.port).ask(
      [.init(ensure("old"), replyTo: nil, timestamp: soon), .init(ensure("young"), replyTo: nil)], queue: queue)
    let reported = try take(1, from: world.outcomesQueue, world).map { String(decoding: $0.body, as: UTF8.self) }
    #expect(
      reported.count == 1 && reported.first?.contains("\"id\":\"ensure-old\"") == true, "\(reported)\n\(worker.log)")
    #expect(reported.first?.contains("unavailable") == true, "\(reported)")
    let dead = try world.outside.drain("\(world.prefix).dead")
    #expect(dead.map(\.body) == [Array(ensure("old").utf8)])
    #expect(dead.first?.headers["x-herald-reason"] == "failed" && dead.first?.headers["x-herald-class"] == "channels")
    let isWaiting = ChildProcess.poll(timeoutMilliseconds: Self.patienceMilliseconds, everyMilliseconds: 100) {
      () -> Bool? in postponed(world) == 1 ? true : nil
    }
    #expect(isWaiting == true, "\(worker.log)")
    // A worker that stops keeps no delivery. The next worker sees the request's true age, and the host is up again.
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
    let second = try world.startWorker()
    let done = try replies(take(1, from: world.outcomesQueue, world))
    #expect(done.map(\.id) == ["ensure-young"] && done.allSatisfy(\.ok), "\(second.log)")
    #expect(second.drain(seconds: 60) == 0, "\(second.log)")
  }

  /// An impossible time in our header ends neither the worker nor the request too early.
  @Test func aFirstReceiptOutOfThisWorldIsNotBelieved() throws {
    let world = try WorkerWorld("channels-time")
    try world.simulator.setFaults("status=503,reason=ServiceUnavailable")
    let worker = try world.startWorker()
    let times: [Int64] = [.min, .min + 1, -1, 0, .max]
    _ = try ChannelRequester(port: world.rabbitmq.port).ask(
      times.enumerated().map { .init(ensure("time-\($0.offset)"), replyTo: nil, firstSeen: $0.element) },
      queue: "\(world.prefix).channels")
    let areWaiting = ChildProcess.poll(timeoutMilliseconds: Self.patienceMilliseconds, everyMilliseconds: 100) {
      () -> Bool? in postponed(world) > 0 ? true : nil
    }
    #expect(areWaiting == true, "\(worker.log)")
    try world.simulator.clearFaults()
    let done = try replies(take(times.count, from: world.outcomesQueue, world))
    #expect(done.count == times.count && done.allSatisfy(\.ok), "\(worker.log)")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  @Test func untilEmptyWaitsForRequestsToo() throws {
    let world = try WorkerWorld("channels-empty")
    try world.simulator.setFaults("status=503,reason=ServiceUnavailable")
    try ask(world, ensure("final"))
    let worker = try world.startWorker(["--until-empty"])
    // It retries much longer than `--until-empty` waits for jobs.
    #expect(waitForRequests(6, world), "\(worker.log)")
    let early = try world.outside.drain(world.outcomesQueue).map { String(decoding: $0.body, as: UTF8.self) }
    let counters = try world.simulator.counters()
    #expect(!worker.log.contains("draining"), "\(early) \(counters)\n\(worker.log)")
    // Counting the messages of a queue that is gone makes it, and interrupts nothing.
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    try admin.perform(.deleteQueue(name: "\(world.prefix).retry.channels.30"))
    admin.close()
    try world.simulator.clearFaults()
    #expect(worker.waitForExit(seconds: 60) == 0, "\(worker.log)")
    #expect(!worker.log.contains("NOT_FOUND"), "\(worker.log)")
    let reported = try world.outside.drain(world.outcomesQueue).map { String(decoding: $0.body, as: UTF8.self) }
    #expect(reported.count == 1 && reported.first?.contains("\"ok\":true") == true, "\(reported)")
    #expect(try channels(world).count == 1)
  }

  @Test func aRevokedCredentialIsNotUsedByTheDesk() throws {
    let world = try WorkerWorld("channels-revoke")
    let worker = try world.startWorker(configuration: patient(world))
    try world.simulator.setFaults("silence")
    try ask(world, ensure("one"))
    #expect(waitForRequests(1, world), "\(worker.log)")
    let revoked = try world.herald(["revoke", "main"])
    #expect(revoked.status == 0, "\(revoked.errors)")
    #expect(worker.waitForLine("channels: the credential main is revoked", seconds: 60), "\(worker.log)")
    try world.simulator.clearFaults()
    try ask(world, ensure("two"))
    // Both wait in the retry queues, and fail again when they come back.
    #expect(waitForPostponed(atLeast: 3, world), "\(worker.log)")
    #expect(try world.simulator.counters().requests == 1, "nothing more was sent")
    // The same key: a reload does not end it.
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("reloaded", "main"), "\(worker.log)")
    #expect(waitForPostponed(atLeast: 4, world), "\(worker.log)")
    #expect(try world.simulator.counters().requests == 1, "still nothing")
    #expect(try world.herald(["unrevoke", "main"]).status == 0)
    let done = try replies(take(2, from: world.outcomesQueue, world))
    #expect(Set(done.compactMap(\.id)) == ["ensure-one", "ensure-two"] && done.allSatisfy(\.ok), "\(worker.log)")
    #expect(try world.simulator.counters().answers["201"] == 2)
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// Redis dies while APNs creates the channel: the name cannot be stored. The worker finds out whether the create was done once
  /// Redis is back.
  @Test(arguments: ["latency=2000", "silence,processed"])
  func redisGoesAwayInTheMiddleOfAnEnsure(_ fault: String) throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("channels-redis", redisURL: redis.url)
    // The second request of the connection is the create.
    try world.simulator.setFaults("after=1,times=1,\(fault)")
    let worker = try world.startWorker()
    try ask(world, ensure("final"))
    #expect(waitForRequests(2, world), "\(worker.log)")
    redis.kill()
    #expect(waitForMetric("herald_redis_up 0", world), "\(worker.log)")
    #expect(waitForPostponed(atLeast: 1, world), "\(worker.log)")
    #expect(try world.outside.drain(world.outcomesQueue).isEmpty, "the result is still unknown")
    try redis.start()
    let done = try replies(take(1, from: world.outcomesQueue, world))
    #expect(done.map(\.ok) == [true], "\(worker.log)")
    #expect(try world.simulator.counters().answers["201"] ?? 1 == 1, "created once")
    let listed = try channels(world)
    #expect(listed.count == 1 && listed.first?.contains("\"name\":\"final\"") == true, "\(listed)")
    #expect(listed.first?.contains(done.first?.channel ?? "?") == true)
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  /// The broker goes away while APNs creates the channel: it redelivers the request, and the answer is the same.
  @Test func theBrokerIsLostInTheMiddleOfARequest() throws {
    let rabbitmq = try RabbitMQServer()
    defer { rabbitmq.kill() }
    let world = try WorkerWorld("channels-broker", rabbitmq: rabbitmq)
    try world.simulator.setFaults("after=1,times=1,latency=2000")
    let worker = try world.startWorker(configuration: patient(world))
    try ask(world, ensure("final"))
    #expect(waitForRequests(2, world), "\(worker.log)")
    // An orderly stop: a RabbitMQ 3.10 that is killed within a second of declaring a stream loses that stream.
    rabbitmq.stop()
    try rabbitmq.start()
    let messages = try take(1, from: world.outcomesQueue, world)
    let done = try replies(messages)
    #expect(done.map(\.id) == ["ensure-final"] && done.allSatisfy(\.ok), "\(worker.log)")
    #expect(try world.simulator.counters().answers["201"] == 1)
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
    // Acknowledged: the next worker finds nothing to do, and answers nothing again.
    try world.runUntilEmpty()
    let late = try world.outside.drain(world.outcomesQueue)
    #expect(late.allSatisfy { $0.body == messages.first?.body }, "\(late.count) more")
    let listed = try channels(world)
    #expect(listed.count == 1 && listed.first?.contains(done.first?.channel ?? "?") == true, "\(listed)")
    #expect(try world.simulator.counters().answers["201"] == 1)
    #expect(try world.outside.drain("\(world.prefix).dead").isEmpty)
  }
}
