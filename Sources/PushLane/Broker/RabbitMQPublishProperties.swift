package import PushCore
package import PushIO

/// The properties and headers of what lanes and the expansion consumer publish: outcomes, and copies and dead letters with the state of the
/// message that they replace.
package struct RabbitMQPublishProperties {
  /// How far an audience's expansion came.
  package static let cursorHeader: StaticString = "x-herald-cursor"
  /// As `MessageMetadata.order`.
  package static let orderHeader: StaticString = "x-herald-order"

  /// Of the publish that is being made.
  package let properties: AMQPProperties

  package init(_ properties: AMQPProperties = AMQPProperties()) {
    self.properties = properties
  }

  package func describeOutcome(_ apnsID: UUIDValue, unixMilliseconds: Int64, _ metadata: borrowing MessageMetadata) {
    properties.reset()
    properties.setMessageID(apnsID)
    properties.setType("push.outcome.v1")
    properties.setTimestamp(unixMilliseconds: unixMilliseconds)
    passOn(metadata)
  }

  func describeRetry(_ state: RetryState, _ metadata: borrowing MessageMetadata) {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    properties.addHeader("x-herald-attempts", Int64(state.attempts))
    properties.addHeader("x-herald-first-seen", state.firstSeen)
    if metadata.isSeenLate { properties.addHeader("x-herald-seen-late", true) }
    if state.claim > 0 { properties.addHeader("x-herald-claim", Int64(state.claim)) }
    properties.addHeader("x-herald-ambiguous", state.isAmbiguous)
    if let apnsID = state.apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    if metadata.carriedDeliveries > 0 {
      properties.addHeader("x-herald-deliveries", Int64(metadata.carriedDeliveries))
    }
    if let pausedAt = metadata.pausedAt { properties.addHeader("x-herald-paused-at", pausedAt) }
    if state.redeliveries > 0 { properties.addHeader("x-herald-redeliveries", Int64(state.redeliveries)) }
    if metadata.isReplay { properties.addHeader("x-herald-replay", true) }
    if let reason = state.reason { properties.addHeader("x-herald-reason", reason.name) }
    addUndelivered(metadata.undelivered, metadata.bytes.span.extracting(metadata.routingKey.range))
  }

  func describeIsolated(_ jobClass: JobClass, firstSeen: Int64, _ metadata: borrowing MessageMetadata) {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    properties.addHeader("x-herald-attempts", Int64(metadata.attempts))
    properties.addHeader("x-herald-first-seen", firstSeen)
    if metadata.isSeenLate { properties.addHeader("x-herald-seen-late", true) }
    if metadata.claim > 0 { properties.addHeader("x-herald-claim", Int64(metadata.claim)) }
    properties.addHeader("x-herald-ambiguous", metadata.isAmbiguous)
    if let apnsID = metadata.apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    properties.addHeader("x-herald-deliveries", Int64(metadata.carriedDeliveries))
    if let pausedAt = metadata.pausedAt { properties.addHeader("x-herald-paused-at", pausedAt) }
    if metadata.isReplay { properties.addHeader("x-herald-replay", true) }
    addUndelivered(metadata.undelivered, metadata.bytes.span.extracting(metadata.routingKey.range))
    addClass(jobClass)
  }

  /// Of an audience's job, before its first step (`cursor` nil) or a later one.
  /// - Parameters:
  ///   - deliveries: of the messages that this one is a copy of, none of them finished.
  ///   - isReturning: it will wait in a retry queue.
  package func describeExpansion(
    _ jobClass: JobClass, firstSeen: Int64, cursor: ExpansionCursor? = nil, deliveries: UInt32 = 0,
    isReturning: Bool = false,
    _ metadata: borrowing MessageMetadata
  ) {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    properties.addHeader("x-herald-first-seen", firstSeen)
    if let cursor { properties.addHeader(RabbitMQPublishProperties.cursorHeader, cursor.text) }
    if deliveries > 0 { properties.addHeader("x-herald-deliveries", Int64(deliveries)) }
    if metadata.startWaits > 0 { properties.addHeader("x-herald-waits", Int64(metadata.startWaits)) }
    if isReturning || metadata.isReturning { properties.addHeader("x-herald-returning", true) }
    if metadata.isReplay { properties.addHeader("x-herald-replay", true) }
    addClass(jobClass)
  }

  /// Of one page of an audience. Its age counts from now, because the audience may have been paused; its order is its job's.
  /// - Parameters:
  ///   - id: the page's.
  ///   - order: the point of the audience's job.
  ///   - isRepeated: the page may be in its queue already, or have been sent.
  package func describePage(
    _ id: [UInt8], isRepeated: Bool, order: Int64, unixMilliseconds: Int64, _ metadata: borrowing MessageMetadata
  ) {
    properties.reset()
    properties.setMessageID(id.span)
    properties.setTimestamp(unixMilliseconds: unixMilliseconds)
    passOn(metadata)
    properties.addHeader(RabbitMQPublishProperties.orderHeader, order)
    if isRepeated { properties.addHeader("x-herald-ambiguous", true) }
  }

  /// Of the push of an activity's newest state to one device.
  /// - Parameter apnsID: names its token.
  package func describeLatePage(_ id: [UInt8], apnsID: UUIDValue, unixMilliseconds: Int64) {
    properties.reset()
    // A message id has at most 255 bytes, of whole characters; the body has the whole id.
    properties.setMessageID(id.span)
    properties.setTimestamp(unixMilliseconds: unixMilliseconds)
    properties.addHeader("x-herald-apns-id", apnsID)
  }

  /// Of a request for a channel that Herald makes itself.
  package func describeChannelRequest(_ id: String, unixMilliseconds: Int64) {
    properties.reset()
    properties.setMessageID(id.utf8.span)
    properties.setTimestamp(unixMilliseconds: unixMilliseconds)
  }

  package func describeDeadLetter(
    _ jobClass: JobClass, _ reason: StaticString, _ detail: String, _ apnsID: UUIDValue?,
    _ metadata: borrowing MessageMetadata
  ) {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    if let apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    if metadata.claim > 0 { properties.addHeader("x-herald-claim", Int64(metadata.claim)) }
    properties.addHeader("x-herald-ambiguous", metadata.isAmbiguous)
    properties.addHeader("x-herald-reason", literal: reason)
    properties.addHeader("x-herald-detail", detail)
    addClass(jobClass)
  }

  /// Of a message that RabbitMQ gave up, which goes to whoever tells its end. Whatever it is, its state stays.
  /// - Parameters:
  ///   - deliveries: not finished by any worker, of all the messages that this one is a copy of.
  ///   - cursor: as its header had it.
  ///   - routingKey: of what no queue took.
  package func describeReturned(
    _ jobClass: JobClass?, deliveries: UInt32, cursor: String?, _ undelivered: Undelivered?, routingKey: String,
    _ metadata: borrowing MessageMetadata
  ) {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    if !metadata.replyTo.isEmpty { properties.setReplyTo(metadata.bytes.span.extracting(metadata.replyTo.range)) }
    if metadata.attempts > 0 { properties.addHeader("x-herald-attempts", Int64(metadata.attempts)) }
    if let firstSeen = metadata.firstSeen { properties.addHeader("x-herald-first-seen", firstSeen) }
    // How often it was delivered before is lost.
    if metadata.isSeenLate || metadata.firstSeen == nil { properties.addHeader("x-herald-seen-late", true) }
    if metadata.claim > 0 { properties.addHeader("x-herald-claim", Int64(metadata.claim)) }
    if metadata.isAmbiguous { properties.addHeader("x-herald-ambiguous", true) }
    if let apnsID = metadata.apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    if deliveries > 0 { properties.addHeader("x-herald-deliveries", Int64(deliveries)) }
    if let pausedAt = metadata.pausedAt { properties.addHeader("x-herald-paused-at", pausedAt) }
    if metadata.redeliveries > 0 { properties.addHeader("x-herald-redeliveries", Int64(metadata.redeliveries)) }
    if metadata.isReplay { properties.addHeader("x-herald-replay", true) }
    if metadata.startWaits > 0 { properties.addHeader("x-herald-waits", Int64(metadata.startWaits)) }
    if metadata.isReturning { properties.addHeader("x-herald-returning", true) }
    if let cursor { properties.addHeader(RabbitMQPublishProperties.cursorHeader, cursor) }
    if let jobClass { addClass(jobClass) }
    addUndelivered(undelivered, routingKey.utf8.span)
  }

  private func addUndelivered(_ undelivered: Undelivered?, _ routingKey: Span<UInt8>) {
    guard let undelivered else { return }
    properties.addHeader("x-herald-undelivered", literal: undelivered.word)
    if undelivered == .unroutable { properties.addHeader("x-herald-routing-key", routingKey) }
  }

  private func addClass(_ jobClass: JobClass) {
    properties.addHeader("x-herald-class", literal: jobClass == .bulk ? "bulk" : "transactional")
  }

  /// Of a copy for a retry queue: its delay, which is also the queue's own lifetime of messages. RabbitMQ tells a quorum queue its lifetime
  /// only after its declaration. What another connection publishes before would stay for ever, and everything behind it.
  package func delay(seconds: Int) { properties.setExpiration(milliseconds: Int64(seconds) * 1_000) }

  /// The producer's trace and correlation.
  private func passOn(_ metadata: borrowing MessageMetadata) {
    let bytes = metadata.bytes.span
    if !metadata.correlationID.isEmpty { properties.setCorrelationID(bytes.extracting(metadata.correlationID.range)) }
    if !metadata.traceparent.isEmpty {
      properties.addHeader("traceparent", bytes.extracting(metadata.traceparent.range))
    }
    if !metadata.tracestate.isEmpty { properties.addHeader("tracestate", bytes.extracting(metadata.tracestate.range)) }
  }

  private func keepOriginal(_ metadata: borrowing MessageMetadata) {
    if !metadata.messageID.isEmpty {
      properties.setMessageID(metadata.bytes.span.extracting(metadata.messageID.range))
    }
    if let timestamp = metadata.timestamp { properties.setTimestamp(unixMilliseconds: timestamp * 1000) }
    if let order = metadata.order { properties.addHeader(RabbitMQPublishProperties.orderHeader, order) }
  }
}
