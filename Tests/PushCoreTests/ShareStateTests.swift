import PushCore
import Testing

/// A pool's share as a trace: what was sent and answered, a look every 100 ms, then its window.
@Suite struct ShareStateTests {
  private struct Pool {
    var share = ShareState(limits: ShareState.Limits(maximum: 1_000))
    var now: Int64 = 0

    var window: Int { share.room + share.onWire }
    func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    mutating func look(_ count: Int = 1, isWaiting: Bool = true, slowMaximum: Int = 100) {
      for _ in 0..<count {
        now += 100
        share.looked(isWaiting: isWaiting, slowMaximum: slowMaximum, now: at(now))
      }
    }

    /// Fills its window and answers all of it.
    mutating func round(_ answer: ShareState.Answer = .good, after looks: UInt32 = 1) {
      let count = share.room
      for _ in 0..<count { share.sent() }
      for _ in 0..<count { share.answered(answer, after: looks) }
    }
  }

  @Test func theWindowDoublesWithEachRoundOfAnswers() {
    var pool = Pool()
    var windows: [Int] = []
    for _ in 0..<6 {
      windows.append(pool.window)
      pool.round()
      pool.look()
    }
    #expect(windows == [64, 128, 256, 512, 1_000, 1_000])
    pool.look(100, isWaiting: false)
    #expect(pool.window == 1_000 && !pool.share.isStuck, "what has nothing to do keeps its window")
  }

  @Test(arguments: [true, false]) func workWithoutAGoodAnswerMakesItStuck(isOnWire: Bool) {
    var pool = Pool()
    for _ in 0..<5 { pool.round() }
    pool.look()
    if isOnWire { for _ in 0..<500 { pool.share.sent() } }
    pool.look(14, isWaiting: !isOnWire)
    #expect(!pool.share.isStuck && !pool.share.isFull(held: 10_000) && pool.window == 1_000)
    pool.look(isWaiting: !isOnWire)
    #expect(pool.share.isStuck && pool.window == 8)
    #expect(pool.share.stuckMilliseconds(now: pool.at(pool.now)) == 1_500)
    #expect(pool.share.isFull(held: 8) && !pool.share.isFull(held: 7))
    #expect(pool.share.room == (isOnWire ? -492 : 8))
  }

  @Test func refusalsAreNoAnswers() {
    var pool = Pool()
    for _ in 0..<15 {
      pool.round(.bad)
      pool.look()
    }
    #expect(pool.share.isStuck && pool.window == 8)
    for _ in 0..<50 {
      pool.round(.bad)
      pool.look()
    }
    #expect(pool.window == 8)
    #expect(pool.share.stuckMilliseconds(now: pool.at(pool.now)) == 6_500)
    // APNs works again: at full speed in less than a second.
    for _ in 0..<4 {
      pool.round()
      pool.look()
    }
    #expect(pool.window == 128 && !pool.share.isStuck)
    for _ in 0..<3 {
      pool.round()
      pool.look()
    }
    #expect(pool.window == 1_000)
    #expect(pool.share.stuckMilliseconds(now: pool.at(pool.now)) == 0)
  }

  @Test func slowAnswersWidenAStuckPoolsWindowALittle() {
    var pool = Pool()
    for _ in 0..<64 { pool.share.sent() }
    pool.look(15)
    #expect(pool.window == 8)
    pool.look(75)
    for _ in 0..<64 { pool.share.answered(.good, after: 90) }
    #expect(pool.window == 72 && pool.share.isStuck)
    for _ in 0..<10 {
      pool.look(90)
      pool.round(after: 90)
    }
    #expect(pool.window == 100 && pool.share.isStuck, "no more than its part")
    pool.look(slowMaximum: 20)
    #expect(pool.window == 20, "others are stuck too")
    // A request that timed out.
    pool.share.sent()
    pool.share.answered(.bad, after: 100)
    #expect(pool.window == 10)
  }

  /// Its connections are given up, and what was on them is lost; new ones could take as much at once.
  @Test func replacedConnectionsStartAtTheProbes() {
    var pool = Pool()
    for _ in 0..<5 { pool.round() }
    pool.look()
    for _ in 0..<1_000 { pool.share.sent() }
    pool.look(20)
    for _ in 0..<1_000 { pool.share.answered(.bad, after: 20) }
    #expect(pool.share.onWire == 0 && pool.share.room == 8)
    // Nor do the next ones take more.
    for _ in 0..<10 {
      for _ in 0..<max(0, pool.share.room) { pool.share.sent() }
      pool.look(40)
      for _ in 0..<8 { pool.share.answered(.bad, after: 40) }
      #expect(pool.share.room == 8)
    }
    pool.round()
    #expect(pool.share.room == 16, "it grows with answers")
    // A lane that forgets its requests knows as little.
    pool.look(20, slowMaximum: 8)
    for _ in 0..<8 { pool.share.sent() }
    pool.share.forgetRequests()
    #expect(pool.share.room == 8)
  }

  @Test func aSingleGoodAnswerEndsTheCountAndNotTheShare() {
    var pool = Pool()
    pool.look(15)
    #expect(pool.share.isStuck)
    pool.share.sent()
    pool.share.answered(.good, after: 1)
    pool.look()
    #expect(pool.share.isStuck && pool.window == 9)
    #expect(pool.share.stuckMilliseconds(now: pool.at(pool.now + 40)) == 40, "from now on")
  }

  @Test func aLaneThatCannotSendBlamesNoPool() {
    var pool = Pool()
    pool.look(14)
    pool.share.couldNotSend()
    pool.look(14)
    #expect(!pool.share.isStuck)
    pool.look()
    #expect(pool.share.isStuck)
  }

  @Test func forgottenRequestsLeaveRoom() {
    var pool = Pool()
    for _ in 0..<64 { pool.share.sent() }
    #expect(pool.share.room == 0)
    pool.share.forgetRequests()
    #expect(pool.share.room == 64)
  }
}
