/// How a (job, target) ended: the fields of its outcome that do not come from the job.
package struct OutcomeRecord: Sendable {
  package var outcome: Outcome
  /// HTTP status of the answer; nil if APNs gave none.
  package var status: UInt16?
  package var reason: APNsReason?
  /// A message: why a job is invalid, or what failed.
  package var detail: String?
  /// `apns-unique-id`, which the sandbox gives.
  package var apnsUniqueID: UUIDValue?
  /// Requests written to APNs.
  package var attempts: UInt32
  /// An earlier attempt may have reached APNs.
  package var isAmbiguous: Bool
  /// Nothing was sent because the token was marked dead.
  package var isSuppressed: Bool
  /// Times are Unix milliseconds.
  package var unregisteredAt: Int64?
  /// nil if the message has no timestamp.
  package var enqueuedAt: Int64?
  package var receivedAt: Int64
  /// nil if nothing was sent.
  package var sentAt: Int64?
  package var completedAt: Int64
  /// Of an audience: how its devices ended.
  package var summary: AudienceSummary?
  /// Of an audience: a command ended it before all of it was sent.
  package var isCancelled = false

  package init(
    outcome: Outcome, status: UInt16? = nil, reason: APNsReason? = nil, detail: String? = nil,
    apnsUniqueID: UUIDValue? = nil, attempts: UInt32, isAmbiguous: Bool = false, isSuppressed: Bool = false,
    unregisteredAt: Int64? = nil, enqueuedAt: Int64? = nil, receivedAt: Int64, sentAt: Int64?, completedAt: Int64
  ) {
    self.outcome = outcome
    self.status = status
    self.reason = reason
    self.detail = detail
    self.apnsUniqueID = apnsUniqueID
    self.attempts = attempts
    self.isAmbiguous = isAmbiguous
    self.isSuppressed = isSuppressed
    self.unregisteredAt = unregisteredAt
    self.enqueuedAt = enqueuedAt
    self.receivedAt = receivedAt
    self.sentAt = sentAt
    self.completedAt = completedAt
  }

  /// The decision of a delivery's state, with what only the lane knows.
  package init(
    _ ending: RememberedOutcome, detail: String?, uniqueID: UUIDValue?, isSuppressed: Bool, enqueuedAt: Int64?,
    receivedAt: Int64
  ) {
    self.init(
      outcome: ending.outcome, status: ending.status, reason: ending.reason, detail: detail, apnsUniqueID: uniqueID,
      attempts: ending.attempts, isAmbiguous: ending.isAmbiguous, isSuppressed: isSuppressed,
      unregisteredAt: ending.unregisteredAt, enqueuedAt: enqueuedAt, receivedAt: receivedAt, sentAt: ending.sentAt,
      completedAt: ending.completedAt)
  }
}
