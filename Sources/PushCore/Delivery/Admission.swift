/// The admission store's decision on a (job, target) before it is sent, made in one round trip.
package enum Admission: Sendable {
  case proceed
  /// Answered before: publish the same outcome again, send nothing.
  case duplicate(RememberedOutcome)
  /// The token was marked dead at this time (Unix milliseconds), and the job does not say that it was registered later.
  case dead(unregisteredAt: Int64)
  /// Over its device's rate; there is room again after this long.
  case limited(retryAfterMilliseconds: Int64)
  /// It waited for its device's rate, and a newer job with its collapse id came in that time.
  case superseded
  /// An older job with its collapse id is being sent to APNs, where the two would race: ask again soon.
  case behind
  /// Another copy of it is being sent to APNs; its answer comes soon, or is no longer expected after this long.
  case claimed(retryAfterMilliseconds: Int64)
  /// Another copy was admitted before, and its result is unknown: APNs may have accepted it. The value inside is the decision apart from
  /// that.
  indirect case repeated(Admission)

  /// `repeated(.proceed)` made once: an indirect case allocates, and every job gets this one while Redis is down.
  private static let repeatedProceed = Admission.repeated(.proceed)

  /// This decision if another copy may have been admitted before. Decisions that are about another copy stay as they are.
  package var asRepeated: Admission {
    switch self {
    case .proceed: Admission.repeatedProceed
    case .dead, .limited, .superseded: .repeated(self)
    case .duplicate, .behind, .claimed, .repeated: self
    }
  }

  /// It may be sent, and the admission store has recorded a claim.
  package var leavesClaim: Bool {
    switch self {
    case .proceed: true
    case .repeated(let inner): inner.leavesClaim
    case .duplicate, .dead, .limited, .superseded, .behind, .claimed: false
    }
  }
}
