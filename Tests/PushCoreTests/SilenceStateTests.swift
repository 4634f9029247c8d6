import PushCore
import Testing

/// Silence as a trace: what was asked and heard in each turn, then whether the server is silent.
@Suite struct SilenceStateTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  @Test func itCountsFromTheFirstPollAfterTheQuestion() {
    var state = SilenceState(timeoutMilliseconds: 200)
    #expect(state.heardNothing(turn: 1, polledAt: at(0)) == false && state.deadline == nil)
    state.asked(turn: 1)
    #expect(state.heardNothing(turn: 1, polledAt: at(500)) == false && state.deadline == nil, "it is not written yet")
    #expect(state.heardNothing(turn: 2, polledAt: at(1_000)) == false)
    #expect(state.deadline == at(1_200))
    #expect(state.heardNothing(turn: 3, polledAt: at(1_199)) == false)
    #expect(state.heardNothing(turn: 4, polledAt: at(1_200)) == true)
    #expect(state.isSilent && state.deadline == nil)
    #expect(state.heardNothing(turn: 5, polledAt: at(9_000)) == false, "told once")
  }

  @Test func whatIsStillOwedCountsFromTheNextPoll() {
    var state = SilenceState(timeoutMilliseconds: 200)
    state.asked(turn: 1)
    _ = state.heardNothing(turn: 2, polledAt: at(0))
    // Another question of the same turn is on its way when the first one's answer comes.
    #expect(state.heard(turn: 3, now: at(100), owes: true) == nil)
    #expect(state.heardNothing(turn: 4, polledAt: at(900)) == false, "the thread stood still in between")
    #expect(state.deadline == at(1_100))
    #expect(state.heard(turn: 5, now: at(1_000), owes: false) == nil)
    #expect(state.heardNothing(turn: 6, polledAt: at(9_000)) == false && !state.isSilent, "it owes nothing")
  }

  @Test func aSilenceIsToldOnceWithWhatWasDecidedInIt() {
    var state = SilenceState(timeoutMilliseconds: 200)
    state.decidedWithout()
    state.asked(turn: 1)
    _ = state.heardNothing(turn: 2, polledAt: at(0))
    _ = state.heardNothing(turn: 3, polledAt: at(200))
    for _ in 0..<3 { state.decidedWithout() }
    state.asked(turn: 4)
    #expect(state.isSilent)
    #expect(state.heard(turn: 5, now: at(700), owes: true) == .init(milliseconds: 700, decidedCount: 3))
    #expect(state.heard(turn: 6, now: at(701), owes: true) == nil)
    _ = state.heardNothing(turn: 7, polledAt: at(1_000))
    _ = state.heardNothing(turn: 8, polledAt: at(1_300))
    #expect(state.lost(now: at(2_000)) == .init(milliseconds: 1_000, decidedCount: 0))
    #expect(!state.isSilent && state.lost(now: at(2_001)) == nil)
  }
}
