/// Counts for metrics.
package struct RabbitMQCounters: Equatable, Sendable {
  package var deliveries: UInt64 = 0
  package var published: UInt64 = 0
  package var confirmed: UInt64 = 0
  package var refused: UInt64 = 0
  package var returned: UInt64 = 0
  package var acknowledgements: UInt64 = 0
  package var connectionsLost: UInt64 = 0
  package var isConsumerConnected = false
  package var isPublisherConnected = false
  package var isBlocked = false
  /// The exchanges and queues that refuse what is published to them.
  package var refusing: [RefusedDestination] = []
}
