package import PushCore

/// What a client connection reports. Each submitted ticket is reported exactly once.
package enum HTTP2ClientEvent: Sendable {
  /// Requests may be submitted: one, until SETTINGS allow more.
  case opened
  /// The first SETTINGS, and each that changes how many streams may be in flight.
  case settingsChanged(maximumStreams: Int)
  /// The server takes no more; it processed nothing above `lastStreamID`.
  case goAway(lastStreamID: Int, code: HTTP2ErrorCode)
  /// The whole answer is here: read it before the next event.
  case response(Ticket, status: Int)
  /// Surely not processed: refused, above GOAWAY's last stream, or it never left this process.
  case notProcessed(Ticket)
  /// Written, perhaps processed, and never to be answered.
  case lost(Ticket, HTTP2ErrorCode)
  case pingAcknowledged
  /// The last event, after every ticket's own; nil: the connection ended as it should.
  case closed(HTTP2Error?)
}
