/// How the processes of a fleet agree on one provider token per (team, key), through a store with a lock.
///
/// A process that needs a token looks into the store. It finds a suitable token, gets the lock, or waits for the lock's holder. The holder
/// signs and stores a token, and only a stored token is used. Two rules cover a store that loses its data (FLUSHALL): each process that
/// uses a token puts it back within a second (`keep`), and a process that finds the store empty while others are connected waits longer
/// than that before it makes one. A lock expires, so a process that dies with it costs `lockMilliseconds`. The store itself guarantees
/// (`RedisTokenScript`): `iat` never goes back, two tokens are at least 20 minutes apart, and only the lock's holder stores a new one.
///
/// Events return what to do next; `turn` does what is due. At most one command is in flight.
package struct ProviderTokenFleetState: Sendable {
  package enum Action: Equatable, Sendable {
    case none
    /// Look for a token with a later `iat` than this; if there is none, take the lock. `refused`: `iat` of a token that APNs never took
    /// because of it; 0: there is none.
    case look(newerThan: Int64, refused: Int64 = 0)
    /// Ask whether other processes are connected.
    case countOthers
    /// Store the offered token, if we still hold the lock.
    case store
    /// Put back the token in use here if the store has none or an older one.
    case keep
    /// Release the lock if we hold it.
    case release
    /// Answer the process's own question.
    case tell(Answer)
  }

  package enum Answer: Equatable, Sendable {
    /// The token that came with the event.
    case token
    case mayMint
    case waiting
    case unreachable
  }

  /// The store's answer to `look`.
  package enum Look: Equatable, Sendable {
    case token
    /// We hold the lock. `isEmpty`: no token is stored, not even an old one.
    case locked(isEmpty: Bool)
    /// Another process holds the lock.
    case lockedByOther
  }

  /// The question being answered.
  private struct Ask: Sendable {
    var newerThan: Int64
    var refused: Int64
    /// The store was empty and others are connected: they may put their token back until then. nil: not known yet.
    var graceUntil: Instant?
  }

  private enum Phase: Sendable {
    /// No question is open. Becomes `looking`, `connecting`, `keeping`.
    case idle
    /// Asked before the first connection was made. Becomes `looking`, or `idle` with "unreachable".
    case connecting(Ask, deadline: Instant)
    /// A look is in flight. Becomes `idle`, `waiting`, `counting`, `granted`.
    case looking(Ask, deadline: Instant)
    /// Another process makes a token, or may put one back. Becomes `looking`.
    case waiting(Ask, lookAt: Instant)
    /// Others are counted while we hold the lock. Becomes `waiting` or `granted`.
    case counting(Ask, deadline: Instant)
    /// The asker signs. Becomes `storing` or `idle`.
    case granted(Ask, until: Instant)
    /// The offer is in flight. Becomes `idle`, or `looking` if the lock was lost.
    case storing(Ask, deadline: Instant)
    /// A token is being put back. Becomes `idle`.
    case keeping(deadline: Instant)
  }

  /// A reply that takes longer counts as failed.
  package static let replyMilliseconds: Int64 = 400
  /// A token in use is put back this often.
  package static let keepMilliseconds: Int64 = 1_000
  /// How long others have to put their token back, if the store is empty and others are connected.
  package static let graceMilliseconds: Int64 = 2_000
  /// A lock's lifetime: longer than the grace and a signature.
  package static let lockMilliseconds: Int64 = 5_000
  /// Between two looks while another process holds the lock.
  package static let lookMilliseconds: Int64 = 50

  private var phase = Phase.idle
  private var nextKeep = Instant(nanoseconds: 0)
  private var carriesToken = false

  package init() {}

  /// A token with a later `iat` is wanted.
  package mutating func asked(newerThan: Int64, refused: Int64 = 0, isConnected: Bool, now: Now) -> Action {
    let ask = Ask(newerThan: newerThan, refused: refused)
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
      // We hold the lock, so nobody else can make a token: the grace starts again.
      ask.graceUntil = nil
      return wait(ask, now)
    }
  }

  /// Whether others are connected; true if unknown.
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

  /// The asker no longer wants to sign.
  package mutating func declined() -> Action {
    guard case .granted = phase else { return .none }
    phase = .idle
    return .release
  }

  /// The store's answer to `store`: the token that the fleet now uses. `isLockLost`: it stored nothing, because we lost the lock.
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

  /// A token is in use here from now on: keep it in the store.
  package mutating func carries() {
    carriesToken = true
  }

  /// A command failed: the connection was lost, or the store refuses reads or writes.
  package mutating func failed() -> Action {
    switch phase {
    case .idle, .keeping:
      phase = .idle
      return .none
    case .granted:
      // The asker is signing; its offer will be answered.
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

  /// When `turn` is due; nil: not before another event.
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
    return .look(newerThan: ask.newerThan, refused: ask.refused)
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
