/// Limits of a device's stored data.
package enum DeviceLimits {
  /// A registration's message.
  package static let registrationBytesMaximum = 64 * 1024
  /// A device's encoded record. Limits the cost of one device, whatever sequence of registrations set its tags.
  package static let recordBytesMaximum = 16 * 1024
  package static let tagsMaximum = 100
  package static let listMembersMaximum = 50
  /// Attributes types with a push-to-start token.
  package static let startTokensMaximum = 32
  package static let timeZoneBytesMaximum = 64
  /// Tokens that got a 410 and are remembered; the newest are kept.
  package static let goneTokensMaximum = 4
  /// Increments of a device's tags that are remembered; those with the latest times are kept. Workers may store what they have
  /// prefetched for one device in any order.
  package static let incrementsMaximum = 256
  /// Removed tags, and removed push-to-start tokens, that are remembered; those with the latest times are kept.
  package static let removalsMaximum = 100
  /// Changes of a device's user that are remembered; the latest are kept.
  package static let ownersMaximum = 16
  /// How long before a device's newest registration its removals, increments and earlier users are remembered.
  package static let changesRememberedMilliseconds: Int64 = 86_400_000
  /// The largest magnitude up to which a number represents every integer exactly.
  package static let exactIntegerMaximum: Int64 = 1 << 53
  /// Earliest `at`, in September 2001: a smaller number must be Unix seconds.
  package static let timeMinimum: Int64 = 1_000_000_000_000
  /// A time further ahead of the worker's clock is not in Unix milliseconds. A time less far ahead comes from a wrong clock.
  package static let aheadMilliseconds: Int64 = 366 * 86_400_000
  /// A mark of a forget, or of a token that was given up, that is further ahead of Redis' clock comes from a wrong clock, and gives way to what
  /// comes now, no earlier than this: else it would shut a device out until then. Clocks that are right differ by less.
  package static let aheadToleranceMilliseconds: Int64 = 60_000
  /// How long a forget is remembered, seconds.
  package static let forgottenSeconds: Int64 = 86_400
  /// How long a freed ordinal is not reused, seconds: pages carry ordinals.
  package static let ordinalRestSeconds: Int64 = 86_400
}
