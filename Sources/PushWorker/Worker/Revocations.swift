package import PushCredentials

/// The credentials that an operator revoked in this process. A reload does not end a revocation, even if the key's file was touched: only
/// another key under the same name does, or an explicit command. A revoked key that comes back, under the same name or another one, is
/// revoked there too.
package struct Revocations: Sendable {
  /// By name: the digest of the revoked key.
  private var keys: [String: [UInt8]] = [:]
  /// Digests of all keys that were revoked, also of those that have no name any more. `unrevoke` alone removes one.
  private var revoked: Set<[UInt8]> = []
  /// The names that were configured when one of them was revoked, or since, and the digest of the key that each had last.
  private var held: [String: [UInt8]] = [:]

  package init() {}

  package var names: Set<String> { Set(keys.keys) }

  /// Revokes the credential's key under every name that has it: a leaked key is leaked under all of them.
  /// - Returns: the revoked names, this one first; empty: there is no credential with this name.
  package mutating func revoke(_ name: String, among credentials: Credentials) -> [String] {
    let loaded = credentials.all.compactMap { $0 }
    guard let digest = loaded.first(where: { $0.name == name })?.keyDigest else { return [] }
    for credential in loaded { held[credential.name] = credential.keyDigest }
    revoked.insert(digest)
    let others = loaded.filter { $0.name != name && $0.keyDigest == digest }.map(\.name).sorted()
    for name in [name] + others { keys[name] = digest }
    return [name] + others
  }

  /// Ends the revocation under this name alone.
  /// - Returns: the names where its key stays revoked; nil: this one is not revoked.
  package mutating func unrevoke(_ name: String) -> [String]? {
    guard let digest = keys.removeValue(forKey: name) else { return nil }
    let others = keys.filter { $0.value == digest }.keys.sorted()
    if others.isEmpty { revoked.remove(digest) }
    return others
  }

  /// Credentials were reloaded. A revoked name that is not among them stays revoked: it may come back with the same key.
  /// - Returns: the names whose revocation ended, because they have another key now, and those that have a revoked key now.
  package mutating func replaced(by credentials: Credentials) -> (ended: [String], begun: [String]) {
    var (ended, begun): ([String], [String]) = ([], [])
    for credential in credentials.all.compactMap({ $0 }) {
      let (name, digest) = (credential.name, credential.keyDigest)
      if let old = keys[name], old != digest {
        keys[name] = nil
        ended.append(name)
      }
      if !revoked.isEmpty, held.updateValue(digest, forKey: name) != digest, revoked.contains(digest) {
        keys[name] = digest
        ended.removeAll { $0 == name }
        begun.append(name)
      }
    }
    return (ended, begun)
  }

  /// Why nothing can be sent, for `/readyz`; nil: there is a credential to send with.
  package func problem(among credentials: Credentials) -> String? {
    let configured = credentials.all.compactMap { $0?.name }
    if configured.isEmpty { return "no credentials are configured" }
    guard configured.allSatisfy({ keys[$0] != nil }) else { return nil }
    return "revoked: \(configured.sorted().joined(separator: ", ")); configure another key, or run herald unrevoke"
  }
}
