/// What failed in TLS, with which peer, and what to do. Never holds a key or a passphrase.
package struct TLSError: Error, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// A file is missing, unreadable, or not what it should be.
    case file
    /// A private key does not match its certificate, or a passphrase its key.
    case key
    /// We did not accept the peer's certificate.
    case certificate
    /// The peer refused: its alert is in the text (often: it does not accept our certificate).
    case refused
    /// Anything else that breaks TLS: no common version or protocol, or not TLS at all.
    case protocolFailure
    /// OpenSSL ran out of memory or failed internally.
    case system
  }

  package let kind: Kind
  package let text: String

  package init(kind: Kind, text: String) {
    self.kind = kind
    self.text = text
  }

  package var description: String { text }
}
