/// How a (job, target) ended. Every one ends in exactly one of these.
package enum Outcome: UInt8, CaseIterable, Sendable {
  /// APNs answered 200: accepted, not yet on the device.
  case accepted
  /// APNs refused for good.
  case rejected
  /// APNs answered 410, or the token was marked dead and nothing was sent.
  case unregistered
  /// The job's expiration or the longest age passed before it could be sent.
  case expired
  /// Over its device's rate, with `on_limit: drop`.
  case throttled
  /// The job itself is wrong.
  case invalid
  /// Still failing after the last attempt; the job is also a dead letter.
  case failed
  /// A job for an audience: every device of it has its end.
  case completed

  /// The word on the wire, as text that costs nothing to append.
  package var name: String {
    switch self {
    case .accepted: "accepted"
    case .rejected: "rejected"
    case .unregistered: "unregistered"
    case .expired: "expired"
    case .throttled: "throttled"
    case .invalid: "invalid"
    case .failed: "failed"
    case .completed: "completed"
    }
  }
}
