/// A queue: what is ready, who takes it in which order, and what becomes of what comes back.
///
/// The order is a quorum queue's of RabbitMQ 3.10: what consumers gave back comes before everything else, in the order in which it
/// came back; without a delivery limit, what a consumer returns on purpose goes behind everything. A classic queue puts back
/// where it was. A queue never calls another one: what leaves it for good it tells its broker.
final class RabbitQueue {
  enum DeathReason: String {
    case expired, rejected, maxlen
    case deliveryLimit = "delivery_limit"
  }

  let name: [UInt8]
  /// The same, for who looks on.
  let title: String
  let settings: RabbitQueueSettings
  unowned let broker: SimulatedRabbitMQ
  /// Ready messages that were never given to anybody.
  private(set) var ready = RabbitFIFO<RabbitEntry>()
  /// Ready messages that came back.
  private(set) var returned = RabbitFIFO<RabbitEntry>()
  private(set) var consumers: [RabbitConsumer] = []
  /// Beside a single active consumer: who comes after it.
  private(set) var waiting: [RabbitConsumer] = []
  /// Consumers with credit, next one first.
  private var round = RabbitFIFO<RabbitConsumer>()
  /// Dead letters that no queue took yet.
  var undelivered: [RabbitDeadLetter] = []
  private(set) var readyBytes = 0
  private var positions = 0
  /// Publishes are refused until it is far enough under its limit.
  private(set) var isFull = false
  var isDeleted = false
  /// Without a leader until then: nothing is given, and what is published waits.
  var unavailableUntil: Int64 = .min
  /// What was published meanwhile.
  var heldBack: [(message: RabbitMessage, publish: RabbitPublish?)] = []
  /// Dead letters that their queue took a while ago, for a restart that hands them on again.
  var handedOver = RabbitFIFO<RabbitDeadLetter>()
  /// Dead letters wait until then: a restart's doing.
  var handsOverFrom: Int64 = .min

  /// A full queue takes publishes again below this part of its limit, in hundredths.
  private static let lowLimitPercent = 80

  init(name: [UInt8], settings: RabbitQueueSettings, broker: SimulatedRabbitMQ) {
    self.name = name
    title = String(decoding: name, as: UTF8.self)
    self.settings = settings
    self.broker = broker
  }

  var readyCount: Int { ready.count + returned.count }
  /// As a declaration answers it: one that waits for its turn does not count.
  var consumerCount: Int { consumers.count }
  var isQuorum: Bool { settings.kind == .quorum }
  var heldCount: Int { consumers.reduce(0) { $0 + $1.held.count } }
  /// Wherever they wait.
  var messageCount: Int { readyCount + heldCount + undelivered.count + heldBack.count }

  /// When the first message's time is over; nil: never.
  var expiresAt: Int64? { (returned.first ?? ready.first)?.expiresAt }

  // MARK: - Messages come

  /// Takes a message. Where that makes it too long, something goes, or it takes no more.
  func enqueue(_ message: RabbitMessage, now: Int64) {
    var entry = RabbitEntry(message: message, position: nextPosition())
    if let lifetime = [settings.lifetime, message.lifetime].compactMap({ $0 }).min() {
      // A time of nothing is over with the next millisecond.
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

  /// A stream remembers its last messages, for who looks.
  private func keepStreamShort() {
    while ready.count > broker.settings.streamMessagesMaximum, let old = ready.popFirst() {
      readyBytes -= old.message.body.count
    }
  }

  // MARK: - Messages go

  /// Gives what is ready to those with credit, one each in turn, after what is over was taken away.
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

  /// What one pass gave comes to a channel consumer by consumer.
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
    var settlesItself = false
    for (consumer, id, _) in given where consumer.needsNoAck && consumer.release(id) != nil {
      settlesItself = true
      consumer.regain(1)
      joinRound(consumer)
    }
    if settlesItself { checkout(now: now) }
  }

  private func takeFirst() -> RabbitEntry? {
    guard let entry = returned.popFirst() ?? ready.popFirst() else { return nil }
    readyBytes -= entry.message.body.count
    return entry
  }

  private func expire(now: Int64) {
    while let expiresAt, expiresAt <= now, let entry = takeFirst() { broker.died(entry, .expired, in: self) }
  }

  /// A queue that is too long drops its head, or says no to what comes.
  private func limit(now: Int64) {
    guard settings.countMaximum != nil || settings.bytesMaximum != nil else { return }
    switch settings.overflow {
    case .dropHead:
      var dropped: [RabbitEntry] = []
      while isOver(percent: 100), let entry = takeFirst() { dropped.append(entry) }
      // What is dropped at once goes on last one first: so does RabbitMQ 3.10.
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

  /// Starts to give messages to a consumer, and says under which name the queue knows it: one that was cancelled and still
  /// holds messages is the same as before.
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

  /// Its client wants no more messages; what it holds it may still settle.
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

  /// Consumers are gone without a word: what they held is ready again. Nothing is given out before all of them are.
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

  /// Channel by channel as they came, and by name within one: so a queue notices that they are gone.
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

  /// Done with these.
  func complete(_ ids: [Int], of consumer: RabbitConsumer, now: Int64) {
    var count = 0
    for id in ids {
      guard let entry = consumer.release(id) else { continue }
      count += 1
      broker.settled(entry, id: id, of: consumer)
    }
    settledSome(count, of: consumer, now: now)
  }

  /// A consumer will not have these: they are dead.
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

  /// A consumer gives these back, for somebody else or for later.
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
      // What is given back too often makes room twice: so does RabbitMQ 3.10.
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

  /// false: it came back too often, and is dead.
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

  // MARK: - What an operator or a crash does

  /// Drops what is ready. Returns how many.
  func purge(now: Int64) -> Int {
    let count = readyCount
    ready.removeAll()
    returned.removeAll()
    readyBytes = 0
    limit(now: now)
    return count
  }

  /// The server is gone, and with it everybody: what they held is ready, and nothing is given to anybody.
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

  /// It is deleted.
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

  /// A crash loses some that nobody was promised.
  func lose(entriesWhere isLost: (RabbitEntry) -> Bool) {
    ready.removeAll(where: isLost)
    returned.removeAll(where: isLost)
    readyBytes =
      ready.all.reduce(0) { $0 + $1.message.body.count } + returned.all.reduce(0) { $0 + $1.message.body.count }
  }

  /// Its leader changed: what consumers hold is given again, and what they settle of it changes nothing. They stay.
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

/// A message that left a queue without being done, on its way to another.
struct RabbitDeadLetter {
  let message: RabbitMessage
  let reason: RabbitQueue.DeathReason
  /// When it was handed over, or may be tried again.
  var at: Int64
}
