package import PushCore

/// A signing key that the simulated Apple knows.
public struct RegisteredKey: Sendable {
  /// The team's ten characters: `iss` of its tokens.
  public var team: String
  /// The key's ten characters: `kid` of its tokens.
  public var key: String
  /// The one environment that the key is for; nil: both (older team-scoped keys).
  package var environment: APNsEnvironment?
  /// The same as true (sandbox), false (production) or nil.
  public var isForSandbox: Bool? {
    get { environment.map { $0 == .sandbox } }
    set { environment = newValue.map { $0 ? .sandbox : .production } }
  }
  /// The app topics of a topic-specific key; nil: every topic of the team.
  public var topics: Set<String>?
  /// The related key of a topic-specific key: tokens of both may share a connection.
  public var relatedKey: String?
  /// A revoked key's tokens are refused, and its connections closed.
  package var isRevoked = false
  /// Whether the token's signature is this key's.
  package var verify: @Sendable (_ token: [UInt8]) -> Bool

  package init(
    team: String, key: String, environment: APNsEnvironment? = nil, topics: Set<String>? = nil,
    relatedKey: String? = nil, verify: @escaping @Sendable ([UInt8]) -> Bool
  ) {
    self.team = team
    self.key = key
    self.environment = environment
    self.topics = topics
    self.relatedKey = relatedKey
    self.verify = verify
  }
}
