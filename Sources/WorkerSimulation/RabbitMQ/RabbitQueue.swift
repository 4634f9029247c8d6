/// A queue: its ready messages, its consumers, and the rules for returned messages.
///
/// The order is that of a quorum queue of RabbitMQ 3.10: returned messages come first, in the order in which they were
/// returned. Without a delivery limit, messages that a consumer returns on purpose go to the end. A classic queue puts a message back
/// in its old place. A queue never calls another queue: it reports messages that leave it for good to its broker.
final class RabbitQueue {
  enum DeathReason: String {
    case expired, rejected, maxlen
    case deliveryLimit = "delivery_limit"
  }

  let name: [UInt8]
  /// The name as text, for observers.
  let title: String
  let settings: RabbitQueueSettings
  unowned let broker: SimulatedRabbitMQ
  /// Ready messages that were never delivered.
  private(set) var ready = RabbitFIFO<RabbitEntry>()
  /// Ready messages that were returned.
  private(set) var returned = RabbitFIFO<RabbitEntry>()
  private(set) var consumers: [RabbitConsumer] = []
  /// With a single active consumer: the consumers that wait for their turn.
  private(set) var waiting: [RabbitConsumer] = []
  /// Consumers with credit, in round-robin order.
  private var round = RabbitFIFO<RabbitConsumer>()
  /// Deliveries to consumers that never acknowledge, until their channels do.
  private(set) var automatic: [(consumer: RabbitConsumer, id: Int)] = []
  /// Dead letters that no queue accepted yet.
  var undelivered: [RabbitDeadLetter] = []
  private(set) var readyBytes = 0
  private var positions = 0
  /// Publishes are refused until the queue is far enough below its limit.
  private(set) var isFull = false
  var isDeleted = false
  /// A quorum queue learns its own lifetime of messages a little after its declaration: until then, other connections' messages get none.
  var knowsLifetimeFrom: Int64 = .min
  /// Until this time it has no leader: nothing is delivered, and publishes wait.
  var unavailableUntil: Int64 = .min
  /// Messages published while the queue has no leader.
  var heldBack: [(message: RabbitMessage, publish: RabbitPublish?)] = []
  /// Recently handed-over dead letters, for a restart that hands them over again.
  var handedOver = RabbitFIFO<RabbitDeadLetter>()
  /// After a restart, dead letters wait until this time.
  var handsOverFrom: Int64 = .min

  /// A full queue accepts publishes again below this percentage of its limit.
  private static let lowLimitPercent = 80

  init(name: [UInt8], settings: RabbitQueueSettings, broker: SimulatedRabbitMQ) {
    self.name = name
    title = String(decoding: name, as: UTF8.self)
    self.settings = settings
    self.broker = broker
  }

  var readyCount: Int { ready.count + returned.count }
  /// As in a declaration's answer, which does not count consumers that wait for their turn.
  var consumerCount: Int { consumers.count }
  var isQuorum: Bool { settings.kind == .quorum }
  var heldCount: Int { consumers.reduce(0) { $0 + $1.held.count } }
  /// All messages: ready, held, undelivered and held back.
  var messageCount: Int { readyCount + heldCount + undelivered.count + heldBack.count }

  /// When the first message expires; nil: never.
  var expiresAt: Int64? { (returned.first ?? ready.first)?.expiresAt }

  // MARK: - Enqueue

  /// Adds a message. If the queue exceeds its limit, it drops messages or refuses further publishes.
  func enqueue(_ message: RabbitMessage, now: Int64) {
    var entry = RabbitEntry(message: message, position: nextPosition())
    let own = isQuorum && now < knowsLifetimeFrom ? nil : settings.lifetime
    if let lifetime = [own, message.lifetime].compactMap({ $0 }).min() {
      // A lifetime of 0 ends with the next millisecond.
      entry.expiresAt = now + max(lifetime, 1_000_000)
    }
    ready.append(entry)
    readyBytes += message.body.count
    if settings.kind == .stream {
      keepStreamShort()
      return
    }
    checkout(now: now)
  }

