import PushCore

/// Signs provider tokens: a P-256 key, or a simulation's replacement for it.
package protocol SigningKey: Sendable {
  /// r and s, 64 bytes; nil: it failed.
  func sign(_ message: [UInt8]) -> [UInt8]?
  /// Whether the signature was made by this key.
  func verify(_ signature: [UInt8], of message: [UInt8]) -> Bool
  /// PEM of the public half: equal for equal keys.
  func publicPEM() -> [UInt8]
  func privatePEM() -> [UInt8]
}

/// Signs provider tokens: JWTs (RFC 7519) with ES256, by the key from Apple's .p8 file. Any thread may sign.
///
/// Source: Apple, "Establishing a token-based connection to APNs".
package final class ProviderTokenSigner: Sendable {
  private let key: any SigningKey
  /// Where the key came from, for messages.
  package let subject: String
  /// The file is readable by its group or everybody.
  package let isReadableByOthers: Bool

  /// Reads a .p8 file.
  package init(file path: String) throws(APNsError) {
    let file = try KeyFile(path: path)
    key = try ProviderKey(privatePEM: file.bytes, subject: path)
    subject = path
    isReadableByOthers = file.isReadableByOthers
  }

  /// Takes a key as PEM. `subject` names it in errors.
  package init(pem: [UInt8], subject: String) throws(APNsError) {
    key = try ProviderKey(privatePEM: pem, subject: subject)
    self.subject = subject
    isReadableByOthers = false
  }

  /// Makes a new key: for simulators and tests, whose APNs trusts the public half.
  package init(newKeyFor subject: String) throws(APNsError) {
    key = try ProviderKey()
    self.subject = subject
    isReadableByOthers = false
  }

  /// Uses a key that is not OpenSSL's: for simulations.
  package init(key: any SigningKey, subject: String) {
    self.key = key
    self.subject = subject
    isReadableByOthers = false
  }

  /// Verifies this key's signatures.
  package var verifier: ProviderTokenVerifier { ProviderTokenVerifier(key) }

  /// The JWT's bytes: header `alg`, `kid`; claims `iss`, `iat`.
  /// - Parameters:
  ///   - teamID: `iss`, ten letters and digits.
  ///   - keyID: `kid`, ten letters and digits.
  ///   - issuedAt: `iat`, Unix seconds.
  package func sign(teamID: String, keyID: String, issuedAt: Int64) throws(APNsError) -> [UInt8] {
    precondition(
      ProviderTokenSigner.isPlain(teamID) && ProviderTokenSigner.isPlain(keyID), "ids were checked on loading")
    var token: [UInt8] = []
    token.reserveCapacity(256)
    Base64.encode(Array("{\"alg\":\"ES256\",\"kid\":\"\(keyID)\"}".utf8), .url, into: &token)
    token.append(UInt8(ascii: "."))
    Base64.encode(Array("{\"iss\":\"\(teamID)\",\"iat\":\(issuedAt)}".utf8), .url, into: &token)
    guard let signature = key.sign(token) else {
      throw APNsError(kind: .system, subject: subject, text: "OpenSSL refused to sign a provider token with it")
    }
    token.append(UInt8(ascii: "."))
    Base64.encode(signature, .url, into: &token)
    return token
  }

  /// Whether a team or key id can appear in a token unescaped: 1–64 letters and digits.
  package static func isPlain(_ identifier: String) -> Bool {
    (1...64).contains(identifier.utf8.count)
      && identifier.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: false
        }
      }
  }

  /// PEM of the public half, for `ProviderTokenVerifier`.
  package func publicKeyPEM() -> [UInt8] { key.publicPEM() }

  /// PEM (PKCS#8) of the key itself, as in a .p8 file. For simulators and tests that make their own.
  package func privateKeyPEM() -> [UInt8] { key.privatePEM() }
}
