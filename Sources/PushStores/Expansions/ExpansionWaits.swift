import Logging
import PushCore
import PushIO
import PushLane

/// Messages that wait for Redis, or for open pages, and messages that several deliveries did not finish.
extension ExpansionRunner {
  /// After this many unfinished deliveries, a copy replaces a message: the broker moves one that reaches its own limit
  /// (`Topology.deliveryLimit`) to the dead letters, without an outcome.
  private static let copiedDeliveries: UInt32 = 10
  /// After this many in all, it is given up: it may be what ends workers.
  private static let deliveriesMaximum: UInt32 = 50

  func isGivenUp(_ delivery: ExpansionDelivery) -> Bool {
    delivery.unfinishedDeliveries >= ExpansionRunner.deliveriesMaximum
  }

  private func reason(_ delivery: ExpansionDelivery) -> String {
    "given up: \(delivery.unfinishedDeliveries) deliveries were not finished"
  }

  /// Replaces a message that several deliveries did not finish by a copy. false: it is processed.
  func replace(_ delivery: ExpansionDelivery) -> Bool {
    let metadata = delivery.metadata
    guard metadata.deliveryCount >= ExpansionRunner.copiedDeliveries, !isGivenUp(delivery) else { return false }
    counters.replaced += 1
    // Different delays part one that ends workers from the others that they held.
    let delays = Topology.expansionDelaysSeconds
    let place = (delivery.tag &+ UInt64(delivery.unfinishedDeliveries)) % UInt64(delays.count)
    let target = Publish.Target.retry(seconds: delays[Int(place)], deliveries: delivery.unfinishedDeliveries)
    delivery.publish([Publish(target: target, body: delivery.body, metadata: metadata)]) { delivery.finish() }
    return true
  }

  /// Its page stays open: the dead letter can be replayed.
  func giveUp(settlement delivery: ExpansionDelivery) {
    giveUp(settlement: delivery, because: reason(delivery), advice: "see why workers end")
  }

  func giveUp(settlement delivery: ExpansionDelivery, because why: String, advice: String) {
    counters.givenUp += 1
    notice(
      .error,
      "a report about the devices of a page is now a dead letter: \(why); \(advice), then replay the dead letter")
    let letter = Publish.Target.deadLetter(reason: "failed", detail: why)
    delivery.publish([Publish(target: letter, body: delivery.body, metadata: delivery.metadata)]) { delivery.finish() }
  }

  /// No more devices are looked up. The job ends early, with those that it has; without any it fails, and its dead letter can be replayed.
  func giveUp(_ delivery: ExpansionDelivery, _ step: Step) {
    counters.givenUp += 1
    notice(
      .error, "the job \(step.id) for an audience is \(reason(delivery)); see why workers end, and its outcome")
    guard step.cursor.step == 0 else { return endEarly(delivery, step, because: reason(delivery)) }
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    refuseJob(delivery, job, reason(delivery), as: .failed, stored: nil)
    end(step.job)
  }

  /// The job ends with the devices that it has.
  func endEarly(_ delivery: ExpansionDelivery, _ step: Step, because why: String) {
    store.endEarly(step.job, because: why) { [self] result in
      guard !delivery.isGone else { return }
      if case .failure(let failure) = result { return again(delivery, step, failure.text) }
      fix(delivery, step, Parts(generation: devices.generation), next: nil, given: delivery.ordinal)
    }
  }

  // MARK: shares

  /// Begins the message, or lets it wait until its app has room in its share.
  func enter(_ delivery: ExpansionDelivery) {
    var job = PushJob()
    // Else it is refused.
    if let step = try? read(delivery, into: &job) {
      let app = ByteText(step.scope.app)
      guard shares[Int(delivery.queue.rawValue)].enter(delivery, of: app, now: loop.now.monotonic) else { return }
      delivery.app = app
    }
    begin(delivery)
  }

  /// It is acknowledged, and its share free.
  func finished(_ delivery: ExpansionDelivery) {
    guard let app = delivery.app else { return }
    let queue = Int(delivery.queue.rawValue)
    shares[queue].leave(app)
    while let (next, app) = shares[queue].next() {
      next.app = app
      begin(next)
    }
  }

