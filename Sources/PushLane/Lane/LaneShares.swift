import PushCore
import PushCredentials

/// What each pool may take of a lane (`ShareState`), so that one that does not answer holds up no other.
///
/// Two things are shared: deliveries, which the prefetch bounds for each class, and sends. On the wire they are out of reach until APNs
/// answers; everything else can be put off. So the last eighth of a class's deliveries goes on the wire only for pools that have little
/// there, and a stuck pool's jobs beyond its share go to the retry queues, uncounted, most of them before they are admitted.
extension Lane {
  mutating func makeQueue(_ pool: Int) {
    while queues.count <= pool { queues.append(PoolQueue(limits: settings.share)) }
  }

  /// A job for its pool came: the pool is in use, even while its jobs only wait.
  mutating func noteDelivery(_ job: Ticket) {
    let pool = Int(jobs[job].pool.value)
    makeQueue(pool)
    queues[pool].lastDelivered = jobs[job].received
  }

  /// Whether another request of this job may go on the wire.
  mutating func hasWireRoom(_ job: Ticket, pool: Int, _ now: Now) -> Bool {
    let jobClass = jobs[job].tag.jobClass
    let room = queues[pool].share.room
    guard room > 0 else { return false }
    if let transactional = queues[pool].transactionalInFlight(beside: jobClass, now: now.monotonic),
      room <= ShareState.spare(of: room + queues[pool].share.onWire) - transactional
    {
      return false
    }
    let sent = jobsSent[Int(jobClass.rawValue)]
    if jobs[job].isSent || sent < settings.jobsSentMaximum { return true }
    guard refusedOutcomes.isEmpty || refusedOutcomes.place(of: appNumber(job)) == nil else { return false }
    // What waits for refused outcomes leaves few deliveries: of those, too, only an eighth stays free.
    return sent < settings.jobsSentMaximum + min(sent, refusedOutcomes.held(jobClass)) / 8
      || queues[pool].jobsSent(jobClass) < settings.jobsSentSpare
  }

  /// Passes a send to its pool, if its share has room.
  mutating func pass(_ ticket: Ticket, of job: Ticket, toPool pool: Int, _ now: Now) -> SendDecision {
    guard hasWireRoom(job, pool: pool, now) else { return .noRoom }
    return push.send(
      jobs[job].job, target: sends[ticket].target, apnsID: sends[ticket].apnsID, pool: sends[ticket].pool,
      ticket: ticket, jobClass: sends[ticket].jobClass,
      transactionalInFlight: queues[pool].transactionalInFlight(beside: sends[ticket].jobClass, now: now.monotonic),
      now: now)
  }

  /// The class whose send leaves next. One that has no room on the wire does not delay the other.
  mutating func nextClass(ofPool pool: Int, _ now: Now) -> JobClass? {
    guard let next = queues[pool].next else { return nil }
    let other: JobClass = next == .bulk ? .transactional : .bulk
    guard let ticket = queues[pool].first(of: next), let second = queues[pool].first(of: other) else { return next }
    if next == .bulk, leavesRoom(pool, ticket, now) { return other }
    return !hasWireRoom(job(of: ticket), pool: pool, now) && hasWireRoom(job(of: second), pool: pool, now)
      ? other : next
  }

  /// The first send of the class whose turn it is goes on waiting: the other's may wait here no longer. For the few of one class a stuck
  /// pool may not be full while it is for the other, whose deliveries nobody else could have meanwhile.
  mutating func takeOther(than jobClass: JobClass, fromPool pool: Int, _ now: Now) -> Bool {
    guard let send = queues[pool].first(of: jobClass == .bulk ? .transactional : .bulk) else { return false }
    return sendFirst(send, ofPool: pool, maySend: false, now)
  }

