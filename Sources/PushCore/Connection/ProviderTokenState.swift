/// When a provider token is made, kept and given up: the rules for one (team, key) in the whole process.
///
/// Apple's rule: renew a token at most every 20 and at least every 60 minutes, by the age of its `iat`. So a token is renewed at an age of
/// 40–50 minutes (jitter spreads keys and workers), never twice in 20 minutes, and never used beyond 60. Workers share one token. A
/// process that needs a new one asks the shared store first, makes one only if the store says so, and uses it only after the store took it:
/// a token that the store refuses was never shown to APNs. Without the store, the current token serves up to 55 minutes; then this process
/// makes one alone. Two tokens never alternate: a newer one replaces an older one, and the older one returns only if APNs says that the
/// token was renewed too often.
///
/// Age is counted on two clocks, time of day and monotonic, and the larger one counts. So a clock that is set back does not keep a token
/// alive, and one that is set forward does not keep an expired token in use. A token that was made while the clock was ahead is refused by
/// APNs until its `iat`: it is replaced as soon as another one may follow it, by one with an earlier `iat`.
///
/// `now` is APNs' time where that is known to differ from ours. A token that APNs refuses because of its `iat`, as that time shows, was never
/// taken by APNs: it is replaced at once, but only once in 20 minutes.
package struct ProviderTokenState: Sendable {
  /// A token's identity and times. The owner keeps its bytes, under the serial.
  package struct Token: Hashable, Sendable {
    /// Counts this state's tokens; a connection remembers which one a request carried.
    package var serial: UInt32
    /// Unix seconds.
    package var issuedAt: Int64
    /// When it came into use here, and its age at that time.
    fileprivate var takenAt: Instant
    fileprivate var ageWhenTaken: Int64
  }

  package enum Action: Equatable, Sendable {
    /// Nothing to do: `current` serves, if there is one.
    case none
    /// Ask the shared store for a token with a later `iat` than this, then call `storeAnswered`. Until then `current`
    /// serves.
    /// - refused: `iat` of a token that APNs never took, because of it: another one may follow at once; 0: there is none.
    case askStore(newerThan: Int64, refused: Int64 = 0)
    /// The token is replaced already: send the request again with `current`.
    case wasReplaced
    /// Take the store's token into use, under this serial.
    case adopt(serial: UInt32)
    /// Sign a token with this `iat` and offer it to the store, whose `storeAnswered` says which token serves.
    case offer(issuedAt: Int64)
    /// Without the store: use a token with this `iat` under this serial, either the one that was offered or a new one.
    case mint(serial: UInt32, issuedAt: Int64)
    /// The token before this one serves again, under its own serial.
    case fallBack(serial: UInt32)
    /// The only token is one that APNs does not accept yet: send only probes, until one is accepted. No other token is made for this long.
    case hold(milliseconds: Int64)
    /// APNs calls a token expired that is fresh by our clock, so one of the clocks is wrong. Report it; a new token would not help.
    case clockDoubt(ageSeconds: Int64)
  }

  /// The shared store's answer.
  package enum StoreAnswer: Equatable, Sendable {
    /// There is no store: this process is alone.
    case absent
    /// It is unreachable, or refuses writes.
    case unreachable
    /// Another process is making a token: the answer follows.
    case waiting
    /// The token that the fleet uses has this `iat`, Unix seconds.
    case token(issuedAt: Int64)
    /// This process shall make one.
    case mayMint
  }

  private enum Phase: Sendable {
    /// No token, or one could not be signed. Becomes `asking`.
    case empty
    /// A token serves and is young enough, or the store did not answer recently. Becomes `asking` at its time, or `held`.
    case serving(askAt: Instant)
    /// The store was asked, or offered a token. Becomes `serving` with its answer, or without one at the deadline.
    case asking(deadline: Instant)
    /// APNs says that the token was renewed too often: none is made before this time. Becomes `serving`.
    case held(until: Instant)
  }

  package static let renewalAgeMinimumSeconds: Int64 = 40 * 60
  package static let renewalAgeSpreadSeconds: Int64 = 10 * 60
  package static let renewalGapSeconds: Int64 = 20 * 60
  /// A request takes time to reach APNs, so a token is not used in its last half minute.
  package static let ageMaximumSeconds: Int64 = 60 * 60 - 30
  /// If an `iat` is ahead of our clock by more than this, a clock is wrong.
  package static let futureMaximumSeconds: Int64 = 60
  /// If the store does not answer in this time, it counts as unreachable.
  package static let storeTimeoutMilliseconds: Int64 = 500
  /// Without the store, a token serves up to this age before this process makes one alone.
  package static let aloneAgeSeconds: Int64 = 55 * 60
  /// An unreachable store is asked again after this time.
  package static let askAgainMilliseconds: Int64 = 5_000

  private var phase = Phase.empty
  private var renewalAgeSeconds: Int64 = 0
  private var lastSerial: UInt32 = 0
  /// The token for requests; nil before the first, and if the last one grew too old.
  package private(set) var current: Token?
  /// The previous token, to fall back to.
  private var previous: Token?
  /// The token that APNs refused as renewed too early; it serves next, when the hold is over.
  private var refused: Token?
  /// `iat` of a token that was offered to the store, whose answer is not known yet.
  private var offered: Int64?
  /// Tokens with this `iat` or an older one are of no use: APNs called one of them expired.
  private var floorIssuedAt: Int64 = 0
  /// The last token that APNs never took, and when it was replaced.
  private var misdated: (serial: UInt32, at: Instant)?

  package init() {}

  /// Call once a turn. `jitter`: any random bits.
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
      // If the time of day jumped ahead, the token looks older than it is for APNs.
      let knownFor = token.ageWhenTaken &+ secondsInUse(token, now: now)
      let isDue = age >= renewalAgeSeconds || isAhead(token.issuedAt, now: now)
      guard isDue, knownFor >= ProviderTokenState.renewalGapSeconds, now.monotonic >= askAt else { return .none }
      return ask(now)
    case .asking(let deadline):
      dropIfTooOld(now)
      guard now.monotonic >= deadline else { return .none }
      return goAlone(now, jitter: jitter)
    case .held(let until):
      dropIfTooOld(now)
      if let token = refused, now.monotonic >= until || current == nil {
        // The token is old enough that changing to it comes 20 minutes after the last change, or there is no other.
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
      // Late: the question was given up. A token is used like one that came unasked.
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
      let issuedAt = max(now.unixSeconds, newestIssuedAt(now) + 1)
      offered = issuedAt
      phase = .asking(deadline: storeDeadline(now))
      return .offer(issuedAt: issuedAt)
    case .token(let issuedAt):
      offered = nil
      guard isBetter(issuedAt, now: now) else { return goAlone(now, jitter: jitter) }
      return adopt(issuedAt, now: now, jitter: jitter)
    }
  }

  /// Another worker's token became known without being asked for. It is used as soon as ours may be replaced.
  package mutating func storeOffered(issuedAt: Int64, now: Now, jitter: UInt64) -> Action {
    switch phase {
    case .empty, .asking:
      guard isBetter(issuedAt, now: now) else { return .none }
      return adopt(issuedAt, now: now, jitter: jitter)
    case .serving:
      guard let token = current else { return .none }
      guard isBetter(issuedAt, now: now), secondsInUse(token, now: now) >= ProviderTokenState.renewalGapSeconds
      else { return .none }
      return adopt(issuedAt, now: now, jitter: jitter)
    case .held:
      return .none
    }
  }

  /// A token became known that replaces ours, which APNs never took because of its `iat`.
  package mutating func storeReplaced(issuedAt: Int64, now: Now, jitter: UInt64) -> Action {
    guard case .serving = phase, let token = current, token.issuedAt != issuedAt else { return .none }
    let before = self
    setAside(token, now: now)
    floorIssuedAt = 0
    guard isBetter(issuedAt, now: now) else {
      // By our clock. APNs' answer to a request with our token will correct it.
      self = before
      return .none
    }
    return adopt(issuedAt, now: now, jitter: jitter)
  }

  /// APNs answered `InvalidProviderToken` to a request with this token: perhaps because of its `iat`.
  package mutating func invalid(serial: UInt32, now: Now) -> Action {
    if let misdated, misdated.serial == serial { return .wasReplaced }
    guard case .serving = phase, let token = current, token.serial == serial else { return .none }
    return isMisdated(token, now: now) ? replace(token, now: now) ?? .none : .none
  }

  /// APNs answered `ExpiredProviderToken` to a request with this token. The token is renewed once: later answers for the same token change
  /// nothing.
  package mutating func expired(serial: UInt32, now: Now, jitter: UInt64) -> Action {
    guard let token = current, token.serial == serial else { return .none }
    switch phase {
    case .empty, .asking:
      return .none
    case .serving:
      let age = self.age(of: token, now: now)
      guard age >= ProviderTokenState.renewalGapSeconds else { return .clockDoubt(ageSeconds: age) }
      if isMisdated(token, now: now) { return replace(token, now: now) ?? .clockDoubt(ageSeconds: age) }
      current = nil
      floorIssuedAt = max(floorIssuedAt, token.issuedAt)
      return ask(now)
    case .held:
      // The older token expired while the newer one had to wait: only the newer one is left.
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

  /// The token for `mint` could not be signed: the previous one serves on, and the next turn tries again.
  package mutating func mintFailed() {
    current = previous
    previous = nil
    offered = nil
    phase = .empty
  }

  /// The token for `offer` could not be signed: the current one serves on, and a later turn tries again.
  package mutating func offerFailed(now: Now) {
    offered = nil
    phase = .serving(askAt: now.monotonic.adding(milliseconds: ProviderTokenState.askAgainMilliseconds))
    if current == nil { phase = .empty }
  }

  /// Seconds since the token's `iat`, by the clock that gives more.
  package func age(of token: Token, now: Now) -> Int64 {
    max(now.unixSeconds &- token.issuedAt, token.ageWhenTaken &+ secondsInUse(token, now: now))
  }

  private func secondsInUse(_ token: Token, now: Now) -> Int64 {
    now.monotonic.milliseconds(since: token.takenAt) / 1000
  }

  private mutating func dropIfTooOld(_ now: Now) {
    if let token = current, age(of: token, now: now) > ProviderTokenState.ageMaximumSeconds { current = nil }
  }

  /// APNs cannot take it at its time, though it is young by the clock that it was made by.
  private func isMisdated(_ token: Token, now: Now) -> Bool {
    let age = now.unixSeconds &- token.issuedAt
    return age < -ProviderTokenState.futureMaximumSeconds
      || age > ProviderTokenState.ageMaximumSeconds
        && token.ageWhenTaken &+ secondsInUse(token, now: now) < ProviderTokenState.renewalGapSeconds
  }

  /// nil: another one was replaced within 20 minutes.
  private mutating func replace(_ token: Token, now: Now) -> Action? {
    if let misdated, now.monotonic.milliseconds(since: misdated.at) < ProviderTokenState.renewalGapSeconds * 1_000 {
      return nil
    }
    setAside(token, now: now)
    phase = .asking(deadline: storeDeadline(now))
    return .askStore(newerThan: newestIssuedAt(now), refused: token.issuedAt)
  }

  private mutating func setAside(_ token: Token, now: Now) {
    misdated = (token.serial, now.monotonic)
    current = nil
    previous = nil
    // An earlier `iat` than those of tokens that were made by a clock which was ahead.
    floorIssuedAt = token.issuedAt < now.unixSeconds ? max(floorIssuedAt, token.issuedAt) : 0
  }

  /// Its `iat` comes later than another token could follow it: the clock was ahead when it was made.
  private func isAhead(_ issuedAt: Int64, now: Now) -> Bool {
    issuedAt > now.unixSeconds + ProviderTokenState.renewalGapSeconds
  }

  /// The next token's `iat` is later than this.
  private func newestIssuedAt(_ now: Now) -> Int64 {
    [floorIssuedAt, current?.issuedAt ?? 0].filter { !isAhead($0, now: now) }.max() ?? 0
  }

  /// Whether a token of the store may be used: newer than ours, not in its last half minute, not from the future.
  private func isBetter(_ issuedAt: Int64, now: Now) -> Bool {
    let age = now.unixSeconds &- issuedAt
    guard age >= -ProviderTokenState.futureMaximumSeconds, age <= ProviderTokenState.ageMaximumSeconds else {
      return false
    }
    return issuedAt > newestIssuedAt(now)
  }

  private func storeDeadline(_ now: Now) -> Instant {
    now.monotonic.adding(milliseconds: ProviderTokenState.storeTimeoutMilliseconds)
  }

  private mutating func ask(_ now: Now) -> Action {
    phase = .asking(deadline: storeDeadline(now))
    return .askStore(newerThan: newestIssuedAt(now))
  }

  /// The store gave no token: the current one serves as long as it may, then this process makes one alone.
  private mutating func goAlone(_ now: Now, jitter: UInt64) -> Action {
    if let token = current, age(of: token, now: now) < ProviderTokenState.aloneAgeSeconds {
      phase = .serving(askAt: now.monotonic.adding(milliseconds: ProviderTokenState.askAgainMilliseconds))
      return .none
    }
    return mint(now, jitter: jitter)
  }

  private mutating func mint(_ now: Now, jitter: UInt64) -> Action {
    // The store may have taken the offered token and its answer was lost: then another token would be one too many.
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
