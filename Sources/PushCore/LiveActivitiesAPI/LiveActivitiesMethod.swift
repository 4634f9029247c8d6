/// The supported calls of the Live Activities API. The value is the last part of the path `/json/1.3/…`.
package enum LiveActivitiesMethod: String, CaseIterable, Sendable {
  case startLiveActivity, updateLiveActivity
  case registerDevice, unregisterDevice, registerUser, setTags, setActivityToken, setActivityPushToStartToken

  /// What the request's key must allow.
  package enum Permission: String, Sendable {
    case send, register
  }

  package var permission: Permission {
    switch self {
    case .startLiveActivity, .updateLiveActivity: .send
    case .registerDevice, .unregisterDevice, .registerUser, .setTags, .setActivityToken, .setActivityPushToStartToken:
      .register
    }
  }

  /// The error for a call that is not supported.
  static func refusal(of name: String) -> String {
    let served = allCases.map(\.rawValue)
    let hint = EditDistance.nearest(to: name, among: served).map { "did you mean \($0)?" }
    let shown = name.isEmpty ? "A call without a name" : JobError.describe(name)
    return "\(shown) is not supported; \(hint ?? "supported calls: \(served.joined(separator: ", "))")"
  }
}
