/// What a simulated RabbitMQ did, for who looks on.
package enum SimulatedRabbitMQEvent {
  /// A queue has a message.
  case stored(queue: String, message: RabbitMessage)
  /// A publisher was told that its message is kept, or that no queue wants it.
  case confirmed(connection: SimulatedConnectionID, channel: UInt16, number: UInt64, message: RabbitMessage)
  /// A publisher was told that its message may not be kept.
  case refused(connection: SimulatedConnectionID, channel: UInt16, number: UInt64, message: RabbitMessage)
  /// A mandatory message came back.
  case returned(connection: SimulatedConnectionID, channel: UInt16, message: RabbitMessage)
  case delivered(queue: String, message: RabbitMessage, delivery: SimulatedRabbitMQDelivery)
  case acknowledged(queue: String, message: RabbitMessage)
  /// A consumer will not have it; it may be a dead letter next.
  case rejected(queue: String, message: RabbitMessage)
  /// It came back from a consumer, on purpose or not.
  case requeued(queue: String, message: RabbitMessage, deliveryCount: Int)
  /// It left its queue without being done; with no exchange for it, for good.
  case died(queue: String, message: RabbitMessage, reason: String, isGone: Bool)
  /// Its copy went to these queues; to none: it waits, or is gone.
  case deadLettered(queue: String, message: RabbitMessage, copy: RabbitMessage, to: [String])
  /// A crash took it.
  case lost(queue: String, message: RabbitMessage)
  /// An operator, or a client, dropped what was ready.
  case purged(queue: String, count: Int)
}

/// A delivery, as an onlooker sees it.
package struct SimulatedRabbitMQDelivery: Equatable, Sendable {
  package let connection: SimulatedConnectionID
  package let channel: UInt16
  package let consumerTag: [UInt8]
  package let tag: UInt64
  package let isRedelivered: Bool
  package let deliveryCount: Int
}
