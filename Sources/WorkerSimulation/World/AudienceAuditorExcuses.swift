/// What excuses an end that a job must not have otherwise: its outcome's text, what else came, and when faults were that leave doubts.
extension AudienceAuditor {
  /// How long after a fault something that was under way may still come.
  static let doubtMilliseconds: Int64 = 30_000
  /// A job of an activity that is not known is not refused before: half a minute, less the time that its last wait may lack.
  private static let earlyMilliseconds: Int64 = 25_000

  /// Redis lost data while the job was in progress, or its messages went.
  func isLossy(_ job: Job) -> Bool {
    job.mayBeLost || losses.contains { $0.overlaps(job.publishedAt...max(job.publishedAt, job.seenAt)) }
  }

  /// A worker's clock was wrong while the job was in progress.
  func hasWrongClock(_ job: Job) -> Bool {
    wrongClocks.contains { $0.overlaps(job.publishedAt...max(job.publishedAt, job.seenAt)) }
  }

  /// Redis lost data of the activity, or a clock was wrong, while something of it came.
  func isDoubtful(_ activity: String) -> Bool {
    guard let life = lives[activity] else { return false }
    return isLossy(activity) || wrongClocks.contains { $0.overlaps(life) }
  }

  /// Redis lost data while something of the activity came.
  func isLossy(_ activity: String) -> Bool {
    guard let life = lives[activity] else { return false }
    return losses.contains { $0.overlaps(life) }
  }

  /// The job expired by a wrong clock, a worker's or Redis', or in a late copy: one whose confirm was lost after its handover is delivered
  /// again, and after a storm of lost connections a copy waits for so many others that it is over.
  func hasExpiredEarly(_ outcome: String, _ job: Job) -> Bool {
    guard outcome.contains("\"outcome\":\"expired\""), AudienceAuditor.summary(outcome) == nil else { return false }
    let completedAt = WorkerAuditor.number("completed_at", in: Array(outcome.utf8)) ?? 0
    if let expiration = job.job.expiration, completedAt >= expiration * 1_000 { return true }
    let age = completedAt - job.publishedAt
    return hasWrongClock(job) || job.isRepeated || !faults.isDisjoint(with: [.dropConfirms, .jumpRedisClock])
      || age >= WorkerWorld.ageMaximumSeconds * 1_000
  }

  /// A job of an activity may be overtaken, or its activity may have ended, or not have started: the text says which.
  func isExcused(_ outcome: String, _ job: Job) -> Bool {
    guard AudienceAuditor.summary(outcome) == nil, !outcome.contains("\"outcome\":\"expired\"") else { return false }
    if outcome.contains("\"outcome\":\"throttled\"") { return isOvertaken(job) }
    guard job.job.push != nil, outcome.contains("\"outcome\":\"invalid\"") else { return false }
    if hasWrongClock(job) { return true }
    if outcome.contains("is not known") {
      return job.job.push != .start
        && !isKnown(job.job.activity, at: job.publishedAt + AudienceAuditor.earlyMilliseconds)
    }
    return outcome.contains("has ended") && jobs.values.contains { mayHaveEnded($0, job) }
  }

  /// The end came before the job: by the producer's numbers, where both have one. One that was cancelled, and not sent, ends nothing once that
  /// is known.
  private func mayHaveEnded(_ end: Job, _ job: Job) -> Bool {
    guard end.job.push == .end, end.job.activity == job.job.activity, end.job.id != job.job.id,
      end.publishedAt <= job.endedAt ?? .max
    else { return false }
    if end.isUndone, let endedAt = end.endedAt, endedAt + AudienceAuditor.underWayMilliseconds < job.publishedAt {
      return false
    }
    guard let sequence = job.job.sequence, let last = end.job.sequence else { return true }
    return last < sequence
  }

  /// An activity that is not known may be started by a job that is on its way: a job waits for that.
  func judgeEarly(_ outcome: String, _ id: String, _ age: Int64) {
    guard outcome.contains("is not known"), let job = jobs[id], job.outcomes.count == 1, !job.isRepeated else { return }
    if age < AudienceAuditor.earlyMilliseconds, !job.mayBeLost,
      !losses.contains(where: { $0.contains(job.publishedAt + age) })
    {
      fail("refused after \(age) ms, while its start may have been on its way: \(id)")
    }
  }

  /// An activity was started before, or a device had registered a token for it.
  private func isKnown(_ activity: String, at time: Int64) -> Bool {
    jobs.values.contains { job in
      job.job.activity == activity && job.job.push == .start && !isLossy(job) && job.endedAt.map { $0 < time } == true
        && job.outcomes.contains { AudienceAuditor.summary($0) != nil }
    }
      || members.contains { member, records in
        member.activity == activity && records.contains { !$0.token.isEmpty && $0.storedAt.map { $0 < time } == true }
      }
  }
}
