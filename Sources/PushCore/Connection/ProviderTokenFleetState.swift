/// How the processes of a fleet agree on one provider token for a (team, key), through a store with a lock.
///
/// Whoever needs a token looks into the store: it finds one that suits, gets the lock, or waits for the one who has it.
/// The holder of the lock signs and stores; only what was stored is used. Two rules cover a store that forgets (FLUSHALL):
/// whoever carries a token puts it back within a second (`keep`), and whoever finds the store empty while others are
/// connected waits longer than that before it makes one. A lock ends by itself, so a process that dies with it costs
/// `lockMilliseconds`. What the store itself must keep (`RedisTokenScript`): `iat` never goes back, no token follows
/// another one within 20 minutes, and only the lock's holder stores a new one.
///
/// PULLED: events return what to do next; `turn` does what time asks for. At most one command is on its way.
package struct ProviderTokenFleetState: Sendable {
  package enum Action: Equatable, Sendable {
    case none
    /// Look for a token with a later `iat` than this; where there is none, take the lock.
    case look(newerThan: Int64)
    /// Ask who else is connected.
    case countOthers
    /// Store the token that was offered, if the lock is still ours.
    case store
    /// Put back the token that is carried here where the store has none or an older one.
    case keep
    /// Give the lock back where it is ours.
    case release
    /// Answer the one who asked.
    case tell(Answer)
  }

  package enum Answer: Equatable, Sendable {
    /// The token that came with the event.
    case token
    case mayMint
    case waiting
    case unreachable
  }

  /// What the store said to `look`.
  package enum Look: Equatable, Sendable {
    case token
    /// The lock is ours. `isEmpty`: no token is stored, not even one that is due.
    case locked(isEmpty: Bool)
    /// Somebody else holds the lock.
    case lockedByOther
  }

  /// What is wanted.
  private struct Ask: Sendable {
    var newerThan: Int64
    /// The store was empty and others are connected: until then they may put their token back. nil: not known yet.
    var graceUntil: Instant?
  }

  private enum Phase: Sendable {
    /// Nobody asks. Becomes `looking`, `connecting`, `keeping`.
    case idle
    /// Asked before the first connection was made. Becomes `looking`, or `idle` with "unreachable".
    case connecting(Ask, deadline: Instant)
    /// A look is on its way. Becomes `idle`, `waiting`, `counting`, `granted`.
    case looking(Ask, deadline: Instant)
    /// Others make a token, or may put theirs back. Becomes `looking`.
    case waiting(Ask, lookAt: Instant)
    /// Others are counted, with the lock in hand. Becomes `waiting` or `granted`.
    case counting(Ask, deadline: Instant)
    /// The asker signs. Becomes `storing` or `idle`.
    case granted(Ask, until: Instant)
    /// The offer is on its way. Becomes `idle`, or `looking` where the lock was lost.
    case storing(Ask, deadline: Instant)
    /// A token is put back. Becomes `idle`.
    case keeping(deadline: Instant)
  }

  /// A reply that takes longer is none.
  package static let replyMilliseconds: Int64 = 400
  /// Carried tokens are put back this often.
  package static let keepMilliseconds: Int64 = 1_000
  /// With an empty store and others connected, this long must others have had to put theirs back.
  package static let graceMilliseconds: Int64 = 2_000
  /// A lock's life: longer than the grace and a signature.
  package static let lockMilliseconds: Int64 = 5_000
  /// Between two looks while somebody else holds the lock.
  package static let lookMilliseconds: Int64 = 50

  private var phase = Phase.idle
  private var nextKeep = Instant(nanoseconds: 0)
  private var carriesToken = false

  package init() {}

  /// A token with a later `iat` is wanted.
  package mutating func asked(newerThan: Int64, isConnected: Bool, now: Now) -> Action {
    let ask = Ask(newerThan: newerThan)
    guard isConnected else {
      phase = .connecting(ask, deadline: deadline(now))
      return .none
    }
    return look(ask, now)
  }

  /// The connection is there.
  package mutating func connected(now: Now) -> Action {
    nextKeep = now.monotonic
    switch phase {
    case .connecting(let ask, _), .waiting(let ask, _): return look(ask, now)
    case .idle, .looking, .counting, .granted, .storing, .keeping: return .none
    }
  }

  /// The store answered `look`.
  package mutating func looked(_ look: Look, now: Now) -> Action {
    guard case .looking(var ask, _) = phase else { return .none }
    switch look {
    case .token:
      phase = .idle
      return .tell(.token)
    case .locked(let isEmpty):
      guard isEmpty else { return grant(ask, now) }
      guard let graceUntil = ask.graceUntil else {
        phase = .counting(ask, deadline: deadline(now))
        return .countOthers
      }
      return now.monotonic >= graceUntil ? grant(ask, now) : wait(ask, now)
    case .lockedByOther:
      // Whoever has it sees to it that nobody else can have a token: the lock's end starts anew.
      ask.graceUntil = nil
      return wait(ask, now)
    }
  }

  /// Whether others are connected; true where that is not known.
  package mutating func counted(hasOthers: Bool, now: Now) -> Action {
    guard case .counting(var ask, _) = phase else { return .none }
    guard hasOthers else { return grant(ask, now) }
    ask.graceUntil = now.monotonic.adding(milliseconds: ProviderTokenFleetState.graceMilliseconds)
    return wait(ask, now)
  }

  /// The asker signed a token.
  package mutating func offered(now: Now) -> Action {
    guard case .granted(let ask, _) = phase else { return .tell(.unreachable) }
    phase = .storing(ask, deadline: deadline(now))
    return .store
  }

  /// The asker does not want the turn any more.
  package mutating func declined() -> Action {
    guard case .granted = phase else { return .none }
    phase = .idle
    return .release
  }

  /// The store answered `store` with the token that the fleet uses now; `isLockLost`: it took none, the lock was gone.
  package mutating func stored(isLockLost: Bool, now: Now) -> Action {
    guard case .storing(let ask, _) = phase else { return .none }
    if isLockLost { return look(ask, now) }
    phase = .idle
    return .tell(.token)
  }

  /// The store answered `keep`.
  package mutating func kept() {
    if case .keeping = phase { phase = .idle }
  }

  /// A token serves here from now on: it is kept in the store.
  package mutating func carries() {
    carriesToken = true
  }

  /// A command failed: the connection was lost, or the store refuses to read or write.
  package mutating func failed() -> Action {
    switch phase {
    case .idle, .keeping:
      phase = .idle
      return .none
    case .granted:
      // The asker signs; its offer is answered.
      return .none
    case .connecting, .looking, .waiting, .counting, .storing:
      phase = .idle
      return .tell(.unreachable)
    }
  }

  /// Once a turn.
  package mutating func turn(isConnected: Bool, now: Now) -> Action {
    switch phase {
    case .idle:
      guard carriesToken, isConnected, now.monotonic >= nextKeep else { return .none }
      nextKeep = now.monotonic.adding(milliseconds: ProviderTokenFleetState.keepMilliseconds)
      phase = .keeping(deadline: deadline(now))
      return .keep
    case .waiting(let ask, let lookAt):
      guard isConnected else { return failed() }
      return now.monotonic >= lookAt ? look(ask, now) : .none
    case .granted(_, let until), .keeping(let until):
      if now.monotonic >= until { phase = .idle }
      return .none
    case .connecting(_, let deadline), .looking(_, let deadline), .counting(_, let deadline),
      .storing(_, let deadline):
      return now.monotonic >= deadline ? failed() : .none
    }
  }

  /// When `turn` has something to do; nil: not before another event.
  package func nextTurn(isConnected: Bool) -> Instant? {
    switch phase {
    case .idle: carriesToken && isConnected ? nextKeep : nil
    case .waiting(_, let lookAt): lookAt
    case .granted(_, let until), .keeping(let until): until
    case .connecting(_, let deadline), .looking(_, let deadline), .counting(_, let deadline),
      .storing(_, let deadline):
      deadline
    }
  }

  private mutating func look(_ ask: Ask, _ now: Now) -> Action {
    phase = .looking(ask, deadline: deadline(now))
    return .look(newerThan: ask.newerThan)
  }

  private mutating func wait(_ ask: Ask, _ now: Now) -> Action {
    phase = .waiting(ask, lookAt: now.monotonic.adding(milliseconds: ProviderTokenFleetState.lookMilliseconds))
    return .tell(.waiting)
  }

  private mutating func grant(_ ask: Ask, _ now: Now) -> Action {
    phase = .granted(ask, until: now.monotonic.adding(milliseconds: ProviderTokenFleetState.lockMilliseconds))
    return .tell(.mayMint)
  }

  private func deadline(_ now: Now) -> Instant {
    now.monotonic.adding(milliseconds: ProviderTokenFleetState.replyMilliseconds)
  }
}
