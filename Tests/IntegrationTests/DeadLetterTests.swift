import Foundation
import PushCore
import PushIO
import PushLane
import PushOperations
import PushSettings
import TestSupport
import Testing

/// `herald dead-letters` as a process, against a real broker.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct DeadLetterTests {
  private struct Row: Decodable {
    let position: Int
    let reason: String
    let id: String?
    let app: String?
    let `class`: String
    let ambiguous: Bool
    let body: String?
  }

  private func topology(_ world: WorkerWorld) -> Topology {
    Topology(prefix: world.prefix, retryDelaysSeconds: [1, 2])
  }

  private func admin(_ world: WorkerWorld) throws -> AMQPAdmin {
    try AMQPAdmin(patientURL: world.rabbitmq.url)
  }

  /// Puts dead letters as a worker writes them: `d-<number>`, each `reason` by its number.
  private func put(_ world: WorkerWorld, _ numbers: Range<Int>, reason: (Int) -> StaticString) throws {
    let admin = try admin(world)
    defer { admin.close() }
    let exchange = AMQPExchange("", isMandatory: true)
    let properties = AMQPProperties()
    for number in numbers {
      properties.reset()
      properties.setMessageID("d-\(number)".utf8.span)
      properties.addHeader("x-herald-reason", literal: reason(number))
      properties.addHeader("x-herald-detail", "for the test")
      properties.addHeader("x-herald-class", literal: number % 2 == 0 ? "transactional" : "bulk")
      properties.addHeader("x-herald-apns-id", UUIDValue(high: 7, low: UInt64(number)))
      try admin.publish(
        to: exchange, routingKey: topology(world).deadQueue, properties: properties,
        body: Array(world.job("d-\(number)", number: number).utf8))
    }
    try admin.waitForConfirms()
    #expect(admin.results.confirmed == numbers.count)
  }

  private func rows(_ world: WorkerWorld, _ arguments: [String] = []) throws -> [Row] {
    let result = try world.herald(["dead-letters", "list", "--json"] + arguments)
    #expect(result.status == 0, "\(result.errors)")
    return try result.output.split(separator: "\n").map { try JSONDecoder().decode(Row.self, from: Data($0.utf8)) }
  }

  /// Takes all messages out of a queue and returns their ids.
  private func takeAll(_ queue: String, _ world: WorkerWorld) throws -> [AMQPMessage] {
    let admin = try admin(world)
    defer { admin.close() }
    var messages: [AMQPMessage] = []
    guard let count = try admin.messageCount(queue: queue), count > 0 else { return [] }
    try admin.consume(queue: queue, limit: count, idleMilliseconds: 5000) {
      messages.append($0)
      return .acknowledge
    }
    return messages
  }

  /// A job that is too large ends as any other invalid job: an outcome, and a dead letter with reason and bytes that can
  /// be replayed.
  @Test func aJobThatIsTooLarge() throws {
    let world = try WorkerWorld("dead-large")
    let worker = try world.startWorker()
    let body =
      "{\"version\":1,\"id\":\"large\",\"app\":\"com.example.app\",\"filler\":\""
      + String(repeating: "x", count: 600 * 1024) + "\"}"
    let admin = try admin(world)
    defer { admin.close() }
    let properties = AMQPProperties()
    properties.setMessageID("large".utf8.span)
    try admin.publish(
      to: AMQPExchange(topology(world).jobsExchange, isMandatory: true), routingKey: "bulk", properties: properties,
      body: Array(body.utf8))
    try admin.waitForConfirms()
    func waitForLetters(_ count: Int) -> [Row] {
      ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 200) { () -> [Row]? in
        guard let rows = try? rows(world, ["--reason", "invalid"]), rows.count == count else { return nil }
        return rows
      } ?? []
    }
    let letters = waitForLetters(1)
    #expect(letters.map(\.id) == ["large"] && letters.first?.class == "bulk", "\(worker.log)")
    let shown = try rows(world, ["--id", "large"])
    #expect(shown.count == 1)
    func outcomes() throws -> [String] { try world.takeOutcomes().map { "\($0.outcome) \($0.detail ?? "")" } }
    let wanted = "invalid job of \(body.utf8.count) bytes; at most 524288 are taken"
    #expect(try outcomes() == [wanted])
    let replay = try world.herald(["dead-letters", "replay", "--reason", "invalid"])
    #expect(replay.output == "1 of 1 matching dead letters replayed\n", "\(replay.output)\(replay.errors)")
    #expect(waitForLetters(1).map(\.id) == ["large"], "\(worker.log)")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
    var options = AMQPOptions()
    options.bodyBytesMaximum = Limits.deadLetterBytesMaximum
    let reader = try AMQPAdmin(
      addresses: [try AMQPAddress(world.rabbitmq.url)], tls: nil, name: "herald test reader", options: options)
    defer { reader.close() }
    var messages: [AMQPMessage] = []
    try reader.consume(queue: topology(world).deadQueue, limit: 1, idleMilliseconds: 5000) {
      messages.append($0)
      return .acknowledge
    }
    #expect(messages.map(\.body) == [Array(body.utf8)])
    #expect(messages.first?.header("x-herald-reason") == "invalid")
    #expect(messages.first.map { "invalid \($0.header("x-herald-detail") ?? "")" } == wanted)
  }

  @Test func listShowReplayPurge() throws {
    let world = try WorkerWorld("dead")
    let topology = topology(world)
    try put(world, 0..<8) { $0 < 4 ? "failed" : "invalid" }
    let all = try rows(world)
    #expect(all.map(\.id) == (0..<8).map { "d-\($0)" })
    #expect(all.map(\.position) == Array(1...8))
    #expect(all.allSatisfy { $0.app == "com.example.app" && $0.body == nil })
    #expect(try rows(world, ["--reason", "failed", "--limit", "2"]).map(\.id) == ["d-0", "d-1"])
    #expect(try rows(world, ["--app", "com.example.other"]).isEmpty)

    let table = try world.herald(["dead-letters", "list", "--reason", "invalid"])
    #expect(table.output.split(separator: "\n").count == 5, "\(table.output)")
    #expect(table.output.hasPrefix("#      REASON") && table.output.contains("for the test"), "\(table.output)")
    #expect(!table.output.contains("00fc"), "a token in a table")
    #expect(table.errors.contains("4 of 8"))
    let page = try world.herald(["dead-letters", "show", "--id", "d-3"])
    #expect(page.output.contains("\n\n\(world.job("d-3", number: 3))\n") && page.output.contains("class: bulk"))
    #expect(try world.herald(["dead-letters", "show", "--id", "d-99"]).status == 1)

    let dry = try world.herald(["dead-letters", "replay", "--reason", "failed", "--dry-run"])
    #expect(dry.output.contains("4 would be replayed; nothing was changed"), "\(dry.output)")
    #expect(try rows(world).count == 8)
    let replay = try world.herald(["dead-letters", "replay", "--reason", "failed", "--limit", "3"])
    #expect(replay.status == 0 && replay.output == "3 of 3 matching dead letters replayed\n", "\(replay.errors)")
    // The remaining ones keep their order.
    #expect(try rows(world).map(\.id) == ["d-3", "d-4", "d-5", "d-6", "d-7"])
    let bulk = try takeAll(topology.jobsQueue(.bulk), world)
    #expect(bulk.map(\.messageID) == ["d-1"])
    #expect(bulk.first?.body == Array(world.job("d-1", number: 1).utf8))
    #expect(bulk.first?.metadata.apnsID == UUIDValue(high: 7, low: 1))
    #expect(bulk.first?.header("x-herald-reason") == nil && bulk.first?.metadata.enqueuedAt != nil)
    #expect(try takeAll(topology.jobsQueue(.transactional), world).map(\.messageID) == ["d-0", "d-2"])

    #expect(try world.herald(["dead-letters", "purge"]).status == 64)
    #expect(try world.herald(["dead-letters", "purge", "--all", "--app", "a"]).status == 64)
    let dryPurge = try world.herald(["dead-letters", "purge", "--all", "--dry-run"])
    #expect(dryPurge.output.contains("5 would be purged"))
    let purge = try world.herald(["dead-letters", "purge", "--reason", "invalid", "--json"])
    #expect(
      purge.output == "{\"matched\":4,\"purged\":4,\"left\":0,\"dry_run\":false,\"cut_short\":false}\n",
      "\(purge.output)")
    #expect(try rows(world).map(\.id) == ["d-3"])
    #expect(try world.herald(["dead-letters", "purge", "--all"]).output == "1 of 1 matching dead letters purged\n")
    #expect(try rows(world).isEmpty)
  }

  /// Steps and reports of jobs for audiences go back to the queue of their class, at the place in the job that they had.
  @Test func aPartOfAnAudiencesJobGoesBackWhereItWas() throws {
    let world = try WorkerWorld("dead-parts")
    let topology = topology(world)
    let admin = try admin(world)
    defer { admin.close() }
    let report = #"{"settles":"job-1","page":0,"position":0,"ends":"a"}"#
    let step = #"{"id":"job-2","app":"com.example.app","push_type":"alert","to":{"users":["u"]},"payload":{}}"#
    for (body, cursor) in [(report, nil), (step, "2:65280:40:19874")] as [(String, String?)] {
      let properties = AMQPProperties()
      properties.addHeader("x-herald-reason", "failed")
      properties.addHeader("x-herald-deliveries", 50 as Int64)
      properties.addHeader("x-herald-class", "bulk")
      properties.addHeader("x-herald-first-seen", 1_796_000_000_000 as Int64)
      if let cursor { properties.addHeader("x-herald-cursor", cursor) }
      try admin.publish(
        to: AMQPExchange("", isMandatory: true), routingKey: topology.deadQueue, properties: properties,
        body: Array(body.utf8))
    }
    try admin.waitForConfirms()
    #expect(try rows(world).map(\.id) == ["job-1", "job-2"])
    #expect(try world.herald(["dead-letters", "replay", "--id", "job-1"]).status == 0)
    #expect(try world.herald(["dead-letters", "replay", "--id", "job-2"]).status == 0)
    #expect(try takeAll(topology.expansionsQueue(.transactional), world).isEmpty)
    let parts = try takeAll(topology.expansionsQueue(.bulk), world)
    #expect(parts.map { String(decoding: $0.body, as: UTF8.self) } == [report, step])
    #expect(parts.map { $0.header("x-herald-cursor") } == [nil, "2:65280:40:19874"])
    #expect(parts.allSatisfy { $0.header("x-herald-class") == "bulk" && $0.metadata.carriedDeliveries == 0 })
    #expect(parts.allSatisfy { $0.metadata.firstSeen == 1_796_000_000_000 && $0.metadata.isReplay })
    #expect(try takeAll(topology.jobsQueue(.transactional), world).isEmpty)
  }

  /// Its first worker did not know the time, or it was dead before any worker knew it.
  @Test(arguments: [0, nil] as [Int64?]) func aReplayedJobIsNoNewerThanItsTimestamp(point: Int64?) throws {
    let world = try WorkerWorld("dead-order")
    let admin = try admin(world)
    defer { admin.close() }
    let second = Int64(Date().timeIntervalSince1970) - 3_600
    for (id, isStamped) in [("stamped", true), ("unstamped", false)] {
      let properties = AMQPProperties()
      properties.setMessageID(id.utf8.span)
      properties.addHeader("x-herald-reason", "failed")
      if let point { properties.addHeader("x-herald-order", point) }
      if isStamped { properties.setTimestamp(unixMilliseconds: second * 1_000) }
      try admin.publish(
        to: AMQPExchange("", isMandatory: true), routingKey: topology(world).deadQueue, properties: properties,
        body: Array(world.job(id, number: 1).utf8))
    }
    try admin.waitForConfirms()
    let replay = try world.herald(["dead-letters", "replay", "--reason", "failed"])
    #expect(replay.status == 0, "\(replay.errors)")
    let copies = try takeAll(topology(world).jobsQueue(.transactional), world)
    #expect(copies.map(\.messageID) == ["stamped", "unstamped"])
    #expect(copies.map { $0.metadata.order.map { $0 / 1_000_000 } } == [second, nil])
    #expect(copies.first?.metadata.order.map { $0 % 1_000_000 >= 800_000 } == true, "newer than what was sent")
  }

  /// Dead letters that do not match fill one channel after another, and go back in their order.
  @Test func oneBehindManyOthers() throws {
    let world = try WorkerWorld("dead-behind")
    try put(world, 0..<503) { $0 < 500 ? "invalid" : "failed" }
    let replay = try world.herald(["dead-letters", "replay", "--reason", "failed"])
    #expect(replay.output == "3 of 3 matching dead letters replayed\n", "\(replay.errors)")
    #expect(try rows(world).map(\.id) == (0..<500).map { "d-\($0)" })
  }

  @Test func aLookThatTakesTooLongSaysSo() throws {
    let world = try WorkerWorld("dead-long")
    try put(world, 0..<3) { _ in "failed" }
    let configuration = try ConfigurationLoader.load(file: world.configurationFile, environment: [:])
    let everything = DeadLetterFilter(reason: nil, app: nil, id: nil)
    let cut = try DeadLetterQueue(configuration, runSecondsMaximum: 0).replay(everything)
    #expect(cut.isCutShort && cut.done == 0)
    let whole = try DeadLetterQueue(configuration).replay(everything)
    #expect(!whole.isCutShort && whole.done == 3)
  }

  @Test func aReplayedJobIsSent() throws {
    let world = try WorkerWorld("dead-sent")
    try put(world, 0..<4) { _ in "failed" }
    #expect(try world.herald(["dead-letters", "replay"]).status == 0)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(Set(outcomes.compactMap(\.jobID)) == ["d-0", "d-1", "d-2", "d-3"])
    #expect(outcomes.allSatisfy { $0.outcome == "accepted" && $0.attempts == 1 && !$0.ambiguous })
  }

  /// APNs accepted one target and its answer was lost; it refused the other. Each dead letter says what happened to its own target, and so
  /// does the outcome of its replay.
  @Test func aReplayMarksWhatMayHaveBeenAcceptedBefore() throws {
    let world = try WorkerWorld("dead-marked")
    let once = world.configuration().replacing("attempts_max: 10", with: "attempts_max: 1")
    try world.simulator.setFaults(
      "prefix=aa,reset=8,processed\nprefix=bb,status=503,reason=ServiceUnavailable")
    let tokens = ["aa", "bb"].map { "\"\($0)\(String(repeating: "0", count: 62))\"" }.joined(separator: ",")
    try world.publish(
      world.job("batch").replacing(
        #""to":{"token":"00fc\#(String(repeating: "0", count: 60))"}"#,
        with: #""to":{"tokens":[\#(tokens)]}"#))
    let worker = try world.startWorker(["--until-empty"], configuration: once)
    #expect(worker.waitForExit(seconds: 60) == 0, "\(worker.log)")
    #expect(try world.takeOutcomes().map(\.outcome) == ["failed", "failed"])
    let letters = try rows(world)
    #expect(letters.count == 2 && letters.count(where: \.ambiguous) == 1, "\(letters)")
    let page = try world.herald(["dead-letters", "show"])
    #expect(page.output.contains("ambiguous: an earlier attempt may have reached APNs"), "\(page.output)")

    try world.simulator.clearFaults()
    #expect(try world.herald(["dead-letters", "replay"]).status == 0)
    try world.runUntilEmpty()
    let replayed = try world.takeOutcomes().dropFirst(2)
    #expect(replayed.map(\.outcome) == ["accepted", "accepted"], "\(replayed)")
    let twice = try world.simulator.duplicates()
    #expect(twice.count == 1 && twice.values.first == 2, "\(twice)")
    #expect(Set(replayed.filter(\.ambiguous).compactMap(\.apnsID)) == Set(twice.keys), "\(replayed)")
  }

  @Test func aKillInTheMiddleLosesNothing() throws {
    let world = try WorkerWorld("dead-kill")
    let topology = topology(world)
    let count = 400
    try put(world, 0..<count) { _ in "failed" }
    let replay = try ChildProcess(
      [
        try BuiltProgram.path("herald"), "dead-letters", "replay", "--rate", "150", "--config",
        world.configurationFile,
      ], environment: ChildProcess.inheritedEnvironment(without: ["HERALD_"]), output: world.folder.path("replay.log"),
      errors: world.folder.path("replay.log"))
    let admin = try admin(world)
    func ready(_ queue: String) -> Int { (try? admin.messageCount(queue: queue)) ?? 0 }
    func replayed() -> Int { JobClass.allCases.reduce(0) { $0 + ready(topology.jobsQueue($1)) } }
    let isUnderWay = ChildProcess.poll(timeoutMilliseconds: 30_000) { replayed() >= 100 ? true : nil }
    #expect(isUnderWay == true, "\(world.folder.read("replay.log"))")
    replay.kill()
    let before = replayed()
    #expect(before < count, "killed too late to show anything")
    // The messages that it held are requeued.
    let isBack = ChildProcess.poll(timeoutMilliseconds: 10_000) {
      replayed() + ready(topology.deadQueue) >= count ? true : nil
    }
    #expect(isBack == true)
    admin.close()
    let second = try world.herald(["dead-letters", "replay"])
    #expect(second.status == 0, "\(second.errors)")
    #expect(try rows(world).isEmpty)
    var ids: [String] = []
    for jobClass in JobClass.allCases { ids += try takeAll(topology.jobsQueue(jobClass), world).map(\.messageID) }
    #expect(Set(ids) == Set((0..<count).map { "d-\($0)" }))
    // One was copied and not acknowledged; a few acknowledgements may have been in flight.
    #expect(ids.count - count <= 32, "\(ids.count - count) twice")
  }
}
