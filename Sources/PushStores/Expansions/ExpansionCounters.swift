/// What became of audiences here, since the start. Counters only grow; the others are gauges.
package struct ExpansionCounters: Sendable {
  /// Steps whose pages were published.
  package var steps: UInt64 = 0
  package var pages: UInt64 = 0
  /// Devices in those pages.
  package var devices: UInt64 = 0
  /// What pages told of their devices' ends.
  package var settlements: UInt64 = 0
  /// Audiences whose outcome was told.
  package var completed: UInt64 = 0
  /// Each time a message waited: for earlier pages, paused, or because Redis did not answer.
  package var waitsForPages: UInt64 = 0
  package var waitsPaused: UInt64 = 0
  package var waitsForRedis: UInt64 = 0
  /// Jobs of activities whose state never becomes old.
  package var endlessStates: UInt64 = 0
  /// Messages that were wrong.
  package var invalid: UInt64 = 0
  /// Messages of the queue that are on their way.
  package var inFlight = 0
  package var isConnected = false

  package init() {}
}
