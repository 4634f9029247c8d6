import PushCore
import Testing

/// What a pool answers, look by look, while sends wait for it.
@Suite struct PaceStateTests {
  private func pace(_ answers: [Int], isFull: Bool = true) -> PaceState {
    var pace = PaceState()
    for count in answers {
      for _ in 0..<count { pace.answered() }
      pace.looked(isFull: isFull)
    }
    return pace
  }

  @Test func isKnownAfterASecondOfAnswersThatAreNotEnough() {
    let tooEarly = pace(Array(repeating: 50, count: 9)).answers(in: 10)
    let known = pace(Array(repeating: 50, count: 10)).answers(in: 10)
    #expect(tooEarly == nil)
    #expect(known == 500)
  }

  /// It is connecting, or silent: `ShareState` knows which.
  @Test func beginsWithTheFirstAnswer() {
    let silent = pace(Array(repeating: 0, count: 100)).answers(in: 10)
    let connected = pace(Array(repeating: 0, count: 20) + Array(repeating: 7, count: 9)).answers(in: 10)
    #expect(silent == nil && connected == nil)
  }

  @Test func isUnknownOfAPoolWithLittleToDo() {
    let idle = pace(Array(repeating: 1, count: 100), isFull: false).answers(in: 10)
    #expect(idle == nil)
    // A burst every second, which it takes in a fifth of one.
    var bursts = PaceState()
    for look in 0..<200 {
      for _ in 0..<100 { bursts.answered() }
      bursts.looked(isFull: look % 10 < 2)
      let known = bursts.answers(in: 10)
      #expect(known == nil)
    }
  }

  /// All of a second's answers may come in one look.
  @Test func answersThatComeTogetherCountAsOften() {
    let together = pace((0..<100).map { $0 % 10 == 0 ? 500 : 0 }).answers(in: 10) ?? 0
    #expect(300...800 ~= together)
  }

  @Test func followsWhatChanges() {
    var pace = pace(Array(repeating: 1_000, count: 100))
    for _ in 0..<60 { pace.looked(isFull: true) }
    let silent = pace.answers(in: 10)
    #expect(silent.map { $0 < 300 } == true)
    for _ in 0..<10 { pace.looked(isFull: false) }
    let free = pace.answers(in: 10)
    #expect(free == nil)
  }
}
