package import PushCore

/// What replicas agree on: answered jobs, dead tokens, device rates. One round trip admits a (job, target).
package protocol AdmissionStore {
  /// Asks; the answer comes from `nextAdmission`, at the latest after the state's own deadline.
  mutating func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now)

  /// The turn ends: what it asked for goes out, together.
  mutating func flush(now: Now)

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)?

  /// Remembers a final answer: answered (job, target)s, and dead tokens. Nobody waits for it.
  mutating func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now)

  /// APNs refused a request as one too many for its device: the device is left alone for a while.
  mutating func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now)
}
