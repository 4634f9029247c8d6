package import PushCore
package import PushIO
import Synchronization

/// The provider tokens of the process: one for each (team, key), made by whichever lane needs it first and carried by
/// all. `ProviderTokenState` decides; this class signs, remembers the bytes and talks to the shared store.
///
/// A lane asks once a second or when something changed (`version`), never for a request: the lock is held for a look, or
/// for the 30 µs of a signature.
package final class ProviderTokens: Sendable {
  /// Names one (team, key).
  package struct Handle: Hashable, Sendable {
    fileprivate let index: Int
  }

  /// A token as requests carry it.
  package struct Current: Sendable {
    package var serial: UInt32
    /// `bearer <JWT>`.
    package var authorization: [UInt8]
  }

  /// What metrics say of one key.
  package struct Snapshot: Sendable {
    package var teamID: String
    package var keyID: String
    /// Unix seconds; nil before the first token.
    package var issuedAt: Int64?
    /// Tokens that came into use, our own and other replicas'.
    package var refreshes: UInt64
  }

  /// What came of news about a token.
  package enum Effect: Equatable, Sendable {
    case none
    /// Another token serves from now on.
    case changed
    /// APNs calls a token expired that is this fresh by our clock.
    case suspectClock(ageSeconds: Int64)
  }

  private struct Entry {
    let teamID: String
    let keyID: String
    var signer: ProviderTokenSigner
    var state = ProviderTokenState()
    /// Bytes by serial: the one that serves, and those to go back to.
    var known: [Current] = []
    var refreshes: UInt64 = 0
    /// The text of the last failure to sign.
    var failure: String?
    /// Another key was loaded under the same ids: nobody asks for this one's tokens any more.
    var isReplaced = false
  }

  /// How many tokens' bytes are kept of a key.
  private static let knownMaximum = 3

  private let entries = Mutex<[Entry]>([])
  private let changes = Atomic<UInt64>(0)
  private let store: (any ProviderTokenStore)?

  package init(store: (any ProviderTokenStore)? = nil) {
    self.store = store
  }

  /// Grows whenever any token changes.
  package var version: UInt64 { changes.load(ordering: .acquiring) }

  /// Makes a key known. The same (team, key) is one entry, however often it is configured. Where a reload finds another
  /// key under the same ids, it gets tokens of its own, and connections of its own with them.
  package func register(teamID: String, keyID: String, signer: ProviderTokenSigner) -> Handle {
    entries.withLock { entries in
      if let index = entries.firstIndex(where: { $0.teamID == teamID && $0.keyID == keyID && !$0.isReplaced }) {
        if entries[index].signer.publicKeyPEM() == signer.publicKeyPEM() { return Handle(index: index) }
        entries[index].isReplaced = true
      }
      entries.append(Entry(teamID: teamID, keyID: keyID, signer: signer))
      return Handle(index: entries.count - 1)
    }
  }

  /// The token to carry now; nil while there is none (the store is being asked). Once a second, and when `version` grew.
  package func current(_ handle: Handle, now: Now, random: UInt64) -> Current? {
    _ = step(handle, now: now, random: random) { state in state.turn(now: now, jitter: random) }
    return entries.withLock { entries in
      guard let serial = entries[handle.index].state.current?.serial else { return nil }
      return entries[handle.index].known.first { $0.serial == serial }
    }
  }

  /// The shared store's answer to `load`; `token` is nil where it holds none or cannot be reached.
  package func storeAnswered(_ handle: Handle, token: [UInt8]?, now: Now, random: UInt64) {
    let verified = token.flatMap { verify($0, handle) }
    _ = step(handle, now: now, random: random, offered: token) { state in
      state.storeAnswered(verified.map { .token(issuedAt: $0) } ?? .nothing, now: now, jitter: random)
    }
  }

  /// A token that another replica made, told without being asked for.
  package func storeOffered(_ handle: Handle, token: [UInt8], now: Now, random: UInt64) {
    guard let issuedAt = verify(token, handle) else { return }
    _ = step(handle, now: now, random: random, offered: token) { state in
      state.storeOffered(issuedAt: issuedAt, now: now, jitter: random)
    }
  }

  /// `ExpiredProviderToken` for a request that carried this serial.
  package func expired(_ handle: Handle, serial: UInt32, now: Now, random: UInt64) -> Effect {
    step(handle, now: now, random: random) { state in state.expired(serial: serial, now: now, jitter: random) }
  }

  /// `TooManyProviderTokenUpdates` for a request that carried this serial.
  package func tooManyUpdates(_ handle: Handle, serial: UInt32, now: Now) -> Effect {
    step(handle, now: now, random: 0) { state in state.tooManyUpdates(serial: serial, now: now) }
  }

  package func keyID(_ handle: Handle) -> String {
    entries.withLock { $0[handle.index].keyID }
  }

  package func snapshots() -> [Snapshot] {
    entries.withLock { entries in
      entries.filter { !$0.isReplaced }.map { entry in
        Snapshot(
          teamID: entry.teamID, keyID: entry.keyID, issuedAt: entry.state.current?.issuedAt, refreshes: entry.refreshes)
      }
    }
  }

  /// Why no token could be signed, told once.
  package func takeFailure(_ handle: Handle) -> String? {
    entries.withLock { $0[handle.index].failure.take() }
  }

  /// What is left to do once the lock is free.
  private enum Errand {
    case none
    case ask(teamID: String, keyID: String)
    case offer(teamID: String, keyID: String, token: [UInt8], issuedAt: Int64)
  }

  private func step(
    _ handle: Handle, now: Now, random: UInt64, offered: [UInt8]? = nil,
    _ event: (inout ProviderTokenState) -> ProviderTokenState.Action
  ) -> Effect {
    let (effect, errand) = entries.withLock { entries in
      let action = event(&entries[handle.index].state)
      return run(action, &entries[handle.index], offered: offered)
    }
    if effect == .changed { changes.add(1, ordering: .releasing) }
    switch errand {
    case .none:
      return effect
    case .ask(let teamID, let keyID):
      guard let store else {
        return step(handle, now: now, random: random) { state in
          state.storeAnswered(.nothing, now: now, jitter: random)
        }
      }
      store.load(teamID: teamID, keyID: keyID, for: self, handle: handle)
      return effect
    case .offer(let teamID, let keyID, let token, let issuedAt):
      store?.save(teamID: teamID, keyID: keyID, token: token, issuedAt: issuedAt)
      return effect
    }
  }

  private func run(
    _ action: ProviderTokenState.Action, _ entry: inout Entry, offered: [UInt8]?
  ) -> (Effect, Errand) {
    switch action {
    case .none:
      return (.none, .none)
    case .askStore:
      return (.none, .ask(teamID: entry.teamID, keyID: entry.keyID))
    case .adopt(let serial):
      guard let offered else { preconditionFailure("a token is adopted from an offer") }
      remember(offered, serial, &entry)
      return (.changed, .none)
    case .mint(let serial, let issuedAt):
      do throws(APNsError) {
        let token = try entry.signer.sign(teamID: entry.teamID, keyID: entry.keyID, issuedAt: issuedAt)
        remember(token, serial, &entry)
        return (.changed, .offer(teamID: entry.teamID, keyID: entry.keyID, token: token, issuedAt: issuedAt))
      } catch {
        entry.failure = error.description
        entry.state.mintFailed()
        return (.changed, .none)
      }
    case .fallBack:
      return (.changed, .none)
    case .suspectClock(let ageSeconds):
      return (.suspectClock(ageSeconds: ageSeconds), .none)
    }
  }

  private func remember(_ token: [UInt8], _ serial: UInt32, _ entry: inout Entry) {
    if entry.known.count == ProviderTokens.knownMaximum { entry.known.removeFirst() }
    entry.known.append(Current(serial: serial, authorization: Array("bearer ".utf8) + token))
    entry.refreshes += 1
  }

  /// `iat` of a token from the store; nil where it is not one of this key: a store is not to be believed blindly.
  private func verify(_ token: [UInt8], _ handle: Handle) -> Int64? {
    let (teamID, keyID, signer) = entries.withLock { entries in
      (entries[handle.index].teamID, entries[handle.index].keyID, entries[handle.index].signer)
    }
    guard let verifier = try? ProviderTokenVerifier(publicKeyPEM: signer.publicKeyPEM()),
      let verified = try? verifier.verify(token), verified.teamID == Array(teamID.utf8),
      verified.keyID == Array(keyID.utf8)
    else { return nil }
    return verified.issuedAt
  }
}