  private func nextPosition() -> Int {
    positions += 1
    return positions
  }

  /// A stream keeps its last messages, for observers.
  private func keepStreamShort() {
    while ready.count > broker.settings.streamMessagesMaximum, let old = ready.popFirst() {
      readyBytes -= old.message.body.count
    }
  }

  // MARK: - Deliver

  /// Removes expired messages, then delivers ready ones to consumers with credit, round-robin.
  func checkout(now: Int64) {
    guard settings.kind != .stream else { return }
    var given: [(consumer: RabbitConsumer, id: Int, entry: RabbitEntry)] = []
    if now >= unavailableUntil {
      expire(now: now)
      while let consumer = round.first, readyCount > 0 {
        _ = round.popFirst()
        consumer.isInRound = false
        guard consumer.status == .active, consumer.credit > 0 else { continue }
        guard let entry = takeFirst() else { break }
        entry.message.atRiskUntil = .min
        given.append((consumer, consumer.hold(entry), entry))
        joinRound(consumer)
        expire(now: now)
      }
    }
    limit(now: now)
    deliver(given, now: now)
  }

  /// A channel receives the deliveries of one pass grouped by consumer.
  private func deliver(_ given: [(consumer: RabbitConsumer, id: Int, entry: RabbitEntry)], now: Int64) {
    guard let first = given.first else { return }
    if given.allSatisfy({ $0.consumer === first.consumer }) {
      for (consumer, id, entry) in given { broker.deliver(entry, id: id, to: consumer) }
    } else {
      let order = given.indices.sorted {
        let (left, right) = (given[$0].consumer.tag, given[$1].consumer.tag)
        return left == right ? $0 < $1 : left.lexicographicallyPrecedes(right)
      }
      for index in order { broker.deliver(given[index].entry, id: given[index].id, to: given[index].consumer) }
    }
    for (consumer, id, _) in given where consumer.needsNoAck { automatic.append((consumer, id)) }
    // A classic queue does not wait for its channels.
    if !isQuorum { settleAutomatic(now: now) }
  }

  /// The channels acknowledge what consumers get that never do. A quorum queue learns it after all that was published at once.
  func settleAutomatic(now: Int64) {
    guard !automatic.isEmpty else { return }
    let settled = automatic
    automatic = []
    for (consumer, id) in settled where consumer.release(id) != nil {
      consumer.regain(1)
      joinRound(consumer)
      removeIfDone(consumer)
    }
    checkout(now: now)
  }

  private func takeFirst() -> RabbitEntry? {
    guard let entry = returned.popFirst() ?? ready.popFirst() else { return nil }
    readyBytes -= entry.message.body.count
    return entry
  }

  private func expire(now: Int64) {
    while let expiresAt, expiresAt <= now, let entry = takeFirst() { broker.died(entry, .expired, in: self) }
  }

  /// Enforces the limit: drops from the head, or refuses publishes.
  private func limit(now: Int64) {
    guard settings.countMaximum != nil || settings.bytesMaximum != nil else { return }
    switch settings.overflow {
    case .dropHead:
      var dropped: [RabbitEntry] = []
      while isOver(percent: 100), let entry = takeFirst() { dropped.append(entry) }
      // Of messages dropped together the last is dead-lettered first, as in RabbitMQ 3.10.
      for entry in dropped.reversed() { broker.died(entry, .maxlen, in: self) }
    case .rejectPublish:
      if isOver(percent: 100) {
        isFull = true
      } else if isFull, !isOver(percent: RabbitQueue.lowLimitPercent) {
        isFull = false
      }
    }
  }

  private func isOver(percent: Int) -> Bool {
    let count = readyCount + undelivered.count
    if let maximum = settings.countMaximum, count > maximum * percent / 100 { return true }
    guard let maximum = settings.bytesMaximum else { return false }
    return readyBytes + undelivered.reduce(0) { $0 + $1.message.body.count } > maximum * percent / 100
  }

  // MARK: - Consumers

