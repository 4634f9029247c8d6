/// When a provider token is made, kept, given up: the rules of one (team, key) for the whole process.
///
/// Apple's rule: a token is renewed at most every 20 and at least every 60 minutes, by the age of its `iat`. So: at
/// 40–50 minutes of age (jitter spreads keys and replicas), never twice in 20, never served older than 60. Replicas share
/// one token: whoever needs a new one asks the shared store first, makes one only where the store gives it the turn, and
/// uses it only once the store took it, so that a token which the store refuses was never shown to APNs. Without the
/// store the token that is held serves up to 55 minutes; then this process makes one by itself. Two tokens never take
/// turns: a newer one replaces an older one, and goes back to it only when APNs says that it was renewed too often.
///
/// Age is counted on two clocks, the time of day and the monotonic one, and the larger counts: a clock that is set back
/// must not keep a token alive, and one that is set forward must not leave an expired one in use.
package struct ProviderTokenState: Sendable {
  /// A token, by what matters of it. The bytes are kept by the owner, under the serial.
  package struct Token: Hashable, Sendable {
    /// Counts the tokens of this state; a connection remembers which one a request carried.
    package var serial: UInt32
    /// Unix seconds.
    package var issuedAt: Int64
    /// When it came into use here, and its age then.
    fileprivate var takenAt: Instant
    fileprivate var ageWhenTaken: Int64
  }

  package enum Action: Equatable, Sendable {
    /// Nothing to do: `current` serves, as far as there is one.
    case none
    /// Ask the shared store for a token with a later `iat` than this, then call `storeAnswered`. Until then `current`
    /// serves.
    case askStore(newerThan: Int64)
    /// Take the store's token into use, under this serial.
    case adopt(serial: UInt32)
    /// Sign a token with this `iat` and offer it to the store, whose `storeAnswered` says which token serves.
    case offer(issuedAt: Int64)
    /// Without the store: take a token with this `iat` into use under this serial, the one that was offered or a new one.
    case mint(serial: UInt32, issuedAt: Int64)
    /// The token before this one serves again, under its own serial.
    case fallBack(serial: UInt32)
    /// There is no token but the one that APNs does not take yet: send nothing for this long.
    case hold(milliseconds: Int64)
    /// APNs calls a token expired that is fresh by our clock: one of the clocks is wrong. Say so; a new token would not help.
    case clockDoubt(ageSeconds: Int64)
  }

  /// What the shared store answered.
  package enum StoreAnswer: Equatable, Sendable {
    /// There is no store: this process is alone.
    case absent
    /// It cannot be reached, or takes no writes.
    case unreachable
    /// Somebody else is making a token: the answer follows.
    case waiting
    /// The token that the fleet uses has this `iat`, Unix seconds.
    case token(issuedAt: Int64)
    /// It is this process's turn to make one.
    case mayMint
  }

  private enum Phase: Sendable {
    /// No token, or one could not be signed. Becomes `asking`.
    case empty
    /// A token serves and is young enough, or the store could not be asked lately. Becomes `asking` at its time, or `held`.
    case serving(askAt: Instant)
    /// The store was asked, or offered a token. Becomes `serving` with its answer, or without it at the deadline.
    case asking(deadline: Instant)
    /// Renewed too often, APNs says: nothing is made before this time. Becomes `serving`.
    case held(until: Instant)
  }

  package static let renewalAgeMinimumSeconds: Int64 = 40 * 60
  package static let renewalAgeSpreadSeconds: Int64 = 10 * 60
  package static let renewalGapSeconds: Int64 = 20 * 60
  /// A request takes its time to APNs: a token is not served in its last half minute.
  package static let ageMaximumSeconds: Int64 = 60 * 60 - 30
  /// An `iat` ahead of our clock by more than this is somebody's wrong clock.
  package static let futureMaximumSeconds: Int64 = 60
  /// The store says something in this time, or counts as unreachable.
  package static let storeTimeoutMilliseconds: Int64 = 500
  /// Without the store a token serves up to this age before one is made alone.
  package static let aloneAgeSeconds: Int64 = 55 * 60
  /// A store that could not be reached is asked again after this time.
  package static let askAgainMilliseconds: Int64 = 5_000

  private var phase = Phase.empty
  private var renewalAgeSeconds: Int64 = 0
  private var lastSerial: UInt32 = 0
  /// The token that requests carry; nil before the first, and where the last one grew too old.
  package private(set) var current: Token?
  /// The one before, to go back to.
  private var previous: Token?
  /// The token that APNs refused as one too many; the next one to serve, once the hold is over.
  private var refused: Token?
  /// `iat` of a token that was signed for the store, which did not say yet whether it took it.
  private var offered: Int64?
  /// Tokens up to this `iat` are of no use: APNs called one of them expired.
  private var floorIssuedAt: Int64 = 0

  package init() {}

  /// Once a turn. `jitter`: any random bits.
  package mutating func turn(now: Now, jitter: UInt64) -> Action {
    switch phase {
    case .empty:
      return ask(now)
    case .serving(let askAt):
      guard let token = current else { return ask(now) }
      let age = self.age(of: token, now: now)
      if age > ProviderTokenState.ageMaximumSeconds {
        current = nil
        return ask(now)
      }
      // Where the time of day jumped ahead, a token looks older than APNs has known it for.
      let knownFor = token.ageWhenTaken &+ secondsInUse(token, now: now)
      guard age >= renewalAgeSeconds, knownFor >= ProviderTokenState.renewalGapSeconds, now.monotonic >= askAt else {
        return .none
      }
      return ask(now)
    case .asking(let deadline):
      dropIfTooOld(now)
      guard now.monotonic >= deadline else { return .none }
      return goAlone(now, jitter: jitter)
    case .held(let until):
      dropIfTooOld(now)
      if let token = refused, now.monotonic >= until || current == nil {
        // It is this old by now that changing to it is a change after 20 minutes, or there is no other.
        refused = nil
        phase = .serving(askAt: now.monotonic)
        guard age(of: token, now: now) <= ProviderTokenState.ageMaximumSeconds else { return .none }
        previous = current
        current = token
        return .fallBack(serial: token.serial)
      }
      if now.monotonic >= until { phase = .serving(askAt: now.monotonic) }
      return .none
    }
  }

  /// The store answered `askStore` or `offer`.
  package mutating func storeAnswered(_ answer: StoreAnswer, now: Now, jitter: UInt64) -> Action {
    guard case .asking = phase else {
      // Late: the question was given up. A token is news like any other.
      switch answer {
      case .absent, .unreachable, .waiting, .mayMint: return .none
      case .token(let issuedAt): return storeOffered(issuedAt: issuedAt, now: now, jitter: jitter)
      }
    }
    switch answer {
    case .absent:
      return mint(now, jitter: jitter)
    case .unreachable:
      return goAlone(now, jitter: jitter)
    case .waiting:
      phase = .asking(deadline: storeDeadline(now))
      return .none
    case .mayMint:
      let issuedAt = max(now.unixSeconds, newestIssuedAt + 1)
      offered = issuedAt
      phase = .asking(deadline: storeDeadline(now))
      return .offer(issuedAt: issuedAt)
    case .token(let issuedAt):
      offered = nil
      guard isBetter(issuedAt, now: now) else { return goAlone(now, jitter: jitter) }
      return adopt(issuedAt, now: now, jitter: jitter)
    }
  }

  /// Another replica's token became known without being asked for. It is taken once ours may be replaced at all.
  package mutating func storeOffered(issuedAt: Int64, now: Now, jitter: UInt64) -> Action {
    switch phase {
    case .empty, .asking:
      guard isBetter(issuedAt, now: now) else { return .none }
      return adopt(issuedAt, now: now, jitter: jitter)
    case .serving:
      guard let token = current else { return .none }
      guard issuedAt > token.issuedAt, isBetter(issuedAt, now: now),
        secondsInUse(token, now: now) >= ProviderTokenState.renewalGapSeconds
      else { return .none }
      return adopt(issuedAt, now: now, jitter: jitter)
    case .held:
      return .none
    }
  }

  /// APNs answered `ExpiredProviderToken` to a request that carried this token. It is renewed once: answers that follow
  /// for the same token change nothing.
  package mutating func expired(serial: UInt32, now: Now, jitter: UInt64) -> Action {
    guard let token = current, token.serial == serial else { return .none }
    switch phase {
    case .empty, .asking:
      return .none
    case .serving:
      let age = self.age(of: token, now: now)
      guard age >= ProviderTokenState.renewalGapSeconds else { return .clockDoubt(ageSeconds: age) }
      current = nil
      floorIssuedAt = max(floorIssuedAt, token.issuedAt)
      return ask(now)
    case .held:
      // The older token ran out while the newer one had to wait: the newer one is all there is.
      current = nil
      return turn(now: now, jitter: jitter)
    }
  }

  /// APNs answered `TooManyProviderTokenUpdates` to a request that carried this token.
  package mutating func tooManyUpdates(serial: UInt32, now: Now) -> Action {
    guard let token = current, token.serial == serial else { return .none }
    switch phase {
    case .held(let until):
      return .hold(milliseconds: max(0, until.milliseconds(since: now.monotonic)))
    case .empty, .serving, .asking:
      let gap = ProviderTokenState.renewalGapSeconds * 1000
      phase = .held(until: now.monotonic.adding(milliseconds: gap))
      guard let older = previous, age(of: older, now: now) <= ProviderTokenState.ageMaximumSeconds else {
        return .hold(milliseconds: gap)
      }
      previous = nil
      refused = token
      current = older
      return .fallBack(serial: older.serial)
    }
  }

  /// The token that `mint` asked for could not be signed: the one before it serves on, and the next turn tries again.
  package mutating func mintFailed() {
    current = previous
    previous = nil
    offered = nil
    phase = .empty
  }

  /// The token that `offer` asked for could not be signed: what serves serves on, and a later turn tries again.
  package mutating func offerFailed(now: Now) {
    offered = nil
    phase = .serving(askAt: now.monotonic.adding(milliseconds: ProviderTokenState.askAgainMilliseconds))
    if current == nil { phase = .empty }
  }

  /// Seconds since the token's `iat`, by the clock that says more.
  package func age(of token: Token, now: Now) -> Int64 {
    max(now.unixSeconds &- token.issuedAt, token.ageWhenTaken &+ secondsInUse(token, now: now))
  }

  private func secondsInUse(_ token: Token, now: Now) -> Int64 {
    now.monotonic.milliseconds(since: token.takenAt) / 1000
  }

  private mutating func dropIfTooOld(_ now: Now) {
    if let token = current, age(of: token, now: now) > ProviderTokenState.ageMaximumSeconds { current = nil }
  }

  private var newestIssuedAt: Int64 { max(floorIssuedAt, current?.issuedAt ?? 0) }

  /// Whether a token of the store may serve: newer than ours, not in its last half minute, not from the future.
  private func isBetter(_ issuedAt: Int64, now: Now) -> Bool {
    let age = now.unixSeconds &- issuedAt
    guard age >= -ProviderTokenState.futureMaximumSeconds, age <= ProviderTokenState.ageMaximumSeconds else {
      return false
    }
    return issuedAt > newestIssuedAt
  }

  private func storeDeadline(_ now: Now) -> Instant {
    now.monotonic.adding(milliseconds: ProviderTokenState.storeTimeoutMilliseconds)
  }

  private mutating func ask(_ now: Now) -> Action {
    phase = .asking(deadline: storeDeadline(now))
    return .askStore(newerThan: newestIssuedAt)
  }

  /// The store has nothing for us: what is held serves as long as it may, then a token is made without asking.
  private mutating func goAlone(_ now: Now, jitter: UInt64) -> Action {
    if let token = current, age(of: token, now: now) < ProviderTokenState.aloneAgeSeconds {
      phase = .serving(askAt: now.monotonic.adding(milliseconds: ProviderTokenState.askAgainMilliseconds))
      return .none
    }
    return mint(now, jitter: jitter)
  }

  private mutating func mint(_ now: Now, jitter: UInt64) -> Action {
    // The store may have taken what it was offered and lost the word of it: another token would be one too many.
    let known = offered.flatMap { isBetter($0, now: now) ? $0 : nil }
    offered = nil
    let issuedAt = known ?? now.unixSeconds
    return .mint(serial: take(issuedAt, now: now, jitter: jitter), issuedAt: issuedAt)
  }

  private mutating func adopt(_ issuedAt: Int64, now: Now, jitter: UInt64) -> Action {
    .adopt(serial: take(issuedAt, now: now, jitter: jitter))
  }

  private mutating func take(_ issuedAt: Int64, now: Now, jitter: UInt64) -> UInt32 {
    lastSerial &+= 1
    previous = current
    current = Token(
      serial: lastSerial, issuedAt: issuedAt, takenAt: now.monotonic, ageWhenTaken: max(0, now.unixSeconds &- issuedAt))
    renewalAgeSeconds =
      ProviderTokenState.renewalAgeMinimumSeconds
      + Int64(jitter % UInt64(ProviderTokenState.renewalAgeSpreadSeconds))
    phase = .serving(askAt: now.monotonic)
    return lastSerial
  }
}
