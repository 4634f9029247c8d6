package import PushCore

/// What became of a registration.
package enum DeviceAnswer: Hashable, Sendable {
  /// The device is known now.
  case added
  case changed
  /// Everything was so already.
  case unchanged
  /// Something newer is known.
  case older
  /// The device, or its user, was forgotten since.
  case forgotten
  /// It cannot be applied to this device.
  case refused(JobError)
}
