/// The result of reading a request.
package struct LiveActivitiesReading: Hashable, Sendable {
  /// The key that came with the request, and what it must allow.
  package struct Access: Hashable, Sendable {
    package let token: String
    package let permission: LiveActivitiesMethod.Permission
    package let scope: AppScope
  }

  package enum Decision: Hashable, Sendable {
    case answer(LiveActivitiesAnswer)
    case plan(LiveActivitiesPlan)
  }

  /// Check it first: if the key is invalid or not allowed, answer `unknownAccount` or `forbidden` instead of the decision. nil: the answer
  /// needs no key.
  package let access: Access?
  package let decision: Decision

  /// An answer that needs no key.
  static func open(_ answer: LiveActivitiesAnswer) -> LiveActivitiesReading {
    LiveActivitiesReading(access: nil, decision: .answer(answer))
  }
}
