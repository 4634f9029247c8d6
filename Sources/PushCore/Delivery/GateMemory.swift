/// What one lane remembers by itself: answered (job, target)s, dead tokens and device rates, in bounded tables.
///
/// It answers as the script in Redis does, in the same order: answered? dead? over its rate? Only what will be sent is
/// charged. It is the whole shared state where there is no Redis, and what decides while Redis is away. Of copies that come
/// twice it knows nothing: that takes a broker, and workers who share what they know.
///
/// It has one owner, so that looking into it copies nothing.
package struct GateMemory: ~Copyable, Sendable {
  package struct Settings: Sendable {
    package var limits = RateLimits.none
    package var outcomeSeconds: Int64 = 6 * 3600
    package var deadSeconds: Int64 = 30 * 86_400
    /// Entries of each table; the oldest unused ones make room.
    package var entriesMaximum = 65_536
    /// How long a device is left alone that APNs refused as one too many.
    package var tightMilliseconds: Int64 = 30_000
    /// How long a delayed job of a collapse id is looked for.
    package var collapseMilliseconds: Int64 = 3_600_000

    package init() {}
  }

  private struct AnsweredKey: Hashable, Sendable {
    var device: GateKey
    var apnsID: UUIDValue
  }

  private struct CollapseKey: Hashable, Sendable {
    var device: GateKey
    var collapse: UInt64
  }

  private struct RateKey: Hashable, Sendable {
    var device: GateKey
    var rate: UInt8
  }

  package var settings: Settings
  private var answered: GateTable<AnsweredKey, RememberedOutcome>
  /// When each token was unregistered, Unix milliseconds.
  private var dead: GateTable<GateKey, Int64>
  private var rates: GateTable<RateKey, RateState>
  /// The newest job, by its first receipt, of a collapse id of which one was delayed.
  private var collapsed: GateTable<CollapseKey, Int64>

  package init(settings: Settings) {
    self.settings = settings
    answered = GateTable(capacity: settings.entriesMaximum)
    dead = GateTable(capacity: settings.entriesMaximum)
    rates = GateTable(capacity: settings.entriesMaximum)
    collapsed = GateTable(capacity: settings.entriesMaximum)
  }

  /// Neither an outcome nor a dead token is remembered.
  package var isEmpty: Bool { answered.isEmpty && dead.isEmpty }

  /// Entries of all tables.
  package var count: Int { answered.count + dead.count + rates.count }

  /// Outcomes that made room for others before they were told to anybody.
  package var forgottenCount: UInt64 { answered.evictedCount }

  package mutating func admit(_ request: GateRequest, now: Now) -> Admission {
    recall(request, now: now) ?? charge(request, now: now)
  }

  /// What is remembered against sending: nil lets it go on.
  package mutating func recall(_ request: GateRequest, now: Now) -> Admission? {
    let key = AnsweredKey(device: request.device, apnsID: request.apnsID)
    if let outcome = answered.value(for: key, nowUnixMilliseconds: now.unixMilliseconds) { return .duplicate(outcome) }
    if let mark = dead.value(for: request.device, nowUnixMilliseconds: now.unixMilliseconds) {
      if request.registeredAt <= mark { return .dead(unregisteredAt: mark) }
      dead.removeValue(for: request.device)
    }
    return nil
  }

  /// Charges the device's rate: `proceed`, `limited` or `superseded`.
  package mutating func charge(_ request: GateRequest, now: Now) -> Admission {
    guard request.isRated else { return .proceed }
    let limit = settings.limits[request.rate]
    if limit == nil, rates.isEmpty { return .proceed }
    if isSuperseded(request, now) { return .superseded }
    let key = RateKey(device: request.device, rate: request.rate)
    let nowMicroseconds = now.unixMilliseconds * 1000
    guard
      var state = rates.value(for: key, nowUnixMilliseconds: now.unixMilliseconds) ?? limit.map({ _ in RateState() })
    else { return .proceed }
    guard let limit else {
      let milliseconds = state.tightMilliseconds(nowMicroseconds: nowMicroseconds)
      return milliseconds > 0 ? .limited(retryAfterMilliseconds: milliseconds) : .proceed
    }
    let answer = state.charge(request.jobName, limit: limit, nowMicroseconds: nowMicroseconds)
    switch answer {
    case .limited(let milliseconds):
      noteDelayed(request, now)
      return .limited(retryAfterMilliseconds: milliseconds)
    case .proceed:
      rates.set(
        state, for: key, endsAt: (state.arrivalMicroseconds + 999) / 1000,
        nowUnixMilliseconds: now.unixMilliseconds)
      return .proceed
    }
  }

  /// Whether a newer job came while this one waited. A newer one is noted.
  private mutating func isSuperseded(_ request: GateRequest, _ now: Now) -> Bool {
    guard request.collapse != 0, !collapsed.isEmpty else { return false }
    let key = CollapseKey(device: request.device, collapse: request.collapse)
    guard let newest = collapsed.value(for: key, nowUnixMilliseconds: now.unixMilliseconds) else { return false }
    if request.isReturning, newest > request.firstSeen { return true }
    if newest < request.firstSeen { noteDelayed(request, now) }
    return false
  }

  private mutating func noteDelayed(_ request: GateRequest, _ now: Now) {
    guard request.collapse != 0 else { return }
    let key = CollapseKey(device: request.device, collapse: request.collapse)
    let newest = collapsed.value(for: key, nowUnixMilliseconds: now.unixMilliseconds) ?? 0
    collapsed.set(
      max(newest, request.firstSeen), for: key, endsAt: now.unixMilliseconds + settings.collapseMilliseconds,
      nowUnixMilliseconds: now.unixMilliseconds)
  }

  /// APNs refused the device's requests as too many.
  package mutating func tighten(_ request: GateRequest, now: Now) {
    let key = RateKey(device: request.device, rate: request.rate)
    var state = rates.value(for: key, nowUnixMilliseconds: now.unixMilliseconds) ?? RateState()
    state.tighten(
      microseconds: settings.tightMilliseconds * 1000, limit: settings.limits[request.rate],
      nowMicroseconds: now.unixMilliseconds * 1000)
    rates.set(
      state, for: key, endsAt: (state.arrivalMicroseconds + 999) / 1000, nowUnixMilliseconds: now.unixMilliseconds)
  }

  /// Takes out one outcome that is remembered here, to tell it to whom it belongs. nil: none is left, and the marks of dead
  /// tokens went with them.
  package mutating func takeRemembered() -> (request: GateRequest, outcome: RememberedOutcome)? {
    guard let (key, outcome) = answered.popLast() else {
      if !dead.isEmpty { dead = GateTable(capacity: settings.entriesMaximum) }
      return nil
    }
    return (GateRequest(device: key.device, apnsID: key.apnsID), outcome)
  }

  package mutating func remember(_ outcome: RememberedOutcome, of request: GateRequest, now: Now) {
    let now = now.unixMilliseconds
    answered.set(
      outcome, for: AnsweredKey(device: request.device, apnsID: request.apnsID),
      endsAt: now + settings.outcomeSeconds * 1000, nowUnixMilliseconds: now)
    guard let mark = outcome.deadMark else { return }
    // Of two marks the later one is true.
    let known = dead.value(for: request.device, nowUnixMilliseconds: now) ?? 0
    dead.set(
      max(mark, known), for: request.device, endsAt: now + settings.deadSeconds * 1000, nowUnixMilliseconds: now)
  }
}

extension RememberedOutcome {
  /// When the token or channel died, Unix milliseconds; nil where the outcome says nothing of the kind. An answer without
  /// a timestamp counts from when it was given. A channel's id never comes back.
  package var deadMark: Int64? {
    guard outcome == .unregistered || reason == .channelNotRegistered else { return nil }
    return max(1, unregisteredAt ?? completedAt)
  }
}
