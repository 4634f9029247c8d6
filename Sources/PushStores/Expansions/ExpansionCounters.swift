package import PushLane

/// Events of audiences in this process since the start. Counters only grow; the others are gauges.
package struct ExpansionCounters: ConsumerCounters {
  /// Steps whose pages were published.
  package var steps: UInt64 = 0
  package var pages: UInt64 = 0
  /// Devices in those pages.
  package var devices: UInt64 = 0
  /// Reports of pages about their devices' outcomes.
  package var settlements: UInt64 = 0
  /// Audiences whose outcome was published.
  package var completed: UInt64 = 0
  /// How often a message waited: for earlier pages, paused, for its activity's start, or because Redis did not answer.
  package var waitsForPages: UInt64 = 0
  package var waitsPaused: UInt64 = 0
  package var waitsForStart: UInt64 = 0
  package var waitsForRedis: UInt64 = 0
  /// Messages that were put off because their app had its share.
  package var waitsForShare: UInt64 = 0
  /// Jobs of activities whose state never becomes stale.
  package var endlessStates: UInt64 = 0
  /// Invalid messages.
  package var invalid: UInt64 = 0
  /// Messages that several deliveries did not finish: replaced by a copy, or given up.
  package var replaced: UInt64 = 0
  package var givenUp: UInt64 = 0
  /// Messages of both queues in progress.
  package var inFlight = 0
  /// Destinations that refuse what it publishes.
  package var refusing: [RefusedDestination] = []
  package var isConnected = false

  package init() {}
}
