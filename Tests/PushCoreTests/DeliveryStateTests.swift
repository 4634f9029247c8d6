import Testing

@testable import PushCore

/// One (job, target) as a trace: each line is an event and its actions.
@Suite struct DeliveryStateTests {
  let policy = RetryPolicy()
  let times = JobTimes(enqueuedAt: 1_000_000, expiration: nil)
  let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 1_000_500)

  private func answer(_ status: UInt16, _ reason: APNsReason? = nil) -> PushAnswer {
    var answer = PushAnswer(ticket: Ticket(index: 0, generation: 1), kind: .response)
    answer.status = status
    answer.reason = reason
    return answer
  }

  private func answered(_ state: inout DeliveryState, _ answer: PushAnswer, _ now: Now? = nil) -> DeliveryAction {
    let verdict = Verdict(answer, tokenRegisteredAt: nil, resends: state.resendCount)
    return state.answered(answer, verdict, times, policy: policy, now: now ?? self.now)
  }

  private func admitted(attempts: UInt32 = 0) -> DeliveryState {
    var state = DeliveryState(attempts: attempts)
    let action = state.admitted(.proceed, times, policy: policy, dropsOverLimit: false, now: now)
    #expect(action == .send)
    return state
  }

  private func outcome(_ state: borrowing DeliveryState) -> RememberedOutcome? {
    if case .outcome(let outcome, _, _) = state.ending { outcome } else { nil }
  }

  private func retryDelay(_ state: borrowing DeliveryState) -> Int? {
    if case .retry(let delaySeconds, _) = state.ending { delaySeconds } else { nil }
  }

  @Test func acceptedAtOnce() {
    var state = admitted()
    state.sent(now: now)
    let action = answered(&state, answer(200))
    #expect(outcome(state)?.outcome == .accepted)
    #expect(outcome(state)?.attempts == 1)
    #expect(outcome(state)?.sentAt == 1_000_500)
    #expect(action.isRemember)
    state.published()
    #expect(state.confirmed() == true)
  }

  @Test func anAudienceIsHandedOver() {
    var state = DeliveryState()
    #expect(state.handedOver(isOver: false, now: now) == .report)
    guard case .expansion = state.ending else { return #expect(Bool(false), "not handed over") }
    state.published()
    state.unconfirmed(isRefused: false)
    #expect(state.isAmbiguous == false, "twice handed over is expanded once")
    state.published()
    #expect(state.confirmed() == true)
    #expect(state.attempts == 0)
  }

  @Test func anAudienceWhoseTimeIsOverEndsAsOne() {
    var state = DeliveryState()
    #expect(state.handedOver(isOver: true, now: now) == .report)
    #expect(outcome(state)?.outcome == .expired)
    state.published()
    #expect(state.confirmed() == true)
  }

  @Test func aPageIsToldOfAgainUntilThatIsConfirmed() {
    var state = DeliveryState(isAmbiguous: true)
    #expect(state.settledPage() == .report)
    guard case .settlement = state.ending else { return #expect(Bool(false), "not told") }
    state.published()
    state.unconfirmed(isRefused: false)
    state.published()
    #expect(state.confirmed() == true)
  }

  @Test func wrongJobIsADeadLetterAndNotRemembered() {
    var state = DeliveryState()
    #expect(state.refused(now: now) == .report)
    guard case .outcome(let outcome, _, let deadLetter) = state.ending else {
      Issue.record("no outcome")
      return
    }
    #expect(outcome.outcome == .invalid)
    #expect(deadLetter != nil)
  }

  @Test func unregisteredIsRemembered() {
    var state = admitted()
    state.sent(now: now)
    var gone = answer(410, .unregistered)
    gone.unregisteredAt = 99
    #expect(answered(&state, gone).isRemember)
    #expect(outcome(state)?.outcome == .unregistered)
    #expect(outcome(state)?.unregisteredAt == 99)
  }

  @Test func aCopyThatWasAskedAboutBeforeSaysSo() {
    var state = DeliveryState(attempts: 1)
    let admission = Admission.repeated(.proceed)
    #expect(state.admitted(admission, times, policy: policy, dropsOverLimit: false, now: now) == .send)
    state.sent(now: now)
    _ = answered(&state, answer(200))
    #expect(outcome(state)?.isAmbiguous == true)
    #expect(outcome(state)?.attempts == 2)

    var limited = DeliveryState(attempts: 1)
    let later = Admission.repeated(.limited(retryAfterMilliseconds: 1200))
    #expect(limited.admitted(later, times, policy: policy, dropsOverLimit: false, now: now) == .report)
    #expect(retryDelay(limited) == 5)
    #expect(limited.isAmbiguous == true, "its copy carries it on")
  }

  /// For every outcome: another copy may have been accepted.
  @Test func whatWasAskedAboutBeforeIsMarkedHoweverItEnds() {
    let remembered = RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 3, completedAt: 5)
    for admission: Admission in [.superseded, .dead(unregisteredAt: 7), .duplicate(remembered)] {
      var state = DeliveryState()
      _ = state.admitted(.repeated(admission), times, policy: policy, dropsOverLimit: false, now: now)
      #expect(outcome(state)?.isAmbiguous == true)
      var other = DeliveryState()
      _ = other.admitted(admission, times, policy: policy, dropsOverLimit: false, now: now)
      #expect(outcome(other)?.isAmbiguous == false)
    }
  }

  /// Its activity's newer revision was sent to the device: what another copy of it got is its outcome all the same.
  @Test func whatIsOvertakenIsAskedAbout() {
    let remembered = RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 3, completedAt: 5)
    let expected: [(Admission, Outcome, isAmbiguous: Bool)] = [
      (.proceed, .throttled, false), (.limited(retryAfterMilliseconds: 9), .throttled, false),
      (.duplicate(remembered), .accepted, false), (.repeated(.proceed), .throttled, true),
    ]
    for (admission, name, isAmbiguous) in expected {
      var state = DeliveryState()
      let action = state.admitted(
        admission, times, policy: policy, dropsOverLimit: false, isOvertaken: true, now: now)
      #expect(action == .report && outcome(state)?.outcome == name && outcome(state)?.isAmbiguous == isAmbiguous)
    }
    var claimed = DeliveryState()
    let claim = Admission.claimed(retryAfterMilliseconds: 500)
    _ = claimed.admitted(claim, times, policy: policy, dropsOverLimit: false, isOvertaken: true, now: now)
    #expect(retryDelay(claimed) != nil, "its answer comes")
  }

  /// If another copy may have been sent, its outcome is the job's. That holds while Redis is away too: then any copy may have been sent.
  @Test func onlyWhatWasNeverSentIsDropped() {
    let limited = Admission.limited(retryAfterMilliseconds: 500)
    for (attempts, isAmbiguous) in [(1, false), (0, true)] as [(UInt32, Bool)] {
      var state = DeliveryState(attempts: attempts, isAmbiguous: isAmbiguous)
      _ = state.admitted(limited, times, policy: policy, dropsOverLimit: true, now: now)
      #expect(retryDelay(state) == 1)
    }
    var state = DeliveryState()
    _ = state.admitted(.repeated(limited), times, policy: policy, dropsOverLimit: true, now: now)
    #expect(retryDelay(state) == 1)
    state = DeliveryState()
    _ = state.admitted(limited, times, policy: policy, dropsOverLimit: true, now: now)
    #expect(outcome(state)?.outcome == .throttled)
  }

  @Test func whatIsClaimedWaitsShortlyUncountedAndUnmarked() {
    var state = DeliveryState(attempts: 2)
    let claimed = Admission.claimed(retryAfterMilliseconds: 59_000)
    #expect(state.admitted(claimed, times, policy: policy, dropsOverLimit: true, now: now) == .report)
    #expect(retryDelay(state) == 1 && state.attempts == 2 && !state.isAmbiguous)
    // It expires before that: the other copy's outcome is its outcome too.
    for expiration in [1001, 1000] as [Int64] {
      var last = DeliveryState()
      let short = JobTimes(enqueuedAt: 1_000_000, expiration: expiration)
      _ = last.admitted(claimed, short, policy: policy, dropsOverLimit: false, now: now)
      #expect(retryDelay(last) == 1 && !last.isAmbiguous)
    }
    var givenUp = DeliveryState(givenUp: .failed)
    _ = givenUp.admitted(claimed, times, policy: policy, dropsOverLimit: false, now: now)
    #expect(outcome(givenUp)?.outcome == .failed)
  }

  /// The 410 concerns an earlier registration of the token: it does not affect other jobs.
  @Test(arguments: [(99, false), (100, false), (101, true)] as [(Int64, Bool)])
  func aTokenThatWasRegisteredSinceIsNotMarked(registeredAt: Int64, isRegisteredSince: Bool) {
    var state = admitted()
    state.sent(now: now)
    var gone = answer(410, .unregistered)
    gone.unregisteredAt = 100
    let verdict = Verdict(gone, tokenRegisteredAt: registeredAt, resends: 0)
    let action = state.answered(gone, verdict, times, policy: policy, now: now)
    guard case .remember(let remembered) = action else {
      Issue.record("\(action)")
      return
    }
    #expect(remembered.outcome == .unregistered && remembered.unregisteredAt == 100)
    #expect(remembered.deadMark == (isRegisteredSince ? nil : 100))
  }

  @Test func deadTokenIsSuppressed() {
    var state = DeliveryState()
    #expect(
      state.admitted(.dead(unregisteredAt: 7), times, policy: policy, dropsOverLimit: false, now: now) == .report)
    guard case .outcome(let outcome, let isSuppressed, _) = state.ending else {
      Issue.record("no outcome")
      return
    }
    #expect(isSuppressed)
    #expect(outcome.attempts == 0)
    #expect(outcome.unregisteredAt == 7)
  }

  @Test func overTheLimitIsDelayedOrDropped() {
    var delayed = DeliveryState()
    #expect(
      delayed.admitted(
        .limited(retryAfterMilliseconds: 1200), times, policy: policy, dropsOverLimit: false, now: now) == .report)
    #expect(retryDelay(delayed) == 5)
    var dropped = DeliveryState()
    #expect(
      dropped.admitted(
        .limited(retryAfterMilliseconds: 1200), times, policy: policy, dropsOverLimit: true, now: now
      ).isRememberFate)
    #expect(outcome(dropped)?.outcome == .throttled)
  }

  @Test func overTheLimitNeverPastTheExpiration() {
    var state = DeliveryState()
    let short = JobTimes(enqueuedAt: 1_000_000, expiration: 1003)
    _ = state.admitted(.limited(retryAfterMilliseconds: 3600), short, policy: policy, dropsOverLimit: false, now: now)
    #expect(outcome(state)?.outcome == .expired)
    var sooner = DeliveryState()
    _ = sooner.admitted(.limited(retryAfterMilliseconds: 1200), short, policy: policy, dropsOverLimit: false, now: now)
    #expect(retryDelay(sooner) == 1, "the queue of 5 s would be past its end")
  }

  /// A failed message that is delivered again has the same outcome, and a dead letter, of which nobody knows whether it was published.
  @Test func aFateIsRepeatedWithItsDeadLetter() {
    for fate in [Outcome.failed, .expired, .throttled, .accepted] {
      let remembered = RememberedOutcome(outcome: fate, attempts: 3, sentAt: 5, completedAt: 7)
      var state = DeliveryState()
      let action = state.admitted(.duplicate(remembered), times, policy: policy, dropsOverLimit: false, now: now)
      #expect(action == .report)
      guard case .outcome(remembered, false, let deadLetter) = state.ending else {
        Issue.record("\(String(describing: state.ending))")
        return
      }
      #expect((deadLetter != nil) == (fate == .failed))
      // RabbitMQ gave the job up.
      var late = DeliveryState(givenUp: .expired)
      _ = late.admitted(.duplicate(remembered), times, policy: policy, dropsOverLimit: false, now: now)
      guard case .outcome(remembered, false, let letter) = late.ending else {
        Issue.record("\(String(describing: late.ending))")
        return
      }
      #expect((letter != nil) == (fate == .failed || fate == .expired))
    }
  }

  /// Two copies of one job have one outcome: the later copy, which expired, reports the outcome of the other.
  @Test func whatIsOverEndsUnlessItWasAnswered() {
    let over = JobTimes(enqueuedAt: 1_000_000, expiration: 999)
    for admission in [Admission.proceed, .limited(retryAfterMilliseconds: 1)] {
      var state = DeliveryState()
      #expect(state.admitted(admission, over, policy: policy, dropsOverLimit: false, now: now).isRememberFate)
      #expect(outcome(state)?.outcome == .expired && outcome(state)?.isAmbiguous == false)
      var repeated = DeliveryState()
      _ = repeated.admitted(.repeated(admission), over, policy: policy, dropsOverLimit: false, now: now)
      #expect(outcome(repeated)?.outcome == .expired && outcome(repeated)?.isAmbiguous == true)
    }
    let accepted = RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 1, completedAt: 2)
    var copy = DeliveryState()
    _ = copy.admitted(.duplicate(accepted), over, policy: policy, dropsOverLimit: false, now: now)
    #expect(outcome(copy)?.outcome == .accepted)
  }

  /// A copy that came in time ended so, and nothing of it is kept: one that comes after its time ends the same way.
  @Test func whatIsSupersededEndsSoAtAnyTime() {
    for times in [JobTimes(enqueuedAt: 1_000_000, expiration: 999), JobTimes(enqueuedAt: 1_000_000, expiration: nil)] {
      var state = DeliveryState()
      #expect(state.admitted(.superseded, times, policy: policy, dropsOverLimit: false, now: now) == .report)
      #expect(outcome(state)?.outcome == .throttled && outcome(state)?.isAmbiguous == false)
      var repeated = DeliveryState()
      _ = repeated.admitted(.repeated(.superseded), times, policy: policy, dropsOverLimit: false, now: now)
      #expect(outcome(repeated)?.outcome == .throttled && outcome(repeated)?.isAmbiguous == true)
    }
  }

  @Test func expirationZeroIsNoDeadlineOfOurs() {
    var state = DeliveryState()
    let times = JobTimes(enqueuedAt: 1_000_000, expiration: 0)
    #expect(state.admitted(.proceed, times, policy: policy, dropsOverLimit: false, now: now) == .send)
  }

  @Test func serverErrorIsRetriedUntilTheLastAttempt() {
    var state = admitted()
    state.sent(now: now)
    #expect(answered(&state, answer(503, .serviceUnavailable)) == .report)
    #expect(retryDelay(state) == 1)
    #expect(state.attempts == 1)
    var last = admitted(attempts: 5)
    last.sent(now: now)
    #expect(answered(&last, answer(503, .serviceUnavailable)).isRememberFate)
    guard case .outcome(let outcome, _, let deadLetter) = last.ending else {
      Issue.record("no outcome")
      return
    }
    #expect(outcome.outcome == .failed)
    #expect(outcome.status == 503)
    #expect(deadLetter != nil)
  }

  @Test func lostAfterWritingIsAmbiguous() {
    var state = admitted()
    let lost = PushAnswer(ticket: Ticket(index: 0, generation: 1), kind: .lost)
    state.sent(now: now)
    #expect(answered(&state, lost) == .send, "once more at once")
    #expect(state.isAmbiguous == true)
    #expect(state.attempts == 1)
    state.sent(now: now)
    #expect(answered(&state, lost) == .report)
    #expect(state.isAmbiguous == true)
    #expect(state.attempts == 2)
    #expect(retryDelay(state) != nil)
  }

  @Test func aLostLastAttemptIsNotRepeated() {
    var state = admitted(attempts: 5)
    state.sent(now: now)
    #expect(answered(&state, PushAnswer(ticket: Ticket(index: 0, generation: 1), kind: .lost)).isRememberFate)
    #expect(state.attempts == 6)
    #expect(retryDelay(state) == nil)
  }

  @Test func notProcessedIsSentAgainUncounted() {
    var state = admitted()
    let refused = PushAnswer(ticket: Ticket(index: 0, generation: 1), kind: .notProcessed)
    for _ in 0..<Verdict.resendsMaximum {
      state.sent(now: now)
      #expect(answered(&state, refused) == .send)
      #expect(state.attempts == 0)
    }
    state.sent(now: now)
    #expect(answered(&state, refused) == .report)
    #expect(retryDelay(state) != nil)
    #expect(state.attempts == 0)
    #expect(state.isAmbiguous == false)
  }

  @Test func expiredProviderTokenIsTriedOnceMore() {
    var state = admitted()
    state.sent(now: now)
    #expect(answered(&state, answer(403, .expiredProviderToken)) == .send)
    state.sent(now: now)
    #expect(answered(&state, answer(403, .expiredProviderToken)) == .report)
    #expect(state.attempts == 2)
    #expect(retryDelay(state) != nil)
  }

  @Test func waitingTooLongIsARetryUncounted() {
    var state = admitted()
    #expect(
      state.gaveUpWaiting(times, policy: policy, retryAfterMilliseconds: nil, now: now) == .report)
    #expect(retryDelay(state) == 1)
    var paused = admitted()
    #expect(
      paused.gaveUpWaiting(times, policy: policy, retryAfterMilliseconds: 20_000, now: now) == .report)
    #expect(retryDelay(paused) == 30)
    #expect(paused.attempts == 0)
  }

  @Test func aCredentialThatHasToWaitCostsNoAttempt() {
    for attempts in UInt32(0)..<6 {
      var state = admitted(attempts: attempts)
      state.sent(now: now)
      #expect(answered(&state, answer(429, .tooManyProviderTokenUpdates)) == .report)
      #expect(state.attempts == attempts)
      #expect(retryDelay(state) != nil)
    }
    var state = admitted()
    #expect(state.gaveUpWaiting(times, policy: policy, retryAfterMilliseconds: 1_200_000, now: now) == .report)
    #expect(retryDelay(state) == 600, "longer than every queue: the longest")
  }

  /// Only what was refused goes out again.
  @Test func aDeadLetterFollowsItsOutcome_andIsPublishedAgainAlone() {
    var state = admitted(attempts: 5)
    state.sent(now: now)
    _ = answered(&state, answer(500, .internalServerError))
    #expect(state.destination == .results)
    state.published()
    state.unconfirmed(isRefused: false)
    #expect(state.destination == .results && !state.isAmbiguous)
    state.published()
    #expect(state.confirmed() == false)
    #expect(state.destination == .deadLetters)
    state.published()
    state.unconfirmed(isRefused: true)
    #expect(state.destination == .deadLetters)
    // The broker says that it does not have it: the job itself is as sure as before.
    #expect(state.isLetterRepeated && !state.isAmbiguous)
    state.published()
    state.unconfirmed(isRefused: false)
    // The broker may have it twice, and both may be replayed.
    #expect(state.isAmbiguous == true)
    state.published()
    #expect(state.confirmed() == true)
  }

  @Test func anOutcomeAloneThatIsPublishedAgainIsNotSentTwice() {
    var state = admitted()
    state.sent(now: now)
    _ = answered(&state, answer(400, .badDeviceToken))
    state.published()
    state.unconfirmed(isRefused: false)
    #expect(state.isAmbiguous == false)
  }

  @Test func aCopyThatIsPublishedAgainMayBeSentTwice() {
    var state = admitted()
    state.sent(now: now)
    _ = answered(&state, answer(503, .serviceUnavailable))
    #expect(state.isAmbiguous == false)
    state.published()
    state.unconfirmed(isRefused: false)
    #expect(state.isAmbiguous == true)
  }

  @Test func whatMayHaveBeenSentBeforeSaysSoWhateverIsRemembered() {
    let remembered = RememberedOutcome(outcome: .accepted, status: 200, attempts: 1, sentAt: 5, completedAt: 6)
    for isAmbiguous in [true, false] {
      var state = DeliveryState(isAmbiguous: isAmbiguous)
      #expect(
        state.admitted(.duplicate(remembered), times, policy: policy, dropsOverLimit: false, now: now) == .report)
      #expect(outcome(state)?.isAmbiguous == isAmbiguous)
      #expect(outcome(state)?.completedAt == 6)
    }
  }
}

extension DeliveryAction {
  var isRemember: Bool {
    if case .remember = self { true } else { false }
  }

  var isRememberFate: Bool {
    if case .rememberFate = self { true } else { false }
  }
}
