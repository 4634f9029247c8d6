/// What a client connection offers its server, and its own bounds.
package struct HTTP2ClientSettings: Sendable {
  /// The most streams in flight, whatever the server allows.
  package var maximumStreams: Int
  /// A response's body is cut here, bytes.
  package var responseBodyLimit: Int
  /// How much the server may send on one stream, and on all, before it hears from us: bytes.
  package var streamWindow: Int32 = 1 << 20
  package var connectionWindow: Int32 = 16 << 20
  /// No request is taken while this much waits for the socket, bytes.
  package var outboundLimit = 4 << 20
  /// The first stream's id: odd. Only a test begins high, to see a connection run out of ids.
  package var firstStreamID: Int32 = 1

  package init(maximumStreams: Int = 1000, responseBodyLimit: Int = 4096) {
    precondition(maximumStreams > 0 && responseBodyLimit >= 0)
    self.maximumStreams = maximumStreams
    self.responseBodyLimit = responseBodyLimit
  }
}
