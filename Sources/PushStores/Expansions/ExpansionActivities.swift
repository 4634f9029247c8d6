import Logging
import PushCore
import PushIO
import PushLane

/// Jobs of activities: the activity gives each a revision before it becomes pages.
extension ExpansionRunner {
  /// Longest wait for a revision's timestamp with the message held here; for a longer one it goes to a retry queue.
  private static var heldMillisecondsMaximum: Int64 { 2_000 }
  private static var warnMilliseconds: Int64 { 3_600_000 }
  /// Maximum remembered apps: more than a configuration has.
  private static var warnedMaximum: Int { 1_000 }

  /// The job with its revision comes as a separate message. If that was opened, this message has nothing to do.
  func checkWhetherTaken(_ delivery: ExpansionDelivery, _ step: Step) {
    store.progress(step.job) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure):
        waitForRedis(delivery, failure.text)
        end(step.job)
      case .success(.some(let progress)):
        guard let end = progress.withdrawn.flatMap(ActivityJobEnd.init) else {
          if progress.phase == .completed { return repeatOutcome(delivery, step) }
          delivery.finish()
          return self.end(step.job)
        }
        tell(end, delivery, step)
      case .success(nil):
        guard step.isLeave, let audience = step.audience else {
          guard let id = step.startOf else { return take(delivery, step) }
          return chooseWay(delivery, step, startOf: id) { [self] in take(delivery, step, way: $0) }
        }
        let generation = devices.generation
        reader.read(
          audience, in: step.scope, from: 0, maximum: Limits.targetsMaximum, unixMilliseconds: delivery.firstSeen
        ) { [self] part in
          guard !delivery.isGone else { return }
          switch part {
          case .failed(let failure): later(delivery, step, failure)
          case .refused(let text): later(delivery, step, ReadingFailure(unreadable: text))
          case .found(let ordinals, _, _, _):
            devices.fingerprints(of: ordinals, since: generation, in: step.scope) { [self] result in
              guard !delivery.isGone else { return }
              switch result {
              case .failure(let failure): later(delivery, step, ReadingFailure(failure))
              case .success(let fingerprints): take(delivery, step, leaving: (ordinals, fingerprints))
              }
            }
          }
        }
      }
    }
  }

  /// Whether an activity takes a job that is only counted: it gets no revision, which would tell.
  func checkDryRun(_ delivery: ExpansionDelivery, _ step: Step, then: @escaping () -> Void) {
    guard step.isDryRun, step.cursor.step == 0, let id = step.activity else { return then() }
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    let payload = try? ActivityPayload(Array(job.bytes[job.payload.range]))
    let startDigest = step.startOf == nil ? nil : payload?.digest
    let isEnd = job.event == .end
    activities.state(id, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success(let activity):
        guard
          let refusal = ActivityState.refusal(
            activity, startDigest: startDigest, isEnd: isEnd, now: activities.now)
        else { return then() }
        refuseStep(delivery, step, refusal.text, field: step.membersOf == nil ? "activity" : nil)
      }
    }
  }

  /// - Parameter announced: of a start whose way is not decided: called once the activity is known.
  func take(
    _ delivery: ExpansionDelivery, _ step: Step, leaving: (ordinals: [UInt32], devices: [UInt32]) = ([], []),
    way: ActivityState.UpdateWay = .tokens,
    announced: (() -> Void)? = nil
  ) {
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    let isWaiting = delivery.metadata.startWaits < settings.startWaitsMaximum
    let now = loop.hasRedisTime ? loop.now.unixMilliseconds : nil
    let order = delivery.order(of: job.sequence, isEnd: job.event == .end, now: now)
    taker.take(
      job, in: step.scope, order: order, leaving: leaving, way: way, mayWait: isWaiting
    ) { [self] result in
      if case .publish = result, let announced {
        if !delivery.isGone { announced() }
      } else {
        taken(result, delivery, step)
      }
    }
  }

  private func taken(_ taken: ActivityTaker.Taken, _ delivery: ExpansionDelivery, _ step: Step) {
    guard !delivery.isGone else { return }
    if case .failed(let failure) = taken { return later(delivery, step, ReadingFailure(failure)) }
    unreadable.forget(step)
    switch taken {
    case .publish(let body):
      supersedeHeld(step)
      delivery.publish([Publish(target: .step(step.cursor), body: body, metadata: delivery.metadata)]) { [self] in
        delivery.finish()
        end(step.job)
      }
    case .waits(_, let milliseconds):
      guard let id = step.activity, milliseconds <= ExpansionRunner.heldMillisecondsMaximum else {
        wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
        return end(step.job)
      }
      hold(delivery, step, of: id, milliseconds: milliseconds)
    case .early: waitForStart(delivery, step)
    case .superseded(let number): withdraw(.superseded(number: number), delivery, step)
    case .refused(let error):
      unlessEndIsCancelled(delivery, step) { [self] in withdraw(.invalid(error.detail), delivery, step) }
    case .failed(let failure): later(delivery, step, ReadingFailure(failure))
    }
  }

  struct ActivityKey: Hashable {
    let scope: AppScope
    let activity: ActivityID
  }

  /// An update that waits for its timestamp with its message held here.
  struct Held {
    let delivery: ExpansionDelivery
    let step: Step
  }

  /// Its activity sends it when its timestamp is due, unless a newer one comes here before: then its message is not held any longer, since
  /// many of them would leave no room for others.
  private func hold(
    _ delivery: ExpansionDelivery, _ step: Step, of id: ActivityID, milliseconds: Int64
  ) {
    supersedeHeld(step)
    held[ActivityKey(scope: step.scope, activity: id)] = Held(delivery: delivery, step: step)
    schedule(afterMilliseconds: milliseconds) { [self] in
      let key = ActivityKey(scope: step.scope, activity: id)
      guard held[key]?.delivery === delivery else { return }
      held[key] = nil
      take(delivery, step)
    }
  }

  /// A newer job of the step's activity came; or an older one, where Redis lost the one that is held. It is taken again, which tells.
  private func supersedeHeld(_ step: Step) {
    guard let id = step.membersOf, let old = held.removeValue(forKey: ActivityKey(scope: step.scope, activity: id))
    else { return }
    if !old.delivery.isGone { take(old.delivery, old.step) }
  }

  /// Its start may have been published before it, and be on another lane.
  private func waitForStart(_ delivery: ExpansionDelivery, _ step: Step) {
    counters.waitsForStart += 1
    var metadata = delivery.metadata
    metadata.startWaits &+= 1
    let copy = Publish(
      target: .retry(seconds: Topology.expansionDelaysSeconds[0]), body: delivery.body, metadata: metadata)
    delivery.publish([copy]) { delivery.finish() }
    end(step.job)
  }

  /// A redelivered job may already have a step in the queue, although it would be refused now. That step wins, unless
  /// this is stored before it starts.
  private func withdraw(_ why: ActivityJobEnd, _ delivery: ExpansionDelivery, _ step: Step) {
    store.withdraw(step.job, because: why.text) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure):
        waitForRedis(delivery, failure.text)
        end(step.job)
      case .success(let known):
        guard let first = known.flatMap(ActivityJobEnd.init) else {
          delivery.finish()
          return end(step.job)
        }
        tell(first, delivery, step)
      }
    }
  }

  private func tell(_ why: ActivityJobEnd, _ delivery: ExpansionDelivery, _ step: Step) {
    var job = PushJob()
    _ = try? read(delivery, into: &job)
    switch why {
    case .invalid(let detail): refuseJob(delivery, job, detail, stored: nil)
    case .superseded(let number):
      job.revision = number
      var record = OutcomeRecord(
        outcome: .throttled, attempts: 0, enqueuedAt: delivery.metadata.enqueuedAt, receivedAt: delivery.firstSeen,
        sentAt: nil, completedAt: loop.now.unixMilliseconds)
      record.isSuppressed = true
      let refused = { [self] in waitForOutcome(delivery) }
      delivery.publish([outcome(record, job, delivery.metadata)], orElse: refused) { delivery.finish() }
    }
    end(step.job)
  }

  /// Finds the devices of an update or end.
  func evaluate(
    _ delivery: ExpansionDelivery, _ step: Step, membersOf id: ActivityID, maximum: Int
  ) {
    let after = delivery.ordinal == 0 ? nil : delivery.ordinal - 1
    let generation = devices.generation
    devices.epoch(in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success(let epoch):
        activities.live(id, in: step.scope, after: after, limit: maximum) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(delivery, step, ReadingFailure(failure))
          case .success(let live):
            let next = live.ordinals.last.map { $0 &+ 1 } ?? delivery.ordinal
            let parts = Parts(epoch: epoch, generation: generation, usual: live.ordinals)
            expectBroadcast(delivery, step, of: id) { [self] in
              fix(delivery, step, parts, next: live.hasMore ? next : nil, given: next)
            }
          }
        }
      }
    }
  }

  func warn(_ warning: ActivityWarning, of scope: AppScope) {
    if warning == .noStaleDate { counters.endlessStates += 1 }
    let key = Warned(warning: warning, scope: scope)
    let now = loop.now.monotonic
    if let last = warnedAt[key], now.milliseconds(since: last) < ExpansionRunner.warnMilliseconds { return }
    if warnedAt.count >= ExpansionRunner.warnedMaximum { warnedAt = [:] }
    warnedAt[key] = now
    notice(.warning, "activities of \(scope): \(warning.text)")
  }

  struct Warned: Hashable {
    let warning: ActivityWarning
    let scope: AppScope
  }
}

/// The result of an activity's job of which nothing is sent.
enum ActivityJobEnd {
  /// A newer job, or the activity's end, came before this one was sent. `number`: its revision.
  case superseded(number: UInt32)
  /// The outcome's detail.
  case invalid(String)

  init?(_ text: String) {
    if text.hasPrefix("invalid ") {
      self = .invalid(String(text.dropFirst("invalid ".count)))
    } else if text.hasPrefix("superseded "), let number = UInt32(text.dropFirst("superseded ".count)) {
      self = .superseded(number: number)
    } else {
      return nil
    }
  }

  /// For people.
  var detail: String {
    switch self {
    case .superseded: "throttled: a newer job of its activity, or the activity's end, came before it was sent"
    case .invalid(let detail): "invalid: \(detail)"
    }
  }

  /// As it is stored.
  var text: String {
    switch self {
    case .superseded(let number): "superseded \(number)"
    case .invalid(let detail): "invalid \(detail)"
    }
  }
}
