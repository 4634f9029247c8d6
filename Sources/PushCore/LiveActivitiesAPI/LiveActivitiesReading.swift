/// A request as it was understood.
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

  /// To check before anything is done or told: `unknownAccount` or `forbidden` takes the decision's place. nil: the answer is for everybody.
  package let access: Access?
  package let decision: Decision

  /// An answer that needs no key.
  static func open(_ answer: LiveActivitiesAnswer) -> LiveActivitiesReading {
    LiveActivitiesReading(access: nil, decision: .answer(answer))
  }
}
