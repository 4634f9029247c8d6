import PushCore

/// Audiences: a job for an audience is handed over, and its copy becomes pages elsewhere. The devices of a page are
/// looked up when it comes; from then on it is a batch. Before its acknowledgement the lane reports how its devices ended.
/// Of an activity's broadcast, only whether a newer one overtook it is looked up.
extension Lane {
  /// The longest wait of a page whose devices cannot be looked up now.
  private static var unresolvedMilliseconds: Int64 { 30_000 }

  /// Maximum of pages of one queue that are looked up or wait to start: enough that the next page is ready when it is needed, and few
  /// enough that their tokens stay fresh.
  private static var openPagesMaximum: Int { 8 }

  mutating func enterAudience(_ job: Ticket, _ now: Now) {
    guard !jobs[job].isPart else {
      unnamedPages[StartQueue(jobs[job]).rawValue].append(job)
      return
    }
    // An earlier delivery may have handed it over: then the pages tell the ends, and the job has no other.
    let isFirst = jobs[job].metadata.deliveryCount == 0 && jobs[job].metadata.redeliveries == 0
    let isOver = clock.hasRedisTime && isFirst && (isOver(job, now) || jobs[job].givenUp == .expired)
    if isOver { jobs[job].endWhole() }
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be handed over") }
    perform(sends[send].delivery.handedOver(isOver: isOver, now: now), send, now)
  }

  mutating func takePages(_ now: Now) {
    directory.maintain(now: now)
    while let (job, found) = directory.nextAnswer(now: now) {
      guard jobs.isLive(job) else { continue }
      let queue = StartQueue(jobs[job]).rawValue
      isDirectorySilent = false
      let resolution: PageResolution
      switch found {
      case .success(let known): resolution = known
      case .failure(let failure):
        openPages[queue] -= 1
        isDirectorySilent = failure == .silent
        if case .unreadable(let text) = failure, isOver(job, now), hasWaitedLong(job, now) {
          endUnread(job, text, now)
        } else {
          waitForDirectory(job, now)
        }
        continue
      }
      if resolution.standing == .paused {
        openPages[queue] -= 1
        learn(of: job, .paused, now)
        waitPaused(job, now)
        continue
      }
      if resolution.waitsForAnother {
        openPages[queue] -= 1
        waitForDirectory(job, now)
        continue
      }
      counters.devicesSkipped &+= UInt64(jobs[job].resolve(resolution, now))
      if jobs[job].targetCount == 0 {
        openPages[queue] -= 1
        learn(of: job, resolution.standing, now)
        tellEnds(job, now)
      } else {
        enterTable(job, resolution.standing, now)
        unstarted[queue].append(job)
      }
    }
    while let (index, id, standing) = directory.nextStanding() { audiences.learn(index, id, standing, now) }
    while let (index, id) = audiences.nextQuestion(now) { directory.ask(about: id, index: index) }
    // They could not start, and their lookups would only become old.
    guard broker.canPublish else { return }
    for queue in unnamedPages.indices {
      while openPages[queue] < Self.openPagesMaximum, let job = unnamedPages[queue].popFirst() {
        if putOffIfInTheWay(job, now) { continue }
        // One page asks whether it answers again. The others would keep deliveries that other jobs need.
        if isDirectorySilent, openPages.contains(where: { $0 > 0 }) {
          waitForDirectory(job, now)
          continue
        }
        openPages[queue] += 1
        let isOver = isOver(job, now) || jobs[job].givenUp != nil
        jobs[job].isForOutcomes = isOver && jobs[job].givenUp == nil && jobs[job].job.isStartPage
        directory.find(
          jobs[job].job, isOver: isOver, mayPause: jobs[job].givenUp == nil && !hasExpired(job, now),
          settled: jobs[job].settledDevices, apnsID: jobs[job].metadata.apnsID,
          ticket: job, now: now)
      }
    }
  }

  /// Their deliveries are gone: later answers are ignored.
  mutating func abandonPages() {
    for queue in unnamedPages.indices {
      unnamedPages[queue].removeAll()
      openPages[queue] = 0
    }
  }

  /// A part of an audience was looked up so long ago that a device may have been forgotten since, or have another token, or another revision
  /// may be in progress.
  mutating func isResolvedLongAgo(_ job: Ticket, _ now: Now) -> Bool {
    guard let resolvedAt = jobs[job].resolvedAt else { return false }
    if wasNotOver(job, now) { return true }
    return now.monotonic.milliseconds(since: resolvedAt) >= settings.resolutionAgeMaximumMilliseconds
  }

  /// A clock that was wrong when a start's page was looked up was put right. Another start may have its devices.
  private mutating func wasNotOver(_ job: Ticket, _ now: Now) -> Bool { jobs[job].isForOutcomes && !isOver(job, now) }

