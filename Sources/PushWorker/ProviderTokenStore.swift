/// Where replicas share their provider tokens, so that the fleet has one for each key and renews it once.
///
/// Without a store every process makes its own. Nothing here blocks; an answer that does not come in half a second is
/// taken for "nothing".
package protocol ProviderTokenStore: Sendable {
  /// Asks for the newest token of (team, key). The answer is `ProviderTokens.storeAnswered`, from any thread, once.
  func load(teamID: String, keyID: String, for tokens: ProviderTokens, handle: ProviderTokens.Handle)

  /// Offers a token that was made here. The store keeps the one with the newest `issuedAt`.
  func save(teamID: String, keyID: String, token: [UInt8], issuedAt: Int64)
}
