import PushCore
import PushCredentials
import PushIO
import PushWorker
import Synchronization
import Testing

/// The tokens that all lanes share: made once, renewed together, taken from the fleet if it has one.
@Suite struct APNsProviderTokensTests {
  private func at(_ seconds: Int64) -> Now {
    Now(
      monotonic: Instant(nanoseconds: (1_000 + seconds) * 1_000_000_000),
      unixMilliseconds: (1_795_262_400 + seconds) * 1000)
  }

  /// Records every call.
  private final class Store: ProviderTokenStore {
    let asks = Mutex<[Int64]>([])
    let offers = Mutex<[(token: [UInt8], issuedAt: Int64)]>([])
    let declines = Mutex(0)
    let served = Mutex<[Int64]>([])

    func ask(_ name: ProviderTokenName, newerThan: Int64, refused: Int64, from asker: ProviderTokens.Asker) {
      asks.withLock { $0.append(newerThan) }
    }

    func offer(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, from asker: ProviderTokens.Asker) {
      offers.withLock { $0.append((token, issuedAt)) }
    }

    func decline(_ name: ProviderTokenName) { declines.withLock { $0 += 1 } }

    func serves(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, at asker: ProviderTokens.Asker) {
      served.withLock { $0.append(issuedAt) }
    }
  }

  @Test func allLanesCarryTheSameToken() throws {
    let tokens = ProviderTokens()
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let handle = tokens.register(teamID: "T", keyID: "K", signer: signer)
    #expect(tokens.register(teamID: "T", keyID: "K", signer: signer) == handle)
    let first = try #require(tokens.current(handle, now: at(0), random: 0))
    let version = tokens.version
    #expect(tokens.current(handle, now: at(0), random: 7)?.authorization == first.authorization)
    #expect(tokens.current(handle, now: at(2399), random: 7)?.authorization == first.authorization)
    #expect(tokens.version == version)
    let second = try #require(tokens.current(handle, now: at(2400), random: 7))
    #expect(second.serial == first.serial + 1)
    #expect(second.authorization != first.authorization)
    #expect(tokens.version > version)
    #expect(tokens.snapshots().first?.refreshes == 2)
    #expect(tokens.snapshots().first?.issuedAt == at(2400).unixSeconds)
  }

