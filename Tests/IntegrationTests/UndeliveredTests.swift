import Foundation
import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// What RabbitMQ itself gives up has its outcome, and then is a dead letter like all others. Real servers.
@Suite(.timeLimit(.minutes(3)))
struct UndeliveredTests {
  private func topology(_ world: WorkerWorld) -> Topology {
    Topology(prefix: world.prefix, retryDelaysSeconds: [1, 2])
  }

  private func admin(_ world: WorkerWorld) throws -> AMQPAdmin { try AMQPAdmin(patientURL: world.rabbitmq.url) }

  /// Waits until RabbitMQ has given up this many messages. No worker runs.
  private func expectUndelivered(
    _ count: Int, _ world: WorkerWorld, _ admin: AMQPAdmin, _ location: SourceLocation = #_sourceLocation
  ) {
    let queue = topology(world).undeliveredQueue
    let isThere = ChildProcess.poll(timeoutMilliseconds: 30_000) {
      (try? admin.messageCount(queue: queue)) == count ? true : nil
    }
    #expect(isThere == true, "given up", sourceLocation: location)
  }

  /// Takes a queue's only message and returns it until RabbitMQ's limit takes it away.
  private func reachLimit(_ queue: String, _ admin: AMQPAdmin) throws {
    var count = 0
    try admin.consume(queue: queue, limit: Int(Topology.deliveryLimit) + 1, idleMilliseconds: 10_000) { _ in
      count += 1
      return .requeue
    }
    #expect(count == Int(Topology.deliveryLimit) + 1)
  }

  private func letters(_ world: WorkerWorld) throws -> [String?] {
    try world.outside.drain("\(world.prefix).dead").map { $0.headers["x-herald-reason"] }
  }

  /// The producer set an AMQP `expiration`, and no worker was free.
  @Test func aJobWhoseMessageExpired_isExpired() throws {
    let world = try WorkerWorld("undelivered-expired")
    let admin = try admin(world)
    defer { admin.close() }
    let properties = AMQPProperties()
    for key in ["transactional", "bulk"] {
      properties.reset()
      properties.setMessageID("late-\(key)".utf8.span)
      properties.setExpiration(milliseconds: 1)
      try admin.publish(
        to: AMQPExchange("\(world.prefix).jobs", isMandatory: true), routingKey: key, properties: properties,
        body: Array(world.job("late-\(key)").utf8))
    }
    try admin.waitForConfirms()
    expectUndelivered(2, world, admin)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(Set(outcomes.map(\.jobID)) == ["late-transactional", "late-bulk"] && outcomes.count == 2, "\(outcomes)")
    #expect(outcomes.allSatisfy { $0.outcome == "expired" && $0.attempts == 0 && !$0.ambiguous }, "\(outcomes)")
    #expect(outcomes.allSatisfy { $0.detail?.contains("RabbitMQ") == true }, "\(outcomes)")
    #expect(try letters(world) == ["expired", "expired"])
    #expect(try world.simulator.counters().requests == 0)
  }

