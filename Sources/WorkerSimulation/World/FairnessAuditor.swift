/// Fairness: a tenant whose APNs is in trouble, or whose outcomes are refused, holds up nobody else. With N of its targets in front, a job of another tenant has its
/// outcome within 2 s + N × 0.2 ms (with a small prefetch P, N × 80 ms / P), unless something that the job itself needs fails meanwhile. The time begins once the fleet may have its
/// first provider token: until then no job of any tenant is sent.
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
  /// When the first job of a tenant was published.
  private var firstAt: Int64?
  /// Jobs that had to be on time.
  package private(set) var checkedCount = 0

  private static let usualNanoseconds: Int64 = 2_000_000_000
  private let nanosecondsPerTarget: Int64
  /// How long the first of several workers waits before it makes a key's first token: one that Redis lost may come back.
  private static let firstTokenNanoseconds: Int64 = 2_000_000_000
  /// From the end of a fault until everything goes as before: what waits for a claim, a retry or a reconnection is over.
  private static let recoveryNanoseconds: Int64 = 40_000_000_000

  /// - Parameter prefetch: of each lane.
  init(prefetch: Int) { nanosecondsPerTarget = max(200_000, 80_000_000 / Int64(prefetch)) }

  func published(_ job: SimulatedJob, at now: Int64) {
    guard let tenant = job.tenant else { return }
    let first = firstAt ?? now
    firstAt = first
    switch tenant {
    case .stuck:
      guard inFront[job.id] == nil else { return }
      inFront[job.id] = job.targets.count
      inFrontCount += job.targets.count
    case .punctual:
      let allowed = FairnessAuditor.usualNanoseconds + nanosecondsPerTarget * Int64(inFrontCount)
      let from = max(now, first + FairnessAuditor.firstTokenNanoseconds)
      punctual.append(Punctual(id: job.id, publishedAt: now, dueAt: from + allowed))
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
