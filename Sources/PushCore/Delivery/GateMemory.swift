/// What one lane remembers by itself: answered (job, target)s, dead tokens and device rates, in bounded tables.
///
/// It answers as the script in Redis does, in the same order: answered? dead? over its rate? Only what will be sent is
/// charged. It is the whole shared state where there is no Redis, and what decides while Redis is away.
package struct GateMemory: Sendable {
  package struct Settings: Sendable {
    /// nil: no limit.
    package var limit: RateLimit?
    package var outcomeSeconds: Int64 = 6 * 3600
    package var deadSeconds: Int64 = 30 * 86_400
    /// Entries of each table; the oldest unused ones make room.
    package var entriesMaximum = 65_536

    package init() {}
  }

  private struct AnsweredKey: Hashable, Sendable {
    var device: GateKey
    var apnsID: UUIDValue
  }

  package var settings: Settings
  private var answered: GateTable<AnsweredKey, RememberedOutcome>
  /// When each token was unregistered, Unix milliseconds.
  private var dead: GateTable<GateKey, Int64>
  private var rates: GateTable<GateKey, RateState>

  package init(settings: Settings) {
    self.settings = settings
    answered = GateTable(capacity: settings.entriesMaximum)
    dead = GateTable(capacity: settings.entriesMaximum)
    rates = GateTable(capacity: settings.entriesMaximum)
  }

  /// Neither an outcome nor a dead token is remembered.
  package var isEmpty: Bool { answered.isEmpty && dead.isEmpty }

  /// Entries of all tables.
  package var count: Int { answered.count + dead.count + rates.count }

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

  /// Charges the device's rate: `proceed` or `limited`.
  package mutating func charge(_ request: GateRequest, now: Now) -> Admission {
    guard request.isRated, let limit = settings.limit else { return .proceed }
    let nowMicroseconds = now.unixMilliseconds * 1000
    var state = rates.value(for: request.device, nowUnixMilliseconds: now.unixMilliseconds) ?? RateState()
    let answer = state.charge(RateState.chargeName(request.apnsID), limit: limit, nowMicroseconds: nowMicroseconds)
    switch answer {
    case .limited(let milliseconds):
      return .limited(retryAfterMilliseconds: milliseconds)
    case .proceed:
      rates.set(
        state, for: request.device, endsAt: (state.arrivalMicroseconds + 999) / 1000,
        nowUnixMilliseconds: now.unixMilliseconds)
      return .proceed
    }
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
  /// When the token died, Unix milliseconds; nil where the outcome says nothing of the kind. An answer without a
  /// timestamp counts from when it was given.
  package var deadMark: Int64? {
    guard outcome == .unregistered else { return nil }
    return max(1, unregisteredAt ?? completedAt)
  }
}
