/// An API key as it is stored: its hash and what it allows, never the key itself.
package struct APIKey: Hashable, Codable, Sendable {
  package let id: String
  /// SHA-256 of the key's text, hex digits. Keys are random, so they need no slow hash.
  package let hash: String
  /// nil: each request names its app. Only for keys with the scope `admin`.
  package let app: String?
  /// nil: each request may name its environment.
  package let environment: String?
  package let scopes: Set<KeyScope>
  /// Requests a minute; nil: no limit.
  package let rate: Int?
  /// Unix milliseconds.
  package let createdAt: Int64

  package static let rateMaximum = 1_000_000

  enum CodingKeys: String, CodingKey {
    case id, hash, app, environment, scopes, rate
    case createdAt = "created_at"
  }

  /// - Parameter hash: 32 bytes.
  package init(
    id: String, hash: [UInt8], app: String?, environment: APNsEnvironment?, scopes: Set<KeyScope>, rate: Int?,
    createdAt: Int64
  ) {
    self.id = id
    self.hash = Hex.text(hash)
    self.app = app
    self.environment = environment?.name
    self.scopes = scopes
    self.rate = rate
    self.createdAt = createdAt
  }

  /// Throws if what is stored is no key that `herald keys create` makes.
  package init(from decoder: any Decoder) throws {
    let fields = try decoder.container(keyedBy: CodingKeys.self)
    id = try fields.decode(String.self, forKey: .id)
    hash = try fields.decode(String.self, forKey: .hash)
    app = try fields.decodeIfPresent(String.self, forKey: .app)
    environment = try fields.decodeIfPresent(String.self, forKey: .environment)
    scopes = try fields.decode(Set<KeyScope>.self, forKey: .scopes)
    rate = try fields.decodeIfPresent(Int.self, forKey: .rate)
    createdAt = try fields.decode(Int64.self, forKey: .createdAt)
    if let rate, !(1...APIKey.rateMaximum ~= rate) {
      throw DecodingError.dataCorruptedError(
        forKey: .rate, in: fields, debugDescription: "must be 1 to \(APIKey.rateMaximum)")
    }
    if !(0...Limits.unixMillisecondsMaximum ~= createdAt) {
      throw DecodingError.dataCorruptedError(
        forKey: .createdAt, in: fields, debugDescription: "must be Unix milliseconds")
    }
  }

  package func allows(_ scope: KeyScope) -> Bool { scopes.contains(scope) || scopes.contains(.admin) }

  /// Whether a text with this SHA-256 hash (32 bytes) is this key. Compares in constant time.
  package func matches(hash other: [UInt8]) -> Bool {
    guard let own = Hex.bytes(hash.utf8.span), own.count == other.count else { return false }
    var difference: UInt8 = 0
    for index in own.indices { difference |= own[index] ^ other[index] }
    return difference == 0
  }

  /// The app and environment of a request: the key's, or else those that the request names. Fails if the request contradicts the key, or if
  /// neither names an app.
  /// - Parameters:
  ///   - named: the app that the request names; nil: none.
  ///   - word: the environment that the request names; nil: none, which means production.
  package func scope(app named: String?, environment word: String?) -> Result<AppScope, KeyRefusal> {
    if let app, let named, named != app { return .failure(.otherApp) }
    if let environment, let word, word != environment { return .failure(.otherEnvironment) }
    let name = environment ?? word ?? APNsEnvironment.production.name
    guard let environment = APNsEnvironment.allCases.first(where: { $0.name == name }) else {
      return .failure(.unknownEnvironment)
    }
    guard let app = app ?? named else { return .failure(.noApp) }
    guard let scope = AppScope(app: app, environment: environment) else { return .failure(.badApp) }
    return .success(scope)
  }
}