  /// Adds a consumer. Returns the one that the queue uses: a cancelled consumer with the same tag that still
  /// holds messages is reactivated.
  func add(_ consumer: RabbitConsumer, prefetch: Int, now: Int64) -> RabbitConsumer {
    if let old = consumers.first(where: { $0.tag == consumer.tag && $0.channel === consumer.channel }),
      !settings.hasSingleActiveConsumer || activeConsumer == nil
    {
      old.revive(prefetch: prefetch, needsNoAck: consumer.needsNoAck)
      joinRound(old)
      return old
    }
    if settings.hasSingleActiveConsumer {
      waiting.append(consumer)
      activateNext()
    } else {
      consumers.append(consumer)
      joinRound(consumer)
    }
    return consumer
  }

  private var activeConsumer: RabbitConsumer? { consumers.first { $0.status == .active } }

  private func activateNext() {
    guard settings.hasSingleActiveConsumer, activeConsumer == nil, !waiting.isEmpty else { return }
    let next = waiting.removeFirst()
    consumers.append(next)
    joinRound(next)
  }

  private func joinRound(_ consumer: RabbitConsumer) {
    guard consumer.status == .active, consumer.credit > 0, !consumer.isInRound else { return }
    consumer.isInRound = true
    round.append(consumer)
  }

  /// Cancels a consumer for its client, which may still settle the messages that it holds.
  func cancel(_ consumer: RabbitConsumer, now: Int64) {
    if let index = waiting.firstIndex(where: { $0 === consumer }) {
      waiting.remove(at: index)
      consumer.status = .gone
      return
    }
    guard consumer.status == .active else { return }
    consumer.status = .cancelled
    consumer.credit = 0
    removeIfDone(consumer)
    activateNext()
    checkout(now: now)
  }

  private func removeIfDone(_ consumer: RabbitConsumer) {
    guard consumer.status == .cancelled, consumer.held.isEmpty else { return }
    consumer.status = .gone
    consumers.removeAll { $0 === consumer }
  }

  /// Removes consumers that disappeared and requeues their messages. Delivers only after all are removed.
  func lose(where isLost: (RabbitConsumer) -> Bool, now: Int64) {
    let gone = consumers.filter(isLost)
    for consumer in waiting where isLost(consumer) { consumer.status = .gone }
    waiting.removeAll(where: isLost)
    guard !gone.isEmpty else { return }
    consumers.removeAll(where: isLost)
    for consumer in RabbitQueue.inOrder(gone) {
      consumer.status = .gone
      for entry in consumer.releaseAll() { _ = takeBack(entry, from: consumer) }
    }
    activateNext()
    checkout(now: now)
  }

  /// Channels in order of arrival, consumers by tag within a channel: the order in which a queue notices that they are gone.
  private static func inOrder(_ consumers: [RabbitConsumer]) -> [RabbitConsumer] {
    var channels: [RabbitChannel] = []
    for consumer in consumers where !channels.contains(where: { $0 === consumer.channel }) {
      channels.append(consumer.channel)
    }
    return channels.flatMap { channel in
      consumers.filter { $0.channel === channel }.sorted { $0.tag.lexicographicallyPrecedes($1.tag) }
    }
  }

  // MARK: - Settled deliveries

  /// Removes acknowledged messages.
  func complete(_ ids: [Int], of consumer: RabbitConsumer, now: Int64) {
    var count = 0
    for id in ids {
      guard let entry = consumer.release(id) else { continue }
      count += 1
      broker.settled(entry, id: id, of: consumer)
    }
    settledSome(count, of: consumer, now: now)
  }

  /// Dead-letters messages that a consumer rejected.
  func discard(_ ids: [Int], of consumer: RabbitConsumer, now: Int64) {
    var count = 0
    for id in ids {
      guard let entry = consumer.release(id) else { continue }
      count += 1
      broker.observe(.rejected(queue: title, message: entry.message))
      broker.died(entry, .rejected, in: self)
    }
    settledSome(count, of: consumer, now: now)
  }

