import PushCore
import PushIO

/// What copies and dead letters carry of the message that they stand for.
extension RabbitMQBroker {
  /// Trace and correlation of the producer.
  func passOn(_ metadata: borrowing MessageMetadata) {
    let bytes = metadata.bytes.span
    if !metadata.correlationID.isEmpty { properties.setCorrelationID(bytes.extracting(metadata.correlationID.range)) }
    if !metadata.traceparent.isEmpty {
      properties.addHeader("traceparent", bytes.extracting(metadata.traceparent.range))
    }
    if !metadata.tracestate.isEmpty { properties.addHeader("tracestate", bytes.extracting(metadata.tracestate.range)) }
  }

  func keepOriginal(_ metadata: borrowing MessageMetadata) {
    if !metadata.messageID.isEmpty {
      properties.setMessageID(metadata.bytes.span.extracting(metadata.messageID.range))
    }
    if let enqueuedAt = metadata.enqueuedAt { properties.setTimestamp(unixMilliseconds: enqueuedAt) }
  }

  func describeDeadLetter(
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
    properties.addHeader("x-herald-class", literal: jobClass == .bulk ? "bulk" : "transactional")
  }
}
