/// What a connection reports to its user, in the order in which it happened. The connection has the reasons as text.
package enum AMQPEvent: Equatable, Sendable {
  /// The handshake is done: channels may be opened.
  case opened
  /// The answer to an operation, by the number that `request` returned.
  case completed(channel: UInt16, operation: UInt32, reply: AMQPReply)
  /// A message; its properties and body can be read until the next `nextEvent`.
  case delivery(AMQPDelivery)
  /// The broker confirmed publishes up to (`isMultiple`) or with this number.
  case confirmed(channel: UInt16, sequence: UInt64, isMultiple: Bool)
  /// The broker refused them.
  case refused(channel: UInt16, sequence: UInt64, isMultiple: Bool)
  /// A mandatory publish that no queue takes was returned, before its confirm; readable like a delivery.
  case returned(channel: UInt16, code: UInt16)
  /// The broker ended the channel's consumer: its queue was deleted or moved.
  case cancelled(channel: UInt16)
  /// The broker closed the channel; `channelError` says why. Its operations will not be answered.
  case channelClosed(channel: UInt16)
  /// Publish nothing until `unblocked`: the broker has a memory or disk alarm and stops reading what this connection publishes, or it
  /// stopped a channel. `blockedReason` says why.
  case blocked
  case unblocked
  /// The last event; `failure` has the reason, nil if we closed the connection.
  case closed
}

/// The values of an answer; 0 if it has none.
package struct AMQPReply: Equatable, Sendable {
  package var messageCount: UInt32 = 0
  package var consumerCount: UInt32 = 0
}

/// A delivery without its bytes.
package struct AMQPDelivery: Equatable, Sendable {
  package var channel: UInt16
  package var tag: UInt64
  package var isRedelivered: Bool
  /// As announced, even if the body was too large to keep.
  package var bodyCount: Int
  /// The body exceeds the limit and was not kept.
  package var isOversized: Bool
}
