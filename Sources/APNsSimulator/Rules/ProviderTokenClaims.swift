import PushCore

/// A parsed provider token that is not verified yet.
package struct ProviderTokenClaims: Hashable, Sendable {
  package var algorithm: String
  package var key: String
  package var team: String
  /// Unix seconds.
  package var issuedAt: Int64

  /// nil if the text is not a JWT with `alg`, `kid`, `iss` and an integer `iat`, and a signature of 64 bytes.
  package init?(token: String) {
    let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3,
      let headerBytes = Base64.decode(parts[0], .url), let header = JSONValue(headerBytes),
      let claimBytes = Base64.decode(parts[1], .url), let claims = JSONValue(claimBytes),
      let signature = Base64.decode(parts[2], .url), signature.count == 64,
      let algorithm = header["alg"]?.string, let key = header["kid"]?.string,
      let team = claims["iss"]?.string, let issuedAt = claims["iat"]?.integer
    else { return nil }
    self.algorithm = algorithm
    self.key = key
    self.team = team
    self.issuedAt = issuedAt
  }
}
