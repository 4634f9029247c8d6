/// When a job is tried again, and when it is given up.
import PushCore
import Testing

@Suite struct RetryPolicyTests {
  private let policy = RetryPolicy()
  private let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 1_796_000_000_000)

  private func decide(_ attempts: UInt32, age: Int64 = 0, expiration: Int64? = nil) -> RetryPolicy.Decision {
    policy.decide(attempts: attempts, enqueuedAt: now.unixMilliseconds - age * 1000, expiration: expiration, now: now)
  }

  @Test func waitsLongerFromAttemptToAttempt() {
    for (attempts, delay) in [(0, 1), (1, 1), (2, 5), (3, 30), (4, 120), (5, 600)] as [(UInt32, Int)] {
      #expect(decide(attempts) == .again(delaySeconds: delay))
    }
    #expect(decide(6) == .exhausted)
    #expect(decide(.max) == .exhausted)
  }

  /// Neither longer than the pool has been stuck nor than the job is old.
  @Test func aStuckPoolsJobsComeBackLessAndLessOften() {
    func postpone(stuck: Int64, age: Int64, expiration: Int64? = nil) -> RetryPolicy.Decision {
      let times = JobTimes(enqueuedAt: now.unixMilliseconds - age * 1000, expiration: expiration)
      return policy.postpone(stuckMilliseconds: stuck * 1000, times, now: now)
    }
    for (seconds, delay) in [(0, 1), (4, 1), (5, 5), (29, 5), (30, 30), (119, 30), (120, 120), (900, 600)]
      as [(Int64, Int)]
    {
      #expect(postpone(stuck: seconds, age: 1_000) == .again(delaySeconds: delay))
      #expect(postpone(stuck: 10_000, age: seconds) == .again(delaySeconds: delay))
    }
    #expect(postpone(stuck: 40, age: 40, expiration: now.unixSeconds + 10) == .again(delaySeconds: 5))
    #expect(postpone(stuck: 40, age: 40, expiration: now.unixSeconds + 1) == .expired)
  }

  @Test func endsWithTheLongestAge() {
    #expect(decide(5, age: 2999) == .again(delaySeconds: 600))
    #expect(decide(5, age: 3000) == .again(delaySeconds: 120))
    #expect(decide(5, age: 3598) == .again(delaySeconds: 1))
    #expect(decide(5, age: 3599) == .expired)
    #expect(decide(1, age: 100_000) == .expired)
    #expect(decide(6, age: 100_000) == .exhausted)
  }

  @Test func endsWithTheExpiration() {
    #expect(decide(3, expiration: now.unixSeconds + 31) == .again(delaySeconds: 30))
    #expect(decide(3, expiration: now.unixSeconds + 30) == .again(delaySeconds: 5))
    #expect(decide(3, expiration: now.unixSeconds + 1) == .expired)
    #expect(decide(3, expiration: now.unixSeconds - 5) == .expired)
    #expect(decide(3, expiration: 0) == .again(delaySeconds: 30))
    #expect(policy.isExpired(enqueuedAt: now.unixMilliseconds, expiration: now.unixSeconds, now: now))
    #expect(!policy.isExpired(enqueuedAt: now.unixMilliseconds, expiration: now.unixSeconds + 1, now: now))
  }

  @Test func numbersFromOutsideDoNotTrap() {
    for number in [Int64.min, -1, 0, 1, Int64.max] {
      _ = policy.decide(attempts: 1, enqueuedAt: number, expiration: number, now: now)
    }
  }

  /// A policy and the times of a job, from a seed.
  private struct Case {
    let policy: RetryPolicy
    let times: JobTimes
    /// Milliseconds until it expires.
    let left: Int64

    init(_ random: inout SeededRandom, now: Now) {
      func pick(_ range: ClosedRange<Int64>) -> Int64 { .random(in: range, using: &random) }
      let delays = Set((0..<pick(1...16)).map { _ in Int(pick(1...[5, 60, 86_400][Int(pick(0...2))])) })
      policy = RetryPolicy(
        delaysSeconds: Array(delays), attemptsMaximum: UInt32(pick(1...100)), ageMaximumSeconds: pick(1...100_000))
      let age = pick(0...120_000)
      let expiration = pick(0...2) == 0 ? nil : now.unixSeconds + pick(-10...2000)
      times = JobTimes(enqueuedAt: now.unixMilliseconds - age * 1000, expiration: expiration)
      left = min(policy.ageMaximumSeconds - age, expiration.map { $0 - now.unixSeconds } ?? .max) * 1000
    }

    /// The longest delay up to this one that ends before the job expires.
    func longest(upTo delay: Int) -> RetryPolicy.Decision {
      let fitting = policy.delaysSeconds.last { $0 <= delay && Int64($0) * 1000 < left }
      return fitting.map { .again(delaySeconds: $0) } ?? .expired
    }
  }

  private func seconds(_ decision: RetryPolicy.Decision) -> Int {
    switch decision {
    case .again(let delaySeconds): delaySeconds
    case .expired: 0
    case .exhausted: .max
    }
  }

  /// Against another statement of the rule: the n-th retry waits in the n-th queue, or in the longest earlier one that the
  /// job outlives.
  @Test(arguments: 0..<20 as Range<UInt64>) func theNthRetryWaitsInTheNthQueueAndNeverPastTheEnd(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    for _ in 0..<200 {
      let one = Case(&random, now: now)
      let delays = one.policy.delaysSeconds
      var last = 0
      for attempts in 0..<one.policy.attemptsMaximum {
        let decision = one.policy.decide(
          attempts: attempts, enqueuedAt: one.times.enqueuedAt, expiration: one.times.expiration, now: now)
        let nth = delays[min(max(Int(attempts), 1), delays.count) - 1]
        #expect(decision == one.longest(upTo: nth), "\(one), attempt \(attempts)")
        #expect(seconds(decision) >= last)
        last = seconds(decision)
      }
      #expect(
        one.policy.decide(
          attempts: one.policy.attemptsMaximum, enqueuedAt: one.times.enqueuedAt, expiration: one.times.expiration,
          now: now) == .exhausted)
    }
  }

  /// A requested wait: the nearest queue that is long enough, else the longest; a shorter one if the job would not
  /// outlive it, and never one beyond its expiration.
  @Test(arguments: 0..<20 as Range<UInt64>) func aWaitTakesTheNearestQueueAndNeverPastTheEnd(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for _ in 0..<200 {
      let one = Case(&random, now: now)
      let delays = one.policy.delaysSeconds
      let longest = try #require(delays.last)
      var last = 0
      for wait in (0..<10).map({ _ in Int64.random(in: 0...2_000_000, using: &random) }).sorted() {
        let nearest = delays.first { Int64($0) * 1000 >= wait } ?? longest
        let decision = one.policy.postpone(milliseconds: wait, one.times, now: now)
        #expect(decision == one.longest(upTo: nearest), "\(one), \(wait) ms")
        #expect(seconds(decision) >= last)
        last = seconds(decision)
        let limited = one.policy.postponeLimited(milliseconds: wait, one.times, now: now)
        if limited == .expired {
          #expect(wait >= one.left - 1000 || decision == .expired, "\(one), \(wait) ms")
        } else {
          #expect(delays.contains(seconds(limited)) && Int64(seconds(limited)) * 1000 < one.left)
        }
      }
    }
  }
}
