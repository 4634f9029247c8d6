package import PushCore

/// The result of a registration.
package enum RegistrationAnswer: Hashable, Sendable {
  /// The device is new.
  case added
  case changed
  /// Nothing to change.
  case unchanged
  /// A newer registration is known.
  case older
  /// The device or its user was forgotten, not before the registration.
  case forgotten
  /// It cannot be applied to this device.
  case refused(JobError)

  /// The label in metrics.
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
