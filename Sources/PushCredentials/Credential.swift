package import PushCore
package import PushIO
package import PushSettings

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
  /// The only topics it may send: those of a certificate, or of a topic-specific key; nil: any.
  package let topics: Set<String>?
  /// Things to log once: a key file that others may read, a certificate that is about to end.
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

  /// Whether it may send a push type at all.
  package func serves(_ type: PushType) -> Bool {
    switch type.rules.credential {
    case .any: true
    case .tokenOnly: usesToken
    case .certificateOnly: !usesToken
    }
  }

  /// Whether it may send to a topic.
  package func serves(topic: String) -> Bool { topics?.contains(topic) ?? true }

  /// Whether it may send a push type to one of its apps, under the topic that the type gives.
  package func serves(_ type: PushType, of app: String) -> Bool {
    serves(type) && serves(topic: app + type.rules.topicSuffix)
  }

  /// The push types that it may send to an app.
  package func pushTypes(of app: String) -> [PushType] { PushType.named.filter { serves($0, of: app) } }
}