  @Test func manyThreadsMakeOneToken() async throws {
    let tokens = ProviderTokens()
    let handle = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "test"))
    let now = at(0)
    let seen = await withTaskGroup(of: [UInt8]?.self) { group in
      for _ in 0..<32 { group.addTask { tokens.current(handle, now: now, random: 0)?.authorization } }
      return await group.reduce(into: Set<[UInt8]>()) { if let token = $1 { $0.insert(token) } }
    }
    #expect(seen.count == 1)
    #expect(tokens.snapshots().first?.refreshes == 1)
  }

  @Test func theFleetsTokenIsTakenAndOursIsOffered() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let store = Store()
    let tokens = ProviderTokens(store: store)
    let handle = tokens.register(teamID: "T", keyID: "K", signer: signer)
    #expect(tokens.current(handle, now: at(0), random: 0) == nil, "the store is asked first")
    #expect(store.asks.withLock { $0 } == [0])
    let fleets = try signer.sign(teamID: "T", keyID: "K", issuedAt: at(-60).unixSeconds)
    tokens.storeAnswered(handle, .token(fleets), now: at(0), random: 0)
    #expect(tokens.current(handle, now: at(0), random: 0)?.authorization == Array("bearer ".utf8) + fleets)
    #expect(store.offers.withLock { $0.count } == 0)
    #expect(tokens.current(handle, now: at(2340), random: 0) != nil)
    #expect(store.asks.withLock { $0 } == [0, at(-60).unixSeconds])
    tokens.storeAnswered(handle, .mayMint, now: at(2340), random: 0)
    let offer = try #require(store.offers.withLock { $0.first })
    #expect(offer.issuedAt == at(2340).unixSeconds)
    #expect(tokens.current(handle, now: at(2340), random: 0)?.authorization == Array("bearer ".utf8) + fleets)
    tokens.storeAnswered(handle, .token(offer.token), now: at(2340), random: 0)
    #expect(tokens.current(handle, now: at(2340), random: 0)?.authorization == Array("bearer ".utf8) + offer.token)
    #expect(store.served.withLock { $0 } == [at(-60).unixSeconds, at(2340).unixSeconds])
  }

  /// Lets one caller make the token, and gives it to all.
  private final class Fleet: ProviderTokenStore {
    private struct State {
      var token: [UInt8]?
      var waiting: [ProviderTokens.Asker] = []
    }
    private let state = Mutex(State())
    private let now: Now

    init(now: Now) {
      self.now = now
    }

    func ask(_ name: ProviderTokenName, newerThan: Int64, refused: Int64, from asker: ProviderTokens.Asker) {
      let answer: ProviderTokenStoreAnswer = state.withLock { state in
        if let token = state.token { return .token(token) }
        state.waiting.append(asker)
        return state.waiting.count == 1 ? .mayMint : .waiting
      }
      asker.tokens.storeAnswered(asker.handle, answer, now: now, random: 0)
    }

    func offer(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, from asker: ProviderTokens.Asker) {
      let waiting = state.withLock { state in
        state.token = token
        return state.waiting
      }
      for asker in waiting { asker.tokens.storeAnswered(asker.handle, .token(token), now: now, random: 0) }
    }

    func decline(_ name: ProviderTokenName) {}
    func serves(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, at asker: ProviderTokens.Asker) {}
  }

  /// Four workers ask at once: one makes a token, three take it.
  @Test func onlyWhatAProcessMadeCountsAsMade() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    // The store answers within the call.
    let fleet = Fleet(now: at(0))
    let members = (0..<4).map { _ in ProviderTokens(store: fleet) }
    let handles = members.map { $0.register(teamID: "T", keyID: "K", signer: signer) }
    for (member, handle) in zip(members, handles) { _ = member.current(handle, now: at(0), random: 0) }
    let carried = zip(members, handles).map { $0.current($1, now: at(0), random: 0)?.authorization }
    #expect(Set(carried).count == 1 && carried[0] != nil)
    let snapshots = members.flatMap { $0.snapshots() }
    #expect(snapshots.map(\.refreshes) == [1, 0, 0, 0])
    #expect(snapshots.map(\.adoptions) == [0, 1, 1, 1])
    let metrics = MetricsText.make([], tokens: members[1].snapshots(), certificates: [])
    #expect(metrics.contains("herald_provider_token_refreshes_total{key_id=\"K\"} 0\n"))
    #expect(metrics.contains("herald_provider_token_adoptions_total{key_id=\"K\"} 1\n"))
  }

  @Test func anotherKeyUnderTheSameIdsCountsOn() throws {
    let tokens = ProviderTokens()
    let first = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "test"))
    #expect(tokens.current(first, now: at(0), random: 0) != nil)
    let second = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "other"))
    #expect(second != first)
    #expect(tokens.snapshots().map(\.refreshes) == [1])
    #expect(tokens.current(second, now: at(1), random: 0) != nil)
    #expect(tokens.snapshots().map(\.refreshes) == [2])
  }

  @Test func aTurnThatComesTooLateIsGivenBack() throws {
    let store = Store()
    let tokens = ProviderTokens(store: store)
    let handle = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "test"))
    #expect(tokens.current(handle, now: at(0), random: 0) == nil)
    #expect(tokens.current(handle, now: at(1), random: 0) != nil, "made alone")
    tokens.storeAnswered(handle, .mayMint, now: at(2), random: 0)
    #expect(store.declines.withLock { $0 } == 1 && store.offers.withLock { $0.count } == 0)
  }

  @Test func anOfferThatWasNotAnsweredIsNotSignedAgain() throws {
    let store = Store()
    let tokens = ProviderTokens(store: store)
    let handle = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "test"))
    #expect(tokens.current(handle, now: at(0), random: 0) == nil)
    tokens.storeAnswered(handle, .mayMint, now: at(0), random: 0)
    let offer = try #require(store.offers.withLock { $0.first })
    let own = try #require(tokens.current(handle, now: at(1), random: 0))
    #expect(own.authorization == Array("bearer ".utf8) + offer.token, "the store may have taken it")
  }

  @Test func aStoreIsNotBelievedBlindly() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let other = try ProviderTokenSigner(newKeyFor: "other")
    for wrong in [
      try other.sign(teamID: "T", keyID: "K", issuedAt: at(-60).unixSeconds),
      try signer.sign(teamID: "X", keyID: "K", issuedAt: at(-60).unixSeconds),
      try signer.sign(teamID: "T", keyID: "X", issuedAt: at(-60).unixSeconds), Array("rubbish".utf8), [],
    ] {
      let store = Store()
      let tokens = ProviderTokens(store: store)
      let handle = tokens.register(teamID: "T", keyID: "K", signer: signer)
      #expect(tokens.current(handle, now: at(0), random: 0) == nil)
      tokens.storeAnswered(handle, .token(wrong), now: at(0), random: 0)
      let token = try #require(tokens.current(handle, now: at(0), random: 0))
      #expect(token.authorization != Array("bearer ".utf8) + wrong)
    }
  }

  @Test func aSilentStoreCostsHalfASecond() throws {
    let tokens = ProviderTokens(store: Store())
    let handle = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "test"))
    #expect(tokens.current(handle, now: at(0), random: 0) == nil)
    #expect(tokens.current(handle, now: at(1), random: 0) != nil)
  }

  @Test func tooManyUpdatesGoBackToTheOlderBytes() throws {
    let tokens = ProviderTokens()
    let handle = tokens.register(teamID: "T", keyID: "K", signer: try ProviderTokenSigner(newKeyFor: "test"))
    let first = try #require(tokens.current(handle, now: at(0), random: 0))
    let second = try #require(tokens.current(handle, now: at(2400), random: 0))
    #expect(tokens.tooManyUpdates(handle, serial: second.serial, now: at(2401)) == .changed)
    #expect(tokens.current(handle, now: at(2402), random: 0)?.authorization == first.authorization)
    #expect(tokens.expired(handle, serial: first.serial, now: at(3000), random: 0) == .changed)
    #expect(tokens.current(handle, now: at(3000), random: 0)?.authorization == second.authorization)
  }
}
