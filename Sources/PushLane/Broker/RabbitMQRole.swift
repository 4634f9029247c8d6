/// The two connections of a lane: a broker under an alarm stops reading one that publishes, and must not stop
/// acknowledgements by that.
package enum RabbitMQRole: String, CaseIterable, Sendable {
  case consumer, publisher
}
