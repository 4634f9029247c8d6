package import PushCredentials

/// The credentials that an operator revoked in this process. A reload does not end a revocation, even if the key's file was touched: only
/// another key under the same name does, or an explicit command. A revoked key under another name is revoked too.
package struct Revocations: Sendable {
  /// By name: the digest of the revoked key.
  private var keys: [String: [UInt8]] = [:]
  /// The names that were configured when one of them was revoked, or since.
  private var configured: Set<String> = []

  package init() {}

  package var names: Set<String> { Set(keys.keys) }

  /// false: there is no credential with this name.
  package mutating func revoke(_ name: String, among credentials: Credentials) -> Bool {
    guard let credential = credentials.all.lazy.compactMap({ $0 }).first(where: { $0.name == name }) else {
      return false
    }
    keys[name] = credential.keyDigest
    configured.formUnion(credentials.all.compactMap { $0?.name })
    return true
  }

  /// The other credentials with the key of this one, which are not revoked.
  package func sharing(_ name: String, among credentials: Credentials) -> [String] {
    credentials.all.compactMap { $0 }.filter { keys[$0.name] == nil && $0.keyDigest == keys[name] }.map(\.name).sorted()
  }

  /// false: it is not revoked.
  package mutating func unrevoke(_ name: String) -> Bool { keys.removeValue(forKey: name) != nil }

  /// Credentials were reloaded. A revoked name that is not among them stays revoked: it may come back with the same key.
  /// - Returns: the names whose revocation ended, because they have another key now.
  package mutating func replaced(by credentials: Credentials) -> [String] {
    let ended = credentials.all.compactMap { $0 }.filter { credential in
      keys[credential.name].map { $0 != credential.keyDigest } ?? false
    }.map(\.name)
    for name in ended { keys[name] = nil }
    if !keys.isEmpty {
      let revoked = Set(keys.values)
      for credential in credentials.all.compactMap({ $0 }) where configured.insert(credential.name).inserted {
        if revoked.contains(credential.keyDigest) { keys[credential.name] = credential.keyDigest }
      }
    }
    return ended
  }

  /// Why nothing can be sent, for `/readyz`; nil: there is a credential to send with.
  package func problem(among credentials: Credentials) -> String? {
    let configured = credentials.all.compactMap { $0?.name }
    if configured.isEmpty { return "no credentials are configured" }
    guard configured.allSatisfy({ keys[$0] != nil }) else { return nil }
    return "revoked: \(configured.sorted().joined(separator: ", ")); configure another key, or run herald unrevoke"
  }
}
