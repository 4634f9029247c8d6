import PushCore
package import PushIO

/// A token credential whose public half the simulator knows, for a client to sign in with.
public struct SimulatorCredential: Sendable {
  /// The team id.
  public let team: String
  /// The key id.
  public let key: String
  package let signer: ProviderTokenSigner

  /// Makes a new key.
  public init(team: String = "SIMTEAM001", key: String = "SIMKEY0001") throws(SimulatorError) {
    self.team = team
    self.key = key
    do {
      signer = try ProviderTokenSigner(newKeyFor: "simulator key \(key)")
    } catch {
      throw SimulatorError("a signing key: \(error)")
    }
  }

  /// The public half, to register with a simulator.
  public func registration() throws(SimulatorError) -> RegisteredKey {
    try RegisteredKey(team: team, key: key, publicKeyPEM: signer.publicKeyPEM())
  }

  /// The private key as in Apple's `AuthKey_….p8`: PKCS #8, PEM.
  public var privateKeyPEM: String { String(decoding: signer.privateKeyPEM(), as: UTF8.self) }

  /// A provider token, ready for `authorization: bearer …`.
  public func token(issuedAt unixSeconds: Int64) throws(SimulatorError) -> String {
    do {
      return String(decoding: try signer.sign(teamID: team, keyID: key, issuedAt: unixSeconds), as: UTF8.self)
    } catch {
      throw SimulatorError("a provider token: \(error)")
    }
  }

  /// Writes `AuthKey.p8` and `credential.json` (`team_id`, `key_id`, `key_file`) into a folder; returns the key's path.
  @discardableResult
  public func write(to folder: String) throws(SimulatorError) -> String {
    try SimulatorFile.makeFolder(folder)
    let path = folder + "/AuthKey.p8"
    try SimulatorFile.write(signer.privateKeyPEM(), to: path, isSecret: true)
    var json = JSONText()
    json.beginObject()
    json.field("team_id", team)
    json.field("key_id", key)
    json.field("key_file", path)
    json.endObject()
    json.newLine()
    try SimulatorFile.write(json.bytes, to: folder + "/credential.json", isSecret: false)
    return path
  }
}

extension RegisteredKey {
  /// A key by its public half, PEM.
  public init(team: String, key: String, publicKeyPEM: [UInt8]) throws(SimulatorError) {
    do {
      let verifier = try ProviderTokenVerifier(publicKeyPEM: publicKeyPEM)
      self.init(team: team, key: key) { token in (try? verifier.verify(token)) != nil }
    } catch {
      throw SimulatorError("the public key of \(key): \(error)")
    }
  }
}
