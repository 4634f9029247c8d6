package import PushCore

/// Checks provider tokens: form, key, signature, age, how often they change, and what a key may be used for.
package struct ProviderTokenRules: Sendable {
  package struct Limits: Sendable {
    /// Apple: older tokens are expired.
    package var ageMaximumSeconds: Int64 = 3600
    /// How far `iat` may be ahead of our clock.
    package var futureMaximumSeconds: Int64 = 60
    /// Minimum time between two updates; 0: none.
    package var updateIntervalSeconds: Int64 = 20 * 60
    /// Where updates are counted.
    package var updateScope = ProviderTokenScope.connection

    package init() {}
  }

  package var limits = Limits()
  package let environment: APNsEnvironment
  /// By key id. Empty and `acceptsAnyKey`: every well-formed ES256 token counts as signed.
  package var keys: [String: RegisteredKey] = [:]
  package var acceptsAnyKey = false
  /// Verified tokens, by their text.
  private var known: [String: ProviderTokenClaims] = [:]
  /// The tokens of every connection, for the scope of a key.
  private var history = ProviderTokenHistory()
  /// Maximum of `known`: beyond it everything is verified again.
  private static let knownMaximum = 1024

  package init(environment: APNsEnvironment) {
    self.environment = environment
  }

  package mutating func register(_ key: RegisteredKey) {
    keys[key.key] = key
    // The id may have another public half now.
    known.removeAll()
  }

  /// Removes a key's tokens: after the key changed or was revoked, they are verified again.
  package mutating func revoke(key: String) {
    keys[key]?.isRevoked = true
    forgetTokens()
  }

  package mutating func forgetTokens() {
    known.removeAll()
    history = ProviderTokenHistory()
  }

  /// nil: the credential is valid. `topic` is the app's bundle id without a push type's suffix.
  package mutating func refusal(
    authorization: String?, app: String?, identity: inout ConnectionIdentity, isBroadcast: Bool, now: Now
  ) -> SimulatedAnswer? {
    guard let authorization, !authorization.isEmpty else { return .forbidden("MissingProviderToken") }
    let words = authorization.split(separator: " ", omittingEmptySubsequences: true)
    guard let scheme = words.first, scheme.lowercased() == "bearer" else { return .forbidden("InvalidProviderToken") }
    guard words.count == 2 else {
      return .forbidden(words.count == 1 ? "MissingProviderToken" : "InvalidProviderToken")
    }
    let token = String(words[1])
    let claims: ProviderTokenClaims
    if let found = known[token] {
      claims = found
    } else {
      guard let parsed = ProviderTokenClaims(token: token), isSigned(parsed, token: token) else {
        return .forbidden("InvalidProviderToken")
      }
      claims = parsed
      if known.count >= ProviderTokenRules.knownMaximum { known.removeAll() }
      known[token] = parsed
    }
    let key = keys[claims.key]
    if let key, key.isRevoked { return .forbidden("InvalidProviderToken") }
    let age = now.unixSeconds &- claims.issuedAt
    if age > limits.ageMaximumSeconds { return .forbidden("ExpiredProviderToken") }
    if age < -limits.futureMaximumSeconds { return .forbidden("InvalidProviderToken") }
    if let bound = key?.environment, bound != environment { return .forbidden("BadEnvironmentKeyIdInToken") }
    if let team = identity.team, team != claims.team { return .forbidden("InvalidProviderToken") }
    if let first = identity.key, first != claims.key, !areRelated(first, claims.key) {
      return .forbidden("UnrelatedKeyIdInToken")
    }
    if identity.lastToken != token, limits.updateIntervalSeconds > 0 {
      let interval = limits.updateIntervalSeconds &* 1000
      let isTaken =
        switch limits.updateScope {
        case .connection: identity.tokens.takes(token, of: claims.key, intervalMilliseconds: interval, now: now)
        case .key: history.takes(token, of: claims.key, intervalMilliseconds: interval, now: now)
        }
      if !isTaken { return SimulatedAnswer(status: 429, reason: "TooManyProviderTokenUpdates") }
    }
    if let topics = key?.topics, let app, !topics.contains(app) {
      return isBroadcast ? .forbidden("TopicMismatch") : .badRequest("TopicDisallowed")
    }
    identity.team = claims.team
    identity.key = identity.key ?? claims.key
    if identity.lastToken != token {
      if identity.lastToken != nil { identity.tokenChanges += 1 }
      identity.lastToken = token
    }
    return nil
  }

  private func isSigned(_ claims: ProviderTokenClaims, token: String) -> Bool {
    guard claims.algorithm == "ES256", !claims.key.isEmpty, !claims.team.isEmpty else { return false }
    guard let key = keys[claims.key] else { return acceptsAnyKey }
    return key.team == claims.team && key.verify(Array(token.utf8))
  }

  private func areRelated(_ first: String, _ second: String) -> Bool {
    keys[first]?.relatedKey == second || keys[second]?.relatedKey == first
  }
}
