import PushCore
import Testing

/// The life of a provider token, as traces: event and time → action.
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
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.absent, now: at(0), jitter: 0) == .mint(serial: 1, issuedAt: issued(0)))
    return state
  }

  @Test func firstTokenIsMadeOnlyWhereTheStoreHasNone() {
    var state = ProviderTokenState()
    #expect(state.current == nil)
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.turn(now: at(0), jitter: 0) == .none)
    #expect(state.storeAnswered(.absent, now: at(0), jitter: 0) == .mint(serial: 1, issuedAt: issued(0)))
    #expect(state.current?.issuedAt == issued(0))
    #expect(state.turn(now: at(1), jitter: 0) == .none)
  }

  @Test func firstTokenIsTheFleetsWhereThereIsOne() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.token(issuedAt: issued(-600)), now: at(0), jitter: 0) == .adopt(serial: 1))
    #expect(state.turn(now: at(1800 - 1), jitter: 0) == .none)
    #expect(state.turn(now: at(1800), jitter: 0) == .askStore(newerThan: issued(-600)))
  }

  @Test func aStoreThatDoesNotAnswerDelaysTheFirstTokenByHalfASecond() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.turn(now: at(0), jitter: 0) == .none)
    #expect(state.turn(now: at(1), jitter: 0) == .mint(serial: 1, issuedAt: issued(1)))
    #expect(state.storeAnswered(.unreachable, now: at(2), jitter: 0) == .none)
    #expect(state.storeAnswered(.mayMint, now: at(2), jitter: 0) == .none)
    #expect(state.storeAnswered(.token(issuedAt: issued(2)), now: at(2), jitter: 0) == .none)
    #expect(state.current?.serial == 1)
  }

  @Test func inItsTurnATokenIsUsedOnlyOnceTheStoreTookIt() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.mayMint, now: at(0), jitter: 0) == .offer(issuedAt: issued(0)))
    #expect(state.current == nil)
    #expect(state.turn(now: at(0), jitter: 0) == .none)
    #expect(state.storeAnswered(.token(issuedAt: issued(0)), now: at(0), jitter: 0) == .adopt(serial: 1))
    #expect(state.current?.issuedAt == issued(0))
  }

  @Test func theStoresTokenServesInPlaceOfTheOneThatWasOffered() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.mayMint, now: at(0), jitter: 0) == .offer(issuedAt: issued(0)))
    #expect(state.storeAnswered(.token(issuedAt: issued(-300)), now: at(0), jitter: 0) == .adopt(serial: 1))
    #expect(state.current?.issuedAt == issued(-300))
  }

  @Test func anOfferWithoutAnAnswerIsUsedAloneAndNotMadeTwice() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.mayMint, now: at(0), jitter: 0) == .offer(issuedAt: issued(0)))
    #expect(state.turn(now: at(1), jitter: 0) == .mint(serial: 1, issuedAt: issued(0)), "the same iat")
    #expect(state.storeAnswered(.unreachable, now: at(1), jitter: 0) == .none)
  }

  @Test func waitingForAnotherMakerIsNoSilence() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    for second in Int64(0)..<4 {
      #expect(state.storeAnswered(.waiting, now: at(second), jitter: 0) == .none)
      #expect(state.turn(now: at(second), jitter: 0) == .none)
    }
    #expect(state.storeAnswered(.token(issuedAt: issued(3)), now: at(4), jitter: 0) == .adopt(serial: 1))
  }

  @Test func withoutTheStoreATokenServes55MinutesThenOneIsMadeAlone() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.token(issuedAt: issued(0)), now: at(0), jitter: 0) == .adopt(serial: 1))
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.storeAnswered(.unreachable, now: at(2400), jitter: 0) == .none)
    #expect(state.turn(now: at(2404), jitter: 0) == .none, "not asked every turn")
    for second in stride(from: Int64(2405), to: 3300, by: 5) {
      #expect(state.turn(now: at(second), jitter: 0) == .askStore(newerThan: issued(0)))
      #expect(state.storeAnswered(.unreachable, now: at(second), jitter: 0) == .none)
      #expect(state.current?.serial == 1)
    }
    #expect(state.turn(now: at(3300), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.storeAnswered(.unreachable, now: at(3300), jitter: 0) == .mint(serial: 2, issuedAt: issued(3300)))
    #expect(state.turn(now: at(3301), jitter: 0) == .none)
    #expect(state.turn(now: at(3300 + 2399), jitter: 0) == .none, "once")
  }

  @Test func aClockBehindTheFleetsNeverTakesIatBack() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.token(issuedAt: issued(50)), now: at(0), jitter: 0) == .adopt(serial: 1))
    #expect(state.turn(now: at(2600, dayClockAhead: -2600), jitter: 0) == .askStore(newerThan: issued(50)))
    #expect(
      state.storeAnswered(.mayMint, now: at(2600, dayClockAhead: -2600), jitter: 0) == .offer(issuedAt: issued(51)))
  }

  @Test(arguments: [(0, 2400), (1, 2401), (599, 2999), (600, 2400), (UInt64.max, 2400 + Int64(UInt64.max % 600))])
  func renewedBetween40And50Minutes(jitter: UInt64, due: Int64) {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0), jitter: jitter) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.absent, now: at(0), jitter: jitter) == .mint(serial: 1, issuedAt: issued(0)))
    #expect(state.turn(now: at(due - 1), jitter: 0) == .none)
    #expect(state.turn(now: at(due), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.current?.serial == 1, "the old one serves until the new one is there")
    #expect(state.storeAnswered(.absent, now: at(due), jitter: 0) == .mint(serial: 2, issuedAt: issued(due)))
    #expect(state.current?.serial == 2)
  }

  @Test func renewalTakesAnotherReplicasNewerToken() {
    var state = serving()
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.storeAnswered(.token(issuedAt: issued(2300)), now: at(2400), jitter: 0) == .adopt(serial: 2))
    #expect(state.current?.issuedAt == issued(2300))
  }

  @Test(arguments: [-100, 0, 2400 + 61, -4000] as [Int64])
  func whatTheStoreInsistsOnIsNotTakenWhereItIsNoBetter(storeIssued: Int64) {
    var state = serving()
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.storeAnswered(.token(issuedAt: issued(storeIssued)), now: at(2400), jitter: 0) == .none)
    #expect(state.current?.serial == 1)
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
    #expect(state.turn(now: at(3571), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.current == nil)
    #expect(state.turn(now: at(3571), jitter: 0) == .none)
    #expect(state.turn(now: at(3572), jitter: 0) == .mint(serial: 2, issuedAt: issued(3572)))
  }

  @Test func aDayClockThatIsSetBackKeepsNothingAlive() {
    var state = serving()
    #expect(state.turn(now: at(2399, dayClockAhead: -600), jitter: 0) == .none)
    #expect(state.turn(now: at(2400, dayClockAhead: -600), jitter: 0) == .askStore(newerThan: issued(0)))
  }

  /// APNs refuses such a token until its time: without this, for as long as the clock was ahead.
  @Test func aTokenOfAClockThatWasAheadIsReplacedByAnEarlierOne() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0, dayClockAhead: 7200), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.mayMint, now: at(0, dayClockAhead: 7200), jitter: 0) == .offer(issuedAt: issued(7200)))
    #expect(
      state.storeAnswered(.token(issuedAt: issued(7200)), now: at(0, dayClockAhead: 7200), jitter: 0)
        == .adopt(serial: 1))
    // The clock is set right.
    #expect(state.turn(now: at(1199), jitter: 0) == .none, "no token follows another one within 20 minutes")
    #expect(state.turn(now: at(1200), jitter: 0) == .askStore(newerThan: 0))
    #expect(state.storeAnswered(.mayMint, now: at(1200), jitter: 0) == .offer(issuedAt: issued(1200)))
    #expect(state.storeAnswered(.token(issuedAt: issued(1200)), now: at(1200), jitter: 0) == .adopt(serial: 2))
    #expect(state.turn(now: at(1200 + 2399), jitter: 0) == .none)
  }

  @Test func anotherWorkersEarlierTokenFollowsOneThatIsAhead() {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0, dayClockAhead: 7200), jitter: 0) == .askStore(newerThan: 0))
    #expect(
      state.storeAnswered(.absent, now: at(0, dayClockAhead: 7200), jitter: 0)
        == .mint(serial: 1, issuedAt: issued(7200)))
    #expect(state.storeOffered(issuedAt: issued(1100), now: at(1199), jitter: 0) == .none)
    #expect(state.storeOffered(issuedAt: issued(1100), now: at(1200), jitter: 0) == .adopt(serial: 2))
    #expect(state.storeOffered(issuedAt: issued(1000), now: at(2400), jitter: 0) == .none)
  }

  /// Made by a clock that was ahead (or far behind), and refused by APNs, whose time is known then: another one follows at once.
  @Test(arguments: [1_200, 7_200, -4_200] as [Int64])
  func aTokenThatAPNsNeverTookIsReplacedAtOnce(ahead: Int64) {
    var state = ProviderTokenState()
    #expect(state.turn(now: at(0, dayClockAhead: ahead), jitter: 0) == .askStore(newerThan: 0))
    #expect(
      state.storeAnswered(.mayMint, now: at(0, dayClockAhead: ahead), jitter: 0) == .offer(issuedAt: issued(ahead)))
    #expect(
      state.storeAnswered(.token(issuedAt: issued(ahead)), now: at(0, dayClockAhead: ahead), jitter: 0)
        == .adopt(serial: 1))
    func refused(_ now: Now) -> ProviderTokenState.Action {
      ahead > 0 ? state.invalid(serial: 1, now: now) : state.expired(serial: 1, now: now, jitter: 0)
    }
    #expect(refused(at(1)) == .askStore(newerThan: ahead > 0 ? 0 : issued(ahead), refused: issued(ahead)))
    #expect(state.current == nil)
    // Other requests were in flight.
    #expect(state.invalid(serial: 1, now: at(1)) == .wasReplaced)
    #expect(state.storeAnswered(.mayMint, now: at(1), jitter: 0) == .offer(issuedAt: issued(1)))
    #expect(state.storeAnswered(.token(issuedAt: issued(1)), now: at(1), jitter: 0) == .adopt(serial: 2))
    // APNs refuses this one too, or its clock is another one now: it is not for us to try on.
    #expect(state.invalid(serial: 2, now: at(600, dayClockAhead: -ahead)) == .none)
    #expect(state.current?.serial == 2)
    #expect(state.tooManyUpdates(serial: 2, now: at(601)) == .hold(milliseconds: 1_200_000), "none to fall back to")
  }

  @Test func anInvalidTokenOfTheRightTimeIsNotReplaced() {
    var state = serving()
    #expect(state.invalid(serial: 1, now: at(60)) == .none)
    #expect(state.invalid(serial: 1, now: at(1_260)) == .none, "it is the key that is wrong")
    #expect(state.current?.serial == 1)
  }

  /// Another worker had it refused first.
  @Test func aTokenThatTheFleetReplacedIsGivenUp() {
    var state = serving()
    #expect(state.storeReplaced(issuedAt: issued(0), now: at(5), jitter: 0) == .none, "ours")
    #expect(state.storeReplaced(issuedAt: issued(7_200), now: at(5), jitter: 0) == .none, "of the future for us")
    #expect(state.current?.serial == 1)
    #expect(state.storeReplaced(issuedAt: issued(-1_200), now: at(5), jitter: 0) == .adopt(serial: 2))
    #expect(state.invalid(serial: 1, now: at(5)) == .wasReplaced)
  }

  @Test func aDayClockThatJumpsAheadRenewsOnlyAfter20MinutesOrPast60() {
    var state = serving()
    #expect(state.turn(now: at(300, dayClockAhead: 2700), jitter: 0) == .none)
    #expect(state.turn(now: at(1199, dayClockAhead: 2000), jitter: 0) == .none)
    #expect(state.turn(now: at(1200, dayClockAhead: 2000), jitter: 0) == .askStore(newerThan: issued(0)))
    var other = serving()
    #expect(other.turn(now: at(300, dayClockAhead: 3600), jitter: 0) == .askStore(newerThan: 0))
    #expect(other.current == nil)
  }

  @Test func expiredIsRenewedOnceForAllAnswersToTheSameToken() {
    var state = serving()
    #expect(state.expired(serial: 1, now: at(1300), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.current == nil)
    #expect(state.expired(serial: 1, now: at(1300), jitter: 0) == .none)
    #expect(state.storeAnswered(.unreachable, now: at(1300), jitter: 0) == .mint(serial: 2, issuedAt: issued(1300)))
    #expect(state.expired(serial: 1, now: at(1301), jitter: 0) == .none)
    #expect(state.current?.serial == 2)
  }

  @Test func expiredButFreshMeansThatAClockIsWrong() {
    var state = serving()
    #expect(state.expired(serial: 1, now: at(30), jitter: 0) == .clockDoubt(ageSeconds: 30))
    #expect(state.current?.serial == 1)
    #expect(state.turn(now: at(31), jitter: 0) == .none)
    #expect(state.expired(serial: 1, now: at(1199), jitter: 0) == .clockDoubt(ageSeconds: 1199))
  }

  @Test func tooManyUpdatesKeepsTheOlderFor20MinutesThenTakesTheSameNewer() {
    var state = serving()
    #expect(state.turn(now: at(2400), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.storeAnswered(.absent, now: at(2400), jitter: 0) == .mint(serial: 2, issuedAt: issued(2400)))
    #expect(state.tooManyUpdates(serial: 2, now: at(2410)) == .fallBack(serial: 1))
    #expect(state.current?.serial == 1)
    #expect(state.tooManyUpdates(serial: 2, now: at(2411)) == .none)
    #expect(
      state.tooManyUpdates(serial: 1, now: at(2411)) == .hold(milliseconds: 1_199_000), "the older one neither")
    #expect(state.turn(now: at(3000), jitter: 0) == .none)
    #expect(state.storeOffered(issuedAt: issued(2999), now: at(3000), jitter: 0) == .none)
    // The older token expires at 60 minutes, before the 20 minutes are over: only the newer one is left.
    #expect(state.turn(now: at(3571), jitter: 0) == .fallBack(serial: 2))
    #expect(state.current?.serial == 2)
    #expect(state.turn(now: at(3572), jitter: 0) == .none)
    #expect(state.turn(now: at(4800), jitter: 0) == .askStore(newerThan: issued(2400)))
  }

  @Test func tooManyUpdatesWithTimeLeftChangesBackAfter20Minutes() {
    var state = serving()
    #expect(state.expired(serial: 1, now: at(1200), jitter: 0) == .askStore(newerThan: issued(0)))
    #expect(state.storeAnswered(.absent, now: at(1200), jitter: 0) == .mint(serial: 2, issuedAt: issued(1200)))
    // The older one expired, so it is not kept.
    #expect(state.tooManyUpdates(serial: 2, now: at(1210)) == .hold(milliseconds: 1_200_000))
    #expect(state.tooManyUpdates(serial: 2, now: at(1310)) == .hold(milliseconds: 1_100_000))
    #expect(state.current?.serial == 2)
    #expect(state.turn(now: at(2409), jitter: 0) == .none)
    #expect(state.turn(now: at(2411), jitter: 0) == .none)
    #expect(state.turn(now: at(3600), jitter: 0) == .askStore(newerThan: issued(1200)))
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

  /// In any order of events: at most one new token in 20 minutes, none served past 60, serials only grow.
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
      case 2: done(state.storeAnswered(.unreachable, now: at(clock), jitter: random.next()))
      case 3: done(state.storeAnswered(.absent, now: at(clock), jitter: random.next()))
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
