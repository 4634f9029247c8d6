/// An event for a reader of outcomes.
package enum OutcomeEvent: Sendable {
  /// - Parameters:
  ///   - offset: the outcome's offset in the results log.
  ///   - delivery: for `GatewayBackend.acknowledge`, once the outcome is written.
  case outcome(offset: Int64, body: [UInt8], delivery: OutcomeDelivery)
  /// The stream begins, or no outcome came for a while.
  case keepAlive
}

/// A delivery of RabbitMQ to a reader of outcomes.
package struct OutcomeDelivery: Sendable {
  let tag: UInt64
  let channel: UInt16
  /// The reader's number: channels and their tags are used again after a connection is lost.
  let reader: UInt64
  /// Of the outcome, until it is acknowledged.
  var heldBytes = 0
}
