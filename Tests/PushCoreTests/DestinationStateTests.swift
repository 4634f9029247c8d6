import PushCore
import Testing

/// A destination that refuses, as a trace.
@Suite struct DestinationStateTests {
  private var state = DestinationState()
  private var now = Instant(nanoseconds: 0)

  private mutating func wait(_ milliseconds: Int64) { now = now.adding(milliseconds: milliseconds) }

  private mutating func way(after milliseconds: Int64 = 0) -> DestinationState.Way {
    wait(milliseconds)
    return state.way(now: now)
  }

  private mutating func refuse(_ count: Int = 1) {
    for _ in 0..<count { state.refused(now: now) }
  }

  private mutating func publish(_ count: Int) {
    for _ in 0..<count { state.published(now: now) }
  }

  /// Waits for the next probe, and publishes it. Returns how long that took, and the fresh channels and connections.
  private mutating func probe() -> (milliseconds: Int64, renewals: [DestinationState.Way]) {
    let start = now
    var renewals: [DestinationState.Way] = []
    while true {
      switch state.way(now: now) {
      case .now:
        state.published(now: now)
        return (now.milliseconds(since: start), renewals)
      case .later: wait(1)
      case .onFreshChannel: renewals.append(.onFreshChannel)
      case .onFreshConnection: renewals.append(.onFreshConnection)
      }
    }
  }

  @Test mutating func whatRefuses_isProbedLessAndLess_onFreshChannels() {
    publish(1_000)
    #expect(way() == .now)
    refuse(1_000)
    #expect(state.refusingSince == now)
    var waits: [Int64] = []
    var renewals: [DestinationState.Way] = []
    for _ in 0..<12 {
      let (milliseconds, fresh) = probe()
      #expect(way(after: 1) == .later, "one probe at a time")
      waits.append(milliseconds)
      renewals += fresh
      refuse()
    }
    #expect(Array(waits.prefix(4)) == [100, 200, 400, 900], "a fresh channel has 100 ms to open")
    #expect(waits.suffix(3).allSatisfy { $0 == 5_100 })
    #expect(renewals.prefix(4) == [.onFreshChannel, .onFreshChannel, .onFreshChannel, .onFreshConnection])
    #expect(renewals.count == 9, "one for each probe after a second of refusals")
  }

  /// What refuses them may be common to them.
  @Test mutating func severalThatRefuseForLong_takeTurns() {
    var turns = RefusalTurns<Int>()
    refuse()
    let early = state
    for _ in 0..<8 {
      _ = probe()
      refuse()
    }
    #expect(state.isTriedSeldom && !early.isTriedSeldom)
    var (first, second) = (state, state)
    turns.took(0, first, now: now)
    #expect(turns.has(0, first, now: now), "with a fresh channel, too")
    #expect(!turns.has(1, second, now: now) && turns.has(2, early, now: now), "one that began lately waits for nobody")
    #expect(!turns.has(1, second, now: now.adding(milliseconds: 4_999)))
    wait(5_000)
    #expect(turns.has(1, second, now: now))
    turns.took(1, second, now: now)
    #expect(!turns.has(0, first, now: now))
    // One of them takes its probe: the others may, too.
    second.published(now: now)
    #expect(second.confirmed(now: now) == true)
    second.published(now: now)
    #expect(second.confirmed(now: now) == false)
    first.tryAgain(now: now)
    #expect(turns.has(0, first, now: now))
    first.refused(now: now)
    first.tryAgain(now: now.adding(milliseconds: 4_999))
    #expect(!turns.has(0, first, now: now.adding(milliseconds: 4_999)), "not more often than it is tried anyway")
  }

  /// Where connections are short, whatever is published before the next probe is due would never be.
  @Test mutating func newConnection_isProbedAtOnce() {
    publish(1)
    refuse()
    for _ in 0..<8 {
      _ = probe()
      refuse()
    }
    #expect(way() == .later)
    state.lost()
    #expect(way() == .now)
    publish(1)
    #expect(way() == .later)
    state.lost()
    publish(1)
    refuse()
    #expect(way(after: 4_000) == .later && way(after: 1_000) == .onFreshChannel)
  }

  /// A queue that is emptied slowly: what follows a probe grows with the answers, and ends with the next refusal.
  @Test mutating func moreFollowAsItTakesThem() {
    publish(1)
    refuse()
    _ = probe()
    state.confirmed(now: now)
    #expect(way() == .now)
    publish(2)
    #expect(way() == .later)
    state.confirmed(now: now)
    publish(3)
    #expect(way() == .later)
    refuse(4)
    #expect(way() == .later, "probed again")
    #expect(probe().milliseconds == 100)
    var published = 0
    while state.refusingSince != nil, published < 10_000 {
      state.confirmed(now: now)
      while state.way(now: now) == .now, published < 10_000 {
        publish(1)
        published += 1
      }
    }
    #expect(published == 10_000, "it takes everything")
  }

  @Test mutating func itRefusesUntilItHasTakenEverythingForAWhile() {
    publish(1)
    #expect(state.refused(now: now) == false)
    #expect(state.recovered(now: now.adding(milliseconds: 60_000)) == nil, "it took nothing since")
    while state.refused(now: now) == false { _ = probe() }
    #expect(now.milliseconds(since: Instant(nanoseconds: 0)) >= 1_000, "one refusal is no news")
    #expect(state.refused(now: now) == false, "told once")
    _ = probe()
    wait(1)
    state.confirmed(now: now)
    #expect(state.recovered(now: now) == nil)
    wait(10_000)
    #expect((state.recovered(now: now) ?? 0) >= 1_000)
    #expect(state.refusingSince == nil)
    #expect(way() == .now)
  }

  /// The answers of a connection that is gone never come: that is no reason to wait for them.
  @Test mutating func aLostConnectionLeavesNoProbe() {
    publish(2)
    refuse()
    _ = probe()
    state.lost()
    #expect(probe().milliseconds == 0)
  }

  /// A broker that says neither yes nor no is asked again.
  @Test mutating func anAnswerThatDoesNotComeIsNotWaitedForForEver() {
    publish(1)
    refuse()
    _ = probe()
    #expect(way(after: 4_999) == .later)
    #expect(probe().milliseconds <= 101)
    state.confirmed(now: now)
    #expect(probe().milliseconds == 0)
    publish(1)
    #expect(way(after: 4_999) == .later)
    #expect(probe().milliseconds <= 101)
  }

  /// Whoever waits for it may put what waits elsewhere, while it refuses and until it takes everything.
  @Test mutating func itRefusesForLong_afterASecond() {
    publish(1)
    refuse()
    #expect(!state.refusesForLong(now: now.adding(milliseconds: 999)))
    #expect(state.refusesForLong(now: now.adding(milliseconds: 1_000)))
    wait(2_000)
    while way() != .now { wait(1) }
    publish(1)
    state.confirmed(now: now)
    #expect(state.refusesForLong(now: now), "it takes few")
    wait(10_000)
    #expect(state.recovered(now: now) == nil, "nobody was told")
    #expect(state.refusingSince == nil)
    #expect(!state.refusesForLong(now: now))
  }

  /// What was on its way when it refused is no probe.
  @Test mutating func lateAnswersAreNoProbes() {
    publish(3)
    refuse()
    state.confirmed(now: now)
    refuse()
    #expect(probe().milliseconds == 100)
    refuse()
    #expect(probe().milliseconds == 200)
  }
}
