package import PushCore

/// One entry of `credentials`, as configured: plain values, nothing loaded yet.
package struct CredentialConfiguration: Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    /// Provider tokens, signed with the key in a .p8 file.
    case token(teamID: String, keyID: String, keyFile: String)
    /// A client certificate and its key, PEM.
    case certificate(certificateFile: String, privateKeyFile: String, passphrase: Secret?)
    /// A client certificate and its key in one PKCS#12 file.
    case pkcs12(file: String, passphrase: Secret?)
  }

  /// The files that it is loaded from.
  package var files: [String] {
    switch kind {
    case .token(_, _, let keyFile): [keyFile]
    case .certificate(let certificateFile, let privateKeyFile, _): [certificateFile, privateKeyFile]
    case .pkcs12(let file, _): [file]
    }
  }

  /// Its name in jobs (`credential`), logs and metrics. Unique.
  package var name: String
  package var kind: Kind
  package var environments: [APNsEnvironment]
  /// Bundle ids (pass type ids, MDM topics) that it serves.
  package var apps: [String]
  /// The only topics of a topic-specific signing key, in full (`com.example.app.voip`); nil: all topics of its apps. A certificate contains
  /// its own topics.
  package var topics: [String]?
  /// The id of a key that Apple relates to this one: their provider tokens may share connections.
  package var relatedKeyID: String?

  package init(
    name: String, kind: Kind, environments: [APNsEnvironment], apps: [String], topics: [String]? = nil,
    relatedKeyID: String? = nil
  ) {
    self.name = name
    self.kind = kind
    self.environments = environments
    self.apps = apps
    self.topics = topics
    self.relatedKeyID = relatedKeyID
  }
}
