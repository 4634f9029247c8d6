/// The two connections of a lane. A broker with an alarm stops reading from a connection that publishes, and that must not stop
/// acknowledgements.
package enum RabbitMQRole: String, CaseIterable, Sendable {
  case consumer, publisher
}
