/// A set of an app's devices. The registry stores each set as ordinals. All lookups of devices combine such sets: one
/// device by its id, a user's devices, a segment.
package enum DeviceSet: Hashable, Sendable {
  case everyone
  /// The device with this id: at most one.
  case id(String)
  /// The device with this alert token (the token's bytes): at most one.
  case token([UInt8])
  /// The device with this push-to-start token (the token's bytes), for whichever attributes type: at most one.
  case startToken([UInt8])
  case user(String)
  case hasToken
  /// Has a push-to-start token for this attributes type; `*`: one for any type.
  case hasPushToStart(String)
  /// Lower case, with hyphens: `en-gb`. A device is in the set of its locale and in those of all shorter forms (`en`).
  case locale(String)
  /// One set for each version; `os_at_least` is a union.
  case osVersion(OSVersion)
  /// Last seen on this day, counted from 1 January 1970 UTC.
  case seen(day: Int32)
  /// The tag is this text, or a list that contains it.
  case tagText(String, String)
  case tagFlag(String, Bool)
  case tagExists(String)
  /// The tag is a number.
  case tagIsNumber(String)
  /// The tag is a number with this bit set in its sortable form (`SortableNumber`): bit 63 is the most significant.
  case tagBit(String, UInt8)

  /// Sets are equal if they have the same name, which is a hash of bytes: equal strings may have different bytes.
  package static func == (left: DeviceSet, right: DeviceSet) -> Bool { DeviceSetName(left) == DeviceSetName(right) }

  package func hash(into hasher: inout Hasher) { hasher.combine(DeviceSetName(self)) }
}

/// An operating system's version, up to three numbers.
package struct OSVersion: Hashable, Comparable, Sendable {
  package var major: UInt16
  package var minor: UInt16
  package var patch: UInt16

  package init(major: UInt16, minor: UInt16 = 0, patch: UInt16 = 0) {
    self.major = major
    self.minor = minor
    self.patch = patch
  }

  package static func < (left: OSVersion, right: OSVersion) -> Bool {
    (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
  }
}

/// A number as 64 bits with the same sort order.
package enum SortableNumber {
  /// - Parameter number: finite.
  package static func bits(_ number: Double) -> UInt64 {
    precondition(number.isFinite, "a tag's number is finite")
    let pattern = (number == 0 ? 0 : number).bitPattern
    return pattern >> 63 == 1 ? ~pattern : pattern | 1 << 63
  }
}
