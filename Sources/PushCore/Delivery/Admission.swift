/// What the admission store says of a (job, target) before it is sent: one round trip decides all.
package enum Admission: Sendable {
  case proceed
  /// Answered before: publish the same again, send nothing.
  case duplicate(RememberedOutcome)
  /// The token was marked dead at this time (Unix milliseconds) and the job does not say that it registered later.
  case dead(unregisteredAt: Int64)
  /// Over its device's rate; there is room again after this long.
  case limited(retryAfterMilliseconds: Int64)
  /// It waited for its device's rate, and a newer job with its collapse id came meanwhile.
  case superseded
  /// Another copy of it is on its way to APNs now: its answer is known soon, or not expected any more after this long.
  case claimed(retryAfterMilliseconds: Int64)
  /// Another copy was admitted before, and what became of it is not known: APNs may have accepted that one. Without that,
  /// what is inside.
  indirect case repeated(Admission)

  /// `repeated(.proceed)` made once: an indirect case allocates, and while Redis is away every job is admitted so.
  private static let repeatedProceed = Admission.repeated(.proceed)

  /// The same where another copy may have been admitted before. What names another copy stays as it is.
  package var asRepeated: Admission {
    switch self {
    case .proceed: Admission.repeatedProceed
    case .dead, .limited, .superseded: .repeated(self)
    case .duplicate, .claimed, .repeated: self
    }
  }

  /// It may be sent, and the admission store knows that it is on its way.
  package var leavesClaim: Bool {
    switch self {
    case .proceed: true
    case .repeated(let inner): inner.leavesClaim
    case .duplicate, .dead, .limited, .superseded, .claimed: false
    }
  }
}
