import Foundation
import PushCore
import PushIO
import PushLane
package import PushSettings

/// The queue of dead letters, for `herald dead-letters`: reads it once, and replays or drops matching messages.
///
/// Messages are consumed without acknowledgement. Matching ones are acknowledged after they were processed; the others are held until the
/// end and then returned, so that the queue keeps their order. However the command ends, the broker requeues everything that was not
/// acknowledged, so nothing can be lost.
package struct DeadLetterQueue {
  /// The result of one pass through the queue.
  package struct Summary: Equatable, Sendable {
    /// Messages that were read.
    package var seen = 0
    package var matched = 0
    /// Matching ones that were replayed or purged; 0 in a dry run.
    package var done = 0
    /// Matching ones that stay: too large, or refused by the broker.
    package var left = 0
    /// The time limit was reached before everything was read.
    package var isCutShort = false
  }

  package struct NoQueue: Error, CustomStringConvertible {
    package let name: String
    package var description: String { "there is no queue \(name): start a worker once to declare it" }
  }

  /// The state of a replay that the broker stopped.
  package struct Refused: Error, CustomStringConvertible {
    package let exchange: String
    package let summary: Summary
    package var description: String {
      "the broker refused a copy for \(exchange) (a full queue, or a lost connection): this one and the rest stay "
        + "dead letters; \(summary.done) of \(summary.matched) were replayed. Run the command again"
    }
  }

  private let access: BrokerAdmin
  private let configuration: Configuration
  private let runSecondsMaximum: Double

  /// Maximum of messages in memory.
  private static let prefetch: UInt16 = 200
  /// Each channel holds as many kept messages as the prefetch: a match may come after about 200,000 messages that do not match.
  private static let channelCount: UInt16 = 1024
  /// Larger bodies are not read.
  private static let bodyBytesMaximum = Limits.deadLetterBytesMaximum
  /// The pass is over when as many messages came as there were; fewer come if another command takes some.
  private static let idleMilliseconds: Int64 = 3000

  /// - Parameter runSecondsMaximum: time limit of one pass. RabbitMQ requeues messages that are held for 30 minutes.
  package init(_ configuration: Configuration, runSecondsMaximum: Double = 20 * 60) throws {
    access = try BrokerAdmin(configuration)
    self.configuration = configuration
    self.runSecondsMaximum = runSecondsMaximum
  }

  /// Reports every matching dead letter; all stay.
  package func list(
    _ filter: DeadLetterFilter, limit: Int? = nil, _ tell: (DeadLetter) -> Void
  ) throws -> Summary {
    let admin = try connect()
    defer { admin.close() }
    return try look(admin, filter, limit: limit) { letter, _, _ throws(AMQPError) in
      tell(letter)
      return .keep
    }
  }

  /// Publishes a new copy of every matching dead letter to its class, and acknowledges the original after the broker has confirmed the copy
  /// and not returned it. A copy starts with no attempts and no age. It keeps its ids, so that APNs and the admission store recognise it,
  /// and whether APNs may have accepted it before, so that its outcome says so.
  /// - Parameter ratePerSecond: maximum of copies per second; nil: as fast as they are confirmed.
  package func replay(
    _ filter: DeadLetterFilter, limit: Int? = nil, ratePerSecond: Double? = nil, tell: (DeadLetter) -> Void = { _ in }
  ) throws -> Summary {
    let admin = try connect()
    defer { admin.close() }
    try admin.perform(all: access.topology.declarations)
    let exchange = AMQPExchange(access.topology.jobsExchange, isMandatory: true)
    let queues = AMQPExchange("", isMandatory: true)
    let properties = AMQPProperties()
    let wallClock = FleetTime.wallClock(configuration)
    let start = Date.now
    var isRefused = false
    let summary = try look(admin, filter, limit: limit) { letter, message, summary throws(AMQPError) in
      if letter.isOversized {
        summary.left += 1
        return .keep
      }
      if let ratePerSecond {
        let due = Double(summary.done) / ratePerSecond
        try admin.wait(milliseconds: Int64((due - Date.now.timeIntervalSince(start)) * 1000))
      }
      DeadLetterQueue.describeCopy(of: message, letter, at: wallClock.unixMilliseconds, in: properties)
      let confirmed = admin.results.confirmed
      try admin.publish(
        to: letter.queue == nil ? exchange : queues, routingKey: letter.queue ?? letter.jobClass.name,
        properties: properties, body: letter.body)
      try admin.waitForConfirms()
      guard admin.results.confirmed == confirmed + 1 else {
        isRefused = true
        return nil
      }
      summary.done += 1
      tell(letter)
      return .acknowledge
    }
    if isRefused { throw Refused(exchange: exchange.name, summary: summary) }
    return summary
  }

  /// Drops every dead letter that matches, for good.
  package func purge(
    _ filter: DeadLetterFilter, limit: Int? = nil, tell: (DeadLetter) -> Void = { _ in }
  ) throws -> Summary {
    let admin = try connect()
    defer { admin.close() }
    return try look(admin, filter, limit: limit) { letter, _, summary throws(AMQPError) in
      summary.done += 1
      tell(letter)
      return .acknowledge
    }
  }

  // MARK: one pass through the queue

  private func connect() throws(AMQPError) -> AMQPAdmin {
    var options = AMQPOptions()
    options.channelCount = DeadLetterQueue.channelCount
    options.bodyBytesMaximum = DeadLetterQueue.bodyBytesMaximum
    return try access.connect("dead-letters", options: options)
  }

  /// Reads the messages that are ready now, once: messages that a replay brings back are not read again. `act` decides about a matching
  /// one; nil ends the pass.
  private func look(
    _ admin: AMQPAdmin, _ filter: DeadLetterFilter, limit: Int?,
    _ act: (DeadLetter, AMQPMessage, inout Summary) throws(AMQPError) -> AMQPDisposition?
  ) throws -> Summary {
    let topology = access.topology
    guard let count = try admin.messageCount(queue: topology.deadQueue) else {
      throw NoQueue(name: topology.deadQueue)
    }
    var summary = Summary()
    guard count > 0 else { return summary }
    let start = Date.now
    try admin.consume(
      queue: topology.deadQueue, prefetch: DeadLetterQueue.prefetch, limit: count,
      idleMilliseconds: DeadLetterQueue.idleMilliseconds, acknowledgeBatch: 1
    ) { message throws(AMQPError) -> AMQPDisposition? in
      if summary.matched == limit { return nil }
      if Date.now.timeIntervalSince(start) > runSecondsMaximum {
        summary.isCutShort = true
        return nil
      }
      summary.seen += 1
      let letter = DeadLetter(message, position: summary.seen, topology: topology)
      guard filter.matches(letter) else { return .keep }
      summary.matched += 1
      return try act(letter, message, &summary)
    }
    return summary
  }

  /// What a new copy keeps: the producer's ids, trace, correlation and reply queue, and what is known about earlier attempts.
  private static func describeCopy(
    of message: AMQPMessage, _ letter: DeadLetter, at unixMilliseconds: Int64, in properties: AMQPProperties
  ) {
    let metadata = message.metadata
    let bytes = metadata.bytes.span
    properties.reset()
    properties.setTimestamp(unixMilliseconds: unixMilliseconds)
    if !metadata.messageID.isEmpty { properties.setMessageID(bytes.extracting(metadata.messageID.range)) }
    if !metadata.correlationID.isEmpty { properties.setCorrelationID(bytes.extracting(metadata.correlationID.range)) }
    if !metadata.replyTo.isEmpty { properties.setReplyTo(bytes.extracting(metadata.replyTo.range)) }
    if !metadata.traceparent.isEmpty {
      properties.addHeader("traceparent", bytes.extracting(metadata.traceparent.range))
    }
    if !metadata.tracestate.isEmpty { properties.addHeader("tracestate", bytes.extracting(metadata.tracestate.range)) }
    // One target of a batch: its id cannot be derived from the job alone.
    if let apnsID = metadata.apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    if metadata.claim > 0 { properties.addHeader("x-herald-claim", Int64(metadata.claim)) }
    // A replayed job is no newer than before. Whoever did not know its point did not know the time of the first receipt. What no worker
    // received, the broker's own dead letter, is of the end of its second: what was sent in that second came before it.
    var points = OrderPoints()
    let received = metadata.order == nil ? metadata.firstSeen : nil
    let known = metadata.order.flatMap { $0 > 0 ? $0 : nil }
    let point = known ?? points.next(timestamp: metadata.timestamp, receivedAt: received)
    if point > 0 { properties.addHeader(RabbitMQPublishProperties.orderHeader, point) }
    if letter.isAmbiguous { properties.addHeader("x-herald-ambiguous", true) }
    if letter.queue == nil || letter.isPart { properties.addHeader("x-herald-replay", true) }
    guard letter.isPart else { return }
    if let cursor = letter.cursor { properties.addHeader(RabbitMQPublishProperties.cursorHeader, cursor) }
    // The same days count for all steps of a job.
    if let firstSeen = metadata.firstSeen { properties.addHeader("x-herald-first-seen", firstSeen) }
    properties.addHeader("x-herald-class", letter.jobClass.name)
  }
}
