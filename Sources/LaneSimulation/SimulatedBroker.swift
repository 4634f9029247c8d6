import Foundation
package import PushCore
package import PushLane

/// One worker's connection to the simulated broker.
package struct SimulatedBroker: Broker {
  private enum Confirm {
    case confirmed, refused
  }

  private enum Settling {
    case upTo, one, requeued, rejected
  }

  package let world: SimulatedWorld
  private let prefetch: Int
  private var events: [BrokerEvent] = []
  private var isConsuming = false
  private var isPublishing = false
  private var isBlocked = false
  private var isStopped = false
  private var blockedUntil: Int64 = 0
  /// Every publish is refused until then: a full queue.
  private var fullUntil: Int64 = 0
  private var reopensAt: Int64 = 0
  /// No consumer is lost at random until then.
  private var quietUntil: Int64 = 0
  /// When consumers that came back are lost again.
  private var losses: [Int64] = []
  private var epoch: UInt32 = 0
  private var nextTag: [UInt64] = [1, 1]
  private var nextIsolatedTag: UInt64 = 1
  /// Deliveries of this worker's consumers, by class and tag.
  private var unacknowledged: [[UInt64: Message]] = [[:], [:]]
  private var isolated: (tag: UInt64, message: Message)?
  /// Settlements in flight to the broker: lost with the consumer's connection.
  private var settlings: [(at: Int64, tag: DeliveryTag, kind: Settling)] = []
  private var current: Message?
  private var sequence: UInt64 = 0
  /// The last number assigned.
  package var lastSequence: UInt64 {
    get { sequence }
    set { sequence = newValue }
  }
  /// Publishes whose confirm is in flight.
  private var confirms: [(at: Int64, sequence: UInt64, confirm: Confirm, targets: [Target])] = []
  private var server: BrokerServer { world.broker }

  package init(world: SimulatedWorld) {
    self.world = world
    prefetch = world.settings.prefetch / 2
    open()
  }

  package var canPublish: Bool { isPublishing && !isBlocked }

  /// When the next event is due.
  package var nextDue: Int64 {
    if isConsuming, !isStopped, hasNext { return world.milliseconds }
    if !events.isEmpty { return world.milliseconds }
    var due = min(server.nextDue(), confirms.reduce(.max) { min($0, $1.at) })
    if let first = settlings.first { due = min(due, first.at) }
    if let loss = losses.first { due = min(due, loss) }
    if !isPublishing || !isConsuming && !isBlocked { due = min(due, reopensAt) }
    return isBlocked ? min(due, blockedUntil) : due
  }

  private var hasNext: Bool { !server.isIsolatedGiven && !server.isolated.isEmpty || nextReady != nil }

  /// The first message whose class has credit; searched only if exactly one class has credit.
  private var nextReady: Int? {
    let (first, second) = (unacknowledged[0].count < prefetch, unacknowledged[1].count < prefetch)
    if first, second { return server.ready.isEmpty ? nil : 0 }
    guard first || second else { return nil }
    let jobClass: JobClass = first ? .transactional : .bulk
    return server.ready.firstIndex { $0.jobClass == jobClass }
  }

  /// Handles due events: connections break and come back, alarms begin and end.
  package mutating func step() {
    let now = world.milliseconds
    settle(until: now)
    if let loss = losses.first, now >= loss {
      losses.removeFirst()
      if isConsuming { loseConsumer() }
    }
    let isQuiet = now >= quietUntil
    if isConsuming, isQuiet, world.chance(world.faults.consumerLost) { loseConsumer() }
    if isConsuming, isQuiet, world.chance(world.faults.consumersComeAndGo) {
      quietUntil = now + 2_000
      world.apns.slowUntil = max(world.apns.slowUntil, now + 10_000)
      losses = [now + 300, now + 700, now + 1100, now + 1500].map { $0 + Int64(world.pick(300)) }
    }
    if isPublishing, world.chance(world.faults.publisherLost) { losePublisher() }
    if !isBlocked, world.chance(world.faults.brokerBlocked) {
      isBlocked = true
      blockedUntil = now + 500
      events.append(.blocked)
    }
    if world.chance(world.faults.queueFull) { fullUntil = now + 300 }
    if isBlocked, now >= blockedUntil {
      isBlocked = false
      events.append(.unblocked)
    }
    if now >= reopensAt { open() }
    server.release(world)
  }

  private mutating func open() {
    if !isPublishing {
      isPublishing = true
      events.append(.publishing)
    }
    if !isConsuming, !isStopped, canPublish {
      isConsuming = true
      server.epoch += 1
      epoch = server.epoch
      nextTag = [1, 1]
      nextIsolatedTag = 1
      events.append(.consuming(epoch: epoch))
    }
  }

  private mutating func loseConsumer() {
    isConsuming = false
    reopensAt = world.milliseconds + 50
    giveBack()
    events.append(.consumingStopped)
  }

  /// All unsettled messages return to the broker.
  private mutating func giveBack() {
    settlings = []
    for index in unacknowledged.indices {
      for message in unacknowledged[index].sorted(by: { $0.key > $1.key }).map(\.value) {
        server.takeBack(message, world.auditor)
      }
      unacknowledged[index] = [:]
    }
    if let isolated {
      server.isIsolatedGiven = false
      server.takeBack(isolated.message, world.auditor)
    }
    isolated = nil
    current = nil
  }

  private mutating func losePublisher() {
    isPublishing = false
    reopensAt = world.milliseconds + 50
    forgetConfirms()
    events.append(.publishingStopped)
  }

  /// Drops all confirms: the broker keeps the messages, and all of them may be published again.
  private mutating func forgetConfirms() {
    for target in confirms.flatMap(\.targets) { world.auditor.excuse(target) }
    confirms = []
  }

  package mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !events.isEmpty { return events.removeFirst() }
    let now = world.milliseconds
    if let index = confirms.firstIndex(where: { $0.at <= now }) {
      let due = confirms.remove(at: index)
      switch due.confirm {
      case .confirmed:
        if !confirms.contains(where: { $0.sequence < due.sequence }), world.chance(500) {
          return .confirmed(1...due.sequence)
        }
        return .confirmed(due.sequence...due.sequence)
      case .refused:
        return .refused(due.sequence...due.sequence)
      }
    }
    guard takesDeliveries, isConsuming, !isStopped else { return nil }
    if !server.isIsolatedGiven, let message = server.isolated.first {
      server.isolated.removeFirst()
      server.isIsolatedGiven = true
      server.unacknowledgedCount += 1
      isolated = (nextIsolatedTag, message)
      nextIsolatedTag += 1
      return delivery(
        message, DeliveryTag(epoch: epoch, jobClass: .transactional, value: nextIsolatedTag - 1, isIsolated: true))
    }
    guard let next = nextReady else { return nil }
    let message = server.ready.remove(at: next)
    let jobClass = Int(message.jobClass.rawValue)
    let tag = nextTag[jobClass]
    nextTag[jobClass] += 1
    unacknowledged[jobClass][tag] = message
    server.unacknowledgedCount += 1
    return delivery(message, DeliveryTag(epoch: epoch, jobClass: message.jobClass, value: tag))
  }

  private mutating func delivery(_ message: Message, _ tag: DeliveryTag) -> BrokerEvent {
    current = message
    return .delivery(Delivery(tag: tag, bodyCount: message.body.count, isOversized: false))
  }

  package mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    guard let message = current else { return }
    metadata.reset()
    job.bytes = message.body
    job.bodyCount = message.body.count
    metadata.enqueuedAt = message.enqueuedAt
    metadata.deliveryCount = message.deliveryCount
    metadata.carriedDeliveries = message.carriedDeliveries
    metadata.firstSeen = message.firstSeen
    metadata.isSeenLate = message.isSeenLate
    metadata.isAmbiguous = message.isAmbiguous
    metadata.apnsID = message.apnsID
    metadata.claim = message.claim
    if message.isIsolated { metadata.jobClass = message.jobClass }
    guard let state = message.state else { return }
    metadata.attempts = state.attempts
    metadata.firstSeen = state.firstSeen
    metadata.claim = state.claim
    metadata.redeliveries = state.redeliveries
    metadata.isAmbiguous = state.isAmbiguous
    metadata.apnsID = state.apnsID
  }

  package mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let target = outcomeTarget(body)
    let published = PublishedOutcome(
      outcome: field("outcome", body), apnsID: field("apns_id", body), isAmbiguous: has("\"ambiguous\":true", body),
      isSuppressed: has("\"suppressed\":true", body))
    return publish([target]) { world in world.auditor.brokerKept(published, of: target) }
  }

  package mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let targets = targets(body)
    var message = Message(
      body: body, state: state, jobClass: jobClass, targets: targets, enqueuedAt: metadata.enqueuedAt,
      carriedDeliveries: metadata.carriedDeliveries)
    message.isSeenLate = metadata.isSeenLate
    if let reason = state.reason, reason == .serviceUnavailable || reason == .internalServerError {
      for target in targets {
        world.auditor.retried(
          target, attempts: Int(state.attempts), delaySeconds: delaySeconds,
          delays: world.settings.retry.delaysSeconds, now: world.now.unixMilliseconds)
      }
    }
    return publish(targets) { world in
      for target in targets { world.auditor.brokerKeptCopy(of: target) }
      world.broker.delayed.append((world.milliseconds + Int64(delaySeconds) * 1000, message))
    }
  }

  package mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let targets = targets(body)
    let state = metadata.apnsID.map {
      RetryState(
        attempts: metadata.attempts, firstSeen: firstSeen, claim: metadata.claim,
        isAmbiguous: metadata.isAmbiguous, apnsID: $0, reason: nil)
    }
    var message = Message(
      body: body, state: state, jobClass: jobClass, targets: targets, enqueuedAt: metadata.enqueuedAt,
      firstSeen: firstSeen, carriedDeliveries: metadata.carriedDeliveries, isIsolated: true,
      isAmbiguous: metadata.isAmbiguous)
    message.isSeenLate = metadata.isSeenLate
    return publish(targets) { world in
      for target in targets { world.auditor.brokerKeptCopy(of: target) }
      world.broker.isolated.append(message)
      world.broker.isolatedCopies += 1
    }
  }

  package mutating func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64 {
    let (page, ends) = ("\(field("settles", body))/\(number("page", body))", field("ends", body))
    let position = number("position", body)
    return publish([]) { world in world.auditor.brokerKeptSettlement(ofPage: page, position: position, ends: ends) }
  }

  package mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let job = field("id", body)
    let targets = targets(body)
    var message = Message(
      body: body, state: nil, jobClass: jobClass, targets: targets, enqueuedAt: metadata.enqueuedAt,
      isAmbiguous: metadata.isAmbiguous)
    message.apnsID = apnsID
    message.claim = metadata.claim
    return publish(targets) { world in
      world.auditor.brokerKeptDeadLetter(job: job)
      world.broker.deadLetters.append(message)
    }
  }

  /// Keeps or refuses the publish, and reports it a little later. A refused or unconfirmed publish may be repeated.
  private mutating func publish(_ targets: [Target], _ keep: (SimulatedWorld) -> Void) -> UInt64 {
    sequence += 1
    guard isPublishing, !world.isDying else { return sequence }
    var at = world.milliseconds + Int64(world.pick(30))
    if world.chance(world.faults.confirmLate) { at += Int64(world.pick(3000)) }
    if world.milliseconds < fullUntil || world.chance(world.faults.publishRefused) {
      // A refusal may come even though another queue took the message.
      if world.chance(300) {
        keep(world)
        for target in targets { world.auditor.excuse(target) }
      }
      for target in targets { world.auditor.brokerRefused(target) }
      confirms.append((at, sequence, .refused, targets))
    } else {
      keep(world)
      confirms.append((at, sequence, .confirmed, targets))
    }
    return sequence
  }

  // MARK: - Settled deliveries

  package mutating func acknowledge(upTo tag: DeliveryTag) { settled(tag, .upTo) }

  package mutating func acknowledge(one tag: DeliveryTag) { settled(tag, .one) }

  package mutating func reject(_ tag: DeliveryTag, requeue: Bool) { settled(tag, requeue ? .requeued : .rejected) }

  private mutating func settled(_ tag: DeliveryTag, _ kind: Settling) {
    guard !world.isDying else { return }
    guard tag.epoch == epoch else {
      world.auditor.misnamedDelivery("acknowledged a tag of an old channel: \(tag)")
      return
    }
    guard isConsuming else { return }
    var at = world.milliseconds
    if world.chance(world.faults.acknowledgementLate) { at += Int64(world.pick(40)) }
    settlings.append((max(at, settlings.last?.at ?? 0), tag, kind))
    settle(until: world.milliseconds)
  }

  /// What arrived at the broker, in order.
  private mutating func settle(until now: Int64) {
    while let next = settlings.first, next.at <= now {
      settlings.removeFirst()
      if next.kind == .upTo { settle(upTo: next.tag) } else { settle(next.tag, next.kind) }
    }
  }

  private mutating func settle(upTo tag: DeliveryTag) {
    let index = Int(tag.jobClass.rawValue)
    if unacknowledged[index][tag.value] == nil {
      world.auditor.misnamedDelivery("acknowledged an unknown tag: \(tag)")
    }
    for (value, message) in unacknowledged[index] where value <= tag.value {
      world.auditor.acknowledged(message.targets)
      unacknowledged[index][value] = nil
      server.unacknowledgedCount -= 1
    }
  }

  private mutating func settle(_ tag: DeliveryTag, _ kind: Settling) {
    var taken: Message?
    if !tag.isIsolated {
      taken = unacknowledged[Int(tag.jobClass.rawValue)].removeValue(forKey: tag.value)
    } else if let isolated, isolated.tag == tag.value {
      taken = isolated.message
      self.isolated = nil
      server.isIsolatedGiven = false
    }
    guard let message = taken else {
      world.auditor.misnamedDelivery("settled an unknown tag: \(tag)")
      return
    }
    switch kind {
    case .upTo, .one:
      server.unacknowledgedCount -= 1
      world.auditor.acknowledged(message.targets)
    case .requeued:
      server.takeBack(message, world.auditor)
    case .rejected:
      server.unacknowledgedCount -= 1
      world.auditor.brokerMoved(message.targets, job: field("id", message.body))
      server.deadLetters.append(message.asDeadLetter)
    }
  }

  package mutating func stopConsuming() {
    isStopped = true
  }

  /// The worker died.
  package mutating func die() {
    giveBack()
    forgetConfirms()
  }
}
