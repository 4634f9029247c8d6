import PushCore
import Testing

/// One connection's life, as traces.
@Suite struct ConnectionStateTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: (50_000 + milliseconds) * 1_000_000) }

  private func opened() -> ConnectionState {
    var state = ConnectionState(timing: .init(), now: at(0))
    state.opened(now: at(0))
    return state
  }

  @Test func opensOrIsGivenUpAfter15Seconds() {
    var state = ConnectionState(timing: .init(), now: at(0))
    #expect(state.phase == .opening(since: at(0)))
    #expect(!state.isOpen)
    #expect(state.turn(now: at(14_999), inFlight: 0, oldestSentAt: nil) == .none)
    #expect(state.turn(now: at(15_000), inFlight: 0, oldestSentAt: nil) == .abort(.notOpened))
    #expect(state.turn(now: at(15_001), inFlight: 0, oldestSentAt: nil) == .none)
    #expect(state.phase == .closed(.notOpened))
    #expect(opened().isOpen)
  }

  @Test func idleIsPingedEveryMinute() {
    var state = opened()
    #expect(state.turn(now: at(59_999), inFlight: 0, oldestSentAt: nil) == .none)
    #expect(state.turn(now: at(60_000), inFlight: 0, oldestSentAt: nil) == .ping)
    #expect(state.turn(now: at(60_001), inFlight: 0, oldestSentAt: nil) == .none)
    state.received(now: at(60_050))
    state.pongReceived()
    #expect(state.turn(now: at(120_049), inFlight: 0, oldestSentAt: nil) == .none)
    #expect(state.turn(now: at(120_050), inFlight: 0, oldestSentAt: nil) == .ping)
  }

  @Test func silenceWithARequestWaitingIsPingedAfter5Seconds() {
    var state = opened()
    state.received(now: at(1_000))
    // The request was sent at 3000: both its own wait and the silence count.
    #expect(state.turn(now: at(6_000), inFlight: 1, oldestSentAt: at(3_000)) == .none)
    #expect(state.turn(now: at(7_999), inFlight: 1, oldestSentAt: at(3_000)) == .none)
    #expect(state.turn(now: at(8_000), inFlight: 1, oldestSentAt: at(3_000)) == .ping)
  }

  @Test func answersToOthersKeepItFromBeingPinged() {
    var state = opened()
    state.received(now: at(7_000))
    #expect(state.turn(now: at(8_000), inFlight: 1, oldestSentAt: at(3_000)) == .none)
  }

  @Test func noPongIn4SecondsEndsIt() {
    var state = opened()
    #expect(state.turn(now: at(5_000), inFlight: 1, oldestSentAt: at(0)) == .ping)
    #expect(state.turn(now: at(8_999), inFlight: 1, oldestSentAt: at(0)) == .none)
    state.received(now: at(8_999))
    // Other bytes are no pong.
    #expect(state.turn(now: at(9_000), inFlight: 1, oldestSentAt: at(1)) == .abort(.silent))
    #expect(state.phase == .closed(.silent))
  }

  @Test func aSilentOneIsPingedAtOnceAndDroppedNoSoonerThanForItsSilence() {
    var state = opened()
    state.received(now: at(1_000))
    let isFirst = state.pingIfSilent(now: at(1_300))
    #expect(isFirst)
    let isSecond = state.pingIfSilent(now: at(1_301))
    #expect(!isSecond, "one ping at a time")
    #expect(state.turn(now: at(6_300), inFlight: 1, oldestSentAt: at(1_000)) == .none, "it was asked already")
    #expect(state.turn(now: at(9_999), inFlight: 1, oldestSentAt: at(1_000)) == .none)
    #expect(state.turn(now: at(10_000), inFlight: 1, oldestSentAt: at(1_001)) == .abort(.silent))
    let isClosed = state.pingIfSilent(now: at(10_001))
    #expect(!isClosed)
  }

  @Test func aSilentOneWhosePongComesIsLeftInPeace() {
    var state = opened()
    state.received(now: at(4_900))
    let isFirst = state.pingIfSilent(now: at(5_000))
    #expect(isFirst)
    state.received(now: at(5_010))
    state.pongReceived()
    #expect(state.turn(now: at(9_000), inFlight: 1, oldestSentAt: at(4_500)) == .none)
    let isAgain = state.pingIfSilent(now: at(9_500))
    #expect(isAgain)
    // Silence since 5010 would end it at 14,010; the deadline of a request comes first.
    #expect(state.turn(now: at(14_009), inFlight: 1, oldestSentAt: at(4_500)) == .none)
    #expect(state.turn(now: at(14_010), inFlight: 1, oldestSentAt: at(4_500)) == .abort(.silent))
  }

  @Test func aDrainingSilentOneIsNotPinged() {
    var state = opened()
    state.drain(.goAway)
    let isAsked = state.pingIfSilent(now: at(100))
    #expect(!isAsked)
  }

  @Test func aRequestIsTimedOutAtItsDeadline() {
    var state = opened()
    state.received(now: at(9_000))
    #expect(state.turn(now: at(9_999), inFlight: 2, oldestSentAt: at(0)) == .none)
    #expect(state.turn(now: at(10_000), inFlight: 2, oldestSentAt: at(0)) == .timeOut(sentUntil: at(0)))
    #expect(state.turn(now: at(9_000), inFlight: 1, oldestSentAt: at(1)) == .none)
  }

  @Test func timeoutsWithAnswersBetweenAreTheRequestsOwnFault() {
    var state = opened()
    state.answered(now: at(5_000))
    #expect(state.timedOut(sentAt: at(4_000)) == false)
    #expect(state.isOpen)
  }

  @Test func timeoutsWithoutAnyAnswerMeanThatItIsStuck() {
    var state = opened()
    state.answered(now: at(5_000))
    #expect(state.timedOut(sentAt: at(5_001)) == true)
    #expect(state.phase == .draining(.stuck))
    #expect(state.timedOut(sentAt: at(5_002)) == false, "said once")
  }

  @Test func drainsUntilNothingIsInFlight() {
    var state = opened()
    state.drain(.goAway)
    state.drain(.unneeded)
    #expect(state.phase == .draining(.goAway), "the first reason holds")
    #expect(state.turn(now: at(1), inFlight: 1, oldestSentAt: at(0)) == .none)
    #expect(state.turn(now: at(5_000), inFlight: 1, oldestSentAt: at(0)) == .ping)
    state.pongReceived()
    #expect(state.turn(now: at(10_000), inFlight: 1, oldestSentAt: at(0)) == .timeOut(sentUntil: at(0)))
    #expect(state.turn(now: at(10_000), inFlight: 0, oldestSentAt: nil) == .close)
    #expect(state.turn(now: at(10_000), inFlight: 0, oldestSentAt: nil) == .none)
    #expect(state.phase == .closed(.goAway))
  }

  @Test func drainedWhileOpeningIsClosed() {
    var state = ConnectionState(timing: .init(), now: at(0))
    state.drain(.retired)
    state.opened(now: at(10))
    #expect(!state.isOpen)
    #expect(state.turn(now: at(10), inFlight: 0, oldestSentAt: nil) == .close)
  }

  @Test func theEndKeepsItsReason() {
    var lost = opened()
    lost.closed()
    #expect(lost.phase == .closed(.lost))
    var drained = opened()
    drained.drain(.advised)
    drained.closed()
    drained.closed()
    #expect(drained.phase == .closed(.advised))
    #expect(drained.turn(now: at(99_999), inFlight: 3, oldestSentAt: at(0)) == .none)
  }

  @Test func answersProveIt() {
    var state = opened()
    #expect(!state.hasAnswered)
    state.answered(now: at(1))
    #expect(state.hasAnswered)
  }

  /// A peer may allow none for a moment.
  @Test func connectionThatAllowsNoRequests_isReplacedAfter15Seconds() {
    var state = opened()
    #expect(state.isShut(streamLimit: 0, now: at(1_000)) == false)
    #expect(state.isShut(streamLimit: 1, now: at(15_000)) == false)
    #expect(state.isShut(streamLimit: 0, now: at(16_000)) == false)
    #expect(state.isShut(streamLimit: 0, now: at(30_999)) == false)
    #expect(state.isShut(streamLimit: 0, now: at(31_000)) == true)
    #expect(state.phase == .draining(.stuck))
    #expect(state.isShut(streamLimit: 0, now: at(60_000)) == false, "said once")
    #expect(state.turn(now: at(60_000), inFlight: 0, oldestSentAt: nil) == .close)
  }
}
