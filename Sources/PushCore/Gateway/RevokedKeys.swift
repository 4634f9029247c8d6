/// The keys that this process saw being revoked. A Redis that is restored to a time before brings their records back; they stay refused.
///
/// A key that is gone without a revocation was lost, and may come back.
package struct RevokedKeys: Sendable {
  /// Read last.
  private var known: Set<String> = []
  private var revoked: Set<String> = []
  private var returned: Set<String> = []
  /// The newest of the revocations that were there before a reading; nil: nothing was read.
  private var revision: Int64?

  package init() {}

  /// Takes what was read.
  /// - Parameters:
  ///   - ids: of all keys.
  ///   - before: the number of the last revocation before the keys were read, and `after` that; nil: not known. One that follows in time has
  ///     a larger number, also after Redis was restored to a time before.
  /// - Returns: which came back since the last reading, in order.
  package mutating func read(_ ids: Set<String>, before: Int64?, after: Int64?) -> [String] {
    // A revocation during the last reading is in its `after`, and its key may be in its `ids`.
    if let revision, let after, after > revision { revoked.formUnion(known.subtracting(ids)) }
    let back = ids.intersection(revoked)
    defer { (known, revision, returned) = (ids, [before, revision].compactMap(\.self).max(), back) }
    return back.subtracting(returned).sorted()
  }

  package func contains(_ id: String) -> Bool { revoked.contains(id) }
}
