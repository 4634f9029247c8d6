/// Why a transport did not open, or ended abnormally: what was tried, with which peer, the system's error.
package struct TransportError: Error, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// The name could not be resolved, or the resolver is overloaded.
    case resolve
    /// No address took the connection.
    case connect
    /// The proxy gave no tunnel.
    case proxy
    /// Opening, or the orderly end, took too long.
    case timeout
    /// The handshake or the encryption failed; `tls` says how.
    case tls
    /// The connection broke: reset, unreachable, no answer to keep-alive.
    case broken
    /// The peer ended the connection without TLS's close_notify: the last bytes may be missing.
    case truncated
    /// `abort()` was called here.
    case aborted
  }

  package let kind: Kind
  /// The endpoint, and the address once there is one.
  package let peer: String
  package let text: String
  /// Set if `kind` is `tls`.
  package let tls: TLSError?

  package init(kind: Kind, peer: String, text: String, tls: TLSError? = nil) {
    self.kind = kind
    self.peer = peer
    self.text = text
    self.tls = tls
  }

  package var description: String { "\(peer): \(text)" }
}
