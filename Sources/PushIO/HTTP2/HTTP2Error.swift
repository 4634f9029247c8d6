/// Why an HTTP/2 connection ended other than in order.
package enum HTTP2Error: Error, Sendable {
  /// It could not be made, or broke: TCP, TLS, a timeout.
  case transport(TransportError)
  /// The peer ended the connection with requests in flight, without GOAWAY.
  case closedByPeer
  /// TLS agreed on another protocol than `h2` (nil: on none).
  case notNegotiated(protocol: String?)
  /// The peer broke the protocol; it was sent this code.
  case protocolViolation(code: HTTP2ErrorCode, detail: String)
  /// The peer said GOAWAY with this code.
  case peerReported(code: HTTP2ErrorCode)
  /// A bound was passed: control frames that need answers which the peer does not read, or memory.
  case resourceExhausted(detail: String)
  /// We gave it up ourselves.
  case aborted

  /// How requests end that were in flight.
  var code: HTTP2ErrorCode {
    switch self {
    case .transport, .closedByPeer, .notNegotiated: .connectError
    case .protocolViolation(let code, _), .peerReported(let code): code
    case .resourceExhausted: .enhanceYourCalm
    case .aborted: .cancel
    }
  }
}

extension HTTP2Error: CustomStringConvertible {
  package var description: String {
    switch self {
    case .transport(let error): error.description
    case .closedByPeer: "the peer closed the HTTP/2 connection with requests in flight"
    case .notNegotiated(let name):
      "the peer does not speak HTTP/2 here: ALPN agreed on \(name ?? "nothing"); check host and port"
    case .protocolViolation(let code, let detail): "the peer broke HTTP/2: \(code) \(detail)"
    case .peerReported(let code): "the peer ended the HTTP/2 connection: \(code)"
    case .resourceExhausted(let detail): "the HTTP/2 connection was given up: \(detail)"
    case .aborted: "the HTTP/2 connection was given up here"
    }
  }
}
