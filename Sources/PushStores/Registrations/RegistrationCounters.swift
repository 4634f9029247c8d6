package import PushLane

/// Results of registrations in this process since the start. Counters only grow; the others are gauges.
package struct RegistrationCounters: ConsumerCounters {
  package struct Key: Hashable, Sendable {
    /// `device`, `activity`, `forget`, or `unknown`.
    package let kind: String
    /// The result, or the reason of the dead letter.
    package let result: String

    package init(kind: String, result: String) {
      self.kind = kind
      self.result = result
    }
  }

  package var results: [Key: UInt64] = [:]
  /// Taken from the queue and not acknowledged.
  package var inFlight = 0
  /// Of those in flight, the ones that wait for Redis.
  package var waiting = 0
  /// Registrations that were put off because their app had its share.
  package var putOff: UInt64 = 0
  /// Changes that were decided again because of a conflicting change.
  package var conflicts: UInt64 = 0
  /// Pushes to update tokens that came after an update or the end of their activity.
  package var latePushes: UInt64 = 0
  /// Destinations that refuse what it publishes.
  package var refusing: [RefusedDestination] = []
  /// The queue is consumed, and Redis is connected.
  package var isConnected = false

  package init() {}
}