  /// An operator's policy ends what waits: again and again, and each job has its outcome once.
  @Test func jobsThatAPolicyEnds_haveOneOutcomeEach() throws {
    let world = try WorkerWorld("undelivered-policy")
    _ = try world.rabbitmq.rabbitmqctl([
      "set_policy", "--apply-to", "queues", world.prefix, "^\(world.prefix)\\.jobs", #"{"message-ttl":50}"#,
    ])
    try world.publishJobs(0..<50)
    let admin = try admin(world)
    defer { admin.close() }
    expectUndelivered(50, world, admin)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.count == 50 && Set(outcomes.compactMap(\.jobID)).count == 50, "\(outcomes)")
    #expect(outcomes.allSatisfy { $0.outcome == "expired" }, "\(outcomes)")
    _ = try world.rabbitmq.rabbitmqctl(["clear_policy", world.prefix])
  }

  @Test func aWrongRoutingKey_isNamed() throws {
    let world = try WorkerWorld("undelivered-key")
    try world.publish(world.job("odd"), routingKey: "Bulk")
    // A queue of ours was gone for a moment.
    let admin = try admin(world)
    defer { admin.close() }
    try admin.perform(.unbind(queue: "\(world.prefix).jobs.bulk", exchange: "\(world.prefix).jobs", routingKey: "bulk"))
    try world.publish(world.job("sound", number: 1), routingKey: "bulk")
    expectUndelivered(2, world, admin)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    let byID = Dictionary(grouping: outcomes) { $0.jobID ?? "" }
    #expect(byID["sound"]?.map(\.outcome) == ["accepted"], "\(outcomes)")
    let odd = try #require(byID["odd"]?.first)
    #expect(odd.outcome == "invalid" && byID["odd"]?.count == 1, "\(outcomes)")
    #expect(odd.detail == "no queue takes jobs with the routing key 'Bulk': use 'transactional' or 'bulk'")
    #expect(try letters(world) == ["invalid"])
  }

  /// It keeps the time that its producer gave it, which is over before a worker comes. One of them is too large to be a job.
  @Test func aWrongRoutingKeyThatExpired_isNamed() throws {
    let world = try WorkerWorld("undelivered-late")
    let admin = try admin(world)
    defer { admin.close() }
    let large = String(world.job("large").dropLast()) + #","meta":"\#(String(repeating: "x", count: 600_000))"}"#
    for (id, body) in [("odd", world.job("odd")), ("large", large)] {
      let properties = AMQPProperties()
      properties.setMessageID(id.utf8.span)
      properties.setExpiration(milliseconds: 1)
      try admin.publish(
        to: AMQPExchange("\(world.prefix).jobs", isMandatory: true), routingKey: "Bulk", properties: properties,
        body: Array(body.utf8))
    }
    try admin.waitForConfirms()
    let late = topology(world).lateQueue
    let isThere = ChildProcess.poll(timeoutMilliseconds: 30_000) {
      (try? admin.messageCount(queue: late)) == 2 ? true : nil
    }
    #expect(isThere == true)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["invalid", "invalid"], "\(outcomes)")
    #expect(outcomes.contains { $0.jobID == "odd" && $0.detail?.contains("'Bulk'") == true }, "\(outcomes)")
    #expect(try letters(world) == ["invalid", "invalid"])
  }

  /// Each worker that returned the job may have sent it.
  @Test func aJobThatReachedTheLimit_isFailed() throws {
    let world = try WorkerWorld("undelivered-limit")
    try world.publish(world.job("given-back"), routingKey: "bulk")
    let admin = try admin(world)
    defer { admin.close() }
    try reachLimit("\(world.prefix).jobs.bulk", admin)
    expectUndelivered(1, world, admin)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["failed"] && outcomes.allSatisfy(\.ambiguous), "\(outcomes)")
    let list = try world.herald(["dead-letters", "list"])
    #expect(list.output.contains("failed") && list.output.contains("given up"), "\(list.output)")
    #expect(try world.herald(["dead-letters", "replay"]).status == 0)
    try world.runUntilEmpty()
    let replayed = try world.takeOutcomes().dropFirst()
    #expect(replayed.map(\.outcome) == ["accepted"] && replayed.allSatisfy(\.ambiguous), "\(replayed)")
  }

  /// A copy of a job waited for its retry before: its last death counts, and its state stays.
  @Test func aCopyThatReachedTheLimit_isFailed() throws {
    let world = try WorkerWorld("undelivered-copy")
    let admin = try admin(world)
    defer { admin.close() }
    let properties = AMQPProperties()
    properties.setMessageID("waited".utf8.span)
    properties.addHeader("x-herald-reason", "ServiceUnavailable")
    properties.addHeader("x-herald-attempts", 2)
    try admin.publish(
      to: AMQPExchange("\(world.prefix).retry", isMandatory: true), routingKey: "bulk.1", properties: properties,
      body: Array(world.job("waited").utf8))
    try admin.waitForConfirms()
    try reachLimit("\(world.prefix).jobs.bulk", admin)
    expectUndelivered(1, world, admin)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["failed"] && outcomes.map(\.attempts) == [2], "\(outcomes)")
    #expect(try letters(world) == ["failed"])
  }

  /// A channel request is answered.
  @Test(arguments: [true, false]) func aChannelRequest_isAnswered(reachesLimit: Bool) throws {
    let world = try WorkerWorld("undelivered-channel")
    let answers = "\(world.prefix).answers"
    try world.outside.bind(queue: answers, to: "amq.fanout")
    let admin = try admin(world)
    defer { admin.close() }
    let properties = AMQPProperties()
    properties.setMessageID("list-1".utf8.span)
    properties.setReplyTo(answers.utf8.span)
    if !reachesLimit { properties.setExpiration(milliseconds: 1) }
    try admin.publish(
      to: AMQPExchange("", isMandatory: true), routingKey: "\(world.prefix).channels", properties: properties,
      body: Array(#"{"version":1,"id":"list-1","app":"com.example.app","action":"list"}"#.utf8))
    try admin.waitForConfirms()
    if reachesLimit { try reachLimit("\(world.prefix).channels", admin) }
    expectUndelivered(1, world, admin)
    try world.runUntilEmpty()
    let replies = try world.outside.drain(answers).map { String(decoding: $0.body, as: UTF8.self) }
    try #require(replies.count == 1, "\(replies)")
    #expect(replies[0].contains("\"unavailable\""), "\(replies)")
    if !reachesLimit { #expect(replies[0].contains("its time in a queue was over"), "\(replies)") }
  }

  /// A part of an audience goes back to its queue: it knows how often it may come.
  @Test func aJobForAnAudience_hasItsOutcome() throws {
    let world = try AudienceWorld("undelivered")
    let admin = try admin(world.world)
    defer { admin.close() }
    let queue = "\(world.world.prefix).expansions"
    try admin.publish(
      to: AMQPExchange("", isMandatory: true), routingKey: queue, properties: AMQPProperties(),
      body: Array(
        #"{"version":1,"id":"nobody","app":"com.example.app","push_type":"alert","to":{"users":["u"]},"payload":{"aps":{"alert":"x"}}}"#
          .utf8))
    try admin.waitForConfirms()
    try reachLimit(queue, admin)
    expectUndelivered(1, world.world, admin)
    try world.world.runUntilEmpty()
    let outcomes = try world.world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["completed"], "\(outcomes)")
  }

  /// A worker of an earlier version bound its own dead letters' queue, and publishes to the exchange.
  @Test func whatAnEarlierVersionLeft_isADeadLetterOnce() throws {
    let world = try WorkerWorld("undelivered-earlier")
    let topology = topology(world)
    let admin = try admin(world)
    defer { admin.close() }
    try admin.perform(.bind(queue: topology.deadQueue, exchange: topology.deadExchange, routingKey: ""))
    try admin.perform(all: topology.declarations)
    let properties = AMQPProperties()
    properties.setMessageID("left".utf8.span)
    properties.addHeader("x-herald-reason", "failed")
    properties.addHeader("x-herald-detail", "503")
    properties.addHeader("x-herald-class", "bulk")
    try admin.publish(
      to: AMQPExchange(topology.deadExchange, isMandatory: true), routingKey: "", properties: properties,
      body: Array(world.job("left").utf8))
    try admin.waitForConfirms()
    try world.runUntilEmpty()
    #expect(try world.takeOutcomes().isEmpty, "it had its outcome")
    let list = try world.herald(["dead-letters", "list", "--json"])
    let lines = list.output.split(separator: "\n")
    #expect(lines.count == 1, "\(list.output)")
    #expect(list.output.contains(#""reason":"failed""#) && list.output.contains(#""class":"bulk""#), "\(list.output)")
  }

  /// The queue of dead letters is full, and its limit is lifted: what RabbitMQ gave up comes there.
  @Test func whatFoundNoRoom_isADeadLetterOnceThereIsSome() throws {
    let world = try WorkerWorld("undelivered-full")
    let (dead, undelivered) = ("\(world.prefix).dead", "\(world.prefix).undelivered")
    _ = try world.rabbitmq.rabbitmqctl([
      "set_policy", "--apply-to", "queues", dead, "^\(dead)$", #"{"max-length":1,"overflow":"reject-publish"}"#,
    ])
    for body in ["taken", "refused"] { try world.outside.publish(body, exchange: "", routingKey: dead) }
    let admin = try admin(world)
    defer { admin.close() }
    for number in 0..<3 { try world.outside.publish(world.job("job-\(number)"), exchange: "", routingKey: undelivered) }
    let worker = try world.startWorker()
    #expect(worker.waitForLine("dead refuses messages", seconds: 30), "\(worker.log)")
    _ = try world.rabbitmq.rabbitmqctl(["clear_policy", dead])
    let isThere = ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 100) {
      (try? admin.messageCount(queue: dead)) ?? 0 >= 4 ? true : nil
    }
    #expect(isThere == true, "\(worker.log)")
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    let letters = try world.outside.drain(dead)
    #expect(letters.count { $0.headers["x-herald-reason"] == "unroutable" } == 3, "\(letters)")
  }
}
