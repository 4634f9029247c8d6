import Foundation
package import PushCore
package import PushWorker

/// What a broker keeps while workers come and go.
package final class BrokerServer {
  package var ready: [Message] = []
  package var delayed: [(dueAt: Int64, message: Message)] = []
  /// Of the living consumer, by class and tag.
  package var unacknowledged: [[UInt64: Message]] = [[:], [:]]
  /// Jobs that were put aside; of them one at a time is given, to one worker.
  package var suspects: [Message] = []
  package var suspectUnacknowledged: [UInt64: Message] = [:]
  /// What the queue of dead letters holds.
  package var deadLetters: [Message] = []
  /// Targets of retry copies that came twice.
  package private(set) var handedOnTwice: Set<Target> = []
  /// How often a copy of a target came twice. Brokers are restarted now and then, not under every copy.
  private var doubles: [Target: Int] = [:]
  private static let doublesMaximum = 4
  package var epoch: UInt32 = 0

  /// What a real broker is told as x-delivery-limit.
  package static let deliveryLimit: UInt32 = 20

  package var isEmpty: Bool {
    ready.isEmpty && delayed.isEmpty && unacknowledged.allSatisfy(\.isEmpty) && suspects.isEmpty
      && suspectUnacknowledged.isEmpty
  }

  /// The consumer is gone: what it did not acknowledge is delivered again, which may repeat sends and outcomes.
  package func takeBack(_ auditor: Auditor) {
    for index in unacknowledged.indices {
      for message in unacknowledged[index].sorted(by: { $0.key < $1.key }).map(\.value) {
        takeBack(message, auditor)
      }
      unacknowledged[index] = [:]
    }
    for message in suspectUnacknowledged.values { takeBack(message, auditor) }
    suspectUnacknowledged = [:]
  }

  private func takeBack(_ message: Message, _ auditor: Auditor) {
    for target in message.targets { auditor.excuse(target) }
    var message = message
    message.deliveryCount += 1
    if message.deliveryCount > BrokerServer.deliveryLimit {
      auditor.brokerGaveUp(message.targets)
    } else if message.isAlone {
      suspects.insert(message, at: 0)
    } else {
      ready.insert(message, at: 0)
    }
  }

  /// An operator replays every dead letter: fresh copies with their ids, and with what is not known of earlier attempts.
  package func replayDeadLetters(_ auditor: Auditor) {
    for message in deadLetters {
      for target in message.targets { auditor.replayed(target) }
      ready.append(message)
    }
    deadLetters = []
  }

  /// Copies whose delay is over are jobs again. A retry queue that restarts, or moves, may not know any more that the queue
  /// of jobs has a copy, and hands it on once more, with nothing that tells the two apart.
  package func releaseDelayed(_ world: SimulatedWorld) {
    let now = world.milliseconds
    for (dueAt, message) in delayed where dueAt <= now {
      ready.append(message)
      let isSpent = message.targets.contains { doubles[$0, default: 0] == BrokerServer.doublesMaximum }
      guard world.chance(world.faults.handedOnTwice), !isSpent else { continue }
      for target in message.targets {
        world.auditor.excuse(target)
        doubles[target, default: 0] += 1
      }
      handedOnTwice.formUnion(message.targets)
      ready.insert(message, at: world.pick(ready.count))
    }
    delayed.removeAll { $0.dueAt <= now }
  }
}

