import PushCore
import Testing

/// One name, one channel: each line of a test is an event and its actions.
@Suite struct ChannelEnsureStateTests {
  private let name = ChannelName("match-1")!
  private let scope = AppScope(app: "com.example.app", environment: .production)!
  private let one = ChannelID(text: "T25l")!
  private let two = ChannelID(text: "VHdv")!
  private let timing = ChannelEnsureState.Timing(requestMilliseconds: 1_000, patienceMilliseconds: 20_000)

  private func state(_ wish: ChannelEnsureState.Wish = .ensure(.mostRecent)) -> ChannelEnsureState {
    ChannelEnsureState(name, in: scope, wish, timing: timing, limit: ChannelLimit(maximum: 10), now: now(0).monotonic)
  }

  private func now(_ milliseconds: Int64) -> Now {
    Now(monotonic: Instant(nanoseconds: milliseconds * 1_000_000), unixMilliseconds: 1_000_000 + milliseconds)
  }

  private func entry(
    _ storage: StoragePolicy = .mostRecent, at milliseconds: Int64 = 0, request: String? = nil
  ) -> ChannelEntry {
    ChannelEntry(storage: storage, createdAt: 1_000_000 + milliseconds, request: request, name: name)
  }

  private func failure(_ kind: ChannelFailure.Kind) -> ChannelFailure {
    ChannelFailure(kind, request: ChannelRequest(.create(.mostRecent), in: scope), host: nil)
  }

  @Test func theFirstMakesIt() {
    var state = state()
    #expect(state.looked(.uncounted, now: now(0), random: 0) == .count)
    #expect(state.counted() == .look)
    #expect(state.looked(.begun(count: 3), now: now(1), random: 0) == .note)
    #expect(state.noted(isStored: true, now: now(1), random: 0) == .create(.mostRecent))
    #expect(state.created(one, now: now(2)) == .store(one, entry(at: 2), isNew: true))
    let result = ChannelEnsureState.Result(id: one, entry: entry(at: 2), origin: .created)
    #expect(state.stored(.stored, now: now(3), random: 0) == .done(result))
  }

  @Test func theOthersWaitAndFind() {
    var state = state()
    let first = state.looked(.lockedByOther, now: now(0), random: 0)
    #expect(first == .wait(milliseconds: 20))
    #expect(state.waited() == .look)
    let second = state.looked(.lockedByOther, now: now(20), random: 0)
    #expect(second == .wait(milliseconds: 40), "longer and longer")
    let found = state.looked(.found(one, entry()), now: now(60), random: 0)
    #expect(found == .done(.init(id: one, entry: entry(), origin: .found)))
    let late = state.looked(.lockedByOther, now: now(19_990), random: 0)
    #expect(late == .fail(.timedOut(name, milliseconds: 20_000), clearsIntent: false, holdsLock: false))
  }

  @Test func anotherStoragePolicyIsAnError() {
    var state = state(.ensure(.none))
    let action = state.looked(.found(one, entry(.mostRecent)), now: now(0), random: 0)
    let failure = ChannelRegistryFailure.storageDiffers(name, one, has: .mostRecent, wanted: .none)
    #expect(action == .fail(failure, clearsIntent: false, holdsLock: false))
    #expect("\(failure)".contains("match-1") && "\(failure)".contains("most-recent, not none"))
  }

  @Test func createIsForNewNamesButKnowsItsOwnRequest() {
    var other = state(.create(.mostRecent, request: "r1"))
    let exists = other.looked(.found(one, entry(request: "r0")), now: now(0), random: 0)
    #expect(exists == .fail(.exists(name, one), clearsIntent: false, holdsLock: false))
    var same = state(.create(.mostRecent, request: "r1"))
    let again = same.looked(.found(one, entry(request: "r1")), now: now(0), random: 0)
    #expect(again == .done(.init(id: one, entry: entry(request: "r1"), origin: .found)))
  }

  /// Ids of requests that are equal canonically alone are two requests'.
  @Test func createTellsItsOwnRequestByItsBytes() {
    let (composed, decomposed) = ("r-\u{e9}", "r-e\u{301}")
    for (request, isOwn) in [(composed, true), (decomposed, false)] {
      var state = state(.create(.mostRecent, request: request))
      let answer = state.looked(.found(one, entry(request: composed)), now: now(0), random: 0)
      let refusal = ChannelEnsureState.Action.fail(.exists(name, one), clearsIntent: false, holdsLock: false)
      #expect((answer != refusal) == isOwn)
    }
  }

