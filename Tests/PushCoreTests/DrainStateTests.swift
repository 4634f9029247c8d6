import Testing

@testable import PushCore

@Suite struct DrainStateTests {
  let start = Instant(nanoseconds: 0)

  @Test func finishesWhenNothingIsInFlight() {
    var drain = DrainState()
    #expect(drain.turn(now: start, inFlight: 0) == .none)
    #expect(drain.isRunning)
    #expect(drain.begin(now: start, timeoutMilliseconds: 100) == .stopConsuming)
    #expect(!drain.isRunning)
    #expect(drain.turn(now: start, inFlight: 3) == .none)
    #expect(drain.turn(now: start.adding(milliseconds: 99), inFlight: 1) == .none)
    #expect(drain.turn(now: start.adding(milliseconds: 99), inFlight: 0) == .finish)
    #expect(drain.isDrained)
    #expect(drain.turn(now: start.adding(milliseconds: 200), inFlight: 0) == .none)
  }

  @Test func handsTheRestBackAtTheDeadline() {
    var drain = DrainState()
    #expect(drain.begin(now: start, timeoutMilliseconds: 100) == .stopConsuming)
    #expect(drain.turn(now: start.adding(milliseconds: 100), inFlight: 2) == .handBack)
    #expect(!drain.isDrained)
    #expect(drain.turn(now: start.adding(milliseconds: 100), inFlight: 2) == .finish)
    #expect(drain.isDrained)
  }

  @Test func keepsTheFirstDeadline() {
    var drain = DrainState()
    #expect(drain.begin(now: start, timeoutMilliseconds: 100) == .stopConsuming)
    #expect(drain.begin(now: start.adding(milliseconds: 90), timeoutMilliseconds: 100) == .none)
    #expect(drain.turn(now: start.adding(milliseconds: 100), inFlight: 1) == .handBack)
  }
}
