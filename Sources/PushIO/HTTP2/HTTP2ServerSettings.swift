/// A server connection's SETTINGS and limits.
package struct HTTP2ServerSettings: Sendable {
  /// Initial maximum of streams in flight.
  package var maximumStreams: Int
  /// Flow-control window for each stream and for the connection, bytes. APNs has 65,535.
  package var streamWindow: Int32 = 65_535
  package var connectionWindow: Int32 = 65_535
  /// A request's body is truncated to this; `bodyCount` still counts all of it.
  package var requestBodyLimit = 64 * 1024
  /// Maximum size of the names and values of one request's headers, bytes; larger requests are reset.
  package var requestHeaderLimit = 16 * 1024
  /// Also reports requests whose headers were received and whose body was not.
  package var reportsHeaders = false
  /// Answers PINGs. May change at any time.
  package var acknowledgesPings = true
  /// Nothing more is answered while this many bytes are unwritten.
  package var outboundLimit = 8 << 20

  package init(maximumStreams: Int = 1000) {
    precondition(maximumStreams >= 0)
    self.maximumStreams = maximumStreams
  }
}