  /// A page that became old, or was paused, before any of its targets started waits as a whole: one copy, and not one for each target.
  /// false: it is neither.
  mutating func putOffIfOld(_ job: Ticket, _ now: Now) -> Bool {
    guard jobs[job].nextTarget == 0 else { return false }
    if isPaused(job), !hasExpired(job, now) {
      waitPaused(job, now)
      return true
    }
    guard isResolvedLongAgo(job, now), !isOver(job, now) else { return false }
    waitForDirectory(job, now)
    return true
  }

  /// A target of a page that became old while it waited comes back in a copy, and its device is looked up again. false: it may be sent: it is
  /// not old, or its time would be over by then.
  mutating func putOffIfOld(_ send: Ticket, of job: Ticket, inPool pool: Int, _ now: Now) -> Bool {
    guard isResolvedLongAgo(job, now) else { return false }
    var action = sends[send].delivery.becameOld(jobs[job].times, policy: settings.retry, now: now)
    if action == nil, wasNotOver(job, now) {
      action = sends[send].delivery.putOff(delaySeconds: postponedSeconds(job, now))
    }
    guard let action else { return false }
    queues[pool].popFirst(sends[send].jobClass, of: sends)
    waitingCount -= 1
    perform(action, send, now)
    return true
  }

  /// The whole page waits in a retry queue, whatever its age. If it expires there, its devices are still looked up, for their outcomes.
  private mutating func waitForDirectory(_ job: Ticket, _ now: Now) {
    counters.pagesPostponed &+= 1
    jobs[job].putOff()
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be put off") }
    perform(sends[send].delivery.putOff(delaySeconds: postponedSeconds(job, now)), send, now)
  }

  /// The same while its job is paused, and it grows no older.
  private mutating func waitPaused(_ job: Ticket, _ now: Now) {
    jobs[job].metadata.pausedAt = now.unixMilliseconds
    waitForDirectory(job, now)
  }

  /// What cannot be read may be from before and after a failover of Redis, and is right when it is read again.
  private mutating func hasWaitedLong(_ job: Ticket, _ now: Now) -> Bool {
    now.unixMilliseconds - jobs[job].firstSeen >= Self.unresolvedMilliseconds
  }

  /// A page whose time is over ends though nobody can read who its devices are: what is wrong may be wrong for good, such as another
  /// program's value in a key.
  private mutating func endUnread(_ job: Ticket, _ text: String, _ now: Now) {
    jobs[job].endUnread(text)
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be ended") }
    perform(sends[send].delivery.handedOver(isOver: true, now: now), send, now)
  }

  /// How long a part of an audience waits that cannot be sent now, through no fault of its own.
  private mutating func postponedSeconds(_ job: Ticket, _ now: Now) -> Int {
    let waited = max(1, now.unixMilliseconds - jobs[job].firstSeen)
    let decision = settings.retry.postpone(
      milliseconds: min(waited, Self.unresolvedMilliseconds), jobs[job].times, now: now)
    if case .again(let delaySeconds) = decision { return delaySeconds }
    return settings.retry.delaysSeconds[0]
  }

  // MARK: paused and cancelled jobs

  private mutating func learn(of job: Ticket, _ standing: AudienceStanding, _ now: Now) {
    audiences.learn(parent(of: job), standing, now)
  }

  private mutating func enterTable(_ job: Ticket, _ standing: AudienceStanding, _ now: Now) {
    jobs[job].audience = audiences.enter(parent(of: job), standing, now)
  }

  private mutating func parent(of job: Ticket) -> AudienceID {
    guard let parent = AudienceID(parentOf: jobs[job].job) else { preconditionFailure("a parsed job has an app") }
    return parent
  }

  /// The expiration that its producer set is over. While a job is paused, its age does not count.
  mutating func hasExpired(_ job: Ticket, _ now: Now) -> Bool {
    guard let expiration = jobs[job].times.expiration, expiration > 0 else { return false }
    return expiration <= now.unixSeconds
  }

  mutating func isCancelled(_ job: Ticket) -> Bool { jobs[job].audience.map { audiences[$0] == .cancelled } ?? false }

  private mutating func isPaused(_ job: Ticket) -> Bool { jobs[job].audience.map { audiences[$0] == .paused } ?? false }

  /// It is not sent any more, and has an outcome that says so. No page counts an activity's broadcast.
  mutating func isOvertaken(_ send: Ticket, of job: Ticket) -> Bool {
    guard jobs[job].isPart else { return false }
    return jobs[job].isOvertaken(target: sends[send].target) || jobs[job].job.page.isEmpty && isCancelled(job)
  }

