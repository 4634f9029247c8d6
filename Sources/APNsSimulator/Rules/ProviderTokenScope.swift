/// Where provider tokens are counted that come too early after another.
public enum ProviderTokenScope: String, CaseIterable, Sendable {
  /// On each connection alone, as Apple's documents say.
  case connection
  /// For each key over all connections: what a fleet of senders that shares one token is held to.
  case key
}
