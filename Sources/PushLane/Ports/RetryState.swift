package import PushCore

/// The state of earlier attempts that a retry copy carries.
package struct RetryState: Sendable {
  package var attempts: UInt32
  package var firstSeen: Int64
  /// The claim under which its last attempt was admitted; 0: none.
  package var claim: UInt32
  /// As in `MessageMetadata`.
  package var redeliveries: UInt32
  package var isAmbiguous: Bool
  /// nil: the copy has all targets of the job.
  package var apnsID: UUIDValue?
  package var reason: APNsReason?

  package init(
    attempts: UInt32, firstSeen: Int64, claim: UInt32 = 0, redeliveries: UInt32 = 0, isAmbiguous: Bool,
    apnsID: UUIDValue?, reason: APNsReason?
  ) {
    self.attempts = attempts
    self.firstSeen = firstSeen
    self.claim = claim
    self.redeliveries = redeliveries
    self.isAmbiguous = isAmbiguous
    self.apnsID = apnsID
    self.reason = reason
  }
}
