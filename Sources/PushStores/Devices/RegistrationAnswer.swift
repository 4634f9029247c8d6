package import PushCore

/// What became of a registration.
package enum RegistrationAnswer: Hashable, Sendable {
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

  /// As metrics have it.
  package var word: String {
    switch self {
    case .added: "added"
    case .changed: "changed"
    case .unchanged: "unchanged"
    case .older: "older"
    case .forgotten: "forgotten"
    case .refused: "invalid"
    }
  }
}
