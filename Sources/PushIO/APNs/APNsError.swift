/// What is wrong with a signing key or a provider token: in which file, and what to do. Never holds key material.
package struct APNsError: Error, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// The key's file is missing or cannot be read.
    case file
    /// The file holds no PEM private key.
    case notAKey
    /// The key is encrypted; APNs keys never are.
    case encrypted
    /// A key, but not an elliptic-curve key on P-256.
    case wrongKind
    /// OpenSSL failed to sign or to make a key.
    case system
    /// A token is not an APNs JWT: parts, base64url, JSON or claims.
    case malformedToken
    /// A token was not signed by this key.
    case wrongSignature
  }

  package let kind: Kind
  /// The file, or what else was checked.
  package let subject: String
  package let text: String

  package init(kind: Kind, subject: String, text: String) {
    self.kind = kind
    self.subject = subject
    self.text = text
  }

  package var description: String { "\(subject): \(text)" }
}
