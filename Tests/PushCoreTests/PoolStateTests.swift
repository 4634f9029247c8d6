import PushCore
import Testing

/// A pool's connections, as traces: which one takes a request, when one is opened, when one is closed.
@Suite struct PoolStateTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: (500_000 + milliseconds) * 1_000_000) }

  private func limits(_ connections: Int) -> PoolState.Limits {
    var limits = PoolState.Limits()
    limits.connectionsMaximum = connections
    return limits
  }

  /// A pool with `count` ready connections of 100 streams, opened seconds before time 0.
  private func pool(ready count: Int, of maximum: Int = 8) -> PoolState {
    var pool = PoolState(limits: limits(maximum))
    for place in 0..<count {
      let time = at(Int64(place - count) * 2_000)
      // A request that finds no room asks for one more.
      while pool.take(byteCount: 1_000_000, now: time) != nil {}
      #expect(pool.turn(now: time) == .open(place: place))
      pool.opened(place: place)
      for ready in 0...place { pool.update(place: ready, inFlight: 0, streamLimit: 100, window: 65_535) }
    }
    for ready in 0..<count { pool.update(place: ready, inFlight: 0, streamLimit: 100, window: 65_535) }
    return pool
  }

  /// The first connection answers a request of 20 ms ago. Returns whether that ends a series of failures.
  private func answers(_ pool: inout PoolState, at time: Int64) -> Bool {
    pool.answered(place: 0, sentAt: at(time - 20), now: at(time))
  }

  /// Of 100 streams it leaves 13, less those that transactional requests have; that it would take more opens another connection.
  @Test func bulkLeavesRoomToTransactionalRequests() {
    for (inFlight, taken) in [(0, 87), (5, 92), (13, 100), (40, 100)] {
      var pool = pool(ready: 1)
      var count = 0
      while pool.take(byteCount: 100, transactionalInFlight: inFlight, now: at(0)) != nil { count += 1 }
      #expect(count == taken)
      #expect(pool.turn(now: at(10_000)) == .open(place: 1), "it is short of room")
      while pool.take(byteCount: 100, now: at(0)) != nil { count += 1 }
      #expect(count == 100)
    }
  }

  @Test func nothingIsOpenedBeforeSomebodySends() {
    var pool = PoolState(limits: limits(8))
    #expect(pool.turn(now: at(0)) == .none)
    #expect(pool.room == 0)
    #expect(pool.take(byteCount: 100, now: at(1)) == nil)
    #expect(pool.turn(now: at(1)) == .open(place: 0))
    #expect(pool.turn(now: at(1)) == .none)
    #expect(pool.take(byteCount: 100, now: at(2)) == nil)
    #expect(pool.turn(now: at(5_000)) == .none, "one opening at a time")
    pool.opened(place: 0)
    #expect(pool.take(byteCount: 100, now: at(5_000)) == nil, "the streams are not known yet")
    pool.update(place: 0, inFlight: 0, streamLimit: 1, window: 65_535)
    #expect(pool.room > 0)
    #expect(pool.take(byteCount: 100, now: at(5_000)) == 0)
    #expect(pool.take(byteCount: 100, now: at(5_000)) == nil)
  }

  /// When hundreds of credentials connect at once, each handshake takes long; one connection per credential is still enough.
  @Test func aSlowOpeningIsNoShortage() {
    var pool = PoolState(limits: limits(8))
    #expect(pool.take(byteCount: 100, now: at(0)) == nil)
    #expect(pool.turn(now: at(0)) == .open(place: 0))
    for time in stride(from: Int64(100), through: 3_000, by: 100) {
      #expect(pool.take(byteCount: 100, now: at(time)) == nil)
      if time < 3_000 { #expect(pool.turn(now: at(time)) == .none) }
    }
    pool.opened(place: 0)
    pool.update(place: 0, inFlight: 0, streamLimit: 100, window: 65_535)
    #expect(pool.turn(now: at(3_100)) == .none)
    #expect(pool.take(byteCount: 100, now: at(3_100)) == 0)
    #expect(pool.turn(now: at(3_200)) == .none)
  }

  @Test func mostFreeStreamsTakeTheNext() {
    var pool = pool(ready: 2)
    pool.update(place: 0, inFlight: 90, streamLimit: 100, window: 65_535)
    pool.update(place: 1, inFlight: 80, streamLimit: 100, window: 65_535)
    for _ in 0..<10 { #expect(pool.take(byteCount: 100, now: at(0)) == 1) }
    #expect(pool.take(byteCount: 100, now: at(0)) == 0)
    #expect(pool.take(byteCount: 100, now: at(0)) == 1)
  }

  @Test func aSmallWindowWeighsMoreThanFreeStreams() {
    var pool = pool(ready: 2)
    pool.update(place: 0, inFlight: 1, streamLimit: 100, window: 2_048)
    pool.update(place: 1, inFlight: 90, streamLimit: 100, window: 65_535)
    #expect(pool.take(byteCount: 100, now: at(0)) == 1)
    pool.update(place: 1, inFlight: 90, streamLimit: 100, window: 99)
    #expect(pool.take(byteCount: 100, now: at(0)) == 0)
  }

  @Test func aBodyLargerThanTheWindowWaitsUnlessNothingIsInFlight() {
    var pool = pool(ready: 1, of: 1)
    pool.update(place: 0, inFlight: 1, streamLimit: 100, window: 3_000)
    #expect(pool.take(byteCount: 3_001, now: at(0)) == nil)
    #expect(pool.take(byteCount: 3_000, now: at(0)) == 0)
    #expect(pool.take(byteCount: 1, now: at(0)) == nil)
    pool.update(place: 0, inFlight: 0, streamLimit: 100, window: 10)
    #expect(pool.take(byteCount: 4_096, now: at(0)) == 0)
  }

  @Test func whatWasGivenBackIsFreeAgain() {
    var pool = pool(ready: 1)
    pool.update(place: 0, inFlight: 0, streamLimit: 1, window: 1_000)
    #expect(pool.take(byteCount: 100, now: at(0)) == 0)
    #expect(pool.take(byteCount: 100, now: at(0)) == nil)
    pool.giveBack(place: 0, byteCount: 100)
    #expect(pool.take(byteCount: 100, now: at(0)) == 0)
  }

  @Test func growsSecondsApartAndOnlyForNeed() {
    var pool = pool(ready: 1)
    #expect(pool.turn(now: at(0)) == .none)
    pool.update(place: 0, inFlight: 100, streamLimit: 100, window: 65_535)
    #expect(pool.take(byteCount: 100, now: at(0)) == nil)
    #expect(pool.turn(now: at(0)) == .open(place: 1))
    pool.opened(place: 1)
    #expect(pool.take(byteCount: 100, now: at(10)) == nil)
    #expect(pool.turn(now: at(999)) == .none)
    #expect(pool.take(byteCount: 100, now: at(1_000)) == nil)
    #expect(pool.turn(now: at(1_000)) == .open(place: 2))
  }

  @Test func neverMoreThanTheMaximum() {
    var pool = pool(ready: 2, of: 2)
    for place in 0..<2 { pool.update(place: place, inFlight: 100, streamLimit: 100, window: 65_535) }
    #expect(pool.take(byteCount: 100, now: at(0)) == nil)
    #expect(pool.turn(now: at(60_000)) == .none)
    pool.leaves(place: 0)
    #expect(pool.take(byteCount: 100, now: at(60_001)) == nil)
    #expect(pool.turn(now: at(60_001)) == .open(place: 2), "a draining one is replaced beside itself")
    #expect(pool.leavingCount == 1)
  }

  @Test func settingsDownAndUp() {
    var pool = pool(ready: 1, of: 1)
    pool.update(place: 0, inFlight: 50, streamLimit: 1, window: 65_535)
    #expect(pool.room == 0)
    #expect(pool.take(byteCount: 1, now: at(0)) == nil)
    pool.update(place: 0, inFlight: 50, streamLimit: 51, window: 65_535)
    #expect(pool.take(byteCount: 1, now: at(0)) == 0)
    #expect(pool.take(byteCount: 1, now: at(0)) == nil)
  }

  @Test func failuresWaitLongerAndLongerAndOpenTheBreaker() {
    var pool = PoolState(limits: limits(8))
    var now: Int64 = 0
    #expect(pool.take(byteCount: 1, now: at(now)) == nil)
    var waits: [Int64] = []
    for failure in 1...9 {
      #expect(pool.turn(now: at(now)) == .open(place: 0))
      #expect(pool.breaker == (failure <= 5 ? .closed : .halfOpen))
      pool.ended(place: 0, didFail: true, now: at(now), random: .max)
      #expect(pool.failures == failure)
      #expect(pool.breaker == (failure < 5 ? .closed : .open))
      let wait = pool.backoffMilliseconds(now: at(now))
      waits.append(wait)
      #expect(pool.turn(now: at(now + wait - 1)) == .none)
      now += max(wait, 1_000)
    }
    for (failure, wait) in waits.enumerated() {
      let longest = min(500 << Int64(failure), 2_000)
      #expect(wait >= longest / 2 && wait <= longest)
    }
    #expect(pool.isStalled, "what waits will wait")
    #expect(pool.turn(now: at(now)) == .open(place: 0))
    pool.opened(place: 0)
    #expect(pool.breaker == .open, "only an answer proves the host")
    let isFirst = answers(&pool, at: now)
    #expect(isFirst)
    let isSecond = answers(&pool, at: now)
    #expect(!isSecond)
    #expect(pool.breaker == .closed)
    #expect(pool.backoffMilliseconds(now: at(now)) == 0)
  }

  @Test func backoffIsSpreadByChance() {
    var waits: Set<Int64> = []
    for seed in 0..<20 as Range<UInt64> {
      var pool = PoolState(limits: limits(8))
      var random = SeededRandom(seed: seed)
      #expect(pool.take(byteCount: 1, now: at(0)) == nil)
      #expect(pool.turn(now: at(0)) == .open(place: 0))
      pool.ended(place: 0, didFail: true, now: at(0), random: random.next())
      waits.insert(pool.backoffMilliseconds(now: at(0)))
    }
    #expect(waits.count > 10)
    #expect(waits.allSatisfy { $0 >= 250 && $0 <= 500 })
  }

  @Test func aLostConnectionIsReplacedWhileThePoolIsWarm() {
    var pool = pool(ready: 1)
    pool.ended(place: 0, didFail: false, now: at(0), random: 0)
    #expect(pool.turn(now: at(0)) == .open(place: 0))
    var cold = self.pool(ready: 1)
    cold.ended(place: 0, didFail: false, now: at(700_000), random: 0)
    #expect(cold.turn(now: at(700_000)) == .none)
    #expect(cold.take(byteCount: 1, now: at(700_001)) == nil)
    #expect(cold.turn(now: at(700_001)) == .open(place: 0))
  }

  @Test func aHostThatAnswersOnceAndDropsIsNotHammered() {
    var pool = PoolState(limits: limits(8))
    #expect(pool.take(byteCount: 1, now: at(0)) == nil)
    #expect(pool.turn(now: at(0)) == .open(place: 0))
    pool.opened(place: 0)
    pool.ended(place: 0, didFail: false, now: at(50), random: 0)
    #expect(pool.turn(now: at(50)) == .none)
    #expect(pool.turn(now: at(1_000)) == .open(place: 0))
  }

  @Test func shrinksAfterAQuietMinute() {
    var pool = pool(ready: 3)
    #expect(pool.turn(now: at(0)) == .none)
    pool.update(place: 0, inFlight: 40, streamLimit: 100, window: 65_535)
    pool.update(place: 1, inFlight: 5, streamLimit: 100, window: 65_535)
    pool.update(place: 2, inFlight: 30, streamLimit: 100, window: 65_535)
    #expect(pool.turn(now: at(30_000)) == .none)
    #expect(pool.turn(now: at(60_000)) == .drain(place: 1))
    #expect(pool.turn(now: at(60_001)) == .none)
    #expect(pool.readyCount == 2)
  }

  @Test func doesNotShrinkAfterABusyMomentNorBelowOne() {
    var pool = pool(ready: 2)
    #expect(pool.turn(now: at(0)) == .none)
    pool.update(place: 0, inFlight: 51, streamLimit: 100, window: 65_535)
    #expect(pool.turn(now: at(30_000)) == .none)
    pool.update(place: 0, inFlight: 0, streamLimit: 100, window: 65_535)
    #expect(pool.turn(now: at(60_000)) == .none)
    #expect(pool.turn(now: at(120_000)) == .drain(place: 0))
    pool.ended(place: 0, didFail: false, now: at(120_001), random: 0)
    #expect(pool.turn(now: at(500_000)) == .none)
    #expect(pool.readyCount == 1)
  }

  /// How many requests a connection of 100 streams takes now.
  private func room(_ pool: PoolState) -> Int {
    var copy = pool
    copy.update(place: 0, inFlight: 0, streamLimit: 100, window: 1_000_000)
    var count = 0
    while copy.take(byteCount: 1, now: at(0)) != nil { count += 1 }
    return count
  }

  @Test func fewerStreamsHalvesWhileMostAnswersAskForItAndDoublesAfter() {
    var pool = pool(ready: 1, of: 1)
    pool.update(place: 0, inFlight: 80, streamLimit: 100, window: 1_000_000)
    var limits: [Int] = []
    for step in 0..<8 as Range<Int64> {
      for _ in 0..<10 {
        _ = answers(&pool, at: step * 250)
        pool.fewerStreams(place: 0, now: at(step * 250))
      }
      pool.update(place: 0, inFlight: 80, streamLimit: 100, window: 1_000_000)
      #expect(pool.turn(now: at(step * 250 + 249)) == .none)
      #expect(pool.turn(now: at(step * 250 + 250)) == .none)
      limits.append(room(pool))
    }
    #expect(limits == [40, 20, 10, 5, 2, 1, 1, 1], "also where answers are as slow as the pace")
    #expect(pool.isStalled)
    limits = []
    for step in 9..<16 as Range<Int64> {
      #expect(pool.turn(now: at(step * 250)) == .none)
      limits.append(room(pool))
    }
    #expect(limits == [2, 4, 8, 16, 32, 64, 100])
    #expect(!pool.isStalled)
  }

  @Test func whoIsAskedForFewerStreamsOpensNoMoreConnections() {
    var pool = pool(ready: 1)
    for _ in 0..<10 {
      _ = answers(&pool, at: 0)
      pool.fewerStreams(place: 0, now: at(0))
    }
    pool.update(place: 0, inFlight: 80, streamLimit: 100, window: 1_000_000)
    #expect(pool.turn(now: at(250)) == .none)
    #expect(pool.take(byteCount: 1, now: at(5_000)) == nil, "40 are allowed, 80 are on their way")
    #expect(pool.turn(now: at(300)) == .none, "the shortage is of our own making")
    #expect(pool.isStalled)
    // As soon as APNs allows all streams again, a request without room may open another connection.
    for step in 3..<8 as Range<Int64> { _ = pool.turn(now: at(step * 250)) }
    pool.update(place: 0, inFlight: 100, streamLimit: 100, window: 1_000_000)
    #expect(pool.take(byteCount: 1, now: at(5_000)) == nil)
    #expect(pool.turn(now: at(5_000)) == .open(place: 1))
  }

  @Test func aFewAnswersThatAskForFewerStreamsChangeNothing() {
    var pool = pool(ready: 1, of: 1)
    for step in 0..<10 as Range<Int64> {
      pool.fewerStreams(place: 0, now: at(step * 250))
      for _ in 0..<20 { _ = answers(&pool, at: step * 250) }
      _ = pool.turn(now: at(step * 250 + 250))
      #expect(room(pool) == 100)
    }
  }

  @Test func whatWasOfUseIsReplacedAtOnce() {
    var pool = pool(ready: 1)
    // GOAWAY every hundred requests: each time the next one is opened without a wait.
    for round in 0..<6 as Range<Int64> {
      let place = Int(round)
      pool.update(place: place, inFlight: 0, streamLimit: 1000, window: 10_000_000)
      for _ in 0..<100 { #expect(pool.take(byteCount: 1, now: at(round * 10)) == place) }
      pool.leaves(place: place)
      #expect(pool.turn(now: at(round * 10)) == .open(place: place + 1))
      #expect(pool.turn(now: at(round * 10)) == .none, "one by one")
      pool.opened(place: place + 1)
    }
  }

  @Test func replacementsDoNotPutGrowthOff() {
    var pool = pool(ready: 1)
    pool.update(place: 0, inFlight: 0, streamLimit: 1000, window: 10_000_000)
    for _ in 0..<100 { #expect(pool.take(byteCount: 1, now: at(0)) == 0) }
    pool.leaves(place: 0)
    #expect(pool.turn(now: at(500)) == .open(place: 1))
    pool.opened(place: 1)
    pool.update(place: 1, inFlight: 1, streamLimit: 1, window: 10_000_000)
    #expect(pool.take(byteCount: 1, now: at(501)) == nil)
    #expect(pool.turn(now: at(501)) == .open(place: 2), "the last one for need was opened long ago")
  }

  @Test func whatWasOfNoUseWaitsForTheInterval() {
    var pool = pool(ready: 1)
    #expect(pool.take(byteCount: 1, now: at(0)) == 0)
    pool.leaves(place: 0)
    #expect(pool.turn(now: at(0)) == .open(place: 1))
    pool.opened(place: 1)
    pool.update(place: 1, inFlight: 0, streamLimit: 1000, window: 10_000_000)
    for _ in 0..<99 { #expect(pool.take(byteCount: 1, now: at(10)) == 1) }
    pool.ended(place: 1, didFail: false, now: at(10), random: 0)
    #expect(pool.turn(now: at(999)) == .none)
    #expect(pool.turn(now: at(1_000)) != .none)
  }

  @Test func saysWhyRequestsFindNoRoom() {
    var pool = PoolState(limits: limits(1))
    #expect(pool.stall(now: at(0)) == nil, "nobody asked")
    #expect(pool.take(byteCount: 100, now: at(0)) == nil)
    #expect(pool.stall(now: at(0)) == .noConnection)
    #expect(pool.turn(now: at(0)) == .open(place: 0))
    pool.opened(place: 0)
    pool.update(place: 0, inFlight: 1, streamLimit: 1, window: 65_535)
    #expect(pool.take(byteCount: 100, now: at(10)) == nil)
    #expect(pool.stall(now: at(10)) == .noStream)
    pool.update(place: 0, inFlight: 1, streamLimit: 10, window: 99)
    #expect(pool.take(byteCount: 100, now: at(20)) == nil)
    #expect(pool.stall(now: at(20)) == .noWindow)
    pool.update(place: 0, inFlight: 1, streamLimit: 10, window: 100)
    #expect(pool.stall(now: at(20)) == nil)
    pool.update(place: 0, inFlight: 1, streamLimit: 1, window: 100)
    #expect(pool.stall(now: at(1_021)) == nil, "of a second ago")
  }

  @Test func closingDrainsAllAndOpensNone() {
    var pool = pool(ready: 2)
    #expect(pool.take(byteCount: 1, now: at(0)) != nil)
    pool.close()
    #expect(pool.turn(now: at(0)) == .drain(place: 0))
    #expect(pool.turn(now: at(0)) == .drain(place: 1))
    #expect(pool.turn(now: at(0)) == .none)
    pool.ended(place: 0, didFail: false, now: at(1), random: 0)
    pool.ended(place: 1, didFail: false, now: at(1), random: 0)
    #expect(pool.turn(now: at(100_000)) == .none)
  }

  @Test func leavingWhileOpeningNeverTakesRequests() {
    var pool = PoolState(limits: limits(1))
    #expect(pool.take(byteCount: 1, now: at(0)) == nil)
    #expect(pool.turn(now: at(0)) == .open(place: 0))
    pool.leaves(place: 0)
    pool.opened(place: 0)
    pool.update(place: 0, inFlight: 0, streamLimit: 100, window: 65_535)
    #expect(pool.take(byteCount: 1, now: at(1)) == nil)
    #expect(pool.turn(now: at(2_000)) == .open(place: 1))
  }
}
