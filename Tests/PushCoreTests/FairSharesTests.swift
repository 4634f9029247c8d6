import PushCore
import Testing

/// Which of a queue's messages begin, wait, and are put off.
@Suite struct FairSharesTests {
  private static let limits = FairShareLimits(progressMaximum: 8, slowWaitingMaximum: 4, slowMilliseconds: 250)

  private struct Trace {
    var shares = FairShares<String, Int>(limits: FairSharesTests.limits)
    private(set) var begun: [Int] = []

    mutating func enter(_ numbers: ClosedRange<Int>, of owner: String, at milliseconds: Int64 = 0) {
      for number in numbers where shares.enter(number, of: owner, now: instant(milliseconds)) { begun.append(number) }
    }

    mutating func leave(_ owner: String) {
      shares.leave(owner)
      while let (number, _) = shares.next() { begun.append(number) }
    }

    mutating func excess(at milliseconds: Int64) -> [Int] {
      shares.takeExcess(now: instant(milliseconds)).map(\.message)
    }

    func instant(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }
  }

  @Test func oneOwnerLeavesRoomForTheNext() {
    var trace = Trace()
    trace.enter(1...20, of: "big")
    #expect(trace.begun == [1, 2, 3, 4, 5, 6], "three quarters")
    trace.enter(101...101, of: "small")
    #expect(trace.begun.last == 101)
    trace.enter(102...103, of: "small")
    #expect(trace.begun.count == 7, "as many as it leaves free, three times over")
  }

  @Test func whatWaitsBeginsInOrder_eachOwnerInTurn() {
    var trace = Trace()
    trace.enter(1...8, of: "a")
    trace.enter(101...105, of: "b")
    #expect(trace.begun == [1, 2, 3, 4, 5, 6, 101])
    for owner in ["a", "a", "a", "b"] { trace.leave(owner) }
    #expect(trace.begun.dropFirst(7) == [102, 103, 7, 104], "the one that has less first; then both in turn")
  }

  /// An owner whose messages begin soon is not slow, however many there are.
  @Test func onlySlowOwnersArePutOff() {
    var trace = Trace()
    trace.enter(1...100, of: "big")
    #expect(trace.excess(at: 249) == [])
    #expect(trace.excess(at: 250) == Array(11...100), "its newest; four wait")
    trace.enter(201...201, of: "big", at: 260)
    #expect(trace.excess(at: 260) == [201], "also what comes then")
    for _ in 0..<6 { trace.leave("big") }
    #expect(Array(trace.begun.suffix(4)) == [7, 8, 9, 10])
    trace.enter(301...310, of: "big", at: 300)
    #expect(trace.excess(at: 310) == [], "nothing of it waits for long any more")
  }

  @Test func slowOwnersShareWhatMayWait() {
    var trace = Trace()
    trace.enter(1...100, of: "a")
    trace.enter(101...200, of: "b")
    let excess = trace.excess(at: 250)
    #expect(excess.count == 200 - trace.begun.count - 4, "two of each wait")
    #expect(excess.contains(100) && excess.contains(200))
  }

  @Test func theDelayIsNoLongerThanItsOwnerWasSlow() {
    let delays = [1, 5, 30]
    let all = { (slow: Int64) in
      Set((0..<8 as Range<UInt64>).map { FairShareLimits.delaySeconds(slowMilliseconds: slow, of: delays, random: $0) })
    }
    #expect(all(250) == [1] && all(9_000) == [1, 5] && all(600_000) == [1, 5, 30])
  }
}
