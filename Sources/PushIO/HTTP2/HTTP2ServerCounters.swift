/// What a server connection saw so far.
package struct HTTP2ServerCounters: Hashable, Sendable {
  /// Requests that came whole.
  package var requests = 0
  package var pingsReceived = 0
  package var resetsReceived = 0
  package var goAwaysReceived = 0
  package var settingsAcknowledged = 0
  /// Requests beyond what SETTINGS allow that the client has acknowledged: its fault, and the connection's end.
  package var streamsOverLimit = 0
  /// Requests beyond SETTINGS that were still on their way to the client: refused, and nobody's fault.
  package var streamsRefused = 0
  /// Frames that broke the protocol, those over the limit among them.
  package var invalidFrames = 0

  package init() {}
}
