package import PushCore
package import PushIO
package import PushSettings

/// All loaded credentials. Immutable: lanes share it, and a reload makes another one.
///
/// `CredentialLoader` reads them, `CredentialRoutes` finds a job's, `RoutingRefusal` explains why there is none.
package final class Credentials: Sendable {
  /// Pools of one (credential, environment): device tokens, device tokens that were refused before, broadcasts.
  package static let poolKinds = 3
  package static let environments = APNsEnvironment.allCases.count
  /// Keeps every pool's index within its 16 bits.
  package static let countMaximum = 4096

  /// By index, which determines the pools' numbers. nil: an index of an earlier configuration that is no longer used.
  package let all: [Credential?]
  /// Provider tokens of all of them; process-wide.
  package let tokens: ProviderTokens
  private let routes: CredentialRoutes

  /// Loads keys and certificates.
  /// - Parameters:
  ///   - caFile: authorities that may issue APNs' certificates, in addition to the system's.
  ///   - trustsOnlyCAFile: trust only `caFile`, not the system's authorities.
  ///   - tokens: kept over reloads, so that a reload renews no token.
  ///   - previous: the table that this one replaces; unchanged credentials keep their index. After an error neither it nor `tokens` have
  ///     changed.
  package convenience init(
    _ configurations: [CredentialConfiguration], caFile: String? = nil, trustsOnlyCAFile: Bool = false,
    tokens: ProviderTokens = ProviderTokens(), replacing previous: Credentials? = nil,
    countMaximum: Int = Credentials.countMaximum
  ) throws(CredentialError) {
    let loaded = try CredentialLoader(caFile: caFile, trustsOnlyCAFile: trustsOnlyCAFile).load(configurations)
    try self.init(loaded, tokens: tokens, replacing: previous, countMaximum: countMaximum)
  }

  private convenience init(
    _ loaded: [CredentialLoader.Loaded], tokens: ProviderTokens, replacing previous: Credentials?,
    countMaximum: Int = Credentials.countMaximum
  ) throws(CredentialError) {
    let places = loaded.map { one in
      previous?.all.firstIndex { $0?.name == one.configuration.name && $0?.usesToken == one.usesToken }
    }
    let newCount = places.count { $0 == nil }
    guard (previous?.all.count ?? 0) + newCount <= countMaximum else {
      throw CredentialError(
        credential: loaded.last?.configuration.name ?? "",
        text:
          "is one too many: at most \(countMaximum) since the start, those that reloads removed included; restart the worker"
      )
    }
    self.init(loaded: loaded, at: places, tokens: tokens, replacing: previous)
  }

  /// Token credentials whose keys are not read from files, and which share an existing TLS context: for simulations.
  package convenience init(
    _ configurations: [CredentialConfiguration], tokens: ProviderTokens, replacing previous: Credentials? = nil,
    tls: TLSContext, readKey: @escaping (String) throws(APNsError) -> ProviderTokenSigner
  ) throws(CredentialError) {
    let loader = CredentialLoader(tls: tls, readKey: readKey)
    try self.init(try loader.load(configurations), tokens: tokens, replacing: previous)
  }

  /// Loads them for the configured APNs: `apns.ca_file` and `apns.ca_only` determine the trust.
  package convenience init(
    _ configurations: [CredentialConfiguration], for apns: Configuration.APNs,
    tokens: ProviderTokens = ProviderTokens(),
    replacing previous: Credentials? = nil
  ) throws(CredentialError) {
    try self.init(
      configurations, caFile: apns.caFile, trustsOnlyCAFile: apns.trustsOnlyCAFile, tokens: tokens,
      replacing: previous)
  }

  /// Nothing can fail any more: only now are keys in use replaced.
  private init(
    loaded: [CredentialLoader.Loaded], at places: [Int?], tokens: ProviderTokens, replacing previous: Credentials?
  ) {
    var all: [Credential?] = Array(repeating: nil, count: previous?.all.count ?? 0)
    for (one, place) in zip(loaded, places) {
      let credential = one.credential(tokens)
      if let place { all[place] = credential } else { all.append(credential) }
    }
    self.all = all
    self.tokens = tokens
    routes = CredentialRoutes(to: all)
  }

  /// The provider tokens of these credentials, for metrics: not those of keys that a reload removed.
  package func tokenSnapshots(revoked: Set<String>) -> [ProviderTokens.Snapshot] {
    var handles: [ProviderTokens.Handle: Bool] = [:]
    for credential in all.compactMap({ $0 }) {
      guard case .token(let handle) = credential.authorization else { continue }
      handles[handle] = handles[handle] == true || !revoked.contains(credential.name)
    }
    return tokens.snapshots(of: handles)
  }

  /// Every app that a credential lists, once, in their order.
  package var apps: [String] {
    var known: Set<String> = []
    return all.compactMap { $0 }.flatMap(\.configuration.apps).filter { known.insert($0).inserted }
  }

  /// The place of a pool's credential.
  package static func place(of pool: PoolIndex) -> Int { Int(pool.value) / (poolKinds * environments) }

  /// The pool for the job.
  package func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    let scope = try routes.place(for: job) * Credentials.environments + Int(job.environment.rawValue)
    let kind = job.targetKind == .channel ? 2 : 0
    return PoolIndex(UInt16(scope * Credentials.poolKinds + kind))
  }
}
