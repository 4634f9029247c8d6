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

  /// Whether connections that `older` opened may go on under this one: the same key or certificate, or keys that are
  /// related, for the same apps.
  package func shares(connectionsOf older: Credential) -> Bool {
    guard configuration.apps == older.configuration.apps, tls.trustFile == older.tls.trustFile else { return false }
    switch (authorization, older.authorization) {
    case (.token(let own), .token(let others)):
      if own == others { return true }
      guard case .token(let team, let key, _) = configuration.kind,
        case .token(let olderTeam, let olderKey, _) = older.configuration.kind
      else { return false }
      return team == olderTeam && key != olderKey
        && (configuration.relatedKeyID == olderKey || older.configuration.relatedKeyID == key)
    case (.certificate, .certificate):
      return tls.certificateFacts == older.tls.certificateFacts
    case (.token, .certificate), (.certificate, .token):
      return false
    }
  }

  package var name: String { configuration.name }
  package var usesToken: Bool {
    switch authorization {
    case .token: true
    case .certificate: false
    }
  }
}
