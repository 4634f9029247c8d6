/// Where replicas share their provider tokens, so that the fleet has one for each key and renews it once.
///
/// Without a store every process makes its own. Nothing here blocks. Every `ask` and `offer` is answered by
/// `ProviderTokens.storeAnswered`, from any thread; silence for half a second is taken for "unreachable".
package protocol ProviderTokenStore: Sendable {
  /// Asks for the fleet's token of (team, key), one with a later `iat` than this, or for the turn to make one.
  func ask(_ name: ProviderTokenName, newerThan: Int64, from asker: ProviderTokens.Asker)

  /// Offers the token that was made in our turn. The answer says which token serves.
  func offer(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, from asker: ProviderTokens.Asker)

  /// Gives the turn back unused.
  func decline(_ name: ProviderTokenName)

  /// This token serves here now: the store keeps the newest of those that it gets.
  func serves(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, at asker: ProviderTokens.Asker)
}

/// Names a provider token: Apple's ids of a team and of one of its keys.
package struct ProviderTokenName: Hashable, Sendable {
  package let teamID: String
  package let keyID: String

  package init(teamID: String, keyID: String) {
    self.teamID = teamID
    self.keyID = keyID
  }
}

/// What a store answers.
package enum ProviderTokenStoreAnswer: Sendable {
  /// It cannot be reached, or takes no writes.
  case unreachable
  /// Somebody else makes a token; the answer follows.
  case waiting
  /// The fleet's token.
  case token([UInt8])
  /// It is our turn to make one: `offer` or `decline` it.
  case mayMint
}
