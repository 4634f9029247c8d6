import PushCore
import Testing

/// The life of a provider token, as traces: what happened when, and what was done.
@Suite struct ProviderTokenStateTests {
  /// 2026-11-21 12:00 UTC.
  private static let start: Int64 = 1_795_262_400

  /// A time, this many seconds after the start, on both clocks.
  private func at(_ seconds: Int64, dayClockAhead: Int64 = 0) -> Now {
    Now(
      monotonic: Instant(nanoseconds: (1_000 + seconds) * 1_000_000_000),
      unixMilliseconds: (ProviderTokenStateTests.start + seconds + dayClockAhead) * 1000)
  }

  private func issued(_ seconds: Int64) -> Int64 { ProviderTokenStateTests.start + seconds }

  /// A state that serves a token of its own, made at 0 and due at 40 minutes.
  private func serving() -> ProviderTokenState {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore)
    #expect(state.storeAnswered(.nothing, now: at(0), jitter: 0) == .mint(serial: 1, issuedAt: issued(0)))
    return state
  }

  @Test func firstTokenIsMadeOnlyWhereTheStoreHasNone() {
    var state = ProviderTokenState()
    #expect(state.current == nil)
    #expect(state.turn(now: at(0), jitter: 0) == .askStore)
    #expect(state.turn(now: at(0), jitter: 0) == .none)
    #expect(state.storeAnswered(.nothing, now: at(0), jitter: 0) == .mint(serial: 1, issuedAt: issued(0)))
    #expect(state.current?.issuedAt == issued(0))
    #expect(state.turn(now: at(1), jitter: 0) == .none)
  }

  @Test func firstTokenIsTheFleetsWhereThereIsOne() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore)
    #expect(state.storeAnswered(.token(issuedAt: issued(-600)), now: at(0), jitter: 0) == .adopt(serial: 1))
    #expect(state.turn(now: at(1800 - 1), jitter: 0) == .none)
    #expect(state.turn(now: at(1800), jitter: 0) == .askStore)
  }

  @Test func aStoreThatDoesNotAnswerDelaysTheFirstTokenByHalfASecond() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore)
    #expect(state.turn(now: at(0), jitter: 0) == .none)
    #expect(state.turn(now: at(1), jitter: 0) == .mint(serial: 1, issuedAt: issued(1)))
    #expect(state.storeAnswered(.nothing, now: at(2), jitter: 0) == .none)
    #expect(state.storeAnswered(.token(issuedAt: issued(2)), now: at(2), jitter: 0) == .none)
    #expect(state.current?.serial == 1)
  }

  @Test(arguments: [(0, 2400), (1, 2401), (599, 2999), (600, 2400), (UInt64.max, 2400 + Int64(UInt64.max % 600))])
  func renewedBetween40And50Minutes(jitter: UInt64, due: Int64) {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: jitter) == .askStore)
    #expect(state.storeAnswered(.nothing, now: at(0), jitter: jitter) == .mint(serial: 1, issuedAt: issued(0)))
    #expect(state.turn(now: at(due - 1), jitter: 0) == .none)
    #expect(state.turn(now: at(due), jitter: 0) == .askStore)
    #expect(state.current?.serial == 1, "the old one serves until the new one is there")
    #expect(state.storeAnswered(.nothing, now: at(due), jitter: 0) == .mint(serial: 2, issuedAt: issued(due)))
    #expect(state.current?.serial == 2)
  }

  @Test func renewalTakesAnotherReplicasNewerToken() {
    var state = serving()
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore)
    #expect(state.storeAnswered(.token(issuedAt: issued(2300)), now: at(2400), jitter: 0) == .adopt(serial: 2))
    #expect(state.current?.issuedAt == issued(2300))
  }

  @Test(arguments: [-100, 0, 2400 + 61, -4000] as [Int64])
  func renewalDoesNotTakeWhatIsNoBetter(storeIssued: Int64) {
    var state = serving()
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore)
    #expect(
      state.storeAnswered(.token(issuedAt: issued(storeIssued)), now: at(2400), jitter: 0)
        == .mint(serial: 2, issuedAt: issued(2400)))
  }

  @Test func newsOfAnotherTokenWaitsUntilOursMayBeReplaced() {
    var state = serving()
    #expect(state.storeOffered(issuedAt: issued(1190), now: at(1199), jitter: 0) == .none)
    #expect(state.storeOffered(issuedAt: issued(1190), now: at(1200), jitter: 0) == .adopt(serial: 2))
    #expect(state.storeOffered(issuedAt: issued(1190), now: at(1201), jitter: 0) == .none)
    #expect(state.storeOffered(issuedAt: issued(0), now: at(2400), jitter: 0) == .none)
  }

  @Test func neverServedInItsLastHalfMinute() {
    var state = serving()
    #expect(state.turn(now: at(3571), jitter: 0) == .askStore)
    #expect(state.current == nil)
    #expect(state.turn(now: at(3571), jitter: 0) == .none)
    #expect(state.turn(now: at(3572), jitter: 0) == .mint(serial: 2, issuedAt: issued(3572)))
  }

  @Test func aDayClockThatIsSetBackKeepsNothingAlive() {
    var state = serving()
    #expect(state.turn(now: at(2399, dayClockAhead: -7200), jitter: 0) == .none)
    #expect(state.turn(now: at(2400, dayClockAhead: -7200), jitter: 0) == .askStore)
  }

  @Test func aDayClockThatJumpsAheadRenewsOnlyAfter20MinutesOrPast60() {
    var state = serving()
    #expect(state.turn(now: at(300, dayClockAhead: 2700), jitter: 0) == .none)
    #expect(state.turn(now: at(1199, dayClockAhead: 2000), jitter: 0) == .none)
    #expect(state.turn(now: at(1200, dayClockAhead: 2000), jitter: 0) == .askStore)
    var other = serving()
    #expect(other.turn(now: at(300, dayClockAhead: 3600), jitter: 0) == .askStore)
    #expect(other.current == nil)
  }

  @Test func expiredIsRenewedOnceForAllAnswersToTheSameToken() {
    var state = serving()
    #expect(state.expired(serial: 1, now: at(1300), jitter: 0) == .mint(serial: 2, issuedAt: issued(1300)))
    #expect(state.expired(serial: 1, now: at(1300), jitter: 0) == .none)
    #expect(state.expired(serial: 1, now: at(1301), jitter: 0) == .none)
    #expect(state.current?.serial == 2)
  }

  @Test func expiredButFreshMeansThatAClockIsWrong() {
    var state = serving()
    #expect(state.expired(serial: 1, now: at(30), jitter: 0) == .suspectClock(ageSeconds: 30))
    #expect(state.current?.serial == 1)
    #expect(state.turn(now: at(31), jitter: 0) == .none)
    #expect(state.expired(serial: 1, now: at(1199), jitter: 0) == .suspectClock(ageSeconds: 1199))
  }

  @Test func tooManyUpdatesKeepsTheOlderFor20MinutesThenTakesTheSameNewer() {
    var state = serving()
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore)
    #expect(state.storeAnswered(.nothing, now: at(2400), jitter: 0) == .mint(serial: 2, issuedAt: issued(2400)))
    #expect(state.tooManyUpdates(serial: 2, now: at(2410)) == .fallBack(serial: 1))
    #expect(state.current?.serial == 1)
    #expect(state.tooManyUpdates(serial: 2, now: at(2411)) == .none)
    #expect(state.tooManyUpdates(serial: 1, now: at(2411)) == .none)
    #expect(state.turn(now: at(3000), jitter: 0) == .none)
    #expect(state.storeOffered(issuedAt: issued(2999), now: at(3000), jitter: 0) == .none)
    // The older one ends at 60 minutes, before the 20 are over: the newer one is all there is.
    #expect(state.turn(now: at(3571), jitter: 0) == .fallBack(serial: 2))
    #expect(state.current?.serial == 2)
    #expect(state.turn(now: at(3572), jitter: 0) == .none)
    #expect(state.turn(now: at(4800), jitter: 0) == .askStore)
  }

  @Test func tooManyUpdatesWithTimeLeftChangesBackAfter20Minutes() {
    var state = serving()
    #expect(state.expired(serial: 1, now: at(1200), jitter: 0) == .mint(serial: 2, issuedAt: issued(1200)))
    // Expired means that there is no older one to keep.
    #expect(state.tooManyUpdates(serial: 2, now: at(1210)) == .none)
    #expect(state.current?.serial == 2)
    #expect(state.turn(now: at(2409), jitter: 0) == .none)
    #expect(state.turn(now: at(2411), jitter: 0) == .none)
    #expect(state.turn(now: at(3600), jitter: 0) == .askStore)
  }

  @Test func olderIsKeptForTheWhole20Minutes() {
    var state = serving()
    #expect(state.storeOffered(issuedAt: issued(1200), now: at(1200), jitter: 0) == .adopt(serial: 2))
    #expect(state.tooManyUpdates(serial: 2, now: at(1205)) == .fallBack(serial: 1))
    #expect(state.turn(now: at(2404), jitter: 0) == .none)
    #expect(state.current?.serial == 1)
    #expect(state.turn(now: at(2405), jitter: 0) == .fallBack(serial: 2))
    #expect(state.current?.serial == 2)
    #expect(state.turn(now: at(2406), jitter: 0) == .none)
  }

  @Test func expiredWhileHeldTakesTheNewer() {
    var state = serving()
    #expect(state.storeOffered(issuedAt: issued(1200), now: at(1200), jitter: 0) == .adopt(serial: 2))
    #expect(state.tooManyUpdates(serial: 2, now: at(1205)) == .fallBack(serial: 1))
    #expect(state.expired(serial: 1, now: at(1300), jitter: 0) == .fallBack(serial: 2))
    #expect(state.expired(serial: 1, now: at(1300), jitter: 0) == .none)
  }

  /// Whatever happens in whatever order: at most one new token in 20 minutes, none served past 60, serials only grow.
  @Test(arguments: 0..<50 as Range<UInt64>)
  func rulesHoldForAnyCourse(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var state = ProviderTokenState()
    var lastMint: Int64?
    var clock: Int64 = 0
    func done(_ action: ProviderTokenState.Action) {
      if case .mint(_, let issuedAt) = action {
        #expect(issuedAt == issued(clock))
        if let lastMint { #expect(clock - lastMint >= 1200, "minted twice in 20 minutes") }
        lastMint = clock
      }
    }
    for _ in 0..<2000 {
      clock += Int64(random.next() % 60)
      let serial = state.current?.serial ?? 0
      switch random.next() % 40 {
      case 0: done(state.expired(serial: serial, now: at(clock), jitter: random.next()))
      case 1: done(state.tooManyUpdates(serial: serial, now: at(clock)))
      case 2: done(state.storeAnswered(.nothing, now: at(clock), jitter: random.next()))
      default: done(state.turn(now: at(clock), jitter: random.next()))
      }
      if let token = state.current, state.turn(now: at(clock), jitter: 0) == .none, let now = state.current {
        #expect(now.serial == token.serial)
        #expect(clock - (now.issuedAt - issued(0)) <= 3570, "served past its time")
      }
    }
    #expect(lastMint != nil)
  }
}