  /// Whether only that is free which bulk leaves to transactional sends.
  private mutating func leavesRoom(_ pool: Int, _ bulk: Ticket, _ now: Now) -> Bool {
    guard let transactional = queues[pool].transactionalInFlight(beside: .bulk, now: now.monotonic) else {
      return false
    }
    let room = push.room(for: sends[bulk].pool)
    return room > 0 && room <= ShareState.spare(of: room + queues[pool].share.onWire) - transactional
  }

  mutating func wentOnWire(_ send: Ticket, of job: Ticket, pool: Int, _ now: Now) {
    let jobClass = sends[send].jobClass
    sends[send].sentLook = shareLook
    queues[pool].share.sent()
    queues[pool].took(jobClass, now: now.monotonic)
    queues[pool].inFlight(jobClass, 1)
    guard !jobs[job].isSent else { return }
    jobs[job].isSent = true
    jobsSent[Int(jobClass.rawValue)] += 1
    queues[pool].jobsSent(jobClass, 1)
  }

  /// It is settled: others can have its delivery.
  mutating func leaveWireRoom(_ job: Ticket) {
    let jobClass = jobs[job].tag.jobClass
    jobsSent[Int(jobClass.rawValue)] -= 1
    queues[Int(jobs[job].pool.value)].jobsSent(jobClass, -1)
  }

  mutating func leftWire(_ send: Ticket, _ answer: borrowing PushAnswer) {
    let pool = Int(sends[send].pool.value)
    let isGood = answer.kind == .response && answer.status < 500
    let looks = shareLook &- sends[send].sentLook
    queues[pool].share.answered(isGood ? .good : .bad, after: looks)
    queues[pool].answerLooks = isGood ? looks : 0
    let jobClass = sends[send].jobClass
    if isGood { queues[pool].answered(jobClass) }
    // Orphans left the counts of jobs with their deliveries.
    guard sends[send].job != nil else { return }
    queues[pool].inFlight(jobClass, -1)
  }

  /// The pool, the credential or the topic may have to wait.
  mutating func tellService(_ verdict: Verdict, of job: Ticket?, _ send: Ticket, _ now: Now) {
    // Of an orphan only the topic's hash is known; a pause without a topic would be its whole credential's.
    let topic = verdict.pause == .none ? "" : job.map { jobs[$0].job.topicText } ?? "(unknown)"
    push.apply(verdict, topic: topic, pool: sends[send].pool, now: now)
  }

  /// Once in an interval: how each pool answers.
  mutating func lookAtShares(_ now: Now) {
    guard now.monotonic >= nextShareLook else { return }
    nextShareLook = now.monotonic.adding(milliseconds: settings.share.lookMilliseconds)
    shareLook &+= 1
    // What slow pools have beyond their probes, others do without; so it is much only where no other pool is in use.
    let slowMaximum = (movingPools > 0 ? settings.stuckSendsMaximum : settings.jobsSentMaximum) / max(1, stuckPools)
    let isAlone = usedPools < 2
    (stuckPools, movingPools, usedPools) = (0, 0, 0)
    for jobClass in JobClass.allCases {
      let free = settings.deliveriesMaximum - watermarks[Int(jobClass.rawValue)].openCount
      hasFewDeliveries[Int(jobClass.rawValue)] = free <= settings.deliveriesMaximum / 8
    }
    for pool in queues.indices {
      guard broker.canPublish else {
        queues[pool].share.couldNotSend()
        continue
      }
      queues[pool].share.looked(isWaiting: queues[pool].count > 0, slowMaximum: slowMaximum, now: now.monotonic)
      queues[pool].lookAtPace(
        sends, looks: isAlone ? settings.aloneStayLooks : settings.stayLooks,
        minimum: isAlone ? settings.aloneStayMinimum : 0, enough: settings.deliveriesMaximum, now: now.monotonic)
      if queues[pool].share.isStuck {
        stuckPools += 1
      } else {
        if isMoving(pool, now) { movingPools += 1 }
        if isInUse(pool, within: settings.usedMilliseconds, now) { usedPools += 1 }
      }
    }
  }

