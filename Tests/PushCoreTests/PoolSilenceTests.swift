import PushCore
import Testing

/// A connection that does not answer while the others do, as traces: late, silent, proving, and back.
@Suite struct PoolSilenceTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: (500_000 + milliseconds) * 1_000_000) }

  /// `count` ready connections of 100 streams with nothing on them, and one more than that at most.
  private func pool(ready count: Int, of maximum: Int? = nil) -> PoolState {
    var limits = PoolState.Limits()
    limits.connectionsMaximum = maximum ?? count
    var pool = PoolState(limits: limits)
    for place in 0..<count {
      let time = at(Int64(place - count) * 2_000)
      while pool.take(byteCount: 1_000_000, now: time) != nil {}
      #expect(pool.turn(now: time) == .open(place: place))
      pool.opened(place: place)
      for ready in 0...place { tell(&pool, ready, inFlight: 0) }
    }
    return pool
  }

  private func tell(_ pool: inout PoolState, _ place: Int, inFlight: Int) {
    pool.update(place: place, inFlight: inFlight, streamLimit: 100, window: 1_000_000)
  }

  /// The connection at a place answers something that was sent `took` milliseconds before.
  private func answer(_ pool: inout PoolState, _ place: Int, at time: Int64, took: Int64 = 20) {
    _ = pool.answered(place: place, sentAt: at(time - took), now: at(time))
  }

  /// Both get a request at 0; then the first answers every 10 ms and the second never. Returns the actions of the turns.
  private func play(_ pool: inout PoolState, from start: Int64 = 0, until end: Int64) -> [(Int64, PoolState.Action)] {
    var actions: [(Int64, PoolState.Action)] = []
    for time in stride(from: start, through: end, by: 10) {
      answer(&pool, 0, at: time)
      let action = pool.turn(now: at(time))
      if action != .none { actions.append((time, action)) }
    }
    return actions
  }

  /// A pool whose second connection has been sent a request at 0.
  private func waiting(of maximum: Int = 2) -> PoolState {
    var pool = pool(ready: 2, of: maximum)
    tell(&pool, 0, inFlight: 50)
    #expect(pool.take(byteCount: 1, now: at(0)) == 1)
    tell(&pool, 0, inFlight: 10)
    tell(&pool, 1, inFlight: 1)
    return pool
  }

  /// A pool whose second connection fell silent.
  private func silent(of maximum: Int = 2) -> PoolState {
    var pool = waiting(of: maximum)
    let actions = play(&pool, until: 300)
    #expect(actions.map(\.0) == [300] && actions.first?.1 == .ping(place: 1))
    #expect(pool.silentCount == 1)
    return pool
  }

  @Test func aLateOneTakesOnlyWhatTheOthersHaveNoRoomFor() {
    var pool = waiting()
    let actions = play(&pool, until: 40)
    #expect(actions.isEmpty)
    var early = pool
    #expect(early.take(byteCount: 1, now: at(40)) == 1, "40 ms are nothing yet: most free streams take the next")
    _ = play(&pool, from: 50, until: 50)
    tell(&pool, 0, inFlight: 98)
    #expect(pool.take(byteCount: 1, now: at(50)) == 0)
    #expect(pool.take(byteCount: 1, now: at(50)) == 0)
    #expect(pool.take(byteCount: 1, now: at(50)) == 1, "the other is full")
    #expect(pool.turn(now: at(50)) == .none, "two are all there may be")
  }

  @Test func aLateOneThatAnswersTakesItsShareAgain() {
    var pool = waiting()
    _ = play(&pool, until: 60)
    #expect(pool.take(byteCount: 1, now: at(60)) == 0)
    answer(&pool, 1, at: 65, took: 65)
    #expect(pool.take(byteCount: 1, now: at(65)) == 1)
  }

  @Test func aLateOneWithNothingOnItTakesItsShareAgain() {
    var pool = waiting()
    _ = play(&pool, until: 60)
    tell(&pool, 1, inFlight: 0)
    #expect(pool.take(byteCount: 1, now: at(60)) == 1)
  }

  @Test func aSilentOneIsPingedOnceAndTakesNothing() {
    var pool = silent()
    var full = pool
    tell(&full, 0, inFlight: 100)
    #expect(full.take(byteCount: 1, now: at(300)) == nil, "rather wait")
    #expect(full.room == 0)
    let actions = play(&pool, from: 310, until: 5_000)
    #expect(actions.isEmpty)
    #expect(pool.silentCount == 1)
  }

  @Test func aSilentOneThatAnswersTakesItsShareAgain() {
    var pool = silent()
    answer(&pool, 1, at: 310, took: 310)
    #expect(pool.silentCount == 0)
    #expect(pool.take(byteCount: 1, now: at(310)) == 1)
  }

  @Test func aPongIsGoodForOneRequestAndItsAnswerForAll() {
    var pool = silent()
    pool.pongReceived(place: 1)
    #expect(pool.silentCount == 0)
    tell(&pool, 0, inFlight: 0)
    #expect(pool.take(byteCount: 1, now: at(310)) == 1, "before all others: it is to prove itself")
    #expect(pool.silentCount == 1)
    #expect(pool.take(byteCount: 1, now: at(310)) == 0)
    // It answers pings and no requests: no second ping, no second request.
    let actions = play(&pool, from: 320, until: 3_000)
    #expect(actions.isEmpty)
    #expect(pool.silentCount == 1)
    answer(&pool, 1, at: 3_010)
    tell(&pool, 0, inFlight: 10)
    #expect(pool.take(byteCount: 1, now: at(3_010)) == 1)
  }

  @Test func aPongOfOneThatIsNotSilentChangesNothing() {
    var pool = waiting()
    pool.pongReceived(place: 1)
    tell(&pool, 0, inFlight: 0)
    #expect(pool.take(byteCount: 1, now: at(0)) == 0)
    _ = play(&pool, until: 60)
    pool.pongReceived(place: 1)
    #expect(pool.take(byteCount: 1, now: at(60)) == 0, "late is late")
  }

  @Test func whereAllAreSlowNobodyIsSilent() {
    var pool = pool(ready: 2)
    // Quick until 0; from then on answers take 2 s, on both.
    for time in stride(from: -500, through: 0, by: 10) as StrideThrough<Int64> {
      for place in 0..<2 { answer(&pool, place, at: time) }
    }
    for time in stride(from: 0, through: 6_000, by: 10) as StrideThrough<Int64> {
      for place in 0..<2 {
        tell(&pool, place, inFlight: 20)
        if time >= 2_000 + Int64(place) * 40 { answer(&pool, place, at: time, took: 2_000) }
      }
      let taken = pool.take(byteCount: 1, now: at(time))
      #expect(taken != nil)
      let action = pool.turn(now: at(time))
      #expect(action == .none, "at \(time)")
    }
    #expect(pool.silentCount == 0)
  }

  @Test func alwaysSlowAnswersAskForMorePatience() {
    var pool = waiting()
    // The first one's answers take 150 to 250 ms: 300 ms of silence are not unusual then.
    for time in stride(from: 0, through: 300, by: 10) as StrideThrough<Int64> {
      answer(&pool, 0, at: time, took: 150 + time % 100)
      let action = pool.turn(now: at(time))
      #expect(action == .none)
    }
    #expect(pool.take(byteCount: 1, now: at(300)) == 1)
  }

  @Test func aStallOfOursMakesNobodySilent() {
    var pool = waiting()
    answer(&pool, 0, at: 10)
    #expect(pool.turn(now: at(10)) == .none)
    // Nothing was read for two seconds; of two answers that wait, the first is read in this turn and the second in the next.
    answer(&pool, 0, at: 2_010)
    #expect(pool.turn(now: at(2_010)) == .none)
    answer(&pool, 1, at: 2_011)
    #expect(pool.turn(now: at(2_011)) == .none)
    #expect(pool.silentCount == 0)
  }

  @Test func oneConnectionAloneIsNeverSilent() {
    var pool = pool(ready: 1)
    #expect(pool.take(byteCount: 1, now: at(0)) == 0)
    tell(&pool, 0, inFlight: 1)
    for time in stride(from: 0, through: 60_000, by: 1_000) as StrideThrough<Int64> {
      #expect(pool.turn(now: at(time)) == .none)
    }
    #expect(pool.take(byteCount: 1, now: at(60_000)) == 0)
  }

  @Test func whereNobodyAnswersNobodyIsSilent() {
    var pool = waiting()
    for time in stride(from: 0, through: 9_000, by: 100) as StrideThrough<Int64> {
      #expect(pool.turn(now: at(time)) == .none)
    }
    #expect(pool.silentCount == 0)
  }

  @Test func aSilentOneIsReplacedBesideItselfAndOneTooManyIsDrained() {
    var pool = silent()
    tell(&pool, 0, inFlight: 100)
    #expect(pool.take(byteCount: 1, now: at(2_000)) == nil)
    #expect(pool.turn(now: at(2_000)) == .open(place: 2), "two that take requests are allowed")
    pool.opened(place: 2)
    tell(&pool, 2, inFlight: 0)
    #expect(pool.take(byteCount: 1, now: at(2_010)) == 2)
    tell(&pool, 2, inFlight: 1)
    #expect(pool.turn(now: at(2_010)) == .none)
    // The silent one comes back: the least busy of three goes.
    answer(&pool, 1, at: 2_020, took: 2_020)
    tell(&pool, 1, inFlight: 7)
    #expect(pool.turn(now: at(2_020)) == .drain(place: 2))
    #expect(pool.turn(now: at(2_020)) == .none)
    #expect(pool.readyCount == 2 && pool.leavingCount == 1)
  }

  @Test func theOnlyOneLeftIsReplacedWhereItIsSilent() {
    var pool = silent()
    pool.ended(place: 0, didFail: false, now: at(310), random: 0)
    #expect(pool.turn(now: at(1_310)) == .open(place: 0))
    #expect(pool.take(byteCount: 1, now: at(1_310)) == nil)
    #expect(pool.stall(now: at(1_310)) == .noAnswer)
  }

  @Test func silenceEndsWithItsConnection() {
    var left = silent()
    left.leaves(place: 1)
    #expect(left.silentCount == 0 && left.readyCount == 1)
    var gone = silent()
    gone.ended(place: 1, didFail: false, now: at(310), random: 0)
    #expect(gone.silentCount == 0 && gone.readyCount == 1)
    // Another connection replaces it, and falls silent later.
    tell(&gone, 0, inFlight: 100)
    #expect(gone.take(byteCount: 1, now: at(2_000)) == nil)
    #expect(gone.turn(now: at(2_000)) == .open(place: 1))
    gone.opened(place: 1)
    tell(&gone, 1, inFlight: 0)
    #expect(gone.take(byteCount: 1, now: at(2_000)) == 1)
  }

  /// 5,000 requests a second over two connections of 1,000 streams, answered after 20 ms; after a second one of them falls
  /// silent, for nine. Returns how many requests it swallowed, and how many found no room.
  private func playBlackHole(lateMilliseconds: Int64) -> (swallowed: Int, refused: Int) {
    var limits = PoolState.Limits()
    limits.connectionsMaximum = 2
    limits.lateMilliseconds = lateMilliseconds
    var pool = PoolState(limits: limits)
    for place in 0..<2 {
      while pool.take(byteCount: 1_000_000, now: at(Int64(place) * 1_000)) != nil {}
      #expect(pool.turn(now: at(Int64(place) * 1_000)) == .open(place: place))
      pool.opened(place: place)
      pool.update(place: place, inFlight: 0, streamLimit: 1_000, window: 65_535)
    }
    var dueAt: [[Int64]] = [[], []]
    var refused = 0
    for time in 2_000..<12_000 as Range<Int64> {
      for place in 0..<2 {
        while let due = dueAt[place].first, due <= time, place == 0 || time < 3_000 {
          dueAt[place].removeFirst()
          answer(&pool, place, at: time)
        }
        pool.update(place: place, inFlight: dueAt[place].count, streamLimit: 1_000, window: 65_535)
      }
      _ = pool.turn(now: at(time))
      for _ in 0..<5 {
        guard let place = pool.take(byteCount: 200, now: at(time)) else {
          refused += 1
          continue
        }
        dueAt[place].append(time + 20)
      }
    }
    return (dueAt[1].count, refused)
  }

  @Test func aSilentOneSwallowsLittle() {
    let (swallowed, refused) = playBlackHole(lateMilliseconds: 50)
    #expect((1...200).contains(swallowed))
    #expect(refused == 0, "the other one carries all of it")
    let (before, _) = playBlackHole(lateMilliseconds: 1_000_000)
    #expect(before > 800, "without the rule")
  }

  @Test func answersAreUsualOrNot() {
    var time = AnswerTime()
    #expect(time.longestUsualNanoseconds == 0)
    for _ in 0..<100 { time.heard(nanoseconds: 20_000_000) }
    #expect((20_000_000..<21_000_000).contains(time.longestUsualNanoseconds))
    time.heard(nanoseconds: 2_000_000_000)
    #expect(time.longestUsualNanoseconds > 2_000_000_000, "at once")
    for _ in 0..<40 { time.heard(nanoseconds: 20_000_000) }
    #expect(time.longestUsualNanoseconds < 100_000_000, "and soon forgotten")
    for _ in 0..<100 { time.heard(nanoseconds: 0) }
    #expect(time.longestUsualNanoseconds < 2_000_000)
  }
}
