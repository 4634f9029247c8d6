/// A message that no queue takes. RabbitMQ tells a connection of a memory or disk alarm (`connection.blocked`) only when it publishes, so one
/// that has nothing to publish would never know.
package enum AMQPAlarmProbe {
  package static let routingKey = "herald-alarm-probe"
  /// Not empty: RabbitMQ stops reading within the message, so the probe is not confirmed under an alarm.
  package static let body: [UInt8] = [0]
}