  /// A job for a pool that is stuck or crowded, and has its share, waits as a whole in a retry queue; nothing was asked about it. false: it is
  /// started. Jobs that may be poison make no copies, and neither do jobs whose time would be over by then.
  private mutating func putOffIfFull(_ job: Ticket, _ now: Now) -> Bool {
    let pool = Int(jobs[job].pool.value)
    guard pool < queues.count,
      stuckPools > 0 && queues[pool].isFull(for: jobs[job].tag.jobClass) || isCrowded(pool, jobs[job].tag.jobClass),
      mayBePutOff(job),
      case .again(let delaySeconds) = settings.retry.postpone(
        stuckMilliseconds: stuckMilliseconds(job, pool: pool, now), jobs[job].times, now: now)
    else { return false }
    putOff(job, seconds: delaySeconds, now)
    return true
  }

  package var bodyBytesInFlight: Int { bodyBytes[0] + bodyBytes[1] }

  /// No delivery is taken until others have left.
  var isFull: Bool { mutating get { jobs.isFull || bodyBytes[0] + bodyBytes[1] >= settings.bodyBytesMaximum } }

  /// The bytes of its body count until it leaves.
  mutating func hold(_ job: Ticket) {
    jobs[job].heldBytes = jobs[job].job.bytes.count
    bodyBytes[Int(jobs[job].tag.jobClass.rawValue)] += jobs[job].heldBytes
  }

  /// A large job whose class holds as many bytes as it may waits as a whole in a retry queue, the longer the older it is, as if its pool were
  /// crowded: the broker delivers in order, and what came behind it would wait. One for an audience is handed over, which takes no longer.
  mutating func putOffIfLarge(_ job: Ticket, _ now: Now) -> Bool {
    guard jobs[job].heldBytes > settings.smallBodyBytes,
      bodyBytes[Int(jobs[job].tag.jobClass.rawValue)] > settings.largeBytesMaximum,
      jobs[job].isPart || !jobs[job].isForAudience, mayBePutOff(job, evenRefused: true),
      let seconds = postponement(
        job, stuckMilliseconds: max(0, now.unixMilliseconds &- jobs[job].enqueuedAt) >> Int64(random.next() % 3), now)
    else { return false }
    putOff(job, seconds: seconds, now)
    return true
  }

  /// How long a job waits in a retry queue, also one that is invalid or whose time is over; nil: it would not outlive that.
  mutating func postponement(_ job: Ticket, stuckMilliseconds: Int64, _ now: Now) -> Int? {
    if jobs[job].refusal != nil || isOver(job, now) {
      return settings.retry.postponedEnd(stuckMilliseconds: stuckMilliseconds, jobs[job].times, now: now)
    }
    guard
      case .again(let seconds) = settings.retry.postpone(
        stuckMilliseconds: stuckMilliseconds, jobs[job].times, now: now)
    else { return nil }
    return seconds
  }

  /// A job that would hold up others waits as a whole in a retry queue. false: it is started.
  mutating func putOffIfInTheWay(_ job: Ticket, _ now: Now) -> Bool {
    putOffIfFull(job, now) || putOffIfRefused(job, now)
  }

  /// A job that is over by a clock that nobody has confirmed yet waits in the first retry queue: Redis or APNs may soon say otherwise.
  mutating func putOffIfUnsure(_ job: Ticket, _ now: Now) -> Bool {
    guard now.monotonic < unsureUntil, !clock.isConfirmed, mayBePutOff(job, evenPoison: true), isOver(job, now) else {
      return false
    }
    putOff(job, seconds: settings.retry.delaysSeconds[0], now)
    return true
  }

  /// Nothing was asked about it, and it may have a copy.
  /// - Parameters:
  ///   - evenPoison: a job that may be poison may have one too, which carries on how often it was delivered.
  ///   - evenRefused: an invalid job may, too, if its bytes are here.
  mutating func mayBePutOff(_ job: Ticket, evenPoison: Bool = false, evenRefused: Bool = false) -> Bool {
    jobs[job].nextTarget == 0 && jobs[job].isolation == .process
      && (jobs[job].refusal == nil || evenRefused && !jobs[job].isOversized && jobs[job].metadata.undelivered == nil)
      && (evenPoison ? !jobs[job].tag.isIsolated : !jobs[job].takesOver)
  }

