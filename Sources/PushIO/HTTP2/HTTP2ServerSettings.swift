/// What a server connection offers its client, and its own bounds.
package struct HTTP2ServerSettings: Sendable {
  /// Streams in flight that SETTINGS allow at first.
  package var maximumStreams: Int
  /// How much the client may send on one stream, and on all, before it hears from us: bytes. APNs gives 65,535.
  package var streamWindow: Int32 = 65_535
  package var connectionWindow: Int32 = 65_535
  /// A request's body is cut here; `bodyCount` still counts all of it.
  package var requestBodyLimit = 64 * 1024
  /// Names and values of one request's headers, bytes; a request with more is reset.
  package var requestHeaderLimit = 16 * 1024
  /// Tells of requests also when their headers are here and their body is not.
  package var reportsHeaders = false
  /// Answers PINGs. May change at any time.
  package var acknowledgesPings = true
  /// Nothing more is answered while this much waits for the socket, bytes.
  package var outboundLimit = 8 << 20

  package init(maximumStreams: Int = 1000) {
    precondition(maximumStreams >= 0)
    self.maximumStreams = maximumStreams
  }
}
