package import PushCore
package import PushIO
import Synchronization

/// The provider tokens of the process: one per (team, key), made by the lane that needs it first and used by all. `ProviderTokenState`
/// decides; this class signs, keeps the bytes and talks to the fleet's shared store.
///
/// A lane asks once a second or after a change (`version`), never for each request: the lock is held for a look-up, or for the 30 µs of a
/// signature.
package final class ProviderTokens: Sendable {
  /// Identifies one (team, key).
  package struct Handle: Hashable, Sendable {
    fileprivate let index: Int
  }

  /// A token in the form that requests use.
  package struct Current: Sendable {
    package var serial: UInt32
    /// `bearer <JWT>`.
    package var authorization: [UInt8]
  }

  /// Receives a store's answers.
  package struct Asker: Sendable {
    package let tokens: ProviderTokens
    package let handle: Handle
  }

  /// The state of one key, for metrics.
  package struct Snapshot: Sendable {
    package var teamID: String
    package var keyID: String
    /// Unix seconds; nil before the first token.
    package var issuedAt: Int64?
    /// Tokens that this process made and that came into use.
    package var refreshes: UInt64
    /// Tokens of other workers that came into use here.
    package var adoptions: UInt64
  }

  /// The effect of an event on a token.
  package enum Effect: Equatable, Sendable {
    case none
    /// Another token serves from now on.
    case changed
    /// APNs never took this token, because of its `iat`: another one serves, or will at once.
    case replaced
    /// Nothing may be sent with the key for this long.
    case held(milliseconds: Int64)
    /// APNs calls a token expired that is this fresh by our clock.
    case clockDoubt(ageSeconds: Int64)
  }

  private struct Entry {
    let name: ProviderTokenName
    var signer: ProviderTokenSigner
    var state = ProviderTokenState()
    /// Bytes by serial: the current token, and those to fall back to.
    var known: [Current] = []
    /// Offered to the store, whose answer is not known yet.
    var offered: (token: [UInt8], issuedAt: Int64)?
    var refreshes: UInt64 = 0
    var adoptions: UInt64 = 0
    /// The text of the last failure to sign.
    var failure: String?
    /// Another key was loaded under the same ids: this one's tokens are no longer used.
    var isReplaced = false
    /// Somebody asks for it once a second, so that it never gets old.
    var isKept = false
  }

  /// How many tokens of a key are kept.
  private static let knownMaximum = 3

  private let entries = Mutex<[Entry]>([])
  private let changes = Atomic<UInt64>(0)
  private let store: (any ProviderTokenStore)?

  package init(store: (any ProviderTokenStore)? = nil) {
    self.store = store
  }

  /// Increases whenever a token changes.
  package var version: UInt64 { changes.load(ordering: .acquiring) }

  /// Registers a key. The same (team, key) is one entry, even if it is configured several times. If a reload finds another key under the
  /// same ids, it gets separate tokens and connections.
  package func register(teamID: String, keyID: String, signer: ProviderTokenSigner) -> Handle {
    entries.withLock { entries in
      let name = ProviderTokenName(teamID: teamID, keyID: keyID)
      var entry = Entry(name: name, signer: signer)
      if let index = entries.firstIndex(where: { $0.name == name && !$0.isReplaced }) {
        if entries[index].signer.publicKeyPEM() == signer.publicKeyPEM() { return Handle(index: index) }
        entries[index].isReplaced = true
        // Metrics are labelled by the key's id, which is the same.
        entry.refreshes = entries[index].refreshes
        entry.adoptions = entries[index].adoptions
      }
      entries.append(entry)
      return Handle(index: entries.count - 1)
    }
  }

  /// The token to use now; nil while there is none (the store is being asked).
  /// - Parameter isKept: from now on this is called once a second, and when `version` increased.
  package func current(_ handle: Handle, now: Now, random: UInt64, isKept: Bool = false) -> Current? {
    _ = step(handle, now: now, random: random) { state in state.turn(now: now, jitter: random) }
    return entries.withLock { entries in
      if isKept { entries[handle.index].isKept = true }
      guard let serial = entries[handle.index].state.current?.serial else { return nil }
      return entries[handle.index].known.first { $0.serial == serial }
    }
  }

  /// The store's answer to `ask` or `offer`.
  package func storeAnswered(_ handle: Handle, _ answer: ProviderTokenStoreAnswer, now: Now, random: UInt64) {
    switch answer {
    case .unreachable:
      tell(handle, .unreachable, now: now, random: random)
    case .waiting:
      tell(handle, .waiting, now: now, random: random)
    case .mayMint:
      let name = entries.withLock { $0[handle.index].name }
      if !tell(handle, .mayMint, now: now, random: random) { store?.decline(name) }
    case .token(let token):
      guard let issuedAt = verify(token, handle) else {
        // Not a token of this key: the store's contents must be verified.
        tell(handle, .unreachable, now: now, random: random)
        return
      }
      _ = step(handle, now: now, random: random, offered: token) { state in
        state.storeAnswered(.token(issuedAt: issuedAt), now: now, jitter: random)
      }
    }
  }

  /// Returns whether there was an effect.
  @discardableResult
  private func tell(
    _ handle: Handle, _ answer: ProviderTokenState.StoreAnswer, now: Now, random: UInt64
  ) -> Bool {
    var isUsed = false
    _ = step(handle, now: now, random: random) { state in
      let action = state.storeAnswered(answer, now: now, jitter: random)
      isUsed = action != .none
      return action
    }
    return isUsed
  }

  /// A token from another worker, received without a question.
  package func storeOffered(_ handle: Handle, token: [UInt8], now: Now, random: UInt64) {
    guard let issuedAt = verify(token, handle) else { return }
    _ = step(handle, now: now, random: random, offered: token) { state in
      state.storeOffered(issuedAt: issuedAt, now: now, jitter: random)
    }
  }

  /// A token that replaces ours for the whole fleet, because APNs never took ours.
  package func storeReplaced(_ handle: Handle, token: [UInt8], now: Now, random: UInt64) {
    guard let issuedAt = verify(token, handle) else { return }
    _ = step(handle, now: now, random: random, offered: token) { state in
      state.storeReplaced(issuedAt: issuedAt, now: now, jitter: random)
    }
  }

  /// APNs answered `InvalidProviderToken` to a request with this serial.
  package func invalid(_ handle: Handle, serial: UInt32, now: Now, random: UInt64) -> Effect {
    step(handle, now: now, random: random) { state in state.invalid(serial: serial, now: now) }
  }

  /// APNs answered `ExpiredProviderToken` to a request with this serial.
  package func expired(_ handle: Handle, serial: UInt32, now: Now, random: UInt64) -> Effect {
    step(handle, now: now, random: random) { state in state.expired(serial: serial, now: now, jitter: random) }
  }

  /// APNs answered `TooManyProviderTokenUpdates` to a request with this serial.
  package func tooManyUpdates(_ handle: Handle, serial: UInt32, now: Now) -> Effect {
    step(handle, now: now, random: 0) { state in state.tooManyUpdates(serial: serial, now: now) }
  }

  package func keyID(_ handle: Handle) -> String {
    entries.withLock { $0[handle.index].name.keyID }
  }

  package func snapshots() -> [Snapshot] {
    entries.withLock { $0.filter { !$0.isReplaced }.map(ProviderTokens.snapshot) }
  }

  /// Of these keys alone. A token that nobody keeps young has no time of issue: an old one is no fault.
  /// - Parameter handles: whether a credential with the key may send.
  package func snapshots(of handles: [Handle: Bool]) -> [Snapshot] {
    entries.withLock { entries in
      handles.keys.sorted { $0.index < $1.index }.filter { !entries[$0.index].isReplaced }.map { handle in
        var snapshot = ProviderTokens.snapshot(entries[handle.index])
        if !entries[handle.index].isKept || handles[handle] != true { snapshot.issuedAt = nil }
        return snapshot
      }
    }
  }

  private static func snapshot(_ entry: Entry) -> Snapshot {
    Snapshot(
      teamID: entry.name.teamID, keyID: entry.name.keyID, issuedAt: entry.state.current?.issuedAt,
      refreshes: entry.refreshes, adoptions: entry.adoptions)
  }

  /// Why no token could be signed, reported once.
  package func takeFailure(_ handle: Handle) -> String? {
    entries.withLock { $0[handle.index].failure.take() }
  }

  /// Work for after the lock is released.
  private enum Errand {
    case none
    case ask(newerThan: Int64, refused: Int64)
    case offer(token: [UInt8], issuedAt: Int64)
    case decline
    case serves(token: [UInt8], issuedAt: Int64)
  }

  private func step(
    _ handle: Handle, now: Now, random: UInt64, offered: [UInt8]? = nil,
    _ event: (inout ProviderTokenState) -> ProviderTokenState.Action
  ) -> Effect {
    let (effect, errand, name) = entries.withLock { entries in
      let action = event(&entries[handle.index].state)
      let (effect, errand) = run(action, &entries[handle.index], offered: offered, now: now)
      return (effect, errand, entries[handle.index].name)
    }
    if effect == .changed { changes.add(1, ordering: .releasing) }
    let asker = Asker(tokens: self, handle: handle)
    switch errand {
    case .none:
      break
    case .ask(let newerThan, let refused):
      // No lane goes on with a token that is given up.
      if refused > 0 { changes.add(1, ordering: .releasing) }
      guard let store else {
        return step(handle, now: now, random: random) { state in
          state.storeAnswered(.absent, now: now, jitter: random)
        }
      }
      store.ask(name, newerThan: newerThan, refused: refused, from: asker)
    case .offer(let token, let issuedAt):
      store?.offer(name, token: token, issuedAt: issuedAt, from: asker)
    case .decline:
      store?.decline(name)
    case .serves(let token, let issuedAt):
      store?.serves(name, token: token, issuedAt: issuedAt, at: asker)
    }
    return effect
  }

  private func run(
    _ action: ProviderTokenState.Action, _ entry: inout Entry, offered: [UInt8]?, now: Now
  ) -> (Effect, Errand) {
    switch action {
    case .none:
      return (.none, .none)
    case .askStore(let newerThan, let refused):
      return (refused > 0 ? .replaced : .none, .ask(newerThan: newerThan, refused: refused))
    case .wasReplaced:
      return (.replaced, .none)
    case .adopt(let serial):
      guard let offered, let issuedAt = entry.state.current?.issuedAt else {
        preconditionFailure("a token is adopted from an offer")
      }
      // The store's answer to an offer, or another worker's token.
      let isOwn = entry.offered.take()?.token == offered
      if isOwn { entry.refreshes += 1 } else { entry.adoptions += 1 }
      remember(offered, serial, &entry)
      return (.changed, .serves(token: offered, issuedAt: issuedAt))
    case .offer(let issuedAt):
      guard let token = sign(&entry, issuedAt) else {
        entry.state.offerFailed(now: now)
        return (.none, .decline)
      }
      entry.offered = (token, issuedAt)
      return (.none, .offer(token: token, issuedAt: issuedAt))
    case .mint(let serial, let issuedAt):
      let known = entry.offered.take().flatMap { $0.issuedAt == issuedAt ? $0.token : nil }
      guard let token = known ?? sign(&entry, issuedAt) else {
        entry.state.mintFailed()
        return (.changed, .none)
      }
      entry.refreshes += 1
      remember(token, serial, &entry)
      return (.changed, .serves(token: token, issuedAt: issuedAt))
    case .fallBack:
      return (.changed, .none)
    case .hold(let milliseconds):
      return (.held(milliseconds: milliseconds), .none)
    case .clockDoubt(let ageSeconds):
      return (.clockDoubt(ageSeconds: ageSeconds), .none)
    }
  }

  /// nil: signing failed; `failure` has the reason.
  private func sign(_ entry: inout Entry, _ issuedAt: Int64) -> [UInt8]? {
    do throws(APNsError) {
      return try entry.signer.sign(teamID: entry.name.teamID, keyID: entry.name.keyID, issuedAt: issuedAt)
    } catch {
      entry.failure = error.description
      return nil
    }
  }

  private func remember(_ token: [UInt8], _ serial: UInt32, _ entry: inout Entry) {
    if entry.known.count == ProviderTokens.knownMaximum { entry.known.removeFirst() }
    entry.known.append(Current(serial: serial, authorization: Array("bearer ".utf8) + token))
  }

  /// `iat` of a token from the store; nil if it is not a token of this key: the store's contents must be verified.
  private func verify(_ token: [UInt8], _ handle: Handle) -> Int64? {
    let (name, signer) = entries.withLock { entries in (entries[handle.index].name, entries[handle.index].signer) }
    guard let verified = try? signer.verifier.verify(token), verified.teamID == Array(name.teamID.utf8),
      verified.keyID == Array(name.keyID.utf8)
    else { return nil }
    return verified.issuedAt
  }
}
