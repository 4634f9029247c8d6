import PushCore
import Testing

/// A lane's memory while the wall clock is set: it counts by the monotonic clock.
struct AdmissionMemoryClockTests {
  private static let start: Int64 = 1_800_000_000_000

  /// - Parameter ahead: how wrong the wall clock is, in seconds.
  private func now(_ seconds: Int64, ahead: Int64 = 0) -> Now {
    Now(
      monotonic: Instant(nanoseconds: seconds * 1_000_000_000),
      unixMilliseconds: AdmissionMemoryClockTests.start + (seconds + ahead) * 1000)
  }

  private func request(_ job: UInt64, claim: UInt32, perSecond: Double? = nil) -> AdmissionRequest {
    let limit = perSecond.flatMap { RateLimit(burst: 1, perSecond: $0) }
    var request = AdmissionRequest(
      device: TargetKey(high: 1, low: 1), apnsID: UUIDValue(high: job, low: 0), registeredAt: 0,
      isRated: limit != nil, rule: RateRule(app: [], pushType: nil, limit: limit, number: 0))
    request.claim = claim
    return request
  }

  /// A copy waits a minute for the answer of one that was sent by a clock two hours ahead, or behind.
  @Test(arguments: [7200, -7200] as [Int64]) func aClaimEnds(ahead: Int64) {
    var memory = AdmissionMemory(settings: AdmissionMemory.Settings())
    let first = memory.admit(request(1, claim: 7), now: now(100, ahead: ahead))
    #expect("\(first)" == "proceed")
    let early = memory.recall(request(1, claim: 8), now: now(159)).map { "\($0)" }
    #expect(early == "claimed(retryAfterMilliseconds: 1000)")
    let late = memory.recall(request(1, claim: 8), now: now(160)).map { "\($0)" }
    #expect(late == nil)
    let (mightRecall, mayRecall) = (memory.mayRecall(now: now(159)), memory.mayRecall(now: now(160)))
    #expect(mightRecall && !mayRecall)
  }

  /// Redis was away while the newer job was sent, and does not know it.
  @Test func aPlaceIsRecalled() {
    var memory = AdmissionMemory(settings: AdmissionMemory.Settings())
    func job(_ sequence: Int64) -> AdmissionRequest {
      var request = request(UInt64(sequence), claim: UInt32(sequence), perSecond: 1)
      request.collapse = 7
      request.order = JobOrder(sequence: sequence, timestamp: nil, point: 0)
      return request
    }
    let isQuiet = !memory.mayRecall(now: now(0))
    let newer = memory.admit(job(2), now: now(0))
    #expect(isQuiet && "\(newer)" == "proceed")
    let (older, newest) = (memory.recall(job(1), now: now(1)), memory.recall(job(3), now: now(1)))
    // Another copy may have been answered.
    #expect(older.map { "\($0)" } == "repeated(PushCore.Admission.superseded)" && newest.map { "\($0)" } == nil)
    let (mightRecall, mayRecall) = (memory.mayRecall(now: now(21_500)), memory.mayRecall(now: now(21_700)))
    #expect(mightRecall && !mayRecall)
  }

  @Test(arguments: [7200, -7200] as [Int64]) func aRateGoesOn(ahead: Int64) {
    var memory = AdmissionMemory(settings: AdmissionMemory.Settings())
    let first = memory.admit(request(1, claim: 1, perSecond: 0.1), now: now(100, ahead: ahead))
    #expect("\(first)" == "proceed")
    let early = memory.admit(request(2, claim: 2, perSecond: 0.1), now: now(101))
    #expect("\(early)" == "limited(retryAfterMilliseconds: 9000)")
    let late = memory.admit(request(2, claim: 3, perSecond: 0.1), now: now(110))
    #expect("\(late)" == "proceed")
  }

  /// APNs answered TooManyRequests: nothing for half a minute.
  @Test(arguments: [7200, -7200] as [Int64]) func aRefusalEnds(ahead: Int64) {
    var memory = AdmissionMemory(settings: AdmissionMemory.Settings())
    var wanted = request(1, claim: 1)
    wanted.isRated = true
    memory.tighten(wanted, now: now(100, ahead: ahead))
    let early = memory.admit(wanted, now: now(120))
    #expect("\(early)" == "limited(retryAfterMilliseconds: 10000)")
    let late = memory.admit(wanted, now: now(130))
    #expect("\(late)" == "proceed")
  }

  @Test(arguments: [7200, -7200] as [Int64]) func anAnswerIsRemembered(ahead: Int64) {
    var settings = AdmissionMemory.Settings()
    settings.outcomeSeconds = 3600
    var memory = AdmissionMemory(settings: settings)
    let outcome = RememberedOutcome(
      outcome: .accepted, attempts: 1, isAmbiguous: false, sentAt: 1, completedAt: 2)
    memory.remember(outcome, of: request(1, claim: 1), now: now(100, ahead: ahead))
    let early = memory.admit(request(1, claim: 2), now: now(3699))
    #expect("\(early)".hasPrefix("duplicate"))
    let late = memory.admit(request(1, claim: 2), now: now(3700))
    #expect("\(late)" == "proceed")
  }
}
