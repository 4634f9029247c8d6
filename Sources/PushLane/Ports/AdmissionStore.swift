package import PushCore

/// The state that workers share: answered jobs, dead tokens, device rates. One round trip admits a (job, target).
package protocol AdmissionStore {
  /// Asks; the answer comes from `nextAdmission`, by the store's own deadline at the latest.
  mutating func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now)

  /// The turn ends: all its questions are sent together.
  mutating func flush(now: Now)

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)?

  /// Remembers a final answer: answered (job, target)s, and dead tokens. Nobody waits for it.
  mutating func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now)

  /// Remembers how a message ended without an answer of APNs, for its other deliveries and copies. Nobody waits for it.
  /// - Parameter claim: its last claim; 0: none.
  mutating func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now)

  /// APNs answered TooManyRequests for this device: nothing is sent to it for a while.
  mutating func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now)
}
