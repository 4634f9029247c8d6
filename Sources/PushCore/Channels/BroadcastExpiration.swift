/// Decides a broadcast's `apns-expiration` by its channel's storage policy: whether the job's value is allowed, and the default.
package enum BroadcastExpiration: Hashable, Sendable {
  /// Goes into the header.
  case value(Int64)
  /// The job is invalid in `expiration`: the rule, with the value seen.
  case refused(String)

  /// The default for a channel with storage is this far below eight hours, because APNs' clock may differ from ours.
  static let marginSeconds: Int64 = 60

  /// - Parameters:
  ///   - wanted: the job's value, Unix seconds; nil if the job has none.
  ///   - storage: nil if unknown; then APNs judges, and 0 is valid for every channel.
  package static func decide(wanted: Int64?, storage: StoragePolicy?, unixSeconds now: Int64) -> BroadcastExpiration {
    guard let wanted else {
      let isStored = storage == .mostRecent
      return .value(isStored ? now + StoragePolicy.storedSecondsMaximum - marginSeconds : 0)
    }
    if wanted == 0 { return .value(0) }
    if storage == StoragePolicy.none {
      return .refused("must be 0 for a channel whose storage policy is none, not \(wanted)")
    }
    guard wanted &- now <= StoragePolicy.storedSecondsMaximum else {
      return .refused(
        """
        must be at most 8 hours ahead for a broadcast, at most \(now + StoragePolicy.storedSecondsMaximum) now, not \
        \(wanted)
        """)
    }
    return .value(wanted)
  }
}