/// One worker's connection to the simulated broker.
package struct SimulatedBroker: Broker {
  private enum Confirm {
    case confirmed, refused
  }

  package let world: SimulatedWorld
  private let prefetch = 20
  private var events: [BrokerEvent] = []
  private var isConsuming = false
  private var isPublishing = false
  private var isBlocked = false
  private var isStopped = false
  private var blockedUntil: Int64 = 0
  /// Every publish is refused until then: a queue that may not grow.
  private var fullUntil: Int64 = 0
  private var reopensAt: Int64 = 0
  private var nextTag: [UInt64] = [1, 1]
  private var nextSuspectTag: UInt64 = 1
  private var current: Message?
  private var sequence: UInt64 = 0
  /// The number given last.
  package var lastSequence: UInt64 {
    get { sequence }
    set { sequence = newValue }
  }
  /// Publishes whose confirm is on its way.
  private var confirms: [(at: Int64, sequence: UInt64, confirm: Confirm, targets: [Target])] = []
  private var server: BrokerServer { world.broker }

  package init(world: SimulatedWorld) {
    self.world = world
    open()
  }

  package var canPublish: Bool { isPublishing && !isBlocked }

  /// Time passed: connections break and come back, alarms begin and end.
  package mutating func step() {
    let now = world.milliseconds
    if isConsuming, world.chance(world.faults.consumerLost) { loseConsumer() }
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
    server.releaseDelayed(world)
  }

  private mutating func open() {
    if !isConsuming, !isStopped {
      isConsuming = true
      server.epoch += 1
      nextTag = [1, 1]
      nextSuspectTag = 1
      events.append(.consuming(epoch: server.epoch))
    }
    if !isPublishing {
      isPublishing = true
      events.append(.publishing)
    }
  }

  private mutating func loseConsumer() {
    isConsuming = false
    reopensAt = world.milliseconds + 50
    server.takeBack(world.auditor)
    events.append(.consumingStopped)
  }

  private mutating func losePublisher() {
    isPublishing = false
    reopensAt = world.milliseconds + 50
    forgetConfirms()
    events.append(.publishingStopped)
  }

  /// The broker kept what it kept, but nobody is told: it may all be told again.
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
          return .confirmed(sequence: due.sequence, isMultiple: true)
        }
        return .confirmed(sequence: due.sequence, isMultiple: false)
      case .refused:
        return .refused(sequence: due.sequence, isMultiple: false)
      }
    }
    guard takesDeliveries, isConsuming, !isStopped else { return nil }
    if let message = server.suspects.first, server.suspectUnacknowledged.isEmpty {
      server.suspects.removeFirst()
      server.suspectUnacknowledged[nextSuspectTag] = message
      nextSuspectTag += 1
      current = message
      return .delivery(
        Delivery(
          tag: DeliveryTag(epoch: server.epoch, jobClass: .transactional, value: nextSuspectTag - 1, isAlone: true),
          bodyCount: message.body.count, isOversized: false))
    }
    guard let message = server.ready.first else { return nil }
    let jobClass = Int(message.jobClass.rawValue)
    guard server.unacknowledged[jobClass].count < prefetch else { return nil }
    server.ready.removeFirst()
    let tag = nextTag[jobClass]
    nextTag[jobClass] += 1
    server.unacknowledged[jobClass][tag] = message
    current = message
    return .delivery(
      Delivery(
        tag: DeliveryTag(epoch: server.epoch, jobClass: message.jobClass, value: tag), bodyCount: message.body.count,
        isOversized: false))
  }

  package mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    guard let message = current else { return }
    metadata.reset()
    job.bytes = message.body
    job.bodyCount = message.body.count
    metadata.deliveryCount = message.deliveryCount
    metadata.carriedDeliveries = message.carriedDeliveries
    metadata.firstSeen = message.firstSeen
    metadata.isAmbiguous = message.isAmbiguous
    metadata.apnsID = message.apnsID
    metadata.claim = message.claim
    if message.isAlone { metadata.jobClass = message.jobClass }
    guard let state = message.state else { return }
    metadata.attempts = state.attempts
    metadata.firstSeen = state.firstSeen
    metadata.claim = state.claim
    metadata.isAmbiguous = state.isAmbiguous
    metadata.apnsID = state.apnsID
  }

  package mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let target = Target(job: field("job_id", body), token: field("token", body))
    let isAmbiguous = Data(body).range(of: Data("\"ambiguous\":true".utf8)) != nil
    return publish([target]) { world in
      world.auditor.brokerKeptOutcome(field("outcome", body), of: target, isAmbiguous: isAmbiguous)
    }
  }

  package mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let target = Target(job: field("id", body), token: field("token", body))
    let message = Message(
      body: body, state: state, jobClass: jobClass, targets: [target],
      carriedDeliveries: metadata.carriedDeliveries)
    return publish([target]) { world in
      world.auditor.brokerKeptCopy(of: target)
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
    let message = Message(
      body: body, state: state, jobClass: jobClass, targets: targets, firstSeen: firstSeen,
      carriedDeliveries: metadata.carriedDeliveries, isAlone: true, isAmbiguous: metadata.isAmbiguous)
    return publish(targets) { world in
      for target in targets { world.auditor.brokerKeptCopy(of: target) }
      world.broker.suspects.append(message)
    }
  }

  package mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let job = field("id", body)
    let targets = targets(body)
    var message = Message(
      body: body, state: nil, jobClass: jobClass, targets: targets, isAmbiguous: metadata.isAmbiguous)
    message.apnsID = apnsID
    message.claim = metadata.claim
    return publish(targets, isPartOfEnding: true) { world in
      world.auditor.brokerKeptDeadLetter(job: job)
      world.broker.deadLetters.append(message)
    }
  }

  /// Keeps the publish or refuses it, and says so a little later. What is refused, or never confirmed, may be told again.
  /// - Parameter isPartOfEnding: where it is refused, what was told beside it is told again too.
  private mutating func publish(
    _ targets: [Target], isPartOfEnding: Bool = false, _ keep: (SimulatedWorld) -> Void
  ) -> UInt64 {
    sequence += 1
    guard isPublishing, !world.isDying else { return sequence }
    let at = world.milliseconds + Int64(world.pick(30))
    if world.milliseconds < fullUntil || world.chance(world.faults.publishRefused) {
      // A refusal may come for what was routed to another queue all the same.
      if world.chance(300) {
        keep(world)
        for target in targets { world.auditor.excuse(target) }
      } else if isPartOfEnding {
        for target in targets { world.auditor.excuse(target) }
      }
      confirms.append((at, sequence, .refused, targets))
    } else {
      keep(world)
      confirms.append((at, sequence, .confirmed, targets))
    }
    return sequence
  }

  package mutating func acknowledge(upTo tag: DeliveryTag) {
    guard !world.isDying else { return }
    guard tag.epoch == server.epoch, isConsuming else {
      if tag.epoch != server.epoch { world.auditor.misnamedDelivery("acknowledged a tag of an old channel: \(tag)") }
      return
    }
    let index = Int(tag.jobClass.rawValue)
    if server.unacknowledged[index][tag.value] == nil {
      world.auditor.misnamedDelivery("acknowledged an unknown tag: \(tag)")
    }
    for (value, message) in server.unacknowledged[index] where value <= tag.value {
      world.auditor.acknowledged(message.targets)
      server.unacknowledged[index][value] = nil
    }
  }

  package mutating func acknowledge(alone tag: DeliveryTag) {
    guard !world.isDying else { return }
    guard tag.epoch == server.epoch, isConsuming else {
      if tag.epoch != server.epoch { world.auditor.misnamedDelivery("acknowledged a tag of an old channel: \(tag)") }
      return
    }
    let index = Int(tag.jobClass.rawValue)
    let message =
      tag.isAlone
      ? server.suspectUnacknowledged.removeValue(forKey: tag.value)
      : server.unacknowledged[index].removeValue(forKey: tag.value)
    if let message {
      world.auditor.acknowledged(message.targets)
    } else {
      world.auditor.misnamedDelivery("acknowledged an unknown tag: \(tag)")
    }
  }

  package mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
    guard tag.epoch == server.epoch, isConsuming, !world.isDying else { return }
    let index = Int(tag.jobClass.rawValue)
    let taken =
      tag.isAlone
      ? server.suspectUnacknowledged.removeValue(forKey: tag.value)
      : server.unacknowledged[index].removeValue(forKey: tag.value)
    guard var message = taken else {
      world.auditor.misnamedDelivery("rejected an unknown tag: \(tag)")
      return
    }
    for target in message.targets { world.auditor.excuse(target) }
    message.deliveryCount += 1
    if message.isAlone { server.suspects.append(message) } else { server.ready.append(message) }
  }

  package mutating func stopConsuming() {
    isStopped = true
  }

  /// The worker is gone without a word.
  package mutating func die() {
    server.takeBack(world.auditor)
    forgetConfirms()
  }
}

