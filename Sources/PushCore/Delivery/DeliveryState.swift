/// One (job, target) from its arrival to its end: what happened, and what comes next. The lane carries out the actions.
package struct DeliveryState: ~Copyable, Sendable {
  package enum Phase: Sendable {
    /// The admission store was asked whether it may be sent. May become `waiting` or `reporting`.
    case admitting
    /// May be sent; waits for room in its pool. May become `held`, `sent`, `reporting`, or `admitting` again.
    case waiting
    /// Waits until its channel's storage policy is known. Becomes `waiting`.
    case held
    /// On a connection. May become `waiting` (sent again at once) or `reporting`.
    case sent
    /// Its end is decided; the messages about it wait to be published and confirmed. May become `settled`.
    case reporting
    /// The broker has confirmed every message about its end. Final.
    case settled
  }

  /// How it ended in this lane: for good, or in a copy that comes back later.
  package enum Ending: Sendable {
    /// `deadLetter`: also publish the original bytes as a dead letter, for this reason.
    case outcome(RememberedOutcome, isSuppressed: Bool, deadLetter: StaticString?)
    case retry(delaySeconds: Int, reason: APNsReason?)
    /// A copy goes to the queue of isolated jobs.
    case isolation
    /// In a copy whose audience becomes pages.
    case expansion
    /// It stands for no target: it tells how those of its page ended.
    case settlement
    /// Its job was cancelled before anything was sent: nothing is published, its page counts it.
    case cancellation
  }

  package private(set) var phase = Phase.admitting
  package private(set) var ending: Ending?
  /// Requests written to APNs, including earlier copies of the job.
  package private(set) var attempts: UInt32
  package private(set) var isAmbiguous: Bool
  /// When the last request was written, Unix milliseconds.
  package private(set) var sentAt: Int64?
  /// Unfinished deliveries as long as it has no result: a copy carries this number.
  package private(set) var redeliveries: UInt32
  /// It is not sent any more: too many workers ended while they had it (`failed`), or RabbitMQ gave it up (`expired`).
  private let givenUp: Outcome?
  /// The admission store knows of another copy without an answer, which may have been sent.
  private var isRepeated = false
  private var resends: UInt8 = 0
  /// A message about its end is published and not confirmed.
  package private(set) var isPublished = false
  /// Its outcome is confirmed, and its dead letter is not.
  package private(set) var isTold = false
  /// Its dead letter was refused. A broker that says so may have kept it: the next one is marked, for both may be replayed.
  package private(set) var isLetterRepeated = false

  /// - Parameters:
  ///   - attempts: from earlier copies of the job, like `isAmbiguous`.
  ///   - redeliveries: how often this job, or an earlier copy, was delivered to a worker that did not finish it.
  ///   - givenUp: unless the admission store has its answer, it ends so; of a failed one it is unknown what became of earlier requests.
  package init(
    attempts: UInt32 = 0, isAmbiguous: Bool = false, redeliveries: UInt32 = 0, givenUp: Outcome? = nil
  ) {
    self.attempts = attempts
    self.redeliveries = redeliveries
    self.isAmbiguous = isAmbiguous || givenUp == .failed
    self.givenUp = givenUp
  }

  /// How often it was sent again at once; the verdict depends on it.
  package var resendCount: UInt8 { resends }

  // MARK: events

  /// The job is invalid: ask and send nothing. Rules that depend on its channel are checked only before sending.
  package mutating func refused(now: Now) -> DeliveryAction {
    if phase != .waiting { expect(.admitting) }
    return end(.invalid, deadLetter: "invalid", now: now, keeping: .nothing)
  }

  /// It may be what ends workers: ask and send nothing; a copy takes its place.
  package mutating func isolated() -> DeliveryAction {
    expect(.admitting)
    return report(.isolation)
  }

  /// It comes again after this delay, alone or in a copy of its whole batch: ask and send nothing. It is no attempt.
  package mutating func putOff(delaySeconds: Int) -> DeliveryAction {
    if phase != .waiting { expect(.admitting) }
    return report(.retry(delaySeconds: delaySeconds, reason: nil))
  }

  /// It names an audience: nothing is asked, nothing is sent, a copy of it becomes pages. Where its time is over it has none.
  package mutating func handedOver(isOver: Bool, now: Now) -> DeliveryAction {
    expect(.admitting)
    return isOver ? end(.expired, now: now, keeping: .nothing) : report(.expansion)
  }

  /// Every target of its page has its end here.
  package mutating func settledPage() -> DeliveryAction {
    expect(.admitting)
    return report(.settlement)
  }

  /// The job for its audience was cancelled: it is not sent any more.
  /// - Parameter hasOutcome: nobody else counts it. It has an outcome too if an earlier attempt may have reached APNs.
  package mutating func cancelled(hasOutcome: Bool = false, now: Now) -> DeliveryAction {
    if phase != .waiting { expect(.admitting) }
    return hasOutcome || isRepeated || attempts > 0 && isAmbiguous ? superseded(now: now) : report(.cancellation)
  }

  private mutating func superseded(now: Now) -> DeliveryAction {
    let outcome = RememberedOutcome(
      outcome: .throttled, attempts: attempts, isAmbiguous: isAmbiguous, sentAt: sentAt,
      completedAt: now.unixMilliseconds)
    return report(.outcome(outcome, isSuppressed: true, deadLetter: nil))
  }

  /// The admission store answered. It is asked even about a job whose time is over, or that is overtaken: another copy of it may have been
  /// answered, and all copies of a job have one end.
  /// - Parameters:
  ///   - isOvertaken: it is not sent any more, for example because its activity's newer revision was sent to its device.
  ///   - isCancelled: it is not sent any more, because the job for its audience was cancelled.
  package mutating func admitted(
    _ admission: Admission, _ times: JobTimes, policy: borrowing RetryPolicy, dropsOverLimit: Bool,
    isOvertaken: Bool = false, isCancelled: Bool = false, now: Now
  ) -> DeliveryAction {
    expect(.admitting)
    switch admission {
    case .proceed, .limited, .superseded:
      if isOvertaken { return superseded(now: now) }
      if isCancelled { return cancelled(now: now) }
      // All copies of it are: it goes before the time, which may end between two of them.
      if case .superseded = admission { return superseded(now: now) }
      if policy.isExpired(enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now) {
        return end(.expired, now: now)
      }
    case .duplicate, .dead, .behind, .claimed, .repeated:
      break
    }
    switch admission {
    case .behind, .superseded:
      preconditionFailure("the lane asks again, or it has ended")
    case .proceed:
      if let givenUp { return giveUp(givenUp, now: now) }
      phase = .waiting
      return .send
    case .duplicate(var remembered):
      // The remembered answer may be another copy's, and this copy may have been sent too.
      if isAmbiguous { remembered.isAmbiguous = true }
      // Whether its dead letter was published is unknown.
      return report(
        .outcome(remembered, isSuppressed: false, deadLetter: deadLetter(of: remembered.outcome)))
    case .dead(let unregisteredAt):
      let outcome = RememberedOutcome(
        outcome: .unregistered, unregisteredAt: unregisteredAt, attempts: attempts, isAmbiguous: isAmbiguous,
        sentAt: sentAt, completedAt: now.unixMilliseconds)
      return report(.outcome(outcome, isSuppressed: true, deadLetter: nil))
    case .limited(let retryAfterMilliseconds):
      if let givenUp { return giveUp(givenUp, now: now) }
      // A job that APNs itself refused, or may have, is retried regardless of our own limits, and so is a copy of it: all copies have one
      // end.
      if dropsOverLimit, attempts == 0, !isAmbiguous { return end(.throttled, now: now) }
      return retry(
        policy.postponeLimited(milliseconds: retryAfterMilliseconds, times, now: now), status: nil, reason: nil,
        now: now)
    case .claimed:
      if givenUp == .failed,
        !policy.isExpired(enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now)
      {
        return giveUp(.failed, now: now)
      }
      // Its answer usually comes within a second, and is published for this copy too. A job that is lost repeatedly waits longer.
      switch policy.wait(number: max(redeliveries, 1), times, now: now) {
      case .again(let delaySeconds): return report(.retry(delaySeconds: delaySeconds, reason: nil))
      // Its time ends before that: it is not sent any more, but it ends as the other copy does. Claims expire.
      case .expired, .exhausted: return report(.retry(delaySeconds: policy.delaysSeconds[0], reason: nil))
      }
    case .repeated(let admission):
      isAmbiguous = true
      isRepeated = true
      return admitted(
        admission, times, policy: policy, dropsOverLimit: dropsOverLimit, isOvertaken: isOvertaken,
        isCancelled: isCancelled, now: now)
    }
  }

  /// It was admitted so long ago that the admission store must be asked again.
  package mutating func askedAgain() {
    expect(.waiting)
    phase = .admitting
  }

  /// Its channel's storage policy is not known yet.
  package mutating func held() {
    expect(.waiting)
    phase = .held
  }

  /// The storage policy is known now, or the wait for it is over.
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

  /// The pool had no room for too long, is paused or stuck: it comes back later, and this does not count as an attempt.
  /// - Parameters:
  ///   - retryAfterMilliseconds: how long the pause lasts; nil if there was only no room.
  ///   - stuckMilliseconds: how long the pool has been stuck; nil if it is not.
  package mutating func gaveUpWaiting(
    _ times: JobTimes, policy: borrowing RetryPolicy, retryAfterMilliseconds: Int64?, stuckMilliseconds: Int64? = nil,
    now: Now
  ) -> DeliveryAction {
    expect(.waiting)
    let decision =
      if let stuckMilliseconds {
        policy.postpone(stuckMilliseconds: stuckMilliseconds, times, now: now)
      } else if let retryAfterMilliseconds {
        policy.postpone(milliseconds: retryAfterMilliseconds, times, now: now)
      } else {
        policy.decide(attempts: 0, enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now)
      }
    return retry(decision, status: nil, reason: nil, now: now)
  }

  /// Its device was looked up too long ago: it comes back, and this does not count as an attempt. nil: it waits on, because its time would
  /// be over by then.
  package mutating func becameOld(
    _ times: JobTimes, policy: borrowing RetryPolicy, now: Now
  ) -> DeliveryAction? {
    expect(.waiting)
    let decision = policy.wait(number: max(attempts, 1), times, now: now)
    guard case .again = decision else { return nil }
    return retry(decision, status: nil, reason: nil, now: now)
  }

  /// The result of the request.
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
      // It did not reach APNs, so it is not counted.
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

  /// Where the next message about its end is published; nil: it has none.
  package var destination: PublishDestination? {
    switch ending {
    case .outcome: isTold ? .deadLetters : .results
    case .retry: .retries
    case .isolation: .isolated
    case .expansion, .settlement: .expansions
    case .cancellation: .results
    case nil: nil
    }
  }

  /// That message is published, and waits for its confirm.
  package mutating func published() {
    expect(.reporting)
    precondition(!isPublished, "one message at a time")
    isPublished = true
  }

  /// The broker confirmed it. true: that was the last one, and everything is told; false: a dead letter follows its outcome.
  package mutating func confirmed() -> Bool {
    expect(.reporting)
    precondition(isPublished, "a publish is settled once")
    isPublished = false
    if case .outcome(_, _, deadLetter: .some) = ending, !isTold {
      isTold = true
      return false
    }
    phase = .settled
    return true
  }

  /// The broker refused it, or will not say: it is published again. Twice is better than never.
  package mutating func unconfirmed(isRefused: Bool) {
    expect(.reporting)
    precondition(isPublished, "a publish is settled once")
    isPublished = false
    // The broker may have kept the first copy too, and both may be sent: two dead letters may both be replayed.
    switch ending {
    case .retry: isAmbiguous = true
    case .outcome where isTold && isRefused: isLetterRepeated = true
    case .outcome where isTold: isAmbiguous = true
    case .outcome, .isolation, .expansion, .settlement, .cancellation, nil: break
    }
  }

  // MARK: ends

  /// What the admission store keeps of an end.
  private enum Keeping {
    /// It holds for whatever comes with the job's id.
    case answer
    /// It holds for other deliveries and copies of the message: a replayed dead letter has the same id, and must be sent.
    case fate
    /// It follows from the job alone.
    case nothing
  }

  private mutating func retry(
    _ decision: RetryPolicy.Decision, status: UInt16?, reason: APNsReason?, now: Now
  ) -> DeliveryAction {
    switch decision {
    case .again(let delaySeconds):
      return report(.retry(delaySeconds: delaySeconds, reason: reason))
    case .exhausted:
      return end(.failed, status: status, reason: reason, deadLetter: "failed", now: now)
    case .expired:
      return end(.expired, status: status, reason: reason, now: now)
    }
  }

  private mutating func giveUp(_ outcome: Outcome, now: Now) -> DeliveryAction {
    end(outcome, deadLetter: deadLetter(of: outcome), now: now)
  }

  /// What RabbitMQ gave up is among the dead letters too.
  private func deadLetter(of outcome: Outcome) -> StaticString? {
    switch outcome {
    case .failed: "failed"
    case .expired where givenUp == .expired: "expired"
    default: nil
    }
  }

  private mutating func end(
    _ outcome: Outcome, _ answer: borrowing PushAnswer, now: Now, isRegisteredSince: Bool = false
  ) -> DeliveryAction {
    end(
      outcome, status: answer.status, reason: answer.reason, unregisteredAt: answer.unregisteredAt, now: now,
      keeping: .answer, isRegisteredSince: isRegisteredSince)
  }

  private mutating func end(
    _ outcome: Outcome, status: UInt16? = nil, reason: APNsReason? = nil, unregisteredAt: Int64? = nil,
    deadLetter: StaticString? = nil, now: Now, keeping: Keeping = .fate, isRegisteredSince: Bool = false
  ) -> DeliveryAction {
    let remembered = RememberedOutcome(
      outcome: outcome, status: status, reason: reason, unregisteredAt: unregisteredAt, attempts: attempts,
      isAmbiguous: isAmbiguous, sentAt: sentAt, completedAt: now.unixMilliseconds, isRegisteredSince: isRegisteredSince)
    let action = report(.outcome(remembered, isSuppressed: false, deadLetter: deadLetter))
    return switch keeping {
    case .answer: .remember(remembered)
    case .fate: .rememberFate(remembered)
    case .nothing: action
    }
  }

  private mutating func report(_ ending: Ending) -> DeliveryAction {
    phase = .reporting
    self.ending = ending
    return .report
  }

  /// An event in the wrong phase is a bug in the lane.
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
  /// The same for an end without an answer of APNs, which holds for other deliveries and copies of the message alone.
  case rememberFate(RememberedOutcome)
}
