/// What is wrong with one configured credential, and what to do. Never holds key material or a passphrase.
package struct CredentialError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The credential's name.
  package let credential: String
  package let text: String

  package init(credential: String, text: String) {
    self.credential = credential
    self.text = text
  }

  package var description: String { "credential \"\(credential)\": \(text)" }
}
