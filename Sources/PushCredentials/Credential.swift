package import PushCore
package import PushIO
package import PushSettings

/// One loaded credential: what connections and requests need.
package struct Credential: Sendable {
  package enum Authorization: Sendable {
    /// Requests carry this provider token.
    case token(ProviderTokens.Handle)
    /// The connection presents a certificate; requests carry nothing.
    case certificate
  }

  package let configuration: CredentialConfiguration
  package let authorization: Authorization
  /// The trust and the certificate of its connections.
  package let tls: TLSContext
  /// The only topics it may send: those of a certificate, or of a topic-specific key; nil: any.
  package let topics: Set<String>?
  /// SHA-256 of its key's public part: a copy of the key, or a renewed certificate of it, has the same.
  package let keyDigest: [UInt8]
  /// Warnings to log once: a key file that others may read, a certificate that expires soon.
  package let warnings: [String]

  /// Whether connections of `older` can be used for this one: the same key or certificate, or related keys, for the same apps.
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

  /// The key of its provider tokens; nil: it is a certificate.
  package var tokenHandle: ProviderTokens.Handle? {
    switch authorization {
    case .token(let handle): handle
    case .certificate: nil
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

  /// Whether it lists the topic, or an app that the topic belongs to.
  func lists(topic: String, _ owners: TopicOwners) -> Bool {
    topics?.contains(topic) ?? false || owners.owner(of: topic).map(configuration.apps.contains) ?? false
  }

  /// Whether it may send a push type to one of its apps, under the type's topic.
  package func serves(_ type: PushType, of app: String) -> Bool {
    serves(type) && serves(topic: app + type.topicSuffix)
  }

  /// The push types that it may send to an app.
  package func pushTypes(of app: String) -> [PushType] { PushType.named.filter { serves($0, of: app) } }
}
