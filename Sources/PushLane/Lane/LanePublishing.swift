import PushCore

/// The second half of a job's way: its outcome or copy is published, and once the broker confirmed that, the delivery is
/// acknowledged.
extension Lane {
  // MARK: reported

  /// Its end, or what is left of it, is to be published.
  mutating func report(_ ticket: Ticket) {
    guard let destination = sends[ticket].delivery.destination else {
      preconditionFailure("a report without an ending")
    }
    if destination == .results, waitsWithItsApp(ticket) { return }
    reports[destination.rawValue].append(ticket, to: &sends)
  }

  mutating func publishReports(_ now: Now) {
    for destination in PublishDestination.allCases {
      let index = destination.rawValue
      guard reports[index].first != nil || destinations[index].refusingSince != nil else { continue }
      publish(to: destination, now)
      if destination == .deadLetters { leaveExcessToBroker(now) }
      if let milliseconds = destinations[index].recovered(now: now.monotonic) {
        broker.note(destination, app: nil, refusedForMilliseconds: milliseconds)
      }
    }
    if !refusedOutcomes.isEmpty { publishRefusedOutcomes(now) }
  }

  private mutating func publish(to destination: PublishDestination, _ now: Now) {
    let index = destination.rawValue
    while let ticket = reports[index].first, broker.canPublish, confirms.hasRoom {
      let way = destinations[index].way(now: now.monotonic)
      switch way {
      case .now:
        reports[index].popFirst(of: sends)
        publish(ticket, now)
      case .onFreshChannel, .onFreshConnection: return renew(way, now)
      case .later: return
      }
    }
  }

  /// A dead letter that is refused keeps its delivery. Beyond a share of their class, the broker makes them, of the jobs themselves.
  private mutating func leaveExcessToBroker(_ now: Now) {
    let index = PublishDestination.deadLetters.rawValue
    guard now.monotonic >= nextRefusedLook, destinations[index].refusesForLong(now: now.monotonic) else { return }
    nextRefusedLook = now.monotonic.adding(milliseconds: settings.refusedLookMilliseconds)
    var held = [0, 0]
    for _ in 0..<reports[index].count {
      guard let ticket = reports[index].first else { return }
      reports[index].popFirst(of: sends)
      let job = job(of: ticket)
      let tag = jobs[job].tag
      if !tag.isIsolated { held[Int(tag.jobClass.rawValue)] += 1 }
      // One that is alone holds up all that wait to be.
      let isExcess = tag.isIsolated || held[Int(tag.jobClass.rawValue)] > settings.refusedMaximum
      if isExcess, isWholeLetter(ticket, of: job) {
        jobs[job].isLeftToBroker = true
        settled(ticket, now)
      } else {
        reports[index].append(ticket, to: &sends)
      }
    }
  }

  /// The job's own message says as much as the dead letter would, for a replay: all of it failed, and whether it may have been sent.
  private mutating func isWholeLetter(_ ticket: Ticket, of job: Ticket) -> Bool {
    guard !sends[ticket].delivery.isAmbiguous || jobs[job].tellsAmbiguous else { return false }
    return jobs[job].refusal != nil || !jobs[job].job.namesSeveral
  }

  mutating func publish(_ ticket: Ticket, _ now: Now) {
    switch sends[ticket].delivery.ending {
    case nil:
      preconditionFailure("a report without an ending")
    case .retry(let delaySeconds, let reason):
      publishRetry(ticket, delaySeconds: delaySeconds, reason: reason, now)
    case .isolation:
      publishIsolated(ticket)
    case .expansion:
      publishExpansion(ticket)
    case .settlement:
      publishSettlement(ticket)
    case .cancellation:
      settled(ticket, now)
    case .outcome(let outcome, _, let deadLetter?) where sends[ticket].delivery.isTold:
      publishDeadLetter(ticket, reason: deadLetter, outcome, now)
    case .outcome(let outcome, let isSuppressed, let deadLetter):
      if let deadLetter, !sends[ticket].isCounted { counters.deadLetters["\(deadLetter)", default: 0] += 1 }
      publishOutcome(ticket, outcome, isSuppressed: isSuppressed, now)
    }
  }

