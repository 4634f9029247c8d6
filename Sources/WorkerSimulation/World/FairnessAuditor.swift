/// Fairness: a tenant whose APNs is in trouble holds up nobody else. With N of its targets in front, a job of another tenant has its
/// outcome within 2 s + N × 0.2 ms, unless something that the job itself needs fails meanwhile.
package final class FairnessAuditor {
  private struct Punctual {
    let id: String
    let publishedAt: Int64
    /// When it is late.
    let dueAt: Int64
  }

  private var punctual: [Punctual] = []
  private var reportedAt: [String: Int64] = [:]
  /// Targets without an outcome, by job of the tenant in trouble.
  private var inFront: [String: Int] = [:]
  private var inFrontCount = 0
  private var disturbances: [ClosedRange<Int64>] = []
  /// Jobs that had to be on time.
  package private(set) var checkedCount = 0

  private static let usualNanoseconds: Int64 = 2_000_000_000
  private static let nanosecondsPerTarget: Int64 = 200_000
  /// From the end of a fault until everything goes as before: what waits for a claim, a retry or a reconnection is over.
  private static let recoveryNanoseconds: Int64 = 40_000_000_000

  func published(_ job: SimulatedJob, at now: Int64) {
    switch job.tenant {
    case nil: return
    case .stuck:
      guard inFront[job.id] == nil else { return }
      inFront[job.id] = job.targets.count
      inFrontCount += job.targets.count
    case .punctual:
      let allowed = FairnessAuditor.usualNanoseconds + FairnessAuditor.nanosecondsPerTarget * Int64(inFrontCount)
      punctual.append(Punctual(id: job.id, publishedAt: now, dueAt: now + allowed))
    }
  }

  /// Something fails that every job needs.
  func disturbed(from start: Int64, forNanoseconds span: Int64) {
    disturbances.append(start...start + span + FairnessAuditor.recoveryNanoseconds)
  }

  func observe(_ event: SimulatedRabbitMQEvent, at now: Int64) {
    guard !inFront.isEmpty || !punctual.isEmpty, case .stored(let queue, let message) = event,
      queue.hasSuffix(".results.log"), let id = WorkerAuditor.text("job_id", in: message.body)
    else { return }
    if reportedAt[id] == nil { reportedAt[id] = now }
    if let count = inFront[id], count > 0 {
      inFront[id] = count - 1
      inFrontCount -= 1
    }
  }

  /// Checks everything after the end.
  func finish() -> [String] {
    punctual.compactMap { job in
      if disturbances.contains(where: { $0.overlaps(job.publishedAt...job.dueAt) }) { return nil }
      checkedCount += 1
      guard let reported = reportedAt[job.id] else { return "a healthy pool's job has no outcome: \(job.id)" }
      if reported <= job.dueAt { return nil }
      let (took, allowed) = (reported - job.publishedAt, job.dueAt - job.publishedAt)
      return "a healthy pool's job waited for others: \(job.id), \(took / 1_000_000) of \(allowed / 1_000_000) ms"
    }
  }
}
