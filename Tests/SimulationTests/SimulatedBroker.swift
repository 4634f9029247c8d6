import PushCore
import PushWorker

/// What a broker keeps while workers come and go.
final class BrokerServer {
  var ready: [Message] = []
  var delayed: [(dueAt: Int64, message: Message)] = []
  /// Of the living consumer, by class and tag.
  var unacknowledged: [[UInt64: Message]] = [[:], [:]]
  /// Jobs that were put aside; of them one at a time is given, to one worker.
  var suspects: [Message] = []
  var suspectUnacknowledged: [UInt64: Message] = [:]
  var epoch: UInt32 = 0

  /// What a real broker is told as x-delivery-limit.
  static let deliveryLimit: UInt32 = 20

  var isEmpty: Bool {
    ready.isEmpty && delayed.isEmpty && unacknowledged.allSatisfy(\.isEmpty) && suspects.isEmpty
      && suspectUnacknowledged.isEmpty
  }

  /// The consumer is gone: what it did not acknowledge is delivered again, which may repeat sends and outcomes.
  func takeBack(_ auditor: Auditor) {
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

  func releaseDelayed(_ now: Int64) {
    ready.append(contentsOf: delayed.filter { $0.dueAt <= now }.map(\.message))
    delayed.removeAll { $0.dueAt <= now }
  }
}

/// One worker's connection to the simulated broker.
struct SimulatedBroker: Broker {
  private enum Confirm {
    case confirmed, refused
  }

  let world: SimulatedWorld
  private let prefetch = 20
  private var events: [BrokerEvent] = []
  private var isConsuming = false
  private var isPublishing = false
  private var isBlocked = false
  private var isStopped = false
  private var blockedUntil: Int64 = 0
  private var reopensAt: Int64 = 0
  private var nextTag: [UInt64] = [1, 1]
  private var nextSuspectTag: UInt64 = 1
  private var current: Message?
  private var sequence: UInt64 = 0
  /// The number given last.
  var lastSequence: UInt64 {
    get { sequence }
    set { sequence = newValue }
  }
  /// Publishes whose confirm is on its way.
  private var confirms: [(at: Int64, sequence: UInt64, confirm: Confirm, targets: [Target])] = []
  private var server: BrokerServer { world.broker }

  init(world: SimulatedWorld) {
    self.world = world
    open()
  }

  var canPublish: Bool { isPublishing && !isBlocked }

  /// Time passed: connections break and come back, alarms begin and end.
  mutating func step() {
    let now = world.milliseconds
    if isConsuming, world.chance(world.faults.consumerLost) { loseConsumer() }
    if isPublishing, world.chance(world.faults.publisherLost) { losePublisher() }
    if !isBlocked, world.chance(world.faults.brokerBlocked) {
      isBlocked = true
      blockedUntil = now + 500
      events.append(.blocked)
    }
    if isBlocked, now >= blockedUntil {
      isBlocked = false
      events.append(.unblocked)
    }
    if now >= reopensAt { open() }
    server.releaseDelayed(now)
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

  mutating func nextEvent() -> BrokerEvent? {
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
    guard isConsuming, !isStopped else { return nil }
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

  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    guard let message = current else { return }
    metadata.reset()
    job.bytes = message.body
    job.bodyCount = message.body.count
    metadata.deliveryCount = message.deliveryCount
    metadata.carriedDeliveries = message.carriedDeliveries
    metadata.firstSeen = message.firstSeen
    if message.isAlone { metadata.jobClass = message.jobClass }
    guard let state = message.state else { return }
    metadata.attempts = state.attempts
    metadata.firstSeen = state.firstSeen
    metadata.isAmbiguous = state.isAmbiguous
    metadata.apnsID = state.apnsID
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let text = String(decoding: body, as: UTF8.self)
    let target = Target(job: field("job_id", text), token: field("token", text))
    return publish([target]) { world in world.auditor.brokerKeptOutcome(field("outcome", text), of: target) }
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let text = String(decoding: body, as: UTF8.self)
    let target = Target(job: field("id", text), token: field("token", text))
    let message = Message(
      body: body, state: state, jobClass: jobClass, targets: [target],
      carriedDeliveries: metadata.carriedDeliveries)
    return publish([target]) { world in
      world.auditor.brokerKeptCopy(of: target)
      world.broker.delayed.append((world.milliseconds + Int64(delaySeconds) * 1000, message))
    }
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let text = String(decoding: body, as: UTF8.self)
    let job = field("id", text)
    let token = field("token", text)
    let targets = (token.isEmpty ? elements("tokens", text) : [token]).map { Target(job: job, token: $0) }
    let state = metadata.apnsID.map {
      RetryState(
        attempts: metadata.attempts, firstSeen: firstSeen, isAmbiguous: metadata.isAmbiguous, apnsID: $0, reason: nil)
    }
    let message = Message(
      body: body, state: state, jobClass: jobClass, targets: targets, firstSeen: firstSeen,
      carriedDeliveries: metadata.carriedDeliveries, isAlone: true)
    return publish(targets) { world in
      for target in targets { world.auditor.brokerKeptCopy(of: target) }
      world.broker.suspects.append(message)
    }
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let job = field("id", String(decoding: body, as: UTF8.self))
    return publish([]) { world in world.auditor.brokerKeptDeadLetter(job: job) }
  }

  /// Keeps the publish or refuses it, and says so a little later. What is refused, or never confirmed, may be told again.
  private mutating func publish(_ targets: [Target], _ keep: (SimulatedWorld) -> Void) -> UInt64 {
    sequence += 1
    guard isPublishing, !world.isDying else { return sequence }
    let at = world.milliseconds + Int64(world.pick(30))
    if world.chance(world.faults.publishRefused) {
      // A refusal may come for what was routed to another queue all the same.
      if world.chance(300) {
        keep(world)
        for target in targets { world.auditor.excuse(target) }
      }
      confirms.append((at, sequence, .refused, targets))
    } else {
      keep(world)
      confirms.append((at, sequence, .confirmed, targets))
    }
    return sequence
  }

  mutating func acknowledge(upTo tag: DeliveryTag) {
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

  mutating func acknowledge(alone tag: DeliveryTag) {
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

  mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
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

  mutating func stopConsuming() {
    isStopped = true
  }

  /// The worker is gone without a word.
  mutating func die() {
    server.takeBack(world.auditor)
    forgetConfirms()
  }
}

/// The strings of an array field, as `field` reads one.
func elements(_ name: String, _ text: String) -> [String] {
  let parts = text.split(separator: "\"\(name)\":[", maxSplits: 1)
  guard parts.count == 2 else { return [] }
  return parts[1].prefix { $0 != "]" }.split(separator: ",").map { $0.filter { $0 != "\"" } }
}

/// The value of a string field in JSON that this world wrote or a lane rewrote: enough for an auditor, and not the lane's
/// own parser.
func field(_ name: String, _ text: String) -> String {
  let parts = text.split(separator: "\"\(name)\":\"", maxSplits: 1)
  guard parts.count == 2 else { return "" }
  return String(parts[1].prefix { $0 != "\"" })
}
