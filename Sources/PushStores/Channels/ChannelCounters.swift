package import PushCore

/// What became of channels here, since the start. Counters only grow; `counts` are gauges.
package struct ChannelCounters: Sendable {
  /// Channels made.
  package var created: UInt64 = 0
  /// Channels found that an earlier create made, unheard.
  package var adopted: UInt64 = 0
  package var deleted: UInt64 = 0
  /// Made in vain (the lock was lost meanwhile), and deleted again.
  package var discarded: UInt64 = 0
  /// Creates whose answer was lost and of which nobody can say what they left.
  package var undecided: UInt64 = 0
  /// Channels of an app and environment at APNs, as far as it is known.
  package var counts: [AppScope: Int] = [:]
  /// Requests of the queue, by action and end.
  package var requests: [RequestKey: UInt64] = [:]
  /// Requests of the queue that were put off: each time one went to a retry queue.
  package var postponed: UInt64 = 0
  /// Requests of the queue that deliveries did not finish: each time one went to the queue of those that are processed alone.
  package var isolated: UInt64 = 0
  /// Requests of the queue that are on their way.
  package var inFlight = 0
  /// Questions of lanes for a storage policy that were answered.
  package var policiesResolved: UInt64 = 0
  package var isConnected = false

  package struct RequestKey: Hashable, Sendable {
    package let action: String
    /// `ok`, or the kind of the error.
    package let result: String
  }

  package init() {}
}
