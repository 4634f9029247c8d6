/// What became of registrations here, since the start. Counters only grow; the others are gauges.
package struct RegistrationCounters: Sendable {
  package struct Key: Hashable, Sendable {
    /// `device`, `activity`, `forget`, or `unknown`.
    package let kind: String
    /// What became of it, or why it became a dead letter.
    package let result: String

    package init(kind: String, result: String) {
      self.kind = kind
      self.result = result
    }
  }

  package var results: [Key: UInt64] = [:]
  /// Taken from the queue and not acknowledged.
  package var inFlight = 0
  /// Those of them that wait for Redis.
  package var waiting = 0
  /// Changes that had to be decided again because somebody else was faster.
  package var conflicts: UInt64 = 0
  /// Pushes that update tokens were due because they came after an update or an end of their activity.
  package var latePushes: UInt64 = 0
  /// The queue is consumed, and Redis is connected.
  package var isConnected = false

  package init() {}
}
