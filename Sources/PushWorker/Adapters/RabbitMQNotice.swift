/// A change of a connection's state, in words, to be logged once.
package struct RabbitMQNotice: Equatable, Sendable {
  package enum Level: Sendable { case info, warning, error }

  package var level: Level
  package var role: RabbitMQRole
  package var text: String
}
