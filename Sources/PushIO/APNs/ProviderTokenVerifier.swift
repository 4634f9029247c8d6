import PushCore

/// The claims of a provider token with a valid signature.
package struct VerifiedProviderToken: Hashable, Sendable {
  package var keyID: [UInt8]
  package var teamID: [UInt8]
  /// Unix seconds.
  package var issuedAt: Int64
}

/// Checks provider tokens the way APNs does, for simulators and tests.
package final class ProviderTokenVerifier: Sendable {
  private let key: any SigningKey

  /// `publicKeyPEM`: the public half of the signing key.
  package init(publicKeyPEM: [UInt8]) throws(APNsError) {
    key = try ProviderKey(publicPEM: publicKeyPEM, subject: "public key")
  }

  init(_ key: any SigningKey) {
    self.key = key
  }

  /// Checks parts, header, claims and signature of a JWT; the caller checks its age.
  package func verify(_ token: [UInt8]) throws(APNsError) -> VerifiedProviderToken {
    let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3 else { throw ProviderTokenVerifier.malformed("has \(parts.count) parts, not 3") }
    guard let header = Base64.decode(parts[0], .url), let claims = Base64.decode(parts[1], .url),
      let signature = Base64.decode(parts[2], .url)
    else { throw ProviderTokenVerifier.malformed("is not base64url") }
    guard signature.count == 64 else {
      throw ProviderTokenVerifier.malformed("has a signature of \(signature.count) bytes: ES256 has 64, r and s")
    }
    var verified = VerifiedProviderToken(keyID: [], teamID: [], issuedAt: 0)
    var algorithm: [UInt8] = []
    do {
      try ProviderTokenVerifier.read(header.span) { name, text, _ in
        if name.equals("alg") { algorithm = text }
        if name.equals("kid") { verified.keyID = text }
      }
      try ProviderTokenVerifier.read(claims.span) { name, text, number in
        if name.equals("iss") { verified.teamID = text }
        if name.equals("iat"), let number { verified.issuedAt = number }
      }
    } catch {
      throw ProviderTokenVerifier.malformed("has a header or claims that are not JSON objects")
    }
    guard algorithm == Array("ES256".utf8) else { throw ProviderTokenVerifier.malformed("is not signed with ES256") }
    guard !verified.keyID.isEmpty, !verified.teamID.isEmpty, verified.issuedAt > 0 else {
      throw ProviderTokenVerifier.malformed("lacks kid, iss or an integer iat")
    }
    guard key.verify(signature, of: Array(token[..<(parts[2].startIndex - 1)])) else {
      throw APNsError(kind: .wrongSignature, subject: "provider token", text: "was not signed by this key")
    }
    return verified
  }

  /// Reports every member of an object that is a number or a string without escapes.
  private static func read(
    _ bytes: Span<UInt8>, _ member: (_ name: Span<UInt8>, _ text: [UInt8], _ number: Int64?) -> Void
  ) throws(JSONError) {
    var scanner = JSONScanner()
    var hasMember = try scanner.beginObject(bytes)
    while hasMember {
      let key = try scanner.key(bytes)
      let name = bytes.extracting(key.range.range)
      switch scanner.peek(bytes) {
      case UInt8(ascii: "\""):
        let value = try scanner.string(bytes)
        var text: [UInt8] = []
        for index in value.range.range { text.append(bytes[index]) }
        member(name, value.hasEscapes ? [] : text, nil)
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        member(name, [], try scanner.number(bytes).integer)
      default:
        try scanner.skipValue(bytes)
      }
      hasMember = try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
  }

  private static func malformed(_ text: String) -> APNsError {
    APNsError(kind: .malformedToken, subject: "provider token", text: text)
  }
}