  @Test func aLostAnswerIsLookedIntoBeforeAnythingIsMade() {
    var state = state()
    let intent = ChannelIntent(storage: .mostRecent, begunAt: 1_000_000, owner: "me", before: [one])
    #expect(state.looked(.begun(count: 0), now: now(0), random: 0) == .note)
    #expect(state.noted(isStored: true, now: now(0), random: 0) == .create(.mostRecent))
    let lost = state.createFailed(failure(.unanswered(text: "lost")), now: now(100))
    #expect(lost == .wait(milliseconds: timing.lockMilliseconds / 3))
    let early = state.looked(.unfinished(intent, redisNow: 1_002_000), now: now(2_000), random: 0)
    #expect(early == .wait(milliseconds: 1_001), "the create may still be carried out")
    let settled = state.looked(.unfinished(intent, redisNow: 1_003_001), now: now(3_001), random: 0)
    #expect(settled == .search(.mostRecent))
    let adopted = state.searched(
      candidates: [one, two], intents: [intent], storage: .mostRecent, redisNow: 1_003_100, now: now(3_100), random: 0)
    #expect(adopted == .store(two, entry(at: 3_100), isNew: false))
    let done = state.stored(.stored, now: now(3_200), random: 0)
    #expect(done == .done(.init(id: two, entry: entry(at: 3_100), origin: .adopted)))
  }

  @Test func whatLeftNothingIsMadeAnew() {
    var state = state()
    let dead = ChannelIntent(storage: .none, begunAt: 1, owner: "dead")
    #expect(state.looked(.unfinished(dead, redisNow: 1_000_000), now: now(0), random: 0) == .search(.none))
    let nothing = state.searched(
      candidates: [], intents: [dead], storage: .none, redisNow: 1_000_000, now: now(1), random: 0)
    #expect(nothing == .clear(strays: false))
    #expect(state.cleared() == .look)
    #expect(state.looked(.begun(count: 1), now: now(2), random: 0) == .note)
    #expect(state.noted(isStored: false, now: now(2), random: 0) == .wait(milliseconds: 20), "the lock was lost")
  }

