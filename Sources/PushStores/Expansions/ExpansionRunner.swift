import Logging
import PushCore
import PushIO
import PushLane

/// Processes the messages of the expansion queues. Steps find devices, fix pages and publish them. Outcomes that pages
/// report are counted. A job gets its outcome when all its devices have theirs.
///
/// If Redis does not answer, a message waits in a retry queue. Duplicates are harmless: see `ExpansionState`.
final class ExpansionRunner {
  typealias Publish = ExpansionDelivery.Publish

  let loop: EventLoop
  let settings: ExpansionSettings
  let store: ExpansionStore
  let reader: RegistryAudiences
  let activities: ActivityRegistry
  let devices: DeviceRegistry
  /// Of the channels' names.
  let channels: RedisClient
  let taker: ActivityTaker
  let writer: OutcomeWriter
  let notice: (Logger.Level, String) -> Void
  private var parser = JobParser()
  var random: SeededRandom
  /// By the class of the queue: what one of them holds takes nothing from the other's.
  var shares: [FairShares<ByteText, ExpansionDelivery>]
  var counters = ExpansionCounters()
  /// Jobs with a step in progress, and their further steps that came meanwhile: two at once would publish everything
  /// twice.
  private var busy: [AudienceID: [ExpansionDelivery]] = [:]
  /// Jobs whose outcome is being published, and what waits for that: two at once would publish it twice.
  var publishingOutcomes: [AudienceID: [() -> Void]] = [:]

  /// What deliveries wait for, by number. The loop holds only the number: what waits for ever would keep everything in memory.
  private var timers: [UInt64: () -> Void] = [:]
  private var timerCount: UInt64 = 0
  /// Activities that wait for a channel, since when.
  var channelWaits: [ActivityKey: Instant] = [:]
  /// The newest update of each activity, while it waits for its timestamp.
  var held: [ActivityKey: Held] = [:]
  /// Steps that have too many open pages before them.
  var full = StepTimes()
  /// Steps whose devices could not be read.
  var unreadable = StepTimes()
  /// When each app was last warned about jobs of its activities.
  var warnedAt: [Warned: Instant] = [:]

  /// The delay between retries of storing that a job is completed.
  static let finishMilliseconds: Int64 = 1_000

  init(
    loop: EventLoop, settings: ExpansionSettings, store: ExpansionStore, reader: RegistryAudiences,
    activities: ActivityRegistry, devices: DeviceRegistry, channels: RedisClient, seed: UInt64,
    notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.settings = settings
    self.store = store
    self.reader = reader
    self.activities = activities
    self.devices = devices
    self.channels = channels
    random = SeededRandom(seed: seed)
    shares = JobClass.allCases.map { _ in FairShares(limits: settings.shares) }
    taker = ActivityTaker(activities, settings: settings.activities)
    self.notice = notice
    writer = OutcomeWriter(worker: settings.workerName)
    taker.onWarning = { [weak self] in self?.warn($0, of: $1) }
  }

  func take(_ delivery: ExpansionDelivery) {
    let body = delivery.body
    if replace(delivery) { return }
    guard PageSettlement.isSettlement(body.span) else { return enter(delivery) }
    if isGivenUp(delivery) { giveUp(settlement: delivery) } else { settle(delivery) }
  }

  /// The connection of the deliveries is gone.
  func forgetDeliveries() {
    busy = [:]
    publishingOutcomes = [:]
    shares = JobClass.allCases.map { _ in FairShares(limits: settings.shares) }
    held = [:]
    timers = [:]
    taker.forget()
  }

  /// Calls this later, unless the deliveries are forgotten before.
  func schedule(afterMilliseconds milliseconds: Int64, _ work: @escaping () -> Void) {
    timerCount += 1
    timers[timerCount] = work
    loop.schedule(afterMilliseconds: milliseconds) { [weak self, timerCount] in
      self?.timers.removeValue(forKey: timerCount)?()
    }
  }

  // MARK: ends of devices

