import PushCore
import Testing

/// GCRA: the window property under seeded traffic, redeliveries, limits that are none.
struct RateStateTests {
  @Test func aLimitNeedsPositiveNumbers() {
    #expect(RateLimit(burst: 0, perSecond: 1) == nil)
    #expect(RateLimit(burst: 1, perSecond: 0) == nil)
    #expect(RateLimit(burst: 1, perSecond: -1) == nil)
    #expect(RateLimit(burst: 1, perSecond: .nan) == nil)
    #expect(RateLimit(burst: 1, perSecond: .infinity) == nil)
    #expect(RateLimit(burst: 1, perSecond: 1e-9) == nil)
    #expect(RateLimit(burst: .max, perSecond: 1) == nil)
    let limit = RateLimit(burst: 10, perSecond: 3)
    #expect(limit?.intervalMicroseconds == 333_334)
    #expect(limit?.toleranceMicroseconds == 3_000_006)
  }

  @Test func aShareGivesAtMostItsPart() throws {
    let limit = try #require(RateLimit(burst: 10, perSecond: 2))
    let share = limit.share(of: 4)
    #expect(share.burst == 2)
    #expect(share.intervalMicroseconds == 2_000_000)
    #expect(limit.share(of: 100).burst == 1)
  }

  @Test func aBurstThenOneAnInterval() throws {
    let limit = try #require(RateLimit(burst: 3, perSecond: 1))
    var state = RateState(run: 1)
    let start: Int64 = 1_796_000_000_000_000
    func charge(_ after: Int64) -> RateState.Answer {
      state.charge(inRun: nil, limit: limit, nowMicroseconds: start + after)
    }
    for _ in 0..<3 { #expect(charge(0) == .proceed) }
    #expect(charge(0) == .limited(retryAfterMilliseconds: 1000))
    #expect(charge(999_000) == .limited(retryAfterMilliseconds: 1))
    #expect(charge(1_000_000) == .proceed)
    #expect(charge(1_000_000) == .limited(retryAfterMilliseconds: 1000))
  }

  @Test func whatWasChargedInThisRunCostsNothing() throws {
    let limit = try #require(RateLimit(burst: 1, perSecond: 0.001))
    var state = RateState(run: 7)
    let start: Int64 = 1_796_000_000_000_000
    #expect(state.charge(inRun: nil, limit: limit, nowMicroseconds: start) == .proceed)
    let arrival = state.arrivalMicroseconds
    #expect(state.charge(inRun: 7, limit: limit, nowMicroseconds: start + 5) == .proceed)
    #expect(state.arrivalMicroseconds == arrival)
    let full = RateState.Answer.limited(retryAfterMilliseconds: 1_000_000)
    #expect(state.charge(inRun: 6, limit: limit, nowMicroseconds: start + 5) == full)
    let tight = RateState(tight: 1_000_000, after: state, run: 8, limit: limit, nowMicroseconds: start + 5)
    #expect(tight.arrivalMicroseconds == arrival, "it was later already")
    state = tight
    #expect(state.charge(inRun: 7, limit: limit, nowMicroseconds: start + 5) == full)
    // The whole burst is back: old charges count no more.
    #expect(state.charge(inRun: 8, limit: limit, nowMicroseconds: arrival) == .proceed)
    #expect(state.arrivalMicroseconds == arrival + limit.intervalMicroseconds)
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func neverMoreThanBurstAndRateInAnyWindow(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let burst = Int.random(in: 1...12, using: &random)
    let perSecond = Double(Int.random(in: 1...50, using: &random)) / 7
    let limit = try #require(RateLimit(burst: burst, perSecond: perSecond))
    var state = RateState(run: 1)
    var now: Int64 = 1_796_000_000_000_000
    var sent: [Int64] = []
    for _ in 0..<2000 {
      now += Int64.random(in: 0...Int64(random.next() % 5 == 0 ? 3_000_000 : 60_000), using: &random)
      switch state.charge(inRun: nil, limit: limit, nowMicroseconds: now) {
      case .proceed: sent.append(now)
      case .limited(let milliseconds):
        #expect(milliseconds >= 1)
        // After the announced wait there is room.
        var later = state
        #expect(later.charge(inRun: nil, limit: limit, nowMicroseconds: now + milliseconds * 1000) == .proceed)
      }
    }
    #expect(sent.count >= burst)
    for first in sent.indices {
      for last in first..<min(first + 200, sent.count) {
        let seconds = Double(sent[last] - sent[first]) / 1e6
        #expect(Double(last - first + 1) <= Double(burst) + perSecond * seconds + 1)
      }
    }
  }

  /// A rule is identified by what it applies to, not by its position.
  @Test func aRuleIsNamedByWhatItHoldsFor() throws {
    let limit = try #require(RateLimit(burst: 1, perSecond: 1))
    func override(_ app: String, _ type: PushType?, _ limit: RateLimit? = nil) -> RateLimits.Override {
      RateLimits.Override(app: Array(app.utf8), pushType: type, limit: limit)
    }
    let voip = override("com.example.app", .voip)
    let before = RateLimits(limit, overrides: [override("com.example.app", nil), override("", .voip), voip])
    let after = RateLimits(nil, overrides: [override("com.example.app", .voip, limit), override("", .voip)])
    #expect(Set(before.rules.map(\.name)).count == 4)
    #expect(before.rules[3].name == after.rules[1].name && before.rules[0].name == after.rules[0].name)
    #expect(before.rules.map { after.number(of: $0) } == [0, 0, 2, 1], "the one that is gone: the common one's")
    #expect(after.rules.map { before.number(of: $0) } == [0, 3, 2])
    // Other versions read and write them: they never change.
    #expect(RateRule.none.name == 0x8A46_9CE9)
    #expect(after.rules[1].name == 0xE559_0843)
  }

  @Test func chargeNamesOfOneMachinesUUIDsDiffer() {
    // Version 1: the low half is the machine's.
    let names = Set(
      (0..<10_000).map {
        AdmissionRequest(device: TargetKey(high: 0, low: 0), apnsID: UUIDValue(high: UInt64($0) << 32, low: 42)).jobName
      })
    #expect(names.count == 10_000)
  }
}
