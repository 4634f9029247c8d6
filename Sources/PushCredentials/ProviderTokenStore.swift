/// A store in which workers share their provider tokens, so that the fleet has one per key and renews it once.
///
/// Without a store every process makes its own. Nothing here blocks. Every `ask` and `offer` is answered by `ProviderTokens.storeAnswered`,
/// from any thread; no answer for half a second counts as "unreachable".
package protocol ProviderTokenStore: Sendable {
  /// Asks for the fleet's token of (team, key) with a later `iat` than this, or for the turn to make one.
  /// - Parameter refused: `iat` of a token that APNs never took because of it, which the whole fleet replaces; 0: there is none.
  func ask(_ name: ProviderTokenName, newerThan: Int64, refused: Int64, from asker: ProviderTokens.Asker)

  /// Offers the token that was made in our turn. The answer is the token that now serves.
  func offer(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, from asker: ProviderTokens.Asker)

  /// Returns the turn unused.
  func decline(_ name: ProviderTokenName)

  /// This token now serves here: the store keeps the newest that it gets.
  func serves(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, at asker: ProviderTokens.Asker)
}

/// Identifies a provider token: Apple's ids of a team and of one of its keys.
package struct ProviderTokenName: Hashable, Sendable {
  package let teamID: String
  package let keyID: String

  package init(teamID: String, keyID: String) {
    self.teamID = teamID
    self.keyID = keyID
  }
}

/// A store's answer.
package enum ProviderTokenStoreAnswer: Sendable {
  /// It is unreachable, or refuses writes.
  case unreachable
  /// Another process is making a token; the answer follows.
  case waiting
  /// The fleet's token.
  case token([UInt8])
  /// It is our turn to make one: `offer` or `decline` it.
  case mayMint
}
