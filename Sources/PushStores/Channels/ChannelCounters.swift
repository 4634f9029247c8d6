package import PushCore
package import PushLane

/// Events of channels in this process since the start. Counters only grow; `counts` and `inFlight` are gauges.
package struct ChannelCounters: Sendable {
  package var created: UInt64 = 0
  /// Channels of earlier creates whose answers were lost.
  package var adopted: UInt64 = 0
  package var deleted: UInt64 = 0
  /// Created in vain (the lock was lost meanwhile), and deleted again.
  package var discarded: UInt64 = 0
  /// Creates whose answer was lost and whose effect cannot be determined.
  package var undecided: UInt64 = 0
  /// Channels of an app and environment at APNs, as far as known.
  package var counts: [AppScope: Int] = [:]
  /// Requests of the queue, by action and result.
  package var requests: [RequestKey: UInt64] = [:]
  /// How often a request of the queue went to a retry queue.
  package var postponed: UInt64 = 0
  /// How often a request of the queue was isolated.
  package var isolated: UInt64 = 0
  /// Requests of the queue in progress.
  package var inFlight = 0
  /// Lanes' questions for a storage policy that were answered.
  package var policiesResolved: UInt64 = 0
  /// Destinations that refuse what it publishes.
  package var refusing: [RefusedDestination] = []
  package var isConnected = false

  package struct RequestKey: Hashable, Sendable {
    package let action: String
    /// `ok`, or the kind of the error.
    package let result: String
  }

  package init() {}
}