  private mutating func publishOutcome(_ ticket: Ticket, _ outcome: RememberedOutcome, isSuppressed: Bool, _ now: Now) {
    let job = job(of: ticket)
    message.removeAll(keepingCapacity: true)
    routingKey.removeAll(keepingCapacity: true)
    let detail = isCancelledBroadcast(ticket, of: job) ? "its job was cancelled" : jobs[job].detail(of: outcome)
    let record = OutcomeRecord(
      outcome, detail: detail, uniqueID: sends[ticket].uniqueID, isSuppressed: isSuppressed,
      enqueuedAt: jobs[job].metadata.enqueuedAt, receivedAt: jobs[job].firstSeen)
    writer.append(
      record, of: jobs[job].job, target: jobs[job].refusal == nil ? sends[ticket].target : nil,
      apnsID: sends[ticket].apnsID, to: &message)
    OutcomeWriter.appendRoutingKey(outcome.outcome, of: jobs[job].job, to: &routingKey)
    expectConfirm(
      broker.publishOutcome(
        message, routingKey: routingKey, apnsID: sends[ticket].apnsID, metadata: jobs[job].metadata), ticket)
    guard !sends[ticket].isCounted else { return }
    sends[ticket].isCounted = true
    counters.count(outcome.outcome, jobs[job].job.environment, app: jobs[job].app, jobs[job].job.pushType)
    if outcome.isAmbiguous { counters.ambiguous[Int(outcome.outcome.rawValue)] += 1 }
    if let enqueuedAt = jobs[job].metadata.enqueuedAt {
      counters.jobAge.record(nanoseconds: (now.unixMilliseconds &- enqueuedAt) &* 1_000_000)
    }
  }

  private mutating func publishRetry(_ ticket: Ticket, delaySeconds: Int, reason: APNsReason?, _ now: Now) {
    let job = job(of: ticket)
    let queue = settings.retry.queue(delaySeconds, refusals: sends[ticket].refusals, jobs[job].times, now: now)
    message.removeAll(keepingCapacity: true)
    if jobs[job].job.namesSeveral, !jobs[job].isPutOff {
      JobRewriter.append(jobs[job].job, onlyTarget: sends[ticket].target, to: &message)
    } else {
      message.append(contentsOf: jobs[job].job.bytes[..<jobs[job].job.bodyCount])
    }
    let carried = RetryState(
      attempts: sends[ticket].delivery.attempts, firstSeen: jobs[job].firstSeen, claim: sends[ticket].claim,
      redeliveries: sends[ticket].delivery.redeliveries, isAmbiguous: sends[ticket].delivery.isAmbiguous,
      apnsID: jobs[job].isPutOff ? jobs[job].metadata.apnsID : sends[ticket].apnsID, reason: reason)
    expectConfirm(
      broker.publishRetry(
        message, jobClass: jobs[job].tag.jobClass, delaySeconds: queue, state: carried,
        metadata: jobs[job].metadata), ticket)
    guard !sends[ticket].isCounted else { return }
    sends[ticket].isCounted = true
    counters.countRetry(reason, delaySeconds: delaySeconds)
  }

  /// Publishes a copy to the queue of isolated jobs: the same bytes, with the headers of earlier copies.
  private mutating func publishIsolated(_ ticket: Ticket) {
    let job = job(of: ticket)
    message.removeAll(keepingCapacity: true)
    message.append(contentsOf: jobs[job].job.bytes[..<jobs[job].job.bodyCount])
    expectConfirm(
      broker.publishIsolated(
        message, jobClass: jobs[job].tag.jobClass, firstSeen: jobs[job].firstSeen, metadata: jobs[job].metadata),
      ticket)
    guard !sends[ticket].isCounted else { return }
    sends[ticket].isCounted = true
    counters.isolated += 1
  }

  private mutating func publishDeadLetter(
    _ ticket: Ticket, reason: StaticString, _ outcome: RememberedOutcome, _ now: Now
  ) {
    let job = job(of: ticket)
    // The broker has it from its consumer.
    guard !jobs[job].isOversized else { return settled(ticket, now) }
    message.removeAll(keepingCapacity: true)
    // Of a batch, only the target that failed: a replay must not send the others again.
    let isPart = jobs[job].refusal == nil && jobs[job].job.namesSeveral
    if isPart {
      JobRewriter.append(jobs[job].job, onlyTarget: sends[ticket].target, to: &message)
    } else {
      message.append(contentsOf: jobs[job].job.bytes[..<jobs[job].job.bodyCount])
    }
    let detail = jobs[job].detail(of: outcome) ?? ""
    // The target's own state: attempts of other targets of the batch do not count.
    var metadata = jobs[job].metadata
    metadata.isAmbiguous =
      metadata.isAmbiguous || sends[ticket].delivery.isAmbiguous || sends[ticket].delivery.isLetterRepeated
    metadata.claim = sends[ticket].claim
    expectConfirm(
      broker.publishDeadLetter(
        message, jobClass: jobs[job].tag.jobClass, reason: reason, detail: detail,
        apnsID: isPart ? sends[ticket].apnsID : metadata.apnsID, metadata: metadata),
      ticket)
  }

  mutating func expectConfirm(_ sequence: UInt64, _ ticket: Ticket) {
    guard let destination = sends[ticket].delivery.destination else {
      preconditionFailure("published without an ending")
    }
    var entry = ConfirmWindow.Entry(ticket: ticket, destination: destination)
    if destination == .results {
      entry.app = appNumber(job(of: ticket))
      entry.isOfRefusedApp = isPublishedWithItsApp(entry.app)
    }
    if !entry.isOfRefusedApp { destinations[destination.rawValue].published(now: clock.now.monotonic) }
    sends[ticket].delivery.published()
    confirms.published(sequence, entry)
  }

