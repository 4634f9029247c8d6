package import PushCore

/// An admission store in one lane's memory, not shared. For `herald send` and as the embedded default, without Redis.
///
/// Its contents are lost with the process. Its tables are bounded (`AdmissionMemory.Settings.entriesMaximum`).
package final class MemoryAdmissionStore: AdmissionStore {
  private var memory: AdmissionMemory
  private var limits: RateLimits
  private var answers = AdmissionAnswers()

  package init(settings: AdmissionMemory.Settings, limits: RateLimits = .none) {
    memory = AdmissionMemory(settings: settings)
    self.limits = limits
  }

  /// Applies to later admissions.
  package func update(limits: RateLimits) {
    self.limits = limits
  }

  package func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    let request = AdmissionRequest(
      job, device: device, apnsID: apnsID, arrival: arrival, limits: limits)
    answers.append(ticket, memory.admit(request, now: now))
  }

  package func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    answers.take()
  }

  package func flush(now: Now) {}

  package func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    memory.remember(outcome, of: AdmissionRequest(device: device, apnsID: apnsID), now: now)
  }

  package func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {
    memory.rememberFate(outcome, claim: claim, of: AdmissionRequest(device: device, apnsID: apnsID), now: now)
  }

  package func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {
    guard job.targetKind != .channel else { return }
    memory.tighten(AdmissionRequest(job, device: device, limits: limits), now: now)
  }
}