  /// It waits as a whole in a retry queue.
  mutating func putOff(_ job: Ticket, seconds: Int, _ now: Now) {
    jobs[job].putOff()
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be put off") }
    perform(sends[send].delivery.putOff(delaySeconds: seconds), send, now)
  }

  /// Whether a delivery for this pool would stay in the lane for long: it answers more slowly than its jobs come. The broker delivers in
  /// order: others' jobs would wait behind its backlog for as long as it takes for that. Until another pool has had a delivery, the pool may
  /// answer more slowly, and has most of the lane: putting off costs a copy, and helps nobody if it is alone. But others may be behind its
  /// backlog, unseen.
  /// - Parameter count: as if it had so many fewer.
  private mutating func isCrowded(_ pool: Int, _ jobClass: JobClass, without count: Int = 0) -> Bool {
    guard queues[pool].hasItsStay(jobClass, without: count), !queues[pool].share.isStuck else { return false }
    // Those that are about to leave do not wait.
    let wire = settings.jobsSentMaximum - jobsSent[Int(jobClass.rawValue)]
    let room = max(0, min(push.room(for: PoolIndex(UInt16(pool))), queues[pool].share.room, wire))
    return queues[pool].waiting(jobClass) - count >= settings.lateWaitersMaximum + room
  }

  /// Whether a send that has waited for a while leaves the lane: its pool is stuck and has more than its share, or it is crowded and others
  /// would soon find no room.
  mutating func waitsInOthersWay(_ jobClass: JobClass, ofPool pool: Int) -> Bool {
    if queues[pool].isFull(for: jobClass, without: 1) { return true }
    return (hasFewDeliveries[Int(jobClass.rawValue)] || waitingCount >= settings.waitingMaximum)
      && isCrowded(pool, jobClass, without: 1)
  }

  /// How long a job of a stuck or crowded pool is put off at most: as long as the pool is stuck and the job is old. Where answers come, and
  /// late, most wait less, by chance: jobs that came back together would find few requests free, and leave them unused until they came back
  /// again.
  mutating func stuckMilliseconds(_ job: Ticket, pool: Int, _ now: Now) -> Int64 {
    let isStuck = queues[pool].share.isStuck
    let time = queues[pool].share.stuckMilliseconds(now: now.monotonic)
    guard !isStuck || queues[pool].answerLooks > settings.share.stuckLooks else { return time }
    let age = max(0, now.unixMilliseconds &- jobs[job].enqueuedAt)
    return (isStuck ? min(time, age) : age) >> Int64(random.next() % 8)
  }

  /// Whether a pool that is full takes so many slots that another one, which is in use, would run out.
  mutating func isInOthersWay(_ pool: Int, _ waited: Int64, isStalled: Bool, _ now: Now) -> Bool {
    guard queues[pool].count > settings.slowWaitersMaximum else { return false }
    // This send may be new; what counts is how long the pool is stuck.
    let stood = max(waited, queues[pool].lastSent.map { now.monotonic.milliseconds(since: $0) } ?? 0)
    guard isStalled || stood >= settings.slowMilliseconds else { return false }
    for other in queues.indices where other != pool && isMoving(other, now) { return true }
    return false
  }

  /// Whether the pool is in use.
  private func isMoving(_ pool: Int, _ now: Now) -> Bool { isInUse(pool, within: settings.movingMilliseconds, now) }

  private func isInUse(_ pool: Int, within milliseconds: Int64, _ now: Now) -> Bool {
    guard let delivered = queues[pool].lastDelivered else { return false }
    return now.monotonic.milliseconds(since: delivered) < milliseconds
  }
}