  /// A target of a job that was paused comes back in a copy, uncounted; one of a cancelled job ends. nil: it goes on. So does one that may
  /// have been sent, if the admission store was not asked about it, and one whose time is over: for their outcomes.
  mutating func takeBack(_ send: Ticket, of job: Ticket, _ now: Now) -> DeliveryAction? {
    guard let audience = jobs[job].audience else { return nil }
    switch audiences[audience] {
    case .running: return nil
    case .paused:
      if hasExpired(job, now) { return nil }
      jobs[job].metadata.pausedAt = now.unixMilliseconds
      return sends[send].delivery.putOff(delaySeconds: postponedSeconds(job, now))
    case .cancelled: if isOver(job, now) { return nil }
    }
    if sends[send].delivery.phase == .admitting, jobs[job].metadata.isAmbiguous { return nil }
    return sends[send].delivery.cancelled(hasOutcome: jobs[job].job.page.isEmpty, now: now)
  }

  /// The same for the first send of a pool's queue. false: it goes on.
  mutating func takeBack(_ send: Ticket, of job: Ticket, inPool pool: Int, _ now: Now) -> Bool {
    guard let action = takeBack(send, of: job, now) else { return false }
    queues[pool].popFirst(sends[send].jobClass, of: sends)
    waitingCount -= 1
    perform(action, send, now)
    return true
  }

  /// Reports a dead token to the registry, if the token came from there.
  mutating func tokenGone(_ send: Ticket, since: Int64) {
    guard let job = sends[send].job, !jobs[job].job.page.isEmpty else { return }
    directory.tokenGone(jobs[job].job, target: sends[send].target, since: since)
  }

  /// The job goes to update tokens, each for one activity on one device. The registry knows when one of them is over. A dead-token mark would
  /// keep for a month a token that is not used again.
  mutating func isToMembers(_ job: Ticket) -> Bool {
    !jobs[job].job.page.isEmpty && !jobs[job].job.activity.isEmpty && jobs[job].job.pushType == .liveactivity
      && jobs[job].job.event != .start
  }

  /// Notes the outcome of a page's target; other endings are no outcome.
  mutating func noteEnd(_ send: Ticket) {
    let job = job(of: send)
    let isCancelled = isCancelledBroadcast(send, of: job)
    switch sends[send].delivery.ending {
    case .outcome(let outcome, _, _) where isCancelled && !outcome.isAmbiguous:
      jobs[job].noteEnd(.cancelled, hasReached: false, target: sends[send].target)
    case .outcome(let outcome, _, _):
      let hasReached = outcome.outcome == .accepted || outcome.isAmbiguous
      jobs[job].noteEnd(
        .outcome(outcome.outcome), hasReached: hasReached, reason: outcome.reason, target: sends[send].target)
    case .cancellation: jobs[job].noteEnd(.cancelled, hasReached: false, target: sends[send].target)
    case .retry, .isolation, .expansion, .settlement, nil: break
    }
  }

  /// It is an activity's broadcast that is not sent because its job was cancelled. It has an outcome, since no page counts it.
  mutating func isCancelledBroadcast(_ send: Ticket, of job: Ticket) -> Bool {
    guard jobs[job].isPart, jobs[job].job.page.isEmpty, isCancelled(job),
      case .outcome(let outcome, let isSuppressed, _)? = sends[send].delivery.ending
    else { return false }
    return isSuppressed && outcome.outcome == .throttled
  }

  /// Publishes how a page's devices ended, after the last target settled or for the whole delivery.
  mutating func tellEnds(_ job: Ticket, _ now: Now) {
    jobs[job].tellEnds()
    guard let send = sends.take() else { preconditionFailure("each delivery has a slot to tell of its ends") }
    jobs[job].openTargets += 1
    jobs[job].begin(&sends[send], job, target: 0)
    perform(sends[send].delivery.settledPage(), send, now)
  }

  mutating func publishExpansion(_ ticket: Ticket) {
    let job = job(of: ticket)
    message.removeAll(keepingCapacity: true)
    message.append(contentsOf: jobs[job].job.bytes[..<jobs[job].job.bodyCount])
    expectConfirm(
      broker.publishExpansion(
        message, jobClass: jobs[job].tag.jobClass, firstSeen: jobs[job].firstSeen, metadata: jobs[job].metadata),
      ticket)
    guard !sends[ticket].isCounted else { return }
    sends[ticket].isCounted = true
    counters.handedOver &+= 1
  }

  mutating func publishSettlement(_ ticket: Ticket) {
    let job = job(of: ticket)
    message.removeAll(keepingCapacity: true)
    PageSettlement.append(
      jobs[job].job, ends: jobs[job].ends, starts: jobs[job].starts, reason: jobs[job].reason, to: &message)
    expectConfirm(broker.publishSettlement(message, jobClass: jobs[job].tag.jobClass), ticket)
  }
}
