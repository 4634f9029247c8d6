import PushCore
import Testing

/// Which retry queue a job over its device's rate waits in.
@Suite struct PostponeTests {
  private let start: Int64 = 1_796_000_000_000
  private let policy = RetryPolicy(delaysSeconds: [1, 5, 30, 120, 600], ageMaximumSeconds: 3600)

  private func now(_ seconds: Int64) -> Now {
    Now(monotonic: Instant(nanoseconds: seconds * 1_000_000_000), unixMilliseconds: start + seconds * 1000)
  }

  private func decide(_ milliseconds: Int64, age: Int64 = 0, endsIn: Int64? = nil) -> RetryPolicy.Decision {
    let times = JobTimes(enqueuedAt: start, expiration: endsIn.map { start / 1000 + age + $0 })
    return policy.postponeLimited(milliseconds: milliseconds, times, now: now(age))
  }

  @Test(arguments: [(1, 1), (1000, 1), (1001, 5), (5001, 30), (120_000, 120), (900_000, 600)] as [(Int64, Int)])
  func theQueueThatFits(wait: Int64, delay: Int) {
    #expect(decide(wait) == .again(delaySeconds: delay))
  }

  @Test(arguments: [(0, 1), (39, 1), (40, 5), (239, 5), (240, 30), (960, 120)] as [(Int64, Int)])
  func whoWaitedLongAsksSeldom(age: Int64, delay: Int) {
    #expect(decide(200, age: age) == .again(delaySeconds: delay))
  }

  @Test func neverPastItsEnd() {
    #expect(decide(2000, endsIn: 10) == .again(delaySeconds: 5))
    #expect(decide(2000, endsIn: 4) == .again(delaySeconds: 1), "5 s would be past its end, 1 s again and again is not")
    #expect(decide(2000, endsIn: 2) == .expired, "there is no room before its end")
    #expect(decide(200, endsIn: 1) == .expired, "no queue gives it back in time")
    #expect(decide(500_000, age: 3500) == .expired, "the longest age is an end too")
  }

  /// A pause's length is a guess: while a queue fits before its end, a job is tried again.
  @Test func aPauseEndsNoJobBeforeItsTime() {
    func pause(_ milliseconds: Int64, endsIn seconds: Int64) -> RetryPolicy.Decision {
      let times = JobTimes(enqueuedAt: start, expiration: start / 1000 + seconds)
      return policy.postpone(milliseconds: milliseconds, times, now: now(0))
    }
    #expect(pause(130_000, endsIn: 700) == .again(delaySeconds: 600))
    #expect(pause(130_000, endsIn: 500) == .again(delaySeconds: 120), "600 s would be past its end, the wait is not")
    #expect(pause(1_200_000, endsIn: 700) == .again(delaySeconds: 600))
    #expect(pause(15_000, endsIn: 10) == .again(delaySeconds: 5))
    #expect(pause(15_000, endsIn: 1) == .expired, "no queue gives it back in time")
    #expect(pause(.max, endsIn: 700) == .again(delaySeconds: 600))
  }

  @Test func dropSparesWhatAPNsRefused() {
    let times = JobTimes(enqueuedAt: start, expiration: nil)
    var fresh = DeliveryState()
    #expect(
      fresh.admitted(.limited(retryAfterMilliseconds: 9), times, policy: policy, dropsOverLimit: true, now: now(0))
        .isRememberFate)
    guard case .outcome(let outcome, false, nil) = fresh.ending else {
      Issue.record("\(String(describing: fresh.ending))")
      return
    }
    #expect(outcome.outcome == .throttled)
    var tried = DeliveryState(attempts: 1)
    #expect(
      tried.admitted(.limited(retryAfterMilliseconds: 9), times, policy: policy, dropsOverLimit: true, now: now(0))
        == .report)
    guard case .retry(1, nil) = tried.ending else {
      Issue.record("\(String(describing: tried.ending))")
      return
    }
  }

  @Test func whatWasSupersededEndsThrottledAndSuppressed() {
    var state = DeliveryState()
    let times = JobTimes(enqueuedAt: start, expiration: nil)
    #expect(state.admitted(.superseded, times, policy: policy, dropsOverLimit: false, now: now(0)) == .report)
    guard case .outcome(let outcome, true, nil) = state.ending else {
      Issue.record("\(String(describing: state.ending))")
      return
    }
    #expect(outcome.outcome == .throttled && outcome.sentAt == nil)
  }
}
