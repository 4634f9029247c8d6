/// What shared state says of a (job, target) before it is sent: one round trip decides all.
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
  /// This copy was asked about before: brokers hand a copy on twice where its retry queue moves, or restarts. Whoever had
  /// the other one may have sent it. Without that, what is inside.
  indirect case repeated(Admission)
}

/// The part of a final outcome that cannot be told from its job.
package struct RememberedOutcome: Hashable, Sendable {
  package var outcome: Outcome
  package var status: UInt16?
  package var reason: APNsReason?
  package var unregisteredAt: Int64?
  package var attempts: UInt32
  package var isAmbiguous: Bool
  /// Unix milliseconds; nil where nothing was sent.
  package var sentAt: Int64?
  package var completedAt: Int64

  package init(
    outcome: Outcome, status: UInt16? = nil, reason: APNsReason? = nil, unregisteredAt: Int64? = nil, attempts: UInt32,
    isAmbiguous: Bool = false, sentAt: Int64?, completedAt: Int64
  ) {
    self.outcome = outcome
    self.status = status
    self.reason = reason
    self.unregisteredAt = unregisteredAt
    self.attempts = attempts
    self.isAmbiguous = isAmbiguous
    self.sentAt = sentAt
    self.completedAt = completedAt
  }
}
