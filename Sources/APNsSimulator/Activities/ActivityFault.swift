/// A fault's effect on a Live Activity's push after APNs' answer, and on the activity that it starts.
package struct ActivityFault: Hashable, Sendable {
  /// When a device registers the update token of an activity that it started.
  package enum Registration: Hashable, Sendable {
    case after(milliseconds: Int64)
    case never
  }

  /// nil: after the ordinary delay.
  package var registration: Registration?
  /// APNs answers 200, and the device never sees the push.
  package var isLost = false
  /// The push reaches the device after the next one to the same token or channel.
  package var isReordered = false
  /// The user swipes the activity away this long after its start.
  package var swipeMilliseconds: Int64?
  /// The device gets a new update token this long after it registered the first.
  package var renewMilliseconds: Int64?

  package init() {}

  package var isEmpty: Bool { self == ActivityFault() }

  /// Takes from `other` what is absent here.
  mutating func fill(from other: ActivityFault) {
    if registration == nil { registration = other.registration }
    isLost = isLost || other.isLost
    isReordered = isReordered || other.isReordered
    if swipeMilliseconds == nil { swipeMilliseconds = other.swipeMilliseconds }
    if renewMilliseconds == nil { renewMilliseconds = other.renewMilliseconds }
  }
}