  // MARK: confirmed

  mutating func publishConfirmed(_ sequence: UInt64, _ now: Now) {
    guard let entry = confirms.take(sequence) else { return }
    if entry.isOfRefusedApp {
      absolveApp(entry, now)
    } else {
      destinations[entry.destination.rawValue].confirmed(now: now.monotonic)
    }
    // For a delivery that is gone, confirms are ignored.
    guard sends.isLive(entry.ticket) else { return }
    if sends[entry.ticket].delivery.confirmed() { settled(entry.ticket, now) } else { report(entry.ticket) }
  }

  /// The broker refused it: it is published again as soon as its destination takes something.
  mutating func publishRefused(_ sequence: UInt64, _ now: Now) {
    guard let entry = confirms.take(sequence) else { return }
    if entry.destination == .results, blameApp(entry, now) {
      // The others' go on.
    } else if destinations[entry.destination.rawValue].refused(now: now.monotonic) {
      broker.note(entry.destination, app: nil, refusedForMilliseconds: nil)
    }
    guard sends.isLive(entry.ticket) else { return }
    sends[entry.ticket].refusals += 1
    publishAgain(entry.ticket, isRefused: true)
  }

  /// The connection is gone: what became of those without a confirm is unknown.
  mutating func publishesLost(_ now: Now) {
    for index in destinations.indices { destinations[index].lost() }
    refusedOutcomes.lost()
    for number in confirms.outstanding {
      if let entry = confirms.take(number), sends.isLive(entry.ticket) { publishAgain(entry.ticket, isRefused: false) }
    }
  }

  private mutating func publishAgain(_ ticket: Ticket, isRefused: Bool) {
    sends[ticket].delivery.unconfirmed(isRefused: isRefused)
    report(ticket)
  }

  private mutating func settled(_ ticket: Ticket, _ now: Now) {
    counters.settled &+= 1
    if !jobs[job(of: ticket)].ends.isEmpty { noteEnd(ticket) }
    release(ticket, now)
  }

  /// Releases a settled target; after its last target the job settles.
  private mutating func release(_ ticket: Ticket, _ now: Now) {
    let job = job(of: ticket)
    sends.release(ticket)
    jobs[job].openTargets -= 1
    if jobs[job].isSettled { settle(job, now) }
  }

  private mutating func settle(_ job: Ticket, _ now: Now) {
    if jobs[job].hasEndsToTell { return tellEnds(job, now) }
    let tag = jobs[job].tag
    if jobs[job].isSent { leaveWireRoom(job) }
    if jobs[job].isOversized || jobs[job].isLeftToBroker {
      broker.reject(tag, requeue: false)
      if !tag.isIsolated { watermarks[Int(tag.jobClass.rawValue)].rejected(tag.value, now: now.monotonic) }
    } else if tag.isIsolated {
      broker.acknowledge(one: tag)
    } else if jobs[job].isolation == .isolate {
      // Not through the watermark, which may wait for an older poison job.
      broker.acknowledge(one: tag)
      watermarks[Int(tag.jobClass.rawValue)].rejected(tag.value, now: now.monotonic)
    } else {
      watermarks[Int(tag.jobClass.rawValue)].done(tag.value, now: now.monotonic)
    }
    counters.jobDuration.record(nanoseconds: now.monotonic.nanoseconds - jobs[job].received.nanoseconds)
    forget(job)
  }

  mutating func forget(_ job: Ticket) {
    if let audience = jobs[job].audience { audiences.leave(audience) }
    jobs[job].audience = nil
    if jobs[job].isolation == .isolate {
      isolating -= 1
      holdPossiblePoison(clock.now)
    }
    bodyBytes[Int(jobs[job].tag.jobClass.rawValue)] -= jobs[job].heldBytes
    jobs[job].finish()
    jobs.release(job)
  }

  // MARK: acknowledged

  mutating func acknowledge(_ now: Now) {
    guard let epoch else { return }
    for jobClass in JobClass.allCases {
      let due = watermarks[Int(jobClass.rawValue)].takeDue(
        now: now.monotonic, batch: settings.acknowledgeBatch,
        delayMilliseconds: drain.isRunning ? settings.acknowledgeDelayMilliseconds : 0)
      if let due { broker.acknowledge(upTo: DeliveryTag(epoch: epoch, jobClass: jobClass, value: due)) }
      while let tag = watermarks[Int(jobClass.rawValue)].takeOne(
        now: now.monotonic, batch: settings.acknowledgeOneBatch)
      {
        broker.acknowledge(one: DeliveryTag(epoch: epoch, jobClass: jobClass, value: tag))
      }
    }
  }
}
