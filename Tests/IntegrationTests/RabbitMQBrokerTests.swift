import Logging
import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// The lane's adapter against a real broker.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct RabbitMQBrokerTests {
  private let outcome = Array("{\"outcome\":\"accepted\"}".utf8)
  private let key = Array("accepted.production.com.example.app".utf8)

  private func started(_ prefix: String) throws -> RabbitMQBrokerHarness {
    let harness = try RabbitMQBrokerHarness(server: try RabbitMQServer.shared(), prefix: prefix)
    #expect(harness.run { $0.events.contains("consuming 1") })
    #expect(harness.events == ["publishing", "consuming 1"])
    #expect(harness.broker.canPublish)
    return harness
  }

  @Test func aJobsWay() throws {
    let harness = try started("way")
    let properties = AMQPProperties()
    properties.setMessageID("job-1".utf8.span)
    properties.setCorrelationID("corr".utf8.span)
    properties.setTimestamp(unixMilliseconds: 1_796_000_000_000)
    properties.addHeader("traceparent", "00-a-b-01")
    try harness.enqueue((0..<20).map { [UInt8($0)] }, routingKey: "bulk", properties)
    try harness.enqueue([[99]], routingKey: "", properties)
    #expect(harness.run { $0.deliveries.count == 21 })
    let urgent = harness.deliveries.filter { $0.delivery.tag.jobClass == .transactional }
    #expect(urgent.map(\.body) == [[99]])
    let bulk = harness.deliveries.filter { $0.delivery.tag.jobClass == .bulk }
    #expect(bulk.map(\.body) == (0..<20).map { [UInt8($0)] })
    let metadata = bulk[0].metadata
    #expect(metadata.enqueuedAt == 1_796_000_000_000)
    let apnsID = UUIDValue(high: 0x8C1F_6F0E_3A57_4D0C, low: 0x9F0E_2F3F_6D1C_7A11)
    let sequence = harness.publish {
      $0.publishOutcome(outcome, routingKey: key, apnsID: apnsID, metadata: metadata)
    }
    let state = RetryState(
      attempts: 2, firstSeen: 77, claim: 0xFFFF_FFF0, isAmbiguous: true, apnsID: apnsID, reason: .tooManyRequests)
    let retry = harness.publish {
      $0.publishRetry([42], jobClass: .bulk, delaySeconds: 1, state: state, metadata: metadata)
    }
    var uncertain = metadata
    uncertain.isAmbiguous = true
    let dead = harness.publish {
      $0.publishDeadLetter([43], jobClass: .bulk, reason: "invalid", detail: "to: missing", metadata: uncertain)
    }
    #expect(harness.run { $0.confirmed.isSuperset(of: [sequence, retry, dead]) })
    harness.broker.acknowledge(upTo: bulk[19].delivery.tag)
    harness.broker.acknowledge(upTo: urgent[0].delivery.tag)
    // The retry copy comes back after a second, with its headers.
    #expect(harness.run { $0.deliveries.count == 22 })
    let copy = harness.deliveries[21]
    #expect(copy.body == [42])
    #expect(copy.metadata.attempts == 2)
    #expect(copy.metadata.firstSeen == 77)
    #expect(copy.metadata.claim == 0xFFFF_FFF0)
    #expect(copy.metadata.isAmbiguous)
    #expect(copy.metadata.apnsID == apnsID)
    #expect(copy.metadata.enqueuedAt == 1_796_000_000_000)
    #expect(
      String(decoding: copy.metadata.bytes[copy.metadata.messageID.range], as: UTF8.self) == "job-1")
    harness.broker.reject(copy.delivery.tag, requeue: false)
    harness.settle()

    let admin = try harness.admin()
    var letters: [AMQPMessage] = []
    for queue in [harness.topology.deadQueue, harness.topology.undeliveredQueue] {
      try admin.consume(queue: queue, limit: 1, idleMilliseconds: 5000) { message in
        letters.append(message)
        return .acknowledge
      }
    }
    #expect(letters.map(\.body) == [[43], [42]])
    #expect(letters[0].header("x-herald-reason") == "invalid")
    #expect(letters[0].header("x-herald-detail") == "to: missing")
    #expect(letters[0].header("x-herald-class") == "bulk")
    #expect(letters[0].metadata.isAmbiguous)
    var outcomes: [AMQPMessage] = []
    try admin.consume(queue: harness.topology.resultsLogQueue, offset: .first, limit: 1, idleMilliseconds: 5000) {
      outcomes.append($0)
      return .acknowledge
    }
    #expect(outcomes.map(\.body) == [outcome])
    #expect(outcomes.first?.messageID == "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11")
    #expect(outcomes.first?.header("traceparent") == "00-a-b-01")
    #expect(try admin.messageCount(queue: harness.topology.jobsQueue(.bulk)) == 0)
    admin.close()
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
    // Everything was acknowledged: nothing went back.
    let after = try harness.admin()
    #expect(try after.messageCount(queue: harness.topology.jobsQueue(.bulk)) == 0)
    #expect(try after.messageCount(queue: harness.topology.jobsQueue(.transactional)) == 0)
    after.close()
  }

  @Test func bulkDoesNotDelayTransactionalJobs() throws {
    let harness = try started("classes")
    try harness.enqueue((0..<200).map { _ in [1] }, routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 50 })
    try harness.enqueue([[2]], routingKey: "transactional")
    #expect(harness.run(timeoutMilliseconds: 3000) { $0.deliveries.contains { $0.body == [2] } })
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func confirmsAreHeardWhileDeliveriesWait() throws {
    let harness = try started("wait")
    harness.takesDeliveries = false
    try harness.enqueue((0..<20).map { [UInt8($0)] }, routingKey: "bulk")
    let sequence = harness.publish {
      $0.publishOutcome(outcome, routingKey: key, apnsID: UUIDValue(high: 1, low: 2), metadata: MessageMetadata())
    }
    #expect(harness.run { $0.confirmed.contains(sequence) })
    harness.settle()
    #expect(harness.deliveries.isEmpty)
    harness.takesDeliveries = true
    #expect(harness.run { $0.deliveries.count == 20 })
    #expect(harness.deliveries.map(\.body) == (0..<20).map { [UInt8($0)] })
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  /// The dead letter, with reason and bytes, is confirmed before the job is reported. Other jobs are not affected.
  @Test func aJobThatIsTooLargeIsCopiedWithItsReason() throws {
    let harness = try started("large")
    let large = (0..<600 * 1024).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let properties = AMQPProperties()
    properties.setMessageID("large-1".utf8.span)
    properties.setCorrelationID("corr".utf8.span)
    try harness.enqueue([[1], large, [2], large, [3]], routingKey: "bulk", properties)
    #expect(harness.run { $0.deliveries.count == 5 })
    #expect(harness.deliveries.map(\.body) == [[1], [], [2], [], [3]])
    let reported = harness.deliveries.filter(\.delivery.isOversized)
    #expect(reported.count == 2 && reported.allSatisfy { $0.delivery.bodyCount == large.count })
    #expect(reported.allSatisfy { $0.metadata.messageID.count == 7 })
    let admin = try harness.admin()
    defer { admin.close() }
    #expect(try admin.messageCount(queue: harness.topology.deadQueue) == 2)
    // A settled job is acknowledged and not moved again. A job that was handed back comes again.
    harness.broker.reject(reported[0].delivery.tag, requeue: false)
    for index in [0, 2, 4] { harness.broker.acknowledge(one: harness.deliveries[index].delivery.tag) }
    harness.settle()
    var options = AMQPOptions()
    options.bodyBytesMaximum = Limits.deadLetterBytesMaximum
    let reader = try AMQPAdmin(addresses: [harness.address], tls: nil, name: "herald test reader", options: options)
    defer { reader.close() }
    var letters: [AMQPMessage] = []
    try reader.consume(queue: harness.topology.deadQueue, limit: 2, idleMilliseconds: 5000) {
      letters.append($0)
      return .acknowledge
    }
    #expect(letters.map(\.body) == [large, large])
    for letter in letters {
      #expect(letter.header("x-herald-reason") == "invalid")
      #expect(letter.header("x-herald-detail") == "job of 614400 bytes; at most 524288 are taken")
      #expect(letter.header("x-herald-class") == "bulk" && letter.messageID == "large-1")
    }
    harness.broker.reject(reported[1].delivery.tag, requeue: true)
    #expect(harness.run { $0.deliveries.count == 6 })
    #expect(harness.deliveries[5].delivery.isOversized && harness.deliveries[5].metadata.deliveryCount == 1)
    harness.broker.reject(harness.deliveries[5].delivery.tag, requeue: false)
    harness.settle()
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
    #expect(try admin.messageCount(queue: harness.topology.jobsQueue(.bulk)) == 0)
    #expect(try admin.messageCount(queue: harness.topology.deadQueue) == 1)
  }

  /// The broker itself moves a message that is larger than the adapter's buffer.
  @Test func aJobThatIsMuchTooLargeIsMovedByTheBroker() throws {
    let harness = try started("huge")
    let huge = [UInt8](repeating: 7, count: Limits.deadLetterBytesMaximum + 1)
    try harness.enqueue([huge, [1]], routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 2 })
    #expect(harness.deliveries[0].delivery.isOversized && harness.deliveries[0].body.isEmpty)
    let admin = try harness.admin()
    defer { admin.close() }
    #expect(try admin.messageCount(queue: harness.topology.deadQueue) == 0)
    harness.broker.reject(harness.deliveries[0].delivery.tag, requeue: false)
    harness.broker.acknowledge(one: harness.deliveries[1].delivery.tag)
    let moved = harness.run { _ in (try? admin.messageCount(queue: harness.topology.undeliveredQueue)) == 1 }
    #expect(moved)
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  /// Both connections end on purpose while the lane takes no deliveries: other workers get the jobs, and so does the reconnected one.
  @Test func aRestartGivesDeliveriesBackAndComesBack() throws {
    let harness = try started("restart")
    try harness.enqueue([[1], [2]], routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 2 })
    harness.takesDeliveries = false
    try harness.enqueue([[3]], routingKey: "bulk")
    harness.settle()
    let sequence = harness.publish {
      $0.publishOutcome(outcome, routingKey: key, apnsID: UUIDValue(high: 1, low: 2), metadata: MessageMetadata())
    }
    harness.broker.restart(reason: "nothing moved for 60 s")
    #expect(!harness.broker.canPublish)
    // Once more while neither connection is up: there is nothing to end.
    harness.broker.restart(reason: "nothing moved for 60 s")
    // A delivery tag of the old connection has no effect.
    harness.broker.acknowledge(one: harness.deliveries[0].delivery.tag)
    harness.takesDeliveries = true
    #expect(harness.run { $0.deliveries.count == 5 && $0.count(of: "publishing") == 2 })
    #expect(
      harness.events.filter { $0 != "publishing" && $0 != "consuming 1" }
        == ["publishingStopped", "consumingStopped", "consuming 2"])
    #expect(Set(harness.deliveries[2...].map(\.body)) == [[1], [2], [3]])
    #expect(harness.deliveries[2...].allSatisfy { $0.delivery.tag.epoch == 2 })
    #expect(!harness.confirmed.contains(sequence))
    #expect(harness.notices.contains { $0.level == .warning && $0.text.contains("nothing moved for 60 s") })
    #expect(harness.broker.failure(.publisher) == nil)
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func unroutableOutcomeIsRefusedOnceAndTopologyHeals() throws {
    let harness = try started("heal")
    let admin = try harness.admin()
    try admin.perform(.deleteQueue(name: harness.topology.retryQueue(.bulk, seconds: 1)))
    let state = RetryState(
      attempts: 1, firstSeen: 1, isAmbiguous: false, apnsID: UUIDValue(high: 1, low: 2), reason: nil)
    let first = harness.publish {
      $0.publishRetry([1], jobClass: .bulk, delaySeconds: 1, state: state, metadata: MessageMetadata())
    }
    let outcomeSequence = harness.publish {
      $0.publishOutcome(outcome, routingKey: key, apnsID: UUIDValue(high: 1, low: 2), metadata: MessageMetadata())
    }
    #expect(harness.run { $0.refused.contains(first) && $0.confirmed.contains(outcomeSequence) })
    #expect(harness.refused == [first])
    #expect(harness.broker.counters.returned == 1)
    harness.run(timeoutMilliseconds: 1500) { _ in false }
    let second = harness.publish {
      $0.publishRetry([1], jobClass: .bulk, delaySeconds: 1, state: state, metadata: MessageMetadata())
    }
    #expect(harness.run { $0.confirmed.contains(second) })
    admin.close()
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func audiencesGoToTheQueueOfTheirClass() throws {
    let harness = try started("audiences")
    let admin = try harness.admin()
    defer { admin.close() }
    var replay = MessageMetadata()
    replay.isReplay = true
    let published = [
      harness.publish { $0.publishExpansion([1], jobClass: .bulk, firstSeen: 1, metadata: replay) },
      harness.publish { $0.publishSettlement([2], jobClass: .bulk) },
      harness.publish { $0.publishSettlement([3], jobClass: .transactional) },
    ]
    #expect(harness.run { $0.confirmed.isSuperset(of: published) })
    #expect(try admin.messageCount(queue: harness.topology.expansionsQueue(.bulk)) == 2)
    #expect(try admin.messageCount(queue: harness.topology.expansionsQueue(.transactional)) == 1)
    var areReplays: [Bool] = []
    try admin.consume(queue: harness.topology.expansionsQueue(.bulk), limit: 2, idleMilliseconds: 5000) {
      areReplays.append($0.metadata.isReplay)
      return .acknowledge
    }
    #expect(areReplays == [true, false], "else a replayed update would be as new as now")
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func aDeletedQueueIsDeclaredAndConsumedAgain() throws {
    let harness = try started("deleted")
    let admin = try harness.admin()
    try admin.perform(.deleteQueue(name: harness.topology.jobsQueue(.transactional)))
    #expect(
      harness.run { $0.events.contains("consumingStopped") && ($0.events.last?.hasPrefix("consuming ") ?? false) })
    try harness.enqueue([[5]], routingKey: "transactional")
    #expect(harness.run { $0.deliveries.contains { $0.body == [5] } })
    admin.close()
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func connectionsClosedByTheBrokerComeBack() throws {
    let server = try RabbitMQServer()
    defer { server.stop() }
    let harness = try RabbitMQBrokerHarness(server: server, prefix: "back")
    #expect(harness.run { $0.events.contains("consuming 1") })
    try harness.enqueue([[7]], routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 1 })
    let old = harness.deliveries[0].delivery.tag
    try server.rabbitmqctl(["close_all_connections", "maintenance"])
    #expect(
      harness.run {
        $0.count(of: "publishing") == 2 && $0.count(of: "consumingStopped") == 1
          && $0.events.contains("consuming 2")
      })
    #expect(harness.count(of: "publishingStopped") == 1)
    // A delivery tag of the old epoch has no effect; the job comes again, as redelivered.
    harness.broker.acknowledge(upTo: old)
    #expect(harness.run { $0.deliveries.count == 2 })
    #expect(harness.deliveries[1].delivery.tag.epoch == 2)
    #expect(harness.deliveries[1].metadata.deliveryCount == 1)
    let sequence = harness.publish {
      $0.publishOutcome(outcome, routingKey: key, apnsID: UUIDValue(high: 3, low: 4), metadata: MessageMetadata())
    }
    #expect(harness.run { $0.confirmed.contains(sequence) })
    let warnings = harness.notices.filter { $0.level == .warning }
    #expect(warnings.count <= 6, "\(warnings)")
    #expect(warnings.contains { $0.text.contains("maintenance") })
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  /// RabbitMQ passes a producer's `x-delivery-count` on until it has a count of its own.
  @Test func aCopiedDeliveryCountDoesNotCount() throws {
    let harness = try started("copied")
    let properties = AMQPProperties()
    properties.addHeader("x-delivery-count", 19)
    try harness.enqueue([[1]], routingKey: "transactional", properties)
    #expect(harness.run { $0.deliveries.count == 1 })
    harness.broker.reject(harness.deliveries[0].delivery.tag, requeue: true)
    #expect(harness.run { $0.deliveries.count == 2 })
    #expect(harness.deliveries.map { $0.metadata.deliveryCount } == [0, 1])
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func aMemoryAlarmBlocksPublishesAndNotAcknowledgements() throws {
    let server = try RabbitMQServer()
    defer { server.stop() }
    let harness = try RabbitMQBrokerHarness(server: server, prefix: "alarm")
    #expect(harness.run { $0.events.contains("consuming 1") })
    try harness.enqueue([[1], [2]], routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 2 })
    try server.rabbitmqctl(["set_vm_memory_high_watermark", "absolute", "1MB"])
    // The broker tells a connection of the alarm when the connection publishes.
    let sequence = harness.publish {
      $0.publishOutcome(outcome, routingKey: key, apnsID: UUIDValue(high: 5, low: 6), metadata: MessageMetadata())
    }
    #expect(harness.run { $0.events.contains("blocked") })
    #expect(!harness.broker.canPublish)
    #expect(harness.broker.counters.isBlocked)
    harness.broker.acknowledge(upTo: harness.deliveries[1].delivery.tag)
    harness.settle()
    // The broker counts it as acknowledged while the publisher waits: what it lists of a quorum queue may be seconds old.
    var left = ""
    let isAcknowledged = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 500) { () -> Bool? in
      left = (try? server.rabbitmqctl(["list_queues", "name", "messages"])) ?? ""
      return left.split(separator: "\n").contains("alarm.jobs.bulk\t0") ? true : nil
    }
    #expect(isAcknowledged == true, "\(left)")
    #expect(!harness.confirmed.contains(sequence))
    try server.rabbitmqctl(["set_vm_memory_high_watermark", "0.6"])
    #expect(harness.run { $0.events.contains("unblocked") && $0.confirmed.contains(sequence) })
    #expect(harness.broker.canPublish)
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func emptyIsReportedOnlyWhenNothingIsLeft() throws {
    let harness = try started("empty")
    try harness.enqueue([[1]], routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 1 })
    let state = RetryState(
      attempts: 1, firstSeen: 1, isAmbiguous: false, apnsID: UUIDValue(high: 1, low: 2), reason: nil)
    _ = harness.publish {
      $0.publishRetry([2], jobClass: .bulk, delaySeconds: 1, state: state, metadata: MessageMetadata())
    }
    harness.broker.acknowledge(upTo: harness.deliveries[0].delivery.tag)
    harness.broker.watchUntilEmpty()
    #expect(harness.run { $0.deliveries.count == 2 })
    #expect(!harness.events.contains("exhausted"))
    harness.broker.acknowledge(upTo: harness.deliveries[1].delivery.tag)
    #expect(harness.run { $0.events.contains("exhausted") })
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  /// A look that made a queue without its bindings would leave its jobs to the dead letters.
  @Test func aDeletedQueueIsBoundAgainWhileItsMessagesAreCounted() throws {
    let harness = try started("recount")
    let admin = try harness.admin()
    harness.broker.watchUntilEmpty()
    // The second one within the pause between two declarations.
    for jobClass in [JobClass.bulk, .transactional] {
      let count = harness.events.count { $0.hasPrefix("consuming ") }
      try admin.perform(.deleteQueue(name: harness.topology.jobsQueue(jobClass)))
      #expect(harness.run { $0.events.count { $0.hasPrefix("consuming ") } > count })
    }
    harness.settle()
    try harness.enqueue([[1]], routingKey: "bulk")
    try harness.enqueue([[2]], routingKey: "transactional")
    #expect(harness.run { $0.deliveries.count == 2 })
    admin.close()
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }

  @Test func stoppingKeepsWhatWasDelivered() throws {
    let harness = try started("stop")
    try harness.enqueue([[1], [2]], routingKey: "bulk")
    #expect(harness.run { $0.deliveries.count == 2 })
    harness.broker.stopConsuming()
    harness.settle()
    try harness.enqueue([[3]], routingKey: "bulk")
    harness.settle()
    #expect(harness.deliveries.count == 2)
    harness.broker.acknowledge(upTo: harness.deliveries[0].delivery.tag)
    harness.broker.reject(harness.deliveries[1].delivery.tag, requeue: true)
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
    let admin = try harness.admin()
    var left: [[UInt8]] = []
    try admin.consume(queue: harness.topology.jobsQueue(.bulk), limit: 2, idleMilliseconds: 5000) {
      left.append($0.body)
      return .acknowledge
    }
    #expect(left.sorted { $0[0] < $1[0] } == [[2], [3]])
    admin.close()
  }

  @Test func aMismatchIsAnErrorThatNamesIt() throws {
    let server = try RabbitMQServer.shared()
    let harness = try RabbitMQBrokerHarness(server: server, prefix: "mismatch")
    let admin = try harness.admin()
    for case .declareQueue("mismatch.jobs.bulk", var arguments) in harness.topology.declarations {
      arguments.removeAll { $0.name == "x-delivery-limit" }
      arguments.append(AMQPArgument("x-delivery-limit", .number(3)))
      try admin.perform(.declareQueue(name: "mismatch.jobs.bulk", arguments: arguments))
    }
    #expect(harness.run { $0.notices.contains { $0.level == .error } })
    let notice = harness.notices.first { $0.level == .error }
    #expect(notice?.text.contains("mismatch.jobs.bulk") == true)
    #expect(notice?.text.contains("x-delivery-limit") == true)
    #expect(!harness.broker.canPublish)
    // Once an operator mends it, the lane goes on by itself.
    try admin.perform(.deleteQueue(name: "mismatch.jobs.bulk"))
    #expect(harness.run { $0.events.contains("consuming 1") })
    #expect(harness.notices.count { $0.level == .error } == 1)
    admin.close()
    harness.broker.close()
    #expect(harness.run { $0.broker.isClosed })
  }
}
