/// When a job is tried again, and when it is given up.
import PushCore
import Testing

@Suite struct RetryPolicyTests {
  private let policy = RetryPolicy()
  private let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 1_796_000_000_000)

  private func decide(_ attempts: UInt32, age: Int64 = 0, expiration: Int64? = nil, random: UInt64 = 1)
    -> RetryPolicy.Decision
  {
    policy.decide(
      attempts: attempts, firstSeen: now.unixMilliseconds - age * 1000, expiration: expiration, now: now, random: random
    )
  }

  @Test func waitsLongerFromAttemptToAttempt() {
    for (attempts, delay) in [(0, 1), (1, 1), (2, 5), (3, 30), (4, 120), (5, 600)] as [(UInt32, Int)] {
      #expect(decide(attempts) == .again(delaySeconds: delay))
    }
    #expect(decide(6) == .exhausted)
    #expect(decide(.max) == .exhausted)
  }

  @Test func jitterMovesOneInFourToTheNextQueue() {
    var counts: [Int: Int] = [:]
    var random = SeededRandom(seed: 7)
    for _ in 0..<4000 {
      if case .again(let delay) = decide(2, random: random.next()) { counts[delay, default: 0] += 1 }
    }
    #expect(Set(counts.keys) == [5, 30])
    #expect((800...1200).contains(counts[30] ?? 0))
    #expect(decide(5, random: 0) == .again(delaySeconds: 120))
    let single = RetryPolicy(delaysSeconds: [7])
    #expect(
      single.decide(attempts: 3, firstSeen: now.unixMilliseconds, expiration: nil, now: now, random: 0)
        == .again(delaySeconds: 7))
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
    #expect(policy.isExpired(firstSeen: now.unixMilliseconds, expiration: now.unixSeconds, now: now))
    #expect(!policy.isExpired(firstSeen: now.unixMilliseconds, expiration: now.unixSeconds + 1, now: now))
  }

  @Test func numbersFromOutsideDoNotTrap() {
    for number in [Int64.min, -1, 0, 1, Int64.max] {
      _ = policy.decide(attempts: 1, firstSeen: number, expiration: number, now: now, random: 0)
    }
  }
}
