package import PushCore

/// An event of a client connection. Each submitted ticket is reported exactly once.
package enum HTTP2ClientEvent: Sendable {
  /// Requests may be submitted; only one until SETTINGS allow more.
  case opened
  /// The first SETTINGS, and each that changes the maximum of streams in flight.
  case settingsChanged(maximumStreams: Int)
  /// The server takes no more requests; it processed nothing above `lastStreamID`.
  case goAway(lastStreamID: Int, code: HTTP2ErrorCode)
  /// The answer is complete: read it before the next event.
  case response(Ticket, status: Int)
  /// Surely not processed: refused, above GOAWAY's last stream, or never sent.
  case notProcessed(Ticket)
  /// Written and perhaps processed; no answer will come.
  case lost(Ticket, HTTP2ErrorCode)
  case pingAcknowledged
  /// The last event, after every ticket's; nil: the connection ended in order.
  case closed(HTTP2Error?)
}
