import PushCore
import PushCredentials
import PushSettings

/// One lane: takes jobs, admits, sends, reports and acknowledges them, all on one thread.
///
/// A turn is one pass over everything that came in since the last one. This file shows one job's way from top to bottom,
/// LanePublishing.swift the rest of it. LaneDrain.swift handles deliveries that are lost or handed back:
///
///     delivered → parsed → admitted → sent → answered | reported → confirmed → acknowledged
///
/// A delivery is acknowledged only after the broker confirmed its replacement: an outcome for each target, or a retry
/// copy, or a dead letter. `DeliveryState` decides; the ports do the input and output.
///
/// A value with one owner: the compiler proves exclusive access to its fields, which an object would
/// check at each access. Methods that a job comes through are mutating also where they only read: for one that borrows
/// the lane, the compiler copies it whole.
package struct Lane<
  LaneBroker: Broker, LaneStore: AdmissionStore, LanePush: PushService, Time: LaneClock
>: ~Copyable {
  package var broker: LaneBroker
  package var state: LaneStore
  package var push: LanePush
  /// Looks up the devices of each page once.
  let directory: any AudienceDirectory
  let clock: Time
  var settings: LaneSettings
  /// Draws the claims' numbers.
  var random: SeededRandom
  private var parser = JobParser()

  var jobs: SlotTable<JobSlot>
  var sends: SlotTable<SendSlot>
  /// Jobs with targets that are not started, by `StartQueue`.
  var unstarted: [RingBuffer<Ticket>]
  /// Pages whose devices are not looked up yet, by `StartQueue`.
  var unnamedPages: [RingBuffer<Ticket>]
  /// Pages whose devices are being looked up or wait to start, by `StartQueue`.
  var openPages: [Int]
  /// The last page's devices could not be looked up.
  var isDirectorySilent = false
  /// The audiences' jobs whose pages are in flight.
  var audiences = AudienceTable()
  /// Sends that ask again later, by what they wait for, the first answered first.
  var askingLater: [RingBuffer<Ticket>]
  /// Admitted sends that wait for room, by pool: a full or paused pool does not delay the others.
  var queues: [PoolQueue] = []
  var waitingCount = 0
  /// Of the deliveries in flight, by class.
  var bodyBytes = [0, 0]
  /// Jobs of which something was sent, by class, until they are settled; without orphans. Nobody else can have their deliveries.
  var jobsSent = [0, 0]
  /// Looks at the pools' shares so far, and when the next one is due; how many pools were stuck at the last one, how many others in use, and
  /// of which classes the broker could deliver few more.
  var (shareLook, nextShareLook) = (UInt32(0), Instant(nanoseconds: .min))
  var (stuckPools, movingPools, usedPools, hasFewDeliveries) = (0, 0, 0, [false, false])
  /// The number of orphans: requests on the wire whose delivery is gone.
  var orphanCount = 0
  /// Sends with a message that is to be published, by its destination, and what each destination answers.
  var reports: InlineArray<5, SendList> = InlineArray(repeating: SendList())
  var destinations: InlineArray<5, DestinationState> = InlineArray(repeating: DestinationState())
  var refusedOutcomes = RefusedOutcomes()
  /// When refused dead letters are counted again, and when what is published may move to another fresh channel.
  var (nextRefusedLook, nextRenewal) = (Instant(nanoseconds: .min), Instant(nanoseconds: .min))
  var confirms: ConfirmWindow
  /// By job class: each has its own channel, and so its own tags.
  var watermarks: [AckWatermark]
  var epoch: UInt32?
  private var heldUp: HeldUpState
  /// Jobs that may be poison start after all other redelivered jobs were replaced by copies: otherwise a crash would duplicate the copies.
  var possiblePoisonHeldUntil = Instant(nanoseconds: 0)
  /// The number of deliveries that are being isolated; the next one's point.
  var (isolating, points) = (0, OrderPoints())
  /// The last turn left deliveries for a later one.
  private(set) var mayHaveMore = false
  var drain = DrainState()
  let writer: OutcomeWriter
  /// Buffer of the next message.
  var message: [UInt8] = []
  var routingKey: [UInt8] = []

  /// Targets that wait for an answer of the admission store.
  var admittingCount = 0
  package internal(set) var counters: LaneCounters
  /// Requests written and answers taken: progress, for `StandstillState`.
  private(set) var moves: UInt64 = 0
  /// Until then a clock that nobody has confirmed ends no job.
  let unsureUntil: Instant
  /// The input ended, and nothing came since.
  package private(set) var isExhausted = false

  package init(
    broker: LaneBroker, state: LaneStore, push: LanePush, directory: any AudienceDirectory = NoDirectory(), clock: Time,
    settings: LaneSettings
  ) {
    precondition(
      settings.jobsMaximum > settings.prefetch && settings.sendsMaximum > settings.prefetch,
      "a lane's tables are larger than what the broker gives it")
    self.broker = broker
    self.state = state
    self.push = push
    self.directory = directory
    self.clock = clock
    self.settings = settings
    writer = OutcomeWriter(worker: settings.workerName)
    counters = LaneCounters(retryDelaysSeconds: settings.retry.delaysSeconds)
    random = SeededRandom(seed: settings.randomSeed)
    heldUp = HeldUpState(now: clock.now)
    unsureUntil = clock.now.monotonic.adding(milliseconds: settings.unsureMilliseconds)
    jobs = SlotTable(capacity: settings.jobsMaximum) { JobSlot() }
    sends = SlotTable(capacity: settings.sendsMaximum + LaneSettings.isolatedSendsMaximum + settings.jobsMaximum) {
      SendSlot()
    }
    unstarted = StartQueue.allCases.map { _ in RingBuffer(capacity: settings.jobsMaximum) }
    unnamedPages = StartQueue.allCases.map { _ in RingBuffer(capacity: settings.jobsMaximum) }
    openPages = StartQueue.allCases.map { _ in 0 }
    let capacity = sends.capacity
    askingLater = AskingLater.allCases.map { _ in RingBuffer(capacity: capacity) }
    confirms = ConfirmWindow(capacity: settings.unconfirmedMaximum)
    watermarks = JobClass.allCases.map { _ in AckWatermark(capacity: settings.jobsMaximum) }
  }

  /// One pass.
  package mutating func turn() {
    let now = clock.now
    heldUp.turn(now)
    push.maintain(now: now)
    takeBrokerEvents(now)
    takePages(now)
    askLater(now)
    startTargets(now)
    takeAdmissions(now)
    takeAnswers(now)
    lookAtShares(now)
    sendWaiting(now)
    publishReports(now)
    acknowledge(now)
    advanceDrain(now)
    state.flush(now: now)
  }

  // MARK: delivered

  private mutating func takeBrokerEvents(_ now: Now) {
    var takenCount = 0
    mayHaveMore = false
    while let event = broker.nextEvent(takesDeliveries: !isFull) {
      switch event {
      case .delivery(let delivery):
        received(delivery, now)
        takenCount += 1
        if takenCount == settings.deliveriesPerTurn {
          mayHaveMore = true
          return
        }
      case .confirmed(let numbers):
        for number in confirms.published(numbers) { publishConfirmed(number, now) }
      case .refused(let numbers):
        for number in confirms.published(numbers) { publishRefused(number, now) }
      case .consuming(let epoch):
        abandonDeliveries()
        self.epoch = epoch
        for index in watermarks.indices { watermarks[index].reset() }
      case .consumingStopped:
        epoch = nil
        abandonDeliveries()
      case .publishing, .publishingStopped:
        publishesLost(now)
      case .blocked, .unblocked:
        break
      case .exhausted:
        isExhausted = true
      }
    }
    mayHaveMore = isFull
  }

  private mutating func received(_ delivery: Delivery, _ now: Now) {
    isExhausted = false
    let jobClass = delivery.tag.jobClass
    counters.received[Int(jobClass.rawValue)] += 1
    if !delivery.tag.isIsolated {
      guard watermarks[Int(jobClass.rawValue)].delivered(delivery.tag.value) else { return }
    }
    guard drain.isRunning else {
      handBack(delivery.tag, now)
      return
    }
    guard let ticket = jobs.take() else { preconditionFailure("no delivery is taken without room for it") }
    jobs[ticket].begin(delivery, sentAt: heldUp.earliest(now), now)
    jobs[ticket].copyDelivery(from: &broker, &points, hasRedisTime: clock.hasRedisTime)
    jobs[ticket].judge(settings.isolation)
    hold(ticket)
    if jobs[ticket].isolation == .isolate {
      isolate(ticket, now)
      return
    }
    parse(ticket, delivery)
    let queue = StartQueue(jobs[ticket])
    if !queue.mayBePoison, jobs[ticket].metadata.deliveryCount > 0 {
      holdPossiblePoison(now)
      if jobs[ticket].targetCount > 1, putOff(ticket, now) { return }
    }
    if putOffIfLarge(ticket, now) { return }
    if jobs[ticket].isForAudience {
      enterAudience(ticket, now)
    } else {
      unstarted[queue.rawValue].append(ticket)
    }
  }

  mutating func handBack(_ tag: DeliveryTag, _ now: Now) {
    counters.handedBack += 1
    broker.reject(tag, requeue: true)
    if !tag.isIsolated { watermarks[Int(tag.jobClass.rawValue)].rejected(tag.value, now: now.monotonic) }
  }

  // MARK: parsed

  private mutating func parse(_ ticket: Ticket, _ delivery: Delivery) {
    if delivery.isOversized {
      jobs[ticket].refuse(Limits.refusal(ofJobBytes: delivery.bodyCount))
      return
    }
    do throws(JobError) {
      try jobs[ticket].parse(with: &parser)
    } catch {
      jobs[ticket].refuse(error.detail)
      if !jobs[ticket].job.app.isEmpty { jobs[ticket].app = counters.appIndex(of: jobs[ticket].job) }
      return
    }
    if jobs[ticket].metadata.undelivered == .unroutable {
      jobs[ticket].refuseRoutingKey()
      return
    }
    let app = counters.appIndex(of: jobs[ticket].job)
    if jobs[ticket].job.revision > 0, jobs[ticket].job.parentID.isEmpty {
      jobs[ticket].refuseRevision(app: app)
      return
    }
    if jobs[ticket].isForAudience, !directory.knowsDevices {
      jobs[ticket].refuseAudience(app: app)
      return
    }
    do throws(RoutingError) {
      jobs[ticket].accept(pool: try push.route(for: jobs[ticket].job), app: app)
      noteDelivery(ticket)
    } catch {
      jobs[ticket].app = app
      jobs[ticket].refusal = "\(error.field): \(error.detail)"
      jobs[ticket].openEnds()
    }
  }

  /// Starts the targets of waiting jobs while there are free slots: a batch may take several turns.
  private mutating func startTargets(_ now: Now) {
    guard broker.canPublish else { return }
    for queue in StartQueue.allCases {
      if queue.mayBePoison, isolating > 0 || now.monotonic < possiblePoisonHeldUntil { continue }
      while let job = unstarted[queue.rawValue].first, canStart(job) {
        if !putOffIfOld(job, now), !putOffIfInTheWay(job, now), !putOffIfUnsure(job, now) { start(job, now) }
        guard jobs[job].nextTarget == jobs[job].targetCount else { continue }
        _ = unstarted[queue.rawValue].popFirst()
        if jobs[job].resolvedAt != nil { openPages[queue.rawValue] -= 1 }
      }
    }
  }

  /// There is room for a target of this job, beside the orphans. The isolated job has extra room; bulk leaves a quarter of the room free,
  /// and a quarter of the admissions.
  mutating func canStart(_ job: Ticket) -> Bool {
    let tag = jobs[job].tag
    let isBulk = tag.jobClass == .bulk
    let room = settings.sendsMaximum - orphanCount
    let own = tag.isIsolated ? LaneSettings.isolatedSendsMaximum : isBulk ? -room / 4 : 0
    let admissions = settings.admissionsMaximum - (isBulk ? settings.admissionsMaximum / 4 : 0)
    return sends.count - orphanCount < room + own && admittingCount < admissions
  }

  mutating func takeSend(of job: Ticket) -> Ticket? {
    guard let send = sends.take() else { return nil }
    let target = jobs[job].nextTarget
    jobs[job].nextTarget += 1
    jobs[job].openTargets += 1
    jobs[job].begin(&sends[send], job, target: target)
    return send
  }

  private mutating func start(_ job: Ticket, _ now: Now) {
    let pool = Int(jobs[job].pool.value)
    makeQueue(pool)
    while jobs[job].nextTarget < jobs[job].targetCount, canStart(job), let send = takeSend(of: job) {
      if jobs[job].refusal != nil {
        perform(sends[send].delivery.refused(now: now), send, now)
      } else if let action = takeBack(send, of: job, now) {
        perform(action, send, now)
      } else {
        sends[send].device = TargetKey(jobs[job].job, target: sends[send].target)
        sends[send].isHeld = true
        queues[pool].holds(sends[send].jobClass, 1)
        ask(send, of: job, now)
      }
    }
  }

  mutating func ask(_ send: Ticket, of job: Ticket, _ now: Now) {
    let isOver = isOver(send, of: job, now)
    sends[send].askedAt = now.monotonic
    if sends[send].isAskedAgain { queues[Int(sends[send].pool.value)].asks(sends[send].jobClass, 1) }
    // An admitted send keeps its number, by which it recognises its claim in memory and in Redis.
    sends[send].askedClaim =
      isOver ? 0 : sends[send].isAskedAgain ? sends[send].claim : max(1, UInt32(truncatingIfNeeded: random.next()))
    jobs[job].job.tokenRegisteredAt = sends[send].tokenRegisteredAt  // In a page, each device has its own.
    let arrival = jobs[job].arrival(of: sends[send], settings, isOver: isOver, now: now.monotonic)
    state.admit(
      jobs[job].job, device: sends[send].device, apnsID: sends[send].apnsID, arrival: arrival, ticket: send, now: now)
    sends[send].hasAsked = true
    admittingCount += 1
  }

  /// It is not sent any more: the job expired, also in a queue, or it is overtaken.
  private mutating func isOver(_ send: Ticket, of job: Ticket, _ now: Now) -> Bool {
    isOvertaken(send, of: job) || isCancelled(job) || jobs[job].metadata.undelivered != nil || isOver(job, now)
  }

  /// The job expired: it is not sent any more.
  mutating func isOver(_ job: Ticket, _ now: Now) -> Bool {
    let times = jobs[job].times
    return settings.retry.isExpired(enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: now)
  }

  // MARK: admitted

  private mutating func takeAdmissions(_ now: Now) {
    while let (ticket, answer) = state.nextAdmission(now: now) {
      var admission = answer
      admittingCount -= 1
      guard sends.isLive(ticket) else { continue }
      let job = job(of: ticket)
      if sends[ticket].isAskedAgain {
        queues[Int(sends[ticket].pool.value)].asks(sends[ticket].jobClass, -1)
        // Counts from the answer: if a slow answer counted as old, the send would ask again and again and never leave.
        sends[ticket].askedAt = now.monotonic
      }
      if asksLater(ticket, of: job, &admission, now) { continue }
      switch admission {
      case .duplicate: counters.duplicatesSuppressed += 1
      case .dead(let since), .repeated(.dead(let since)):
        counters.suppressed += 1
        tokenGone(ticket, since: since)
      case .limited, .superseded, .repeated(.limited), .repeated(.superseded): counters.rateLimited += 1
      case .proceed, .behind, .claimed, .repeated: break
      }
      if admission.leavesClaim {
        // The clock was set back meanwhile: the job may be sent now, and has no claim yet.
        if sends[ticket].askedClaim == 0, !isOver(ticket, of: job, now) {
          ask(ticket, of: job, now)
          continue
        }
        sends[ticket].claim = sends[ticket].askedClaim
      }
      let action = sends[ticket].delivery.admitted(
        admission, jobs[job].times, policy: settings.retry, dropsOverLimit: settings.onLimit == .drop,
        isOvertaken: isOvertaken(ticket, of: job), isCancelled: isCancelled(job), now: now)
      perform(action, ticket, now)
    }
  }

  // MARK: sent

  private mutating func sendWaiting(_ now: Now) {
    guard broker.canPublish else { return }
    while let ticket = push.nextReleased() {
      guard sends.isLive(ticket) else { continue }
      perform(sends[ticket].delivery.released(), ticket, now)
    }
    guard waitingCount > 0 else { return }
    for pool in queues.indices {
      while let next = nextClass(ofPool: pool, now), let send = queues[pool].first(of: next),
        sendFirst(send, ofPool: pool, now) || takeOther(than: next, fromPool: pool, now)
      {}
    }
  }

  /// The first send of its class. false: this send and all after it go on waiting.
  /// - Parameter maySend: false: it only leaves if it waits here no longer.
  mutating func sendFirst(_ ticket: Ticket, ofPool pool: Int, maySend: Bool = true, _ now: Now) -> Bool {
    let job = job(of: ticket)
    let isOver = isOver(job, now)
    if takeBack(ticket, of: job, inPool: pool, now) { return true }
    if isAdmittedLongAgo(ticket, of: job, now) {
      let free = maySend ? min(push.room(for: sends[ticket].pool), queues[pool].share.room) : 0
      let room = isOver ? settings.admissionsMaximum : free
      if room > 0 { return askAgain(ticket, ofPool: pool, room: room, now) }
    }
    if !isOver, putOffIfOld(ticket, of: job, inPool: pool, now) { return true }
    var retryAfterMilliseconds: Int64?
    var stuckMilliseconds = isOver ? nil : refusedMilliseconds(job, now)
    // The job may have expired while it waited: then a retry makes no sense either.
    let decision: SendDecision =
      isOver
      ? .paused(retryAfterMilliseconds: 0)
      : maySend && stuckMilliseconds == nil ? pass(ticket, of: job, toPool: pool, now) : .noRoom
    switch decision {
    case .noRoom where stuckMilliseconds == nil, .stalled:
      let waited = now.monotonic.milliseconds(since: sends[ticket].waitingSince)
      if waited >= settings.stuckWaitMilliseconds, waitsInOthersWay(sends[ticket].jobClass, ofPool: pool) {
        stuckMilliseconds = self.stuckMilliseconds(job, pool: pool, now)
      } else if waited < settings.roomWaitMilliseconds {
        guard isInOthersWay(pool, waited, isStalled: decision == .stalled, now) else { return false }
        // The delay grows with the job's age.
        retryAfterMilliseconds = max(1, now.unixMilliseconds - jobs[job].enqueuedAt)
      }
    case .paused(let milliseconds):
      retryAfterMilliseconds = milliseconds
    case .sent, .held, .refused, .noRoom:
      break
    }
    queues[pool].popFirst(sends[ticket].jobClass, of: sends)
    waitingCount -= 1
    switch decision {
    case .sent:
      sends[ticket].delivery.sent(now: now)
      moves &+= 1
      wentOnWire(ticket, of: job, pool: pool, now)
    case .held:
      sends[ticket].delivery.held()
    case .refused(let error):
      jobs[job].refusal = "\(error.field): \(error.detail)"
      perform(sends[ticket].delivery.refused(now: now), ticket, now)
    case .noRoom, .stalled, .paused:
      let action = sends[ticket].delivery.gaveUpWaiting(
        jobs[job].times, policy: settings.retry, retryAfterMilliseconds: retryAfterMilliseconds,
        stuckMilliseconds: stuckMilliseconds, now: now)
      perform(action, ticket, now)
    }
    return true
  }

  // MARK: answered

  private mutating func takeAnswers(_ now: Now) {
    while let answer = push.nextAnswer(now: now) {
      let ticket = answer.ticket
      guard sends.isLive(ticket) else { continue }
      moves &+= 1
      leftWire(ticket, answer)
      var verdict = Verdict(
        answer, tokenRegisteredAt: sends[ticket].tokenRegisteredAt, resends: sends[ticket].delivery.resendCount)
      let job = sends[ticket].job
      if let job, verdict.notes.contains(.tightenDevice) {
        state.tighten(jobs[job].job, device: sends[ticket].device, now: now)
      }
      if verdict.fate == .dead {
        tokenGone(ticket, since: answer.unregisteredAt ?? now.unixMilliseconds)
        if let job, isToMembers(job) { verdict.fate = .unregisteredBefore }
      }
      if verdict.concernsService { tellService(verdict, of: job, ticket, now) }
      sends[ticket].uniqueID = answer.uniqueID
      // An orphan is never retried, so its times do not matter.
      var times = JobTimes(enqueuedAt: now.unixMilliseconds, expiration: nil)
      if let job { times = jobs[job].times }
      let action = sends[ticket].delivery.answered(
        answer, verdict, times, policy: settings.retry, now: now)
      perform(action, ticket, now)
    }
  }

  /// Carries out an action of `DeliveryState`.
  mutating func perform(_ action: DeliveryAction, _ ticket: Ticket, _ now: Now) {
    switch action {
    case .remember(let outcome):
      state.remember(outcome, device: sends[ticket].device, apnsID: sends[ticket].apnsID, now: now)
    case .rememberFate(let outcome):
      state.rememberFate(
        outcome, claim: sends[ticket].claim, device: sends[ticket].device, apnsID: sends[ticket].apnsID, now: now)
    case .send, .report: break
    }
    guard sends[ticket].job != nil else {
      // The lane that has the job now publishes the remembered outcome; this lane must not publish it too.
      orphanCount -= 1
      sends.release(ticket)
      return
    }
    switch action {
    case .send:
      let pool = Int(sends[ticket].pool.value)
      if !sends[ticket].isAskedAgain { sends[ticket].waitingSince = now.monotonic }
      queues[pool].append(ticket, to: &sends)
      sends[ticket].isAskedAgain = false
      waitingCount += 1
    case .remember, .rememberFate, .report:
      if sends[ticket].isHeld {
        sends[ticket].isHeld = false
        queues[Int(sends[ticket].pool.value)].holds(sends[ticket].jobClass, -1)
      }
      report(ticket)
    }
  }
}
