/// What a server connection has counted so far.
package struct HTTP2ServerCounters: Hashable, Sendable {
  /// Requests that were received completely.
  package var requests = 0
  package var pingsReceived = 0
  package var resetsReceived = 0
  package var goAwaysReceived = 0
  package var settingsAcknowledged = 0
  /// Requests beyond the SETTINGS that the client has acknowledged: a client error, which ends the connection.
  package var streamsOverLimit = 0
  /// Requests beyond SETTINGS that had not reached the client yet: refused, but not an error.
  package var streamsRefused = 0
  /// Frames that broke the protocol, including those over the limit.
  package var invalidFrames = 0

  package init() {}
}
