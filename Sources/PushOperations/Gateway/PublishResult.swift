/// What became of a message that the gateway published.
package enum PublishResult: Sendable {
  case confirmed
  /// RabbitMQ refused it or did not answer in time. It may have stored it all the same.
  case unconfirmed
  /// Not published: RabbitMQ is not connected.
  case disconnected
  /// Not published: RabbitMQ has a memory or disk alarm.
  case blocked
  /// Not published: too many messages, or bytes of them, wait for RabbitMQ.
  case full
}
