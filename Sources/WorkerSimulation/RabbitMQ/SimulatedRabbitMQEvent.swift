/// An event of a simulated RabbitMQ, for observers.
package enum SimulatedRabbitMQEvent {
  /// A queue stored a message.
  case stored(queue: String, message: RabbitMessage)
  /// The server confirmed a publish: the message is kept, or no queue matched.
  case confirmed(connection: SimulatedConnectionID, channel: UInt16, number: UInt64, message: RabbitMessage)
  /// The server refused a publish: the message may be lost.
  case refused(connection: SimulatedConnectionID, channel: UInt16, number: UInt64, message: RabbitMessage)
  /// A mandatory message was returned.
  case returned(connection: SimulatedConnectionID, channel: UInt16, message: RabbitMessage)
  case delivered(queue: String, message: RabbitMessage, delivery: SimulatedRabbitMQDelivery)
  case acknowledged(queue: String, message: RabbitMessage)
  /// A consumer rejected the message; it may be dead-lettered next.
  case rejected(queue: String, message: RabbitMessage)
  /// A consumer returned the message, or lost it.
  case requeued(queue: String, message: RabbitMessage, deliveryCount: Int)
  /// The message left its queue without an acknowledgement; `isGone`: there is no dead letter exchange.
  case died(queue: String, message: RabbitMessage, reason: String, isGone: Bool)
  /// A copy was dead-lettered to these queues; without one, the message waits or is gone.
  case deadLettered(queue: String, message: RabbitMessage, copy: RabbitMessage, to: [String])
  /// A crash lost the message.
  case lost(queue: String, message: RabbitMessage)
  /// An operator or a client purged the ready messages.
  case purged(queue: String, count: Int)
}

/// A delivery, as an observer sees it.
package struct SimulatedRabbitMQDelivery: Equatable, Sendable {
  package let connection: SimulatedConnectionID
  package let channel: UInt16
  package let consumerTag: [UInt8]
  package let tag: UInt64
  package let isRedelivered: Bool
  package let deliveryCount: Int
}
