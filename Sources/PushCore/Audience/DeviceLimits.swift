/// Bounds of what is kept of a device.
package enum DeviceLimits {
  /// A registration's message.
  package static let registrationBytesMaximum = 64 * 1024
  /// A device's packed record. It bounds what one device costs, however its tags came together.
  package static let recordBytesMaximum = 16 * 1024
  /// `device`, `user`, `activity`.
  package static let idBytesMaximum = 128
  package static let tagsMaximum = 100
  package static let listMembersMaximum = 50
  /// Attributes types with a push-to-start token.
  package static let startTokensMaximum = 32
  package static let timeZoneBytesMaximum = 64
  /// Tokens that got a 410 and are remembered, the newest ones.
  package static let goneTokensMaximum = 4
  /// The largest magnitude up to which each integer is a number of its own as a tag.
  package static let exactIntegerMaximum: Int64 = 1 << 53
  /// `at` is never before September 2001: so small a number is Unix seconds.
  package static let timeMinimum: Int64 = 1_000_000_000_000
  /// What is further ahead of the worker's clock is no time in Unix milliseconds. Less is a clock that is wrong, and harms nobody for long
  /// (`DeviceChange`).
  package static let aheadMilliseconds: Int64 = 366 * 86_400_000
  /// How long a forgotten device or user is remembered as such, seconds.
  package static let forgottenSeconds: Int64 = 86_400
  /// An ordinal that became free is given to no other device for so long, seconds: pages carry ordinals.
  package static let ordinalRestSeconds: Int64 = 86_400
}
