/// What the broker reports to a lane, in the order in which it happened.
package enum BrokerEvent: Sendable {
  /// A job came; its bytes must be copied before the next event is taken.
  case delivery(Delivery)
  /// The broker confirmed those with these sequence numbers that were not confirmed or refused before.
  case confirmed(ClosedRange<UInt64>)
  /// The broker refused them (nack), could not route them (return), or will not say: publish again.
  case refused(ClosedRange<UInt64>)
  /// Consumers are running; deliveries that follow carry this epoch.
  case consuming(epoch: UInt32)
  /// Consumers stopped: connection or channel lost, queue deleted. Older tags are invalid now.
  case consumingStopped
  /// Publishing is possible (again): sequence numbers start again, and unconfirmed messages must be published again.
  case publishing
  /// Publishing stopped; nothing unconfirmed will be confirmed.
  case publishingStopped
  /// `connection.blocked`: a memory or disk alarm. Send nothing new until it ends.
  case blocked
  case unblocked
  /// No more jobs will come: the end of the input, or the queues and retry queues are empty.
  case exhausted
}

/// A delivery without its bytes.
package struct Delivery: Sendable {
  package var tag: DeliveryTag
  /// Length of the message body in bytes, even if it was too large to keep.
  package var bodyCount: Int
  /// The body exceeds the maximum size of a job: it was not kept, and must be rejected.
  package var isOversized: Bool

  package init(tag: DeliveryTag, bodyCount: Int, isOversized: Bool) {
    self.tag = tag
    self.bodyCount = bodyCount
    self.isOversized = isOversized
  }
}