  /// Puts off what exceeds an app's share.
  func putOffExcess() {
    let excess = shares.indices.flatMap { shares[$0].takeExcess(now: loop.now.monotonic) }
    for (delivery, _, slowMilliseconds) in excess {
      counters.waitsForShare += 1
      let seconds = FairShareLimits.delaySeconds(
        slowMilliseconds: slowMilliseconds, of: Topology.expansionDelaysSeconds, random: random.next())
      wait(delivery, seconds: seconds)
    }
  }

  /// An outcome is refused, and more wait for that than may: the message comes back later, and tells it then.
  func waitForOutcome(_ delivery: ExpansionDelivery) {
    wait(delivery, seconds: ExpansionRunner.delay(waited: loop.now.unixMilliseconds - delivery.firstSeen))
  }

  // MARK: Redis

  /// Redis did not answer: the message is retried, and nothing is lost.
  func waitForRedis(_ delivery: ExpansionDelivery, _ text: String) {
    counters.waitsForRedis += 1
    notice(.warning, "redis: \(text); audiences wait")
    wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
  }

  /// Redis did not answer about a step, which comes again.
  func again(_ delivery: ExpansionDelivery, _ step: Step, _ text: String) {
    waitForRedis(delivery, text)
    end(step.job)
  }

  /// What the step needs could not be read, and nothing of it is published. It is retried, but not for ever: what is wrong may be wrong for good, such as another program's
  /// value in a key. The job may be older than its maximum age, because it was paused: what counts is since when nothing could be read. And
  /// a job that expires while Redis is silent waits for it like all others: else its outcome would lack the devices that were not found.
  func later(_ delivery: ExpansionDelivery, _ step: Step, _ failure: ReadingFailure) {
    let now = loop.now
    let isExpired = settings.retry.isExpired(
      enqueuedAt: now.unixMilliseconds, expiration: step.expiration, now: now)
    let since = unreadable.since(step, now: now.monotonic)
    let isLong = now.monotonic.milliseconds(since: since) >= settings.retry.ageMaximumSeconds * 1_000
    guard isLong || isExpired && failure.isUnreadable else { return again(delivery, step, failure.text) }
    unreadable.forget(step)
    let why = "\(isExpired ? "the job expired while " : "")its devices could not be read: \(failure.text)"
    notice(.error, "the job \(step.id) for an audience: \(why)")
    guard step.cursor.step == 0 else { return endEarly(delivery, step, because: why) }
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    refuseJob(delivery, job, "to.\(job.targetKind): \(why)", as: isExpired ? .expired : .failed, stored: step.job)
  }

  /// Replaces the message by a copy that returns later.
  func wait(_ delivery: ExpansionDelivery, seconds: Int) {
    delivery.publish([Publish(target: .retry(seconds: seconds), body: delivery.body, metadata: delivery.metadata)]) {
      delivery.finish()
    }
  }

  /// Grows with the time it has waited: a command is noticed soon if it is expected soon.
  static func delay(waited milliseconds: Int64) -> Int {
    let delays = Topology.expansionDelaysSeconds
    return delays.last { Int64($0) * 4000 <= milliseconds } ?? delays[0]
  }

  /// A step waits no longer for open pages: where Redis failed over and lost their ends, they are open for ever, and the devices of later
  /// steps would be missed.
  private static let fullMilliseconds: Int64 = 600_000

  /// From this number of open pages on the step waits.
  func openMaximum(_ step: Step) -> Int {
    guard let since = full[step], loop.now.monotonic.milliseconds(since: since) >= ExpansionRunner.fullMilliseconds
    else { return settings.openPagesMaximum }
    return .max
  }

  /// Since when steps wait for something, one of each job.
  struct StepTimes {
    /// More are forgotten, and wait anew.
    private static let countMaximum = 1_000

    private var times: [AudienceID: (step: UInt32, since: Instant)] = [:]

    subscript(step: Step) -> Instant? {
      guard let known = times[step.job], known.step == step.cursor.step else { return nil }
      return known.since
    }

    /// The first call notes the time.
    @discardableResult
    mutating func since(_ step: Step, now: Instant) -> Instant {
      if let known = self[step] { return known }
      if times.count >= StepTimes.countMaximum { times = [:] }
      times[step.job] = (step.cursor.step, now)
      return now
    }

    mutating func forget(_ step: Step) { times.removeValue(forKey: step.job) }
  }
}
