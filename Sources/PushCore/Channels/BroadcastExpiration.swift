/// What a broadcast's `apns-expiration` may be, and what it is where the job says nothing: the channel's storage policy
/// decides.
package enum BroadcastExpiration: Hashable, Sendable {
  /// Goes into the header.
  case value(Int64)
  /// The job is wrong, by `expiration`: the rule, with the value seen.
  case refused(String)

  /// The default of a channel with storage stays this far below eight hours: APNs' clock need not be ours.
  static let marginSeconds: Int64 = 60

  /// - Parameters:
  ///   - wanted: the job's own, Unix seconds; nil where it has none.
  ///   - storage: nil where it is not known: then APNs judges, and 0 is right for every channel.
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
