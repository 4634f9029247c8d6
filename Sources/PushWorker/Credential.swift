import PushCore
package import PushIO

/// One loaded credential: what connections and requests need of it.
package struct Credential: Sendable {
  package enum Authorization: Sendable {
    /// Requests carry this provider token.
    case token(ProviderTokens.Handle)
    /// The connection shows a certificate; requests carry nothing.
    case certificate
  }

  package let configuration: CredentialConfiguration
  package let authorization: Authorization
  /// What its connections trust and show.
  package let tls: TLSContext
  /// Things to log once: a key file that others may read.
  package let warnings: [String]

  package var name: String { configuration.name }
  package var usesToken: Bool {
    switch authorization {
    case .token: true
    case .certificate: false
    }
  }
}