/// The value of a string field in JSON that this world wrote or a lane rewrote: enough for an auditor, and not the lane's
/// own parser. Foundation looks for the bytes: its loops are fast in debug builds too, which play hundreds of runs.
private func field(_ name: String, _ body: [UInt8]) -> String {
  let body = Data(body)
  guard let start = body.range(of: Data("\"\(name)\":\"".utf8))?.upperBound else { return "" }
  return text(from: start, in: body)
}

/// What a job of this world is for.
private func targets(_ body: [UInt8]) -> [Target] {
  let job = field("id", body)
  let token = field("token", body)
  return (token.isEmpty ? elements("tokens", body) : [token]).map { Target(job: job, token: $0) }
}

/// The strings of an array field.
private func elements(_ name: String, _ body: [UInt8]) -> [String] {
  let body = Data(body)
  guard let start = body.range(of: Data("\"\(name)\":[".utf8))?.upperBound,
    let end = body.range(of: Data("]".utf8), in: start..<body.endIndex)?.lowerBound
  else { return [] }
  var strings: [String] = []
  var position = start
  while let next = body.range(of: Data("\"".utf8), in: position..<end)?.upperBound {
    strings.append(text(from: next, in: body))
    position = next + strings[strings.count - 1].utf8.count + 1
  }
  return strings
}

private func text(from start: Int, in body: Data) -> String {
  let end = body.range(of: Data("\"".utf8), in: start..<body.endIndex)?.lowerBound ?? body.endIndex
  return String(decoding: body[start..<end], as: UTF8.self)
}
