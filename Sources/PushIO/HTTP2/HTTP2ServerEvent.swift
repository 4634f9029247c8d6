/// Identifies a stream of one connection.
package typealias HTTP2StreamID = Int32

/// What a server connection reports to its user.
package enum HTTP2ServerEvent: Sendable {
  case opened
  /// A request's headers were received, its body was not; only if the settings ask for it.
  case headers(HTTP2StreamID)
  /// A request was received completely. It is readable until its stream is closed.
  case request(HTTP2StreamID)
  /// The client cancelled a request, or it was refused because of a client error.
  case reset(HTTP2StreamID, HTTP2ErrorCode)
  /// The last event; nil: the connection ended in order.
  case closed(HTTP2Error?)
}
