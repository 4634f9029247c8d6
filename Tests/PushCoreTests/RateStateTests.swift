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
    var state = RateState()
    let start: Int64 = 1_796_000_000_000_000
    for charge in UInt64(1)...3 {
      #expect(state.charge(charge, limit: limit, nowMicroseconds: start) == .proceed)
    }
    #expect(state.charge(4, limit: limit, nowMicroseconds: start) == .limited(retryAfterMilliseconds: 1000))
    #expect(state.charge(4, limit: limit, nowMicroseconds: start + 999_000) == .limited(retryAfterMilliseconds: 1))
    #expect(state.charge(4, limit: limit, nowMicroseconds: start + 1_000_000) == .proceed)
    #expect(state.charge(5, limit: limit, nowMicroseconds: start + 1_000_000) == .limited(retryAfterMilliseconds: 1000))
  }

  @Test func aRedeliveryCostsNothing() throws {
    let limit = try #require(RateLimit(burst: 1, perSecond: 0.001))
    var state = RateState()
    let start: Int64 = 1_796_000_000_000_000
    #expect(state.charge(7, limit: limit, nowMicroseconds: start) == .proceed)
    let arrival = state.arrivalMicroseconds
    #expect(state.charge(7, limit: limit, nowMicroseconds: start + 5) == .proceed)
    #expect(state.arrivalMicroseconds == arrival)
    #expect(state.charge(8, limit: limit, nowMicroseconds: start + 5) == .limited(retryAfterMilliseconds: 1_000_000))
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func neverMoreThanBurstAndRateInAnyWindow(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let burst = Int.random(in: 1...12, using: &random)
    let perSecond = Double(Int.random(in: 1...50, using: &random)) / 7
    let limit = try #require(RateLimit(burst: burst, perSecond: perSecond))
    var state = RateState()
    var now: Int64 = 1_796_000_000_000_000
    var sent: [Int64] = []
    for charge in 1...2000 as ClosedRange<UInt64> {
      now += Int64.random(in: 0...Int64(random.next() % 5 == 0 ? 3_000_000 : 60_000), using: &random)
      switch state.charge(charge, limit: limit, nowMicroseconds: now) {
      case .proceed: sent.append(now)
      case .limited(let milliseconds):
        #expect(milliseconds >= 1)
        // The promise is kept: there is room after that long.
        var later = state
        #expect(later.charge(charge, limit: limit, nowMicroseconds: now + milliseconds * 1000) == .proceed)
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

  @Test func chargeNamesOfOneMachinesUUIDsDiffer() {
    // Version 1: the low half is the machine's.
    let names = Set(
      (0..<10_000).map {
        GateRequest(device: GateKey(high: 0, low: 0), apnsID: UUIDValue(high: UInt64($0) << 32, low: 42)).jobName
      })
    #expect(names.count == 10_000)
  }
}
