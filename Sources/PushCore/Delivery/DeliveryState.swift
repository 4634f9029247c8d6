/// One (job, target) on its way: what happened to it, and what comes next. The lane does what the actions say.
package struct DeliveryState: Sendable {
  package enum Phase: Sendable {
    /// The admission store was asked whether it may be sent. May become `waiting` or `reporting`.
    case admitting
    /// May be sent; waits for room in its pool. May become `held`, `sent`, `reporting`, or `admitting` again.
    case waiting
    /// Waits until it is known what its channel takes. Becomes `waiting`.
    case held
    /// On a connection. May become `waiting` (sent again at once) or `reporting`.
    case sent
    /// Its end is decided; what tells of it waits to be published and confirmed. May become `settled`.
    case reporting
    /// The broker has confirmed everything that tells of it. Final.
    case settled
  }

  /// How it ended, here: for good, or in a copy that comes back later.
  package enum Ending: Sendable {
    /// `deadLetter`: also publish the original bytes there, for this reason.
    case outcome(RememberedOutcome, isSuppressed: Bool, deadLetter: StaticString?)
    case retry(delaySeconds: Int, reason: APNsReason?)
    /// In a copy that is processed alone.
    case isolation
  }

  package private(set) var phase = Phase.admitting
  package private(set) var ending: Ending?
  /// Requests written to APNs, by earlier copies of the job too.
  package private(set) var attempts: UInt32
  package private(set) var isAmbiguous: Bool
  /// When the last request was written, Unix milliseconds.
  package private(set) var sentAt: Int64?
  /// Unfinished deliveries of it, as long as nothing became of it: what a copy of it carries.
  package private(set) var redeliveries: UInt32
  /// Workers ended too often while they had it: it is not sent any more.
  private let isGivenUp: Bool
  private var resends: UInt8 = 0
  /// Publishes of its ending that are not confirmed.
  private var unconfirmed: UInt8 = 0
  private var mustRepeat = false

  /// - Parameters:
  ///   - attempts: what earlier copies of the job carried over, and so is `isAmbiguous`.
  ///   - redeliveries: how often this job, or a copy before it, was delivered to somebody who did not finish it.
  ///   - isGivenUp: whatever the admission store does not answer ends as `failed`; what became of earlier requests is not known.
  package init(
    attempts: UInt32 = 0, isAmbiguous: Bool = false, redeliveries: UInt32 = 0, isGivenUp: Bool = false
  ) {
    self.attempts = attempts
    self.redeliveries = redeliveries
    self.isAmbiguous = isAmbiguous || isGivenUp
    self.isGivenUp = isGivenUp
  }

  /// What tells of its end is published and not confirmed.
  package var isPublished: Bool { unconfirmed > 0 }

  /// At once sent again so often; the verdict depends on it.
  package var resendCount: UInt8 { resends }

  // MARK: events

  /// The job is wrong: nothing is asked, nothing is sent. What its channel allows is known only when it is to be sent.
  package mutating func refused(now: Now) -> DeliveryAction {
    if phase != .waiting { expect(.admitting) }
    return end(.invalid, deadLetter: "invalid", now: now, isRemembered: false)
  }

  /// It may be what ends workers: nothing is asked, nothing is sent, a copy takes its place.
  package mutating func isolated() -> DeliveryAction {
    expect(.admitting)
    return report(.isolation)
  }

  /// Its batch comes again as a whole, so long from now: nothing is asked, nothing is sent.
  package mutating func putOff(delaySeconds: Int) -> DeliveryAction {
    expect(.admitting)
    return report(.retry(delaySeconds: delaySeconds, reason: nil))
  }

  /// The admission store answered. A job whose time is over is asked about too: another copy of it may have been answered, and two
  /// copies of one job have one end.
  package mutating func admitted(
    _ admission: Admission, _ times: JobTimes, policy: borrowing RetryPolicy, dropsOverLimit: Bool, now: Now
  ) -> DeliveryAction {
    expect(.admitting)
    switch admission {
    case .proceed, .limited, .superseded:
      if policy.isExpired(enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now) {
        return end(.expired, now: now, isRemembered: false)
      }
    case .duplicate, .dead, .claimed, .repeated:
      break
    }
    switch admission {
    case .proceed:
      if isGivenUp { return giveUp(now: now) }
      phase = .waiting
      return .send
    case .duplicate(var remembered):
      // What is remembered may be another copy's answer; this one may have been sent as well.
      if isAmbiguous { remembered.isAmbiguous = true }
      return report(.outcome(remembered, isSuppressed: false, deadLetter: nil))
    case .dead(let unregisteredAt):
      let outcome = RememberedOutcome(
        outcome: .unregistered, unregisteredAt: unregisteredAt, attempts: attempts, isAmbiguous: isAmbiguous,
        sentAt: sentAt, completedAt: now.unixMilliseconds)
      return report(.outcome(outcome, isSuppressed: true, deadLetter: nil))
    case .limited(let retryAfterMilliseconds):
      if isGivenUp { return giveUp(now: now) }
      // One that APNs itself refused, or may have, comes back whatever our own limits say, and so does a copy of one: it has one end.
      if dropsOverLimit, attempts == 0, !isAmbiguous { return end(.throttled, now: now, isRemembered: false) }
      return retry(
        policy.postponeLimited(milliseconds: retryAfterMilliseconds, times, now: now), status: nil, reason: nil,
        now: now)
    case .claimed:
      if isGivenUp, !policy.isExpired(enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now) {
        return giveUp(now: now)
      }
      // Its answer usually comes within a second, and is published for this copy too. What is lost again and again waits for longer.
      switch policy.wait(number: max(redeliveries, 1), times, now: now) {
      case .again(let delaySeconds): return report(.retry(delaySeconds: delaySeconds, reason: nil))
      // Its time is over before that: it is not sent any more, but what became of the other one is its end too. Claims end.
      case .expired, .exhausted: return report(.retry(delaySeconds: policy.delaysSeconds[0], reason: nil))
      }
    case .superseded:
      let outcome = RememberedOutcome(
        outcome: .throttled, attempts: attempts, isAmbiguous: isAmbiguous, sentAt: sentAt,
        completedAt: now.unixMilliseconds)
      return report(.outcome(outcome, isSuppressed: true, deadLetter: nil))
    case .repeated(let admission):
      isAmbiguous = true
      return admitted(admission, times, policy: policy, dropsOverLimit: dropsOverLimit, now: now)
    }
  }

  /// It was admitted so long ago that the admission store is asked again.
  package mutating func askedAgain() {
    expect(.waiting)
    phase = .admitting
  }

  /// Nobody can say yet what its channel takes.
  package mutating func held() {
    expect(.waiting)
    phase = .held
  }

  /// That is known now, or was waited for long enough.
  package mutating func released() -> DeliveryAction {
    expect(.held)
    phase = .waiting
    return .send
  }

  /// The pool took the request.
  package mutating func sent(now: Now) {
    expect(.waiting)
    phase = .sent
    attempts += 1
    sentAt = now.unixMilliseconds
  }

  /// There was no room in the pool for too long, or it is paused: it comes back later, uncounted.
  /// - Parameter retryAfterMilliseconds: how long a pause lasts; nil where there was only no room.
  package mutating func gaveUpWaiting(
    _ times: JobTimes, policy: borrowing RetryPolicy, retryAfterMilliseconds: Int64?, now: Now
  ) -> DeliveryAction {
    expect(.waiting)
    let decision =
      if let retryAfterMilliseconds {
        policy.postpone(milliseconds: retryAfterMilliseconds, times, now: now)
      } else {
        policy.decide(attempts: 0, enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now)
      }
    return retry(decision, status: nil, reason: nil, now: now)
  }

  /// What became of the request.
  package mutating func answered(
    _ answer: borrowing PushAnswer, _ verdict: Verdict, _ times: JobTimes, policy: borrowing RetryPolicy, now: Now
  ) -> DeliveryAction {
    expect(.sent)
    redeliveries = 0
    if verdict.notes.contains(.ambiguous) { isAmbiguous = true }
    let status = answer.status == 0 ? nil : answer.status
    switch verdict.fate {
    case .accept:
      return end(.accepted, answer, now: now)
    case .reject:
      return end(.rejected, answer, now: now)
    case .dead:
      return end(.unregistered, answer, now: now)
    case .unregisteredBefore:
      return end(.unregistered, answer, now: now, isRegisteredSince: true)
    case .resend:
      // It did not reach APNs, so it does not count.
      attempts -= 1
      resends += 1
      phase = .waiting
      return .send
    case .renew:
      resends += 1
      phase = .waiting
      return .send
    case .sendOnceMore where attempts < policy.attemptsMaximum:
      resends += 1
      phase = .waiting
      return .send
    case .sendOnceMore, .retry, .hold:
      switch answer.kind {
      case .notProcessed: attempts -= 1
      case .response where verdict.fate == .hold: attempts -= 1
      case .response, .lost, .timedOut: break
      }
      let decision = policy.decide(
        attempts: attempts, enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now)
      return retry(decision, status: status, reason: answer.reason, now: now)
    }
  }

  /// One publish more waits for its confirm.
  package mutating func published() {
    expect(.reporting)
    unconfirmed += 1
  }

  /// The broker confirmed or refused one publish (a lost connection refuses). Where one of several was refused the whole
  /// ending is published again, once none is unconfirmed: twice is better than never.
  package mutating func publishSettled(isConfirmed: Bool) -> Settlement {
    expect(.reporting)
    precondition(unconfirmed > 0, "a publish is settled once")
    unconfirmed -= 1
    if !isConfirmed { mustRepeat = true }
    guard unconfirmed == 0 else { return .open }
    if mustRepeat {
      mustRepeat = false
      // The broker may have kept the first copy too, and both may be sent: two dead letters may both be replayed.
      switch ending {
      case .retry, .outcome(_, _, deadLetter: .some): isAmbiguous = true
      case .outcome(_, _, deadLetter: nil), .isolation, nil: break
      }
      return .publishAgain
    }
    phase = .settled
    return .settled
  }

  // MARK: ends

  private mutating func retry(
    _ decision: RetryPolicy.Decision, status: UInt16?, reason: APNsReason?, now: Now
  ) -> DeliveryAction {
    switch decision {
    case .again(let delaySeconds):
      return report(.retry(delaySeconds: delaySeconds, reason: reason))
    case .exhausted:
      // Not remembered: a replayed dead letter has the same id and shall be sent.
      return end(.failed, status: status, reason: reason, deadLetter: "failed", now: now, isRemembered: false)
    case .expired:
      return end(.expired, status: status, reason: reason, now: now, isRemembered: false)
    }
  }

  private mutating func giveUp(now: Now) -> DeliveryAction {
    end(.failed, deadLetter: "failed", now: now, isRemembered: false)
  }

  private mutating func end(
    _ outcome: Outcome, _ answer: borrowing PushAnswer, now: Now, isRegisteredSince: Bool = false
  ) -> DeliveryAction {
    end(
      outcome, status: answer.status, reason: answer.reason, unregisteredAt: answer.unregisteredAt, now: now,
      isRemembered: true, isRegisteredSince: isRegisteredSince)
  }

  private mutating func end(
    _ outcome: Outcome, status: UInt16? = nil, reason: APNsReason? = nil, unregisteredAt: Int64? = nil,
    deadLetter: StaticString? = nil, now: Now, isRemembered: Bool, isRegisteredSince: Bool = false
  ) -> DeliveryAction {
    let remembered = RememberedOutcome(
      outcome: outcome, status: status, reason: reason, unregisteredAt: unregisteredAt, attempts: attempts,
      isAmbiguous: isAmbiguous, sentAt: sentAt, completedAt: now.unixMilliseconds, isRegisteredSince: isRegisteredSince)
    let action = report(.outcome(remembered, isSuppressed: false, deadLetter: deadLetter))
    return isRemembered ? .remember(remembered) : action
  }

  private mutating func report(_ ending: Ending) -> DeliveryAction {
    phase = .reporting
    self.ending = ending
    return .report
  }

  /// An event in a phase that cannot have it is the lane's mistake.
  private func expect(_ expected: Phase) {
    precondition(phase == expected, "an event came in the wrong phase")
  }
}

/// What the lane does for a (job, target).
package enum DeliveryAction: Hashable, Sendable {
  /// Wait for room in the pool, and send.
  case send
  /// Publish its ending.
  case report
  /// Remember the final answer, and publish its ending.
  case remember(RememberedOutcome)
}

/// What follows a publish that was settled.
package enum Settlement: Hashable, Sendable {
  /// Others of the same ending are unconfirmed.
  case open
  /// One was refused: publish the ending again.
  case publishAgain
  /// All are confirmed.
  case settled
}