  /// Redis may have lost that it is another name's.
  @Test func aChannelThatWasThereBeforeIsNotAdopted() {
    func action(_ before: [ChannelID]?) -> ChannelEnsureState.Action {
      var state = state()
      let dead = ChannelIntent(storage: .mostRecent, begunAt: 1, owner: "dead", before: before)
      #expect(state.looked(.unfinished(dead, redisNow: 1_000_000), now: now(0), random: 0) == .search(.mostRecent))
      #expect(
        state.candidates([one, two]) == (before == nil ? [] : [one, two].filter { before?.contains($0) == false }))
      return state.searched(
        candidates: [one], intents: [dead], storage: .mostRecent, redisNow: 1_000_000, now: now(1), random: 0)
    }
    #expect(action([one, two]) == .clear(strays: false))
    #expect(action(nil) == .clear(strays: false), "of an older version")
    #expect(action([two]) == .store(one, entry(at: 1), isNew: false))
  }

  /// Phones of another activity may be on it.
  @Test func anActivityAdoptsNoChannel() throws {
    let activity = ChannelName(ofActivity: try #require(ActivityID("match-1")))
    for wish in [ChannelEnsureState.Wish.ensure(.mostRecent), .recover] {
      var state = ChannelEnsureState(
        activity, in: scope, wish, timing: timing, limit: ChannelLimit(maximum: 10), now: now(0).monotonic)
      let dead = ChannelIntent(storage: .mostRecent, begunAt: 1, owner: "dead", before: [])
      let young = ChannelIntent(storage: .mostRecent, begunAt: 999_999, owner: "dead", before: [])
      let early = state.looked(.unfinished(young, redisNow: 1_000_000), now: now(0), random: 0)
      #expect(early == .wait(milliseconds: timing.lockMilliseconds / 3), "the create may still be stored")
      #expect(
        state.looked(.unfinished(dead, redisNow: 1_000_000), now: now(0), random: 0) == .clear(strays: false))
      #expect(state.cleared() == .look)
    }
    var state = ChannelEnsureState(
      activity, in: scope, .ensure(.mostRecent), timing: timing, limit: ChannelLimit(maximum: 10), now: now(0).monotonic
    )
    #expect(state.looked(.begun(count: 0), now: now(0), random: 0) == .create(.mostRecent))
  }

  @Test func recoveryTakesNoStrangersChannel() {
    let dead = ChannelIntent(storage: .none, begunAt: 1, owner: "a")
    let young = ChannelIntent(storage: .none, begunAt: 500, owner: "b")
    func decide(_ candidates: [ChannelID], _ intents: [ChannelIntent]) -> ChannelRecovery {
      ChannelRecovery.decide(candidates: candidates, intents: intents, settled: 100)
    }
    #expect(decide([], [dead]) == .create)
    #expect(decide([one], [dead]) == .adopt(one))
    #expect(decide([one, two], [dead, dead]) == .adopt(one))
    #expect(decide([one, two], [dead]) == .undecided)
    let later = ChannelIntent(storage: .none, begunAt: 2, owner: "c", before: [two])
    #expect(decide([one, two], [dead, later]) == .adopt(two), "the later one can have made the other alone")
    #expect(decide([one], [dead, young]) == .wait, "the young one may store it any moment")
  }

  @Test func whatWasMadeWithoutTheLockIsNotKept() {
    var state = state()
    #expect(state.looked(.begun(count: 0), now: now(0), random: 0) == .note)
    #expect(state.created(one, now: now(1)) == .store(one, entry(at: 1), isNew: true))
    #expect(state.stored(.lockLost, now: now(2), random: 0) == .wait(milliseconds: 20))
    let other = ChannelEnsureState.Result(id: two, entry: entry(), origin: .found)
    #expect(state.looked(.found(two, entry()), now: now(22), random: 0) == .discard(one, other))

    var again = self.state()
    #expect(again.looked(.begun(count: 0), now: now(0), random: 0) == .note)
    #expect(again.created(one, now: now(1)) == .store(one, entry(at: 1), isNew: true))
    #expect(again.stored(.lockLost, now: now(2), random: 0) == .wait(milliseconds: 20))
    let mine = ChannelIntent(storage: .mostRecent, begunAt: 1_000_000, owner: "me")
    let store = again.looked(.unfinished(mine, redisNow: 1_000_022), now: now(22), random: 0)
    #expect(store == .store(one, entry(at: 1), isNew: true), "the lock is ours again: nothing is made twice")
  }

  @Test func theLimitAndRefusalsEndIt() {
    var full = state()
    let action = full.looked(.full(count: 10), now: now(0), random: 0)
    #expect(action == .fail(.full(scope, count: 10, maximum: 10), clearsIntent: false, holdsLock: false))
    var refused = state()
    #expect(refused.looked(.begun(count: 0), now: now(0), random: 0) == .note)
    let unreachable = failure(.unreachable(text: "no route"))
    #expect(
      refused.createFailed(unreachable, now: now(1)) == .fail(.apns(unreachable), clearsIntent: true, holdsLock: true))
    let limit = refused.createFailed(
      failure(.refused(status: 400, reason: .cannotCreateChannelConfig)), now: now(1))
    #expect(limit == .fail(.full(scope, count: 10, maximum: 10), clearsIntent: true, holdsLock: true))
    #expect(ChannelLimit().level(7_999) == .fine && ChannelLimit().level(8_000) == .near)
    #expect(ChannelLimit().level(10_000) == .full)
  }

  @Test func reconciliationMakesNothing() {
    var state = state(.recover)
    #expect(!state.mayCreate)
    #expect(state.looked(.nothing, now: now(0), random: 0) == .nothing)
    let dead = ChannelIntent(storage: .none, begunAt: 1, owner: "dead")
    #expect(state.looked(.unfinished(dead, redisNow: 1_000_000), now: now(0), random: 0) == .search(.none))
    let cleared = state.searched(
      candidates: [], intents: [dead], storage: .none, redisNow: 1_000_000, now: now(1), random: 0)
    #expect(cleared == .clear(strays: false))
  }

  @Test func entriesAndIntentsAreReadAsWritten() {
    let full = ChannelEntry(storage: .mostRecent, createdAt: 17, request: "r 1", name: ChannelName("a b ä"))
    #expect(full.text == "1\t17\tr 1\ta b ä" && ChannelEntry(full.text) == full)
    let found = ChannelEntry(storage: nil, createdAt: 3)
    #expect(found.text == "?\t3\t\t" && ChannelEntry(found.text) == found)
    for broken in ["", "1\t2\t3", "7\t1\t\t", "1\tx\t\t"] { #expect(ChannelEntry(broken) == nil) }
    #expect(ChannelIntent("1\t17\tme")?.begunAt == 17)
    let intents = ["1\t17\tme", "1\t17\tme\t", "1\t17\tme\t\(ChannelIntent.text(before: [one, two]))"].map(
      ChannelIntent.init)
    #expect(intents.map { $0?.owner } == ["me", "me", "me"] && intents.map { $0?.before } == [nil, [], [one, two]])
    #expect(ChannelIntent("1\tx\tme") == nil)
    #expect(
      ChannelName("") == nil && ChannelName("a\tb") == nil && ChannelName(String(repeating: "x", count: 129)) == nil)
  }
}