  /// Requeues messages that a consumer returned.
  func giveBack(_ ids: [Int], of consumer: RabbitConsumer, now: Int64) {
    if isQuorum, settings.deliveryLimit == nil {
      for id in ids {
        guard let entry = consumer.release(id) else { continue }
        ready.append(counted(entry))
        readyBytes += entry.message.body.count
        broker.observe(.requeued(queue: title, message: entry.message, deliveryCount: entry.deliveryCount + 1))
        settledSome(1, of: consumer, now: now)
      }
      return
    }
    var count = 0
    for id in ids {
      guard let entry = consumer.release(id) else { continue }
      count += 1
      // A message beyond the delivery limit frees two credits, as in RabbitMQ 3.10.
      if !takeBack(entry, from: consumer) { count += 1 }
    }
    settledSome(count, of: consumer, now: now)
  }

  private func settledSome(_ count: Int, of consumer: RabbitConsumer, now: Int64) {
    guard count > 0 else { return }
    consumer.regain(count)
    joinRound(consumer)
    removeIfDone(consumer)
    checkout(now: now)
  }

  private func counted(_ entry: RabbitEntry) -> RabbitEntry {
    var entry = entry
    entry.deliveryCount += 1
    entry.isRedelivered = true
    return entry
  }

  /// Requeues a message. false: it exceeded the delivery limit and is dead.
  private func takeBack(_ entry: RabbitEntry, from consumer: RabbitConsumer) -> Bool {
    let entry = counted(entry)
    if isQuorum, let limit = settings.deliveryLimit, entry.deliveryCount > limit {
      broker.died(entry, .deliveryLimit, in: self)
      return false
    }
    if isQuorum {
      returned.append(entry)
    } else {
      ready.insert(entry) { $0.position > entry.position }
    }
    readyBytes += entry.message.body.count
    broker.observe(.requeued(queue: title, message: entry.message, deliveryCount: entry.deliveryCount))
    return true
  }

  // MARK: - Operator actions and crashes

  /// Drops the ready messages. Returns how many.
  func purge(now: Int64) -> Int {
    let count = readyCount
    ready.removeAll()
    returned.removeAll()
    readyBytes = 0
    limit(now: now)
    return count
  }

  /// The server crashed: removes all consumers and requeues their messages, without delivering.
  func loseEverybody() {
    for consumer in RabbitQueue.inOrder(consumers) {
      consumer.status = .gone
      for entry in consumer.releaseAll() { _ = takeBack(entry, from: consumer) }
    }
    for consumer in waiting { consumer.status = .gone }
    consumers = []
    waiting = []
    round.removeAll()
  }

  /// Empties the deleted queue.
  func clear() {
    for consumer in consumers + waiting {
      consumer.status = .gone
      _ = consumer.releaseAll()
    }
    consumers = []
    waiting = []
    round.removeAll()
    ready.removeAll()
    returned.removeAll()
    undelivered = []
    handedOver.removeAll()
    readyBytes = 0
  }

  /// Loses the entries that a crash may lose.
  func lose(entriesWhere isLost: (RabbitEntry) -> Bool) {
    ready.removeAll(where: isLost)
    returned.removeAll(where: isLost)
    readyBytes =
      ready.all.reduce(0) { $0 + $1.message.body.count } + returned.all.reduce(0) { $0 + $1.message.body.count }
  }

  /// Changes the leader: redelivers what consumers hold, and ignores their later settlements. The consumers stay.
  func moveLeader(now: Int64) {
    for consumer in consumers {
      let entries = consumer.releaseAll()
      for entry in entries { _ = takeBack(entry, from: consumer) }
      consumer.regain(entries.count)
      joinRound(consumer)
      removeIfDone(consumer)
    }
    activateNext()
    checkout(now: now)
  }
}

/// A dead message on its way to the next queue.
struct RabbitDeadLetter {
  let message: RabbitMessage
  let reason: RabbitQueue.DeathReason
  /// When it was handed over, or may be retried.
  var at: Int64
}
