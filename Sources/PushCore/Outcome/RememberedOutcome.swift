/// The part of a final outcome that does not follow from its job.
package struct RememberedOutcome: Hashable, Sendable {
  package var outcome: Outcome
  package var status: UInt16?
  package var reason: APNsReason?
  package var unregisteredAt: Int64?
  package var attempts: UInt32
  package var isAmbiguous: Bool
  /// Unix milliseconds; nil if nothing was sent.
  package var sentAt: Int64?
  package var completedAt: Int64
  /// APNs said that the token is gone, but it was registered after the time in the answer, so other jobs are not concerned. Not stored with
  /// the outcome: it matters only when the outcome is first remembered.
  package var isRegisteredSince: Bool

  package init(
    outcome: Outcome, status: UInt16? = nil, reason: APNsReason? = nil, unregisteredAt: Int64? = nil, attempts: UInt32,
    isAmbiguous: Bool = false, sentAt: Int64?, completedAt: Int64, isRegisteredSince: Bool = false
  ) {
    self.outcome = outcome
    self.status = status
    self.reason = reason
    self.unregisteredAt = unregisteredAt
    self.attempts = attempts
    self.isAmbiguous = isAmbiguous
    self.sentAt = sentAt
    self.completedAt = completedAt
    self.isRegisteredSince = isRegisteredSince
  }
}
