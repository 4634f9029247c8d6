/// A client connection's SETTINGS and limits.
package struct HTTP2ClientSettings: Sendable {
  /// Maximum of streams in flight, even if the server allows more.
  package var maximumStreams: Int
  /// A response's body is truncated to this many bytes.
  package var responseBodyLimit: Int
  /// Flow-control window for each stream and for the connection, bytes.
  package var streamWindow: Int32 = 1 << 20
  package var connectionWindow: Int32 = 16 << 20
  /// No request is accepted while this many bytes are unwritten.
  package var outboundLimit = 4 << 20
  /// The first stream's id: odd. Only tests start high, to run out of ids.
  package var firstStreamID: Int32 = 1

  package init(maximumStreams: Int = 1000, responseBodyLimit: Int = 4096) {
    precondition(maximumStreams > 0 && responseBodyLimit >= 0)
    self.maximumStreams = maximumStreams
    self.responseBodyLimit = responseBodyLimit
  }
}
