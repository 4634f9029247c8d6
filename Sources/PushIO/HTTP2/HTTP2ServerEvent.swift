/// Names a stream of one connection.
package typealias HTTP2StreamID = Int32

/// What a server connection tells its user.
package enum HTTP2ServerEvent: Sendable {
  case opened
  /// A request's headers are here, its body is not; only where the settings ask for it.
  case headers(HTTP2StreamID)
  /// A request is here, whole. Its parts are readable until its stream is closed.
  case request(HTTP2StreamID)
  /// The client gave up a request, or it was refused for a fault of its own.
  case reset(HTTP2StreamID, HTTP2ErrorCode)
  /// The last event; nil: the connection ended as it should.
  case closed(HTTP2Error?)
}
