/// Where early token updates are counted.
public enum ProviderTokenScope: String, CaseIterable, Sendable {
  /// On each connection, as Apple's documents say.
  case connection
  /// For each key over all connections: for a fleet of senders that shares one token.
  case key
}
