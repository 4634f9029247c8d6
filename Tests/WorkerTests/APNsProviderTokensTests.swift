import PushCore
import PushIO
import PushWorker
import Synchronization
import Testing

/// The tokens that all lanes share: made once, renewed together, taken from the fleet where it has one.
@Suite struct APNsProviderTokensTests {
  private func at(_ seconds: Int64) -> Now {
    Now(
      monotonic: Instant(nanoseconds: (1_000 + seconds) * 1_000_000_000),
      unixMilliseconds: (1_795_262_400 + seconds) * 1000)
  }

  /// Remembers what it was asked and told.
  private final class Store: ProviderTokenStore {
    let saved = Mutex<[(token: [UInt8], issuedAt: Int64)]>([])
    let loads = Mutex(0)

    func load(teamID: String, keyID: String, for tokens: ProviderTokens, handle: ProviderTokens.Handle) {
      loads.withLock { $0 += 1 }
    }

    func save(teamID: String, keyID: String, token: [UInt8], issuedAt: Int64) {
      saved.withLock { $0.append((token, issuedAt)) }
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
    #expect(store.loads.withLock { $0 } == 1)
    let fleets = try signer.sign(teamID: "T", keyID: "K", issuedAt: at(-60).unixSeconds)
    tokens.storeAnswered(handle, token: fleets, now: at(0), random: 0)
    #expect(tokens.current(handle, now: at(0), random: 0)?.authorization == Array("bearer ".utf8) + fleets)
    #expect(store.saved.withLock { $0.count } == 0)
    #expect(tokens.current(handle, now: at(2340), random: 0) != nil)
    #expect(store.loads.withLock { $0 } == 2)
    tokens.storeAnswered(handle, token: nil, now: at(2340), random: 0)
    let own = try #require(tokens.current(handle, now: at(2340), random: 0))
    #expect(store.saved.withLock { $0.map { Array("bearer ".utf8) + $0.token } } == [own.authorization])
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
      tokens.storeAnswered(handle, token: wrong, now: at(0), random: 0)
      let token = try #require(tokens.current(handle, now: at(0), random: 0))
      #expect(token.authorization != Array("bearer ".utf8) + wrong)
      #expect(store.saved.withLock { $0.count } == 1)
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
