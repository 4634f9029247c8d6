/// Why an HTTP/2 connection ended abnormally.
package enum HTTP2Error: Error, Sendable {
  /// The connection could not be opened, or broke: TCP, TLS, a timeout.
  case transport(TransportError)
  /// The peer ended the connection with requests in flight, without GOAWAY.
  case closedByPeer
  /// TLS agreed on a protocol other than `h2` (nil: on none).
  case notNegotiated(protocol: String?)
  /// The peer broke the protocol; this code was sent to it.
  case protocolViolation(code: HTTP2ErrorCode, detail: String)
  /// The peer sent GOAWAY with this code.
  case peerReported(code: HTTP2ErrorCode)
  /// A limit was exceeded: memory, or answers to control frames that the peer does not read.
  case resourceExhausted(detail: String)
  /// We aborted it.
  case aborted

  /// The error code for requests that were in flight.
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
    case .resourceExhausted(let detail): "the HTTP/2 connection was closed here: \(detail)"
    case .aborted: "the HTTP/2 connection was closed here"
    }
  }
}
