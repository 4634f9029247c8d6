package import PushCore

/// Shared state that nobody shares: one lane's memory. For `herald send` and the embedded default, without Redis.
///
/// What it remembers ends with the process. Its tables are bounded (`GateMemory.Settings.entriesMaximum`).
package final class MemorySharedState: SharedState {
  private var memory: GateMemory
  private var answers: [(ticket: Ticket, admission: Admission)] = []
  private var nextAnswer = 0

  package init(settings: GateMemory.Settings) {
    memory = GateMemory(settings: settings)
  }

  /// For what is admitted from now on; nil: no limit.
  package func update(limit: RateLimit?) {
    memory.settings.limit = limit
  }

  package func admit(_ job: borrowing PushJob, target: Int, apnsID: UUIDValue, ticket: Ticket, now: Now) {
    let request = GateRequest(job, target: target, apnsID: apnsID)
    answers.append((ticket, memory.admit(request, now: now)))
  }

  package func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard nextAnswer < answers.count else {
      answers.removeAll(keepingCapacity: true)
      nextAnswer = 0
      return nil
    }
    nextAnswer += 1
    return answers[nextAnswer - 1]
  }

  package func remember(
    _ outcome: RememberedOutcome, of job: borrowing PushJob, target: Int, apnsID: UUIDValue, now: Now
  ) {
    memory.remember(outcome, of: GateRequest(job, target: target, apnsID: apnsID), now: now)
  }
}
