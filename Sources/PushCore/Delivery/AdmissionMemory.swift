/// What one lane remembers by itself: answered (job, target)s, those in flight, dead tokens and device rates, in bounded tables.
///
/// It decides as the script in Redis does, in the same order: answered? claimed? dead? over its rate? Only what will be sent is charged. It
/// is the whole admission store if there is no Redis, and decides while Redis is down.
///
/// Its times are monotonic: what it remembers lasts as long as it should, even if the wall clock is set.
///
/// It has one owner, so access copies nothing.
package struct AdmissionMemory: ~Copyable, Sendable {
  package struct Settings: Sendable {
    /// Lanes that share a device's rate without communication.
    package var shares = 1
    package var outcomeSeconds: Int64 = 6 * 3600
    package var deadSeconds: Int64 = 30 * 86_400
    /// Entries of each table; the oldest unused ones are evicted.
    package var entriesMaximum = 65_536
    /// How long nothing is sent to a device after APNs answered TooManyRequests for it.
    package var tightMilliseconds: Int64 = 30_000
    /// How long a job may be in flight before its answer is no longer expected.
    package var claimSeconds: Int64 = 60
    /// How long a delayed job's collapse id is remembered.
    package var collapseMilliseconds: Int64 = 3_600_000
    /// How old an admission may be, in whole seconds, for newer jobs of its collapse id to wait for its answer.
    package var orderWaitSeconds: Int64 = 2

    package init() {}
  }

  private struct JobKey: Hashable, Sendable {
    var device: TargetKey
    var apnsID: UUIDValue
  }

  private struct CollapseKey: Hashable, Sendable {
    var device: TargetKey
    var collapse: UInt64
  }

  private struct Newest: Sendable {
    var enqueuedAt: Int64
    var apnsID: UUIDValue
  }

  /// Of the last jobs with a collapse id, the newest first.
  private struct Places: Sendable {
    private struct Place: Sendable {
      /// On the scale of `JobOrder`.
      var point: Int64 = 0
      var apnsID = UUIDValue(high: 0, low: 0)
      /// It ended superseded, and its claim holds up nobody any more.
      var isOver = false
    }

    private var places = InlineArray<4, Place>(repeating: Place())
    private var count = 0

    /// It is as new as its first copy, however it comes again: published twice, or taken from a worker that ended.
    private func own(_ request: AdmissionRequest) -> Int64? {
      for index in 0..<count where places[index].apnsID == request.apnsID { return places[index].point }
      return nil
    }

    /// - Parameter isClaimed: it was admitted: without a place among the last ones, it is older than they are.
    func supersedes(_ request: AdmissionRequest, isClaimed: Bool) -> Bool {
      // A copy of the newest job may have another place.
      guard count > 0, places[0].apnsID != request.apnsID else { return false }
      guard let own = own(request) else {
        return isClaimed && count == places.count || request.order.isOlder(than: places[0].point)
          || request.hasAsked && request.order.latest == places[0].point
      }
      // Of two that are as new as each other, the one that came last is.
      return min(request.order.latest, own) <= places[0].point
    }

    /// The last one, the oldest first.
    func last(where matches: (UUIDValue) -> Bool) -> UUIDValue? {
      for index in (0..<count).reversed() where !places[index].isOver && matches(places[index].apnsID) {
        return places[index].apnsID
      }
      return nil
    }

    mutating func remove(_ request: AdmissionRequest) {
      guard let index = (0..<count).first(where: { places[$0].apnsID == request.apnsID }) else { return }
      count -= 1
      for later in index..<count { places[later] = places[later + 1] }
    }

    mutating func end(_ request: AdmissionRequest) {
      for index in 0..<count where places[index].apnsID == request.apnsID { places[index].isOver = true }
    }

    /// - Parameter kept: keeps its place.
    mutating func note(_ request: AdmissionRequest, keeping kept: UUIDValue?) {
      guard own(request) == nil else { return }
      let place = Place(point: request.order.earliest, apnsID: request.apnsID)
      let index = count > 0 && places[0].point > place.point ? 1 : 0
      let isKept = count == places.count && places[count - 1].apnsID == kept
      let last = min(count, places.count - 1)
      for later in stride(from: isKept ? last - 1 : last, to: index, by: -1) { places[later] = places[later - 1] }
      places[index] = place
      count = min(count + 1, places.count)
    }
  }

  private struct RateKey: Hashable, Sendable {
    var device: TargetKey
    var rule: UInt32
  }

  private struct Claim: Sendable {
    var number: UInt32
    /// Monotonic milliseconds.
    var deadline: Int64
    /// The run of its device's rate in which it was charged; 0: in none.
    var run: UInt32
  }

  private struct Fate: Sendable {
    var outcome: RememberedOutcome
    /// Its last claim; 0: none.
    var claim: UInt32
  }

  package var settings: Settings
  private var answered: AdmissionTable<JobKey, RememberedOutcome>
  private var fates: AdmissionTable<JobKey, Fate>
  private var claims: AdmissionTable<JobKey, Claim>
  /// When the last claim expires, monotonic milliseconds.
  private var claimedUntil: Int64 = .min
  /// When the last of `fates` ends, monotonic.
  private var fatedUntil: Int64 = .min
  /// When the last of `places` ends, monotonic.
  private var orderedUntil: Int64 = .min
  /// When each token was unregistered, Unix milliseconds.
  private var dead: AdmissionTable<TargetKey, Int64>
  private var rates: AdmissionTable<RateKey, RateState>
  /// Runs of rates that were started: the newest number.
  private var runs: UInt32 = 0
  /// The newest job of each collapse id of which a job was delayed.
  private var collapsed: AdmissionTable<CollapseKey, Newest>
  /// The places of the last jobs of each collapse id (`JobOrder`).
  private var places: AdmissionTable<CollapseKey, Places>

  package init(settings: Settings) {
    self.settings = settings
    answered = AdmissionTable(capacity: settings.entriesMaximum)
    fates = AdmissionTable(capacity: settings.entriesMaximum)
    claims = AdmissionTable(capacity: settings.entriesMaximum)
    dead = AdmissionTable(capacity: settings.entriesMaximum)
    rates = AdmissionTable(capacity: settings.entriesMaximum)
    collapsed = AdmissionTable(capacity: settings.entriesMaximum)
    places = AdmissionTable(capacity: settings.entriesMaximum)
  }

  /// Neither an outcome nor a dead token is remembered.
  package var isEmpty: Bool { answered.isEmpty && dead.isEmpty }

  /// Entries of all tables.
  package var count: Int { answered.count + claims.count + dead.count + rates.count }

  /// Outcomes that were evicted before the shared store had them.
  package var forgottenCount: UInt64 { answered.evictedCount }

  /// Whether an entry here may hold a job back.
  package func mayRecall(now: Now) -> Bool {
    !isEmpty || max(claimedUntil, fatedUntil, orderedUntil) > now.monotonicMilliseconds
  }

  package mutating func admit(_ request: AdmissionRequest, now: Now) -> Admission {
    let milliseconds = now.monotonicMilliseconds
    let key = JobKey(device: request.device, apnsID: request.apnsID)
    if let outcome = answered.value(for: key, nowMilliseconds: milliseconds) { return .duplicate(outcome) }
    let claim = claims.value(for: key, nowMilliseconds: milliseconds)
    if let fate = fate(of: request, key, claim, now: now) { return .duplicate(fate) }
    var isRepeated = false
    if let claim {
      if !request.owns(claim.number) {
        if waits(request, for: claim, now: now) {
          return .claimed(retryAfterMilliseconds: claim.deadline - milliseconds)
        }
        isRepeated = true
      }
    } else {
      // The previous attempt's claim was evicted, and with it whether another copy had the job since.
      isRepeated = request.isReturning && request.earlierClaim != 0
    }
    let admission = recallDead(request, now: now) ?? charge(request, claim, key, now: now)
    return isRepeated ? admission.asRepeated : admission
  }

  /// What is known here against sending, before the shared store is asked; nil: nothing.
  package mutating func recall(_ request: AdmissionRequest, now: Now) -> Admission? {
    let key = JobKey(device: request.device, apnsID: request.apnsID)
    if let outcome = answered.value(for: key, nowMilliseconds: now.monotonicMilliseconds) { return .duplicate(outcome) }
    let claim = claims.value(for: key, nowMilliseconds: now.monotonicMilliseconds)
    if let fate = fate(of: request, key, claim, now: now) { return .duplicate(fate) }
    if let claim, !request.owns(claim.number), waits(request, for: claim, now: now) {
      return .claimed(retryAfterMilliseconds: claim.deadline - now.monotonicMilliseconds)
    }
    // The shared store may have its answer.
    if let places = places(of: request, now), places.supersedes(request, isClaimed: claim != nil) {
      return Admission.superseded.asRepeated
    }
    return recallDead(request, now: now)?.asRepeated
  }

  /// How the message ended; nil: it has not, as far as is known. What was published again since has another claim, or none yet; but it is younger
  /// than the end.
  private mutating func fate(
    of request: AdmissionRequest, _ key: JobKey, _ claim: Claim?, now: Now
  ) -> RememberedOutcome? {
    guard request.mayHaveEnded, !fates.isEmpty,
      let fate = fates.value(for: key, nowMilliseconds: now.monotonicMilliseconds),
      claim == nil || claim?.number == fate.claim,
      request.publishedAt <= fate.outcome.completedAt
    else { return nil }
    return fate.outcome
  }

  /// The claim's answer may still come, and the job waits for it. Counted in whole seconds, as in Redis.
  private func waits(_ request: AdmissionRequest, for claim: Claim, now: Now) -> Bool {
    guard claim.deadline > now.monotonicMilliseconds else { return false }
    return switch request.takeover {
    case .none: true
    case .oldClaims: isYounger(claim, than: Takeover.oldClaimSeconds, now)
    case .anyClaim: false
    }
  }

  private func isYounger(_ claim: Claim, than seconds: Int64, _ now: Now) -> Bool {
    let madeAt = claim.deadline / 1000 - settings.claimSeconds
    return now.monotonicMilliseconds / 1000 - madeAt < seconds
  }

  private mutating func recallDead(_ request: AdmissionRequest, now: Now) -> Admission? {
    guard let mark = dead.value(for: request.device, nowMilliseconds: now.monotonicMilliseconds) else { return nil }
    if request.registeredAt <= mark { return .dead(unregisteredAt: mark) }
    dead.removeValue(for: request.device)
    return nil
  }

  /// Charges the device's rate: `proceed` (which leaves a claim), `limited`, `superseded` or `behind`. A job that renews its own claim was
  /// charged already.
  private mutating func charge(_ request: AdmissionRequest, _ claim: Claim?, _ key: JobKey, now: Now) -> Admission {
    // Also of its own claim: it waited, and a newer one came meanwhile.
    let places = places(of: request, now)
    if var places, places.supersedes(request, isClaimed: claim != nil) {
      if let claim, request.owns(claim.number) {
        places.end(request)
        keep(places, of: request, now)
      }
      return .superseded
    }
    // Its time is over.
    if request.claim == 0 { return isSuperseded(request, now) ? .superseded : .proceed }
    var run: UInt32 = 0
    var ahead: UUIDValue?
    if let claim, claim.number == request.claim {
      run = claim.run
    } else if request.isRated {
      if isSuperseded(request, now) { return .superseded }
      ahead = places.flatMap { jobAhead(of: request, $0, now) }
      let rateKey = RateKey(device: request.device, rule: request.rule.stateName)
      let nowMicroseconds = now.monotonicMilliseconds * 1000
      let known = rates.value(for: rateKey, nowMilliseconds: now.monotonicMilliseconds)
      if let limit = request.rule.limit?.share(of: settings.shares) {
        if known == nil { runs &+= 1 }
        var state = known ?? RateState(run: runs)
        if case .limited(let milliseconds) = state.charge(
          inRun: claim?.run, limit: limit, nowMicroseconds: nowMicroseconds)
        {
          return limited(request, claim, places, ahead, milliseconds, now)
        }
        run = state.run
        if ahead == nil { keep(state, for: rateKey, now: now) }
      } else if let milliseconds = known?.tightMilliseconds(nowMicroseconds: nowMicroseconds), milliseconds > 0,
        claim?.run != known?.run
      {
        return limited(request, claim, places, ahead, milliseconds, now)
      }
    }
    notePlace(request, places, keeping: ahead, now)
    if ahead != nil { return .behind }
    let deadline = now.monotonicMilliseconds + settings.claimSeconds * 1000
    claimedUntil = max(claimedUntil, deadline)
    claims.set(
      Claim(number: request.claim, deadline: deadline, run: run), for: key,
      endsAt: deadline + settings.outcomeSeconds * 1000, nowMilliseconds: now.monotonicMilliseconds)
    return .proceed
  }

  private mutating func keep(_ state: RateState, for key: RateKey, now: Now) {
    rates.set(
      state, for: key, endsAt: (state.arrivalMicroseconds + 999) / 1000, nowMilliseconds: now.monotonicMilliseconds)
  }

  /// Whether a newer job came while this one waited. If this one is newer, and its time is not over, it is recorded.
  private mutating func isSuperseded(_ request: AdmissionRequest, _ now: Now) -> Bool {
    guard request.collapse != 0, request.order == .arrival, !collapsed.isEmpty else { return false }
    let key = CollapseKey(device: request.device, collapse: request.collapse)
    guard let newest = collapsed.value(for: key, nowMilliseconds: now.monotonicMilliseconds) else { return false }
    // A later copy of the same job does not count as newer.
    if request.isReturning, newest.enqueuedAt > request.enqueuedAt, newest.apnsID != request.apnsID { return true }
    if newest.enqueuedAt < request.enqueuedAt, request.claim > 0 { noteDelayed(request, now) }
    return false
  }

  /// The places of the last jobs with its collapse id that were admitted, or wait; nil: its order is not kept.
  private mutating func places(of request: AdmissionRequest, _ now: Now) -> Places? {
    guard request.collapse != 0, request.isOrdered else { return nil }
    let key = CollapseKey(device: request.device, collapse: request.collapse)
    return places.value(for: key, nowMilliseconds: now.monotonicMilliseconds) ?? Places()
  }

  /// The job with its collapse id that is with a lane that does not hang, unanswered: its push would race with this one to APNs.
  private mutating func jobAhead(of request: AdmissionRequest, _ places: Places, _ now: Now) -> UUIDValue? {
    let milliseconds = now.monotonicMilliseconds
    return places.last {
      let key = JobKey(device: request.device, apnsID: $0)
      guard $0 != request.apnsID, answered.value(for: key, nowMilliseconds: milliseconds) == nil,
        let claim = claims.value(for: key, nowMilliseconds: milliseconds)
      else { return false }
      return isYounger(claim, than: settings.orderWaitSeconds, now)
    }
  }

  /// The job was admitted, or waits.
  /// - Parameter kept: of the others, the one that keeps its place.
  private mutating func notePlace(
    _ request: AdmissionRequest, _ known: Places?, keeping kept: UUIDValue?, _ now: Now
  ) {
    guard var known else { return }
    known.note(request, keeping: kept)
    keep(known, of: request, now)
  }

  private mutating func keep(_ known: Places, of request: AdmissionRequest, _ now: Now) {
    // A job that is replayed or that was paused comes back later than its age allows.
    let end = now.monotonicMilliseconds + max(settings.collapseMilliseconds, settings.outcomeSeconds * 1000)
    orderedUntil = max(orderedUntil, end)
    places.set(
      known, for: CollapseKey(device: request.device, collapse: request.collapse), endsAt: end,
      nowMilliseconds: now.monotonicMilliseconds)
  }

  /// It waits, or is dropped: then it supersedes nothing.
  private mutating func limited(
    _ request: AdmissionRequest, _ claim: Claim?, _ places: Places?, _ ahead: UUIDValue?, _ milliseconds: Int64,
    _ now: Now
  ) -> Admission {
    if !request.isDropped {
      notePlace(request, places, keeping: ahead, now)
      noteDelayed(request, now)
    } else if var places, claim == nil {
      // It has a place if it waited for one on its way.
      places.remove(request)
      keep(places, of: request, now)
    }
    return .limited(retryAfterMilliseconds: milliseconds)
  }

  private mutating func noteDelayed(_ request: AdmissionRequest, _ now: Now) {
    guard request.collapse != 0, request.order == .arrival else { return }
    let key = CollapseKey(device: request.device, collapse: request.collapse)
    var newest = Newest(enqueuedAt: request.enqueuedAt, apnsID: request.apnsID)
    if let known = collapsed.value(for: key, nowMilliseconds: now.monotonicMilliseconds),
      known.enqueuedAt >= request.enqueuedAt
    {
      newest = known
    }
    collapsed.set(
      newest, for: key, endsAt: now.monotonicMilliseconds + settings.collapseMilliseconds,
      nowMilliseconds: now.monotonicMilliseconds)
  }

  /// APNs answered TooManyRequests for the device.
  package mutating func tighten(_ request: AdmissionRequest, now: Now) {
    let key = RateKey(device: request.device, rule: request.rule.stateName)
    runs &+= 1
    let state = RateState(
      tight: settings.tightMilliseconds * 1000,
      after: rates.value(for: key, nowMilliseconds: now.monotonicMilliseconds), run: runs,
      limit: request.rule.limit?.share(of: settings.shares), nowMicroseconds: now.monotonicMilliseconds * 1000)
    keep(state, for: key, now: now)
  }

  /// The job is no longer in flight. Returns whether it was admitted here.
  package mutating func takeClaim(of request: AdmissionRequest) -> Bool {
    if claims.isEmpty { return false }
    let countBefore = claims.count
    claims.removeValue(for: JobKey(device: request.device, apnsID: request.apnsID))
    return claims.count < countBefore
  }

  /// How a message ended without an answer of APNs.
  package mutating func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, of request: AdmissionRequest, now: Now
  ) {
    let milliseconds = now.monotonicMilliseconds
    fatedUntil = milliseconds + Limits.fateSeconds * 1000
    fates.set(
      Fate(outcome: outcome, claim: claim), for: JobKey(device: request.device, apnsID: request.apnsID),
      endsAt: fatedUntil, nowMilliseconds: milliseconds)
  }

  /// Removes one outcome that is remembered here, to move it to the store that it belongs to. nil: none is left; the marks of dead tokens
  /// were moved with their outcomes.
  package mutating func takeRemembered() -> (request: AdmissionRequest, outcome: RememberedOutcome)? {
    guard let (key, outcome) = answered.popLast() else {
      if !dead.isEmpty { dead = AdmissionTable(capacity: settings.entriesMaximum) }
      return nil
    }
    return (AdmissionRequest(device: key.device, apnsID: key.apnsID), outcome)
  }

  package mutating func remember(_ outcome: RememberedOutcome, of request: AdmissionRequest, now: Now) {
    let now = now.monotonicMilliseconds
    _ = takeClaim(of: request)
    answered.set(
      outcome, for: JobKey(device: request.device, apnsID: request.apnsID),
      endsAt: now + settings.outcomeSeconds * 1000, nowMilliseconds: now)
    guard let mark = outcome.deadMark else { return }
    // Of two marks the later one counts.
    let known = dead.value(for: request.device, nowMilliseconds: now) ?? 0
    dead.set(
      max(mark, known), for: request.device, endsAt: now + settings.deadSeconds * 1000, nowMilliseconds: now)
  }
}

extension RememberedOutcome {
  /// When the token or channel died, Unix milliseconds; nil if the outcome does not say so, or the token was registered since. An answer
  /// without a timestamp counts from when it was given. A deleted channel's id is never reused.
  package var deadMark: Int64? {
    guard outcome == .unregistered || reason == .channelNotRegistered, !isRegisteredSince else { return nil }
    return max(1, unregisteredAt ?? completedAt)
  }
}