  private func settle(_ delivery: ExpansionDelivery) {
    let body = delivery.body
    guard let settlement = PageSettlement(body.span) else {
      return refuse(delivery, "body: is no settlement of a page")
    }
    counters.settlements += 1
    store.settle(settlement) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure):
        let age = loop.now.unixMilliseconds - delivery.firstSeen
        guard failure.isForeignData, age >= settings.retry.ageMaximumSeconds * 1_000 else {
          return waitForRedis(delivery, failure.text)
        }
        giveUp(
          settlement: delivery, because: "its job's progress cannot be read: \(failure.text)",
          advice: "correct that key")
      case .success(let completed):
        endStarts(settlement, delivery) { [self] in
          if let completed { complete(completed, delivery) {} } else { delivery.finish() }
        }
      }
    }
  }

  // MARK: steps

  /// A parsed step of a job.
  struct Step {
    let job: AudienceID
    let cursor: ExpansionCursor
    let audience: AudienceQuery?
    let activity: ActivityID?
    /// For an update or end of an activity: its members are the audience.
    let membersOf: ActivityID?
    /// Of a start of an activity.
    let startOf: ActivityID?
    let isDryRun: Bool
    /// Its activity must give it a revision first.
    let needsRevision: Bool
    /// It ends its activity for the named devices.
    let isLeave: Bool
    let expiration: Int64?
    /// For a start with a fallback: devices without a start token for this attributes type get the fallback.
    let fallbackType: String?

    var id: String { job.id }
    var scope: AppScope { job.scope }
  }

  func begin(_ delivery: ExpansionDelivery) {
    var job = PushJob()
    let step: Step
    do throws(JobError) {
      step = try read(delivery, into: &job)
    } catch {
      return refuseJob(delivery, job, error.detail, stored: nil)
    }
    if busy[step.job] != nil {
      busy[step.job]?.append(delivery)
    } else {
      busy[step.job] = []
      if step.needsRevision { checkWhetherTaken(delivery, step) } else { open(delivery, step) }
    }
  }

  func read(_ delivery: ExpansionDelivery, into job: inout PushJob) throws(JobError) -> Step {
    try read(delivery.body, delivery.metadata, delivery.cursor, into: &job)
  }

  func read(
    _ body: [UInt8], _ metadata: MessageMetadata, _ cursor: ExpansionCursor? = nil, into job: inout PushJob
  ) throws(JobError) -> Step {
    job.bytes = body
    job.bodyCount = body.count
    let messageID = Array(metadata.bytes[metadata.messageID.range])
    try parser.parse(into: &job, fallbackID: messageID.span)
    let app = String(decoding: job.bytes[job.app.range], as: UTF8.self)
    guard job.targetKind.isAudience, let scope = AppScope(app: app, environment: job.environment) else {
      throw JobError(field: "to", rule: "names no audience")
    }
    let activity = ActivityID(String(decoding: job.bytes[job.activity.range], as: UTF8.self))
    let membersOf = job.targetKind == .activity ? activity : nil
    return Step(
      job: AudienceID(String(decoding: job.bytes[job.id.range], as: UTF8.self), in: scope),
      cursor: cursor ?? ExpansionCursor(), audience: membersOf == nil ? AudienceQuery(job) : nil,
      activity: activity, membersOf: membersOf, startOf: job.event == .start ? activity : nil, isDryRun: job.isDryRun,
      needsRevision: !job.activity.isEmpty && job.revision == 0 && !job.isDryRun,
      isLeave: job.targetKind == .devices && job.event == .end, expiration: job.expiration,
      fallbackType: try ExpansionRunner.fallbackType(job))
  }

  /// Ends the step in this process, whatever its result: the next one of its job may start.
  func end(_ job: AudienceID) {
    guard var waiting = busy.removeValue(forKey: job) else { return }
    guard !waiting.isEmpty else { return }
    let next = waiting.removeFirst()
    begin(next)
    for delivery in waiting { begin(delivery) }
  }

  private func open(_ delivery: ExpansionDelivery, _ step: Step) {
    var metadata = delivery.metadata
    metadata.firstSeen = delivery.firstSeen
    metadata.jobClass = delivery.jobClass
    store.open(
      step.job, step.cursor, openMaximum: openMaximum(step), isDryRun: step.isDryRun,
      metadata: metadata, body: delivery.body
    ) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure):
        waitForRedis(delivery, failure.text)
        end(step.job)
      case .success(.done):
        delivery.finish()
        end(step.job)
      case .success(.completed): repeatOutcome(delivery, step)
      case .success(.evaluate(let ordinal)):
        delivery.ordinal = ordinal
        if isGivenUp(delivery) {
          giveUp(delivery, step)
        } else {
          checkDryRun(delivery, step) { [self] in evaluate(delivery, step) }
        }
      case .success(.publish(let fixed)):
        // Whoever fixed them may have published them, and Redis may not be there to tell which devices have their push.
        publish(delivery, step, fixed, areRepeated: true)
      case .success(.paused):
        counters.waitsPaused += 1
        // Nothing is read while it is paused: that is not the time for which its devices could not be read.
        unreadable.forget(step)
        wait(delivery, seconds: ExpansionRunner.delay(waited: loop.now.unixMilliseconds - delivery.firstSeen))
        end(step.job)
      case .success(.full):
        counters.waitsForPages += 1
        full.since(step, now: loop.now.monotonic)
        wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
        end(step.job)
      }
    }
  }

  private func evaluate(_ delivery: ExpansionDelivery, _ step: Step) {
    let maximum = step.isDryRun ? settings.countedDevices : settings.stepDevices
    if let id = step.membersOf { return evaluate(delivery, step, membersOf: id, maximum: maximum) }
    guard let audience = step.audience else { return refuseStep(delivery, step, "is not a valid segment code") }
    // All steps of a job use the first one's days, so that its audience does not change while it is expanded.
    let generation = devices.generation
    reader.read(
      audience, in: step.scope, from: delivery.ordinal, maximum: maximum, unixMilliseconds: delivery.firstSeen
    ) { [self] part in
      guard !delivery.isGone else { return }
      switch part {
      case .failed(let failure): later(delivery, step, failure)
      case .refused(let text) where step.cursor.step == 0:
        refuseStep(delivery, step, text)
      case .refused(let text):
        // Its segment was deleted meanwhile: nobody else is in it.
        endEarly(delivery, step, because: "to.segment \(text)")
      case .found(let ordinals, let next, let given, let epoch):
        let parts = Parts(epoch: epoch, generation: generation, usual: ordinals)
        guard let id = step.startOf, !step.isDryRun else {
          return fix(delivery, step, parts, next: next, given: given)
        }
        split(delivery, step, parts, startOf: id) { [self] in fix(delivery, step, $0, next: next, given: given) }
      }
    }
  }

  func fix(_ delivery: ExpansionDelivery, _ step: Step, _ parts: Parts, next: UInt32?, given: UInt32) {
    if step.isDryRun { return fix(delivery, step, [], counted: UInt64(parts.usual.count), next: next, given: given) }
    devices.fingerprints(of: parts.ordinals, since: parts.generation, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success(let fingerprints):
        let pages = parts.pages(of: settings.pageDevices, fingerprints: fingerprints)
        fix(delivery, step, pages, counted: 0, next: next, given: given)
      }
    }
  }

  private func fix(
    _ delivery: ExpansionDelivery, _ step: Step, _ pages: [PageOrdinals], counted: UInt64, next: UInt32?, given: UInt32
  ) {
    unreadable.forget(step)
    store.fix(
      step.job, step: step.cursor.step, pages: pages, counted: counted, next: next, ordinals: given
    ) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure):
        waitForRedis(delivery, failure.text)
        end(step.job)
      case .success(nil): open(delivery, step)
      case .success(.some(let fixed)): publish(delivery, step, fixed, areRepeated: false)
      }
    }
  }

  /// Publishes the pages that are fixed and have devices without an end, behind them the next step, and behind that it is remembered that
  /// all of it is in its queues.
  /// - Parameter areRepeated: another delivery of the step may have published the pages: what is sent once more is marked.
  private func publish(
    _ delivery: ExpansionDelivery, _ step: Step, _ fixed: ExpansionStore.Fixed, areRepeated: Bool
  ) {
    store.ordinals(step.job, of: fixed.pages) { [self] result in
      guard !delivery.isGone else { return }
      guard case .success(let ordinals) = result else {
        waitForRedis(delivery, "its pages")
        return end(step.job)
      }
      let pages = pages(delivery, fixed.pages, ordinals, areRepeated: areRepeated)
      counters.steps += 1
      counters.pages += UInt64(pages.count)
      broadcast(delivery, step, isRepeated: areRepeated) { [self] broadcast in
        var (publishes, fixed) = (pages, fixed)
        switch broadcast {
        case .none: break
        case .message(let message): publishes.append(message)
        case .lost: fixed.isComplete = true
        }
        delivery.publish(publishes) { [self, fixed] in
          let next = fixed.next.map { Publish(target: .step($0), body: delivery.body, metadata: delivery.metadata) }
          delivery.publish(next.map { [$0] } ?? []) { [self] in published(delivery, step, fixed) }
        }
      }
    }
  }

  private func pages(
    _ delivery: ExpansionDelivery, _ numbers: Range<UInt32>, _ ordinals: [PageOrdinals?], areRepeated: Bool
  ) -> [Publish] {
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    var pages: [Publish] = []
    for (number, ordinals) in zip(numbers, ordinals) {
      guard let ordinals else { continue }
      var body: [UInt8] = []
      // A twin of the job, with the same id, may have none to send: its own pages are no worse than the job's.
      switch ordinals.kind {
      case .fallback where FallbackWriter.canWrite(job):
        FallbackWriter.append(
          job, number: number, ordinals: ordinals.text, fingerprints: ordinals.fingerprints, epoch: ordinals.epoch,
          to: &body)
      case .channel(let channel):
        let payload = (try? ActivityPayload(Array(job.bytes[job.payload.range])))?.subscribing(to: channel)
        PageWriter.append(
          job, number: number, ordinals: ordinals.text, fingerprints: ordinals.fingerprints, epoch: ordinals.epoch,
          payload: payload, to: &body)
      case .usual, .fallback:
        PageWriter.append(
          job, number: number, ordinals: ordinals.text, fingerprints: ordinals.fingerprints, epoch: ordinals.epoch,
          to: &body)
      }
      let id = job.bytes[job.id.range] + Array("/\(number)".utf8)
      pages.append(
        Publish(
          target: .page(delivery.jobClass, id: Array(id)), body: body, metadata: delivery.metadata,
          isRepeated: areRepeated))
      counters.devices += UInt64(ordinals.count)
    }
    return pages
  }

  private func published(_ delivery: ExpansionDelivery, _ step: Step, _ fixed: ExpansionStore.Fixed) {
    // No page will report for an audience without pages: publish its outcome before the step ends.
    if fixed.isComplete { return complete(step.job, delivery) { [self] in end(step.job) } }
    // If Redis misses this, a redelivered step is published again.
    store.published(step.job, step: step.cursor.step) { [self] _ in
      guard !delivery.isGone else { return }
      delivery.finish()
      end(step.job)
    }
  }

  // MARK: what is wrong

  /// - Parameter field: of the job; nil: its audience.
  func refuseStep(
    _ delivery: ExpansionDelivery, _ step: Step, _ rule: String, field: String? = nil, isStored: Bool = true
  ) {
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    let known = step.isDryRun ? nil : step.startOf
    let hint = known.map { "; mend that and repeat this start: another payload needs another id than \($0.text)" }
    let place = field ?? "to.\(job.targetKind)"
    refuseJob(delivery, job, "\(place): \(rule)\(hint ?? "")", stored: isStored ? step.job : nil)
  }

  /// Publishes the outcome of a job that has no devices, and its dead letter.
  /// - Parameters:
  ///   - outcome: `invalid`, `failed`, or `expired`, which leaves no dead letter.
  ///   - stored: a job in Redis, which is forgotten then: published again, it is processed again, as every `invalid` job is.
  func refuseJob(
    _ delivery: ExpansionDelivery, _ job: borrowing PushJob, _ detail: String, as outcome: Outcome = .invalid,
    stored: AudienceID?
  ) {
    if outcome == .invalid { counters.invalid += 1 }
    let now = loop.now.unixMilliseconds
    let record = OutcomeRecord(
      outcome: outcome, detail: detail, attempts: 0, enqueuedAt: delivery.metadata.enqueuedAt,
      receivedAt: delivery.firstSeen, sentAt: nil, completedAt: now)
    let letter = Publish(
      target: .deadLetter(reason: outcome == .invalid ? "invalid" : "failed", detail: detail), body: delivery.body,
      metadata: delivery.metadata)
    let refused = { [self] in
      waitForOutcome(delivery)
      if let stored { end(stored) }
    }
    // The letter comes second: a refused outcome brings the message back, and makes no more of them.
    delivery.publish([self.outcome(record, job, delivery.metadata)], orElse: refused) { [self] in
      delivery.publish(outcome == .expired ? [] : [letter]) { [self] in
        guard let stored else { return delivery.finish() }
        untilStored(delivery, { [store] in store.forget(stored, then: $0) }) { [self] in
          delivery.finish()
          end(stored)
        }
      }
    }
  }

  private func refuse(_ delivery: ExpansionDelivery, _ detail: String) {
    counters.invalid += 1
    let letter = Publish.Target.deadLetter(reason: "invalid", detail: detail)
    delivery.publish([Publish(target: letter, body: delivery.body, metadata: delivery.metadata)]) { delivery.finish() }
  }
}
