/// What is logged about a destination that refuses what is published to it.
package enum RabbitMQRefusal {
  package static func begun(_ destination: String) -> String {
    """
    \(destination) refuses messages: a queue that gets them is full (x-overflow reject-publish) or has no leader; empty it, lift its \
    limit, or unbind it; meanwhile one message tries it again and again, and the others wait
    """
  }

  package static func over(_ destination: String, milliseconds: Int64) -> String {
    "\(destination) takes messages again; it refused some for \(milliseconds) ms"
  }
}
