/// Messages: published, routed, confirmed, delivered and settled.
extension SimulatedRabbitMQ {
  /// The largest body, bytes; larger ones are refused.
  private static let bodyMaximum = 134_217_728
  /// A crash cannot lose a publish without confirms after this time.
  private static let untoldRiskNanoseconds: Int64 = 1_000_000_000

  // MARK: - Publishes

  func publish(_ incoming: RabbitIncoming, on channel: RabbitChannel) throws(RabbitError) {
    if incoming.isImmediate { throw RabbitError(.notImplemented, "immediate=true") }
    if incoming.body.count > Self.bodyMaximum {
      throw RabbitError(
        .preconditionFailed, "message size \(incoming.body.count) larger than max size \(Self.bodyMaximum)")
    }
    guard let exchange = exchanges[incoming.exchange] else {
      throw RabbitError.noExchange(incoming.exchange, in: settings.virtualHost)
    }
    if exchange.isInternal {
      throw RabbitError(.accessRefused, "cannot publish to internal exchange '\(describe(exchange.name))'")
    }
    let lifetime = try checkedLifetime(incoming.properties, channel)
    let message = makeMessage(
      exchange: incoming.exchange, routingKey: incoming.routingKey, properties: incoming.properties,
      body: incoming.body, lifetime: lifetime,
      atRiskUntil: channel.isConfirming ? .max : now + Self.untoldRiskNanoseconds)
    let targets = route(exchange, incoming.routingKey)
    guard channel.isConfirming else {
      if targets.isEmpty, incoming.isMandatory { giveBack(message, on: channel) }
      for queue in targets { _ = store(message, in: queue, publish: nil) }
      return
    }
    let number = channel.published(message, openQueues: targets.count)
    let fate = drawFate()
    // A refused publish was stored all the same, or by none of its queues.
    if fate == .refused, !chance(faults.refusedKept) {
      _ = channel.answered(number, isRefused: true)
      confirm(number, on: channel, isDropped: false)
      return
    }
    if targets.isEmpty {
      if incoming.isMandatory { giveBack(message, on: channel) }
      if fate == .refused { _ = channel.answered(number, isRefused: true) }
      confirm(number, on: channel, isDropped: fate == .silent)
      return
    }
    var isKnown = fate == .refused && channel.answered(number, isRefused: true)
    let publish = RabbitPublish(channel: channel, number: number)
    for queue in targets {
      guard let isStored = store(message, in: queue, publish: publish) else { continue }
      if channel.answered(number, isRefused: !isStored) { isKnown = true }
    }
    if isKnown { confirm(number, on: channel, isDropped: fate == .silent) }
  }

  private enum Fate {
    case usual, refused, silent
  }

  private func drawFate() -> Fate {
    if publishesToRefuse > 0 {
      publishesToRefuse -= 1
      return .refused
    }
    if confirmsToDrop > 0 {
      confirmsToDrop -= 1
      return .silent
    }
    if chance(faults.publishRefused) { return .refused }
    return chance(faults.confirmDropped) ? .silent : .usual
  }

  /// Validates the properties like a real server. Returns the message's own lifetime.
  private func checkedLifetime(_ properties: [UInt8], _ channel: RabbitChannel) throws(RabbitError) -> Int64? {
    if RabbitProperties.isPlain(properties) { return nil }
    guard let decoded = RabbitProperties(properties) else { throw RabbitError(.internalError, "") }
    if let user = decoded.userID, !user.elementsEqual(channel.session.user.utf8) {
      throw RabbitError(
        .preconditionFailed,
        "user_id property set to '\(describe(user))' but authenticated user was '\(channel.session.user)'")
    }
    guard let expiration = decoded.expiration else { return nil }
    guard let milliseconds = Int64(String(decoding: expiration, as: UTF8.self)), milliseconds >= 0,
      milliseconds <= Int64(UInt32.max)
    else {
      throw RabbitError(.preconditionFailed, "invalid expiration '\(describe(expiration))': no_integer")
    }
    return milliseconds * 1_000_000
  }

  /// The queues that a message is routed to; if none, those of the alternate exchange.
  func route(_ exchange: RabbitExchange, _ key: [UInt8]) -> [RabbitQueue] {
    var exchange = exchange
    var seen: [[UInt8]] = []
    while true {
      let queues =
        exchange.name.isEmpty ? queuesByName[key].map { [$0] } ?? [] : exchange.queues(for: key)
      if !queues.isEmpty { return queues }
      seen.append(exchange.name)
      guard let alternate = exchange.alternate, !seen.contains(alternate), let next = exchanges[alternate] else {
        return []
      }
      exchange = next
    }
  }

  /// Stores a message in a queue. nil: the queue answers later.
  func store(_ message: RabbitMessage, in queue: RabbitQueue, publish: RabbitPublish?) -> Bool? {
    if queue.isFull, queue.settings.overflow == .rejectPublish, !chance(faults.fullNoticedLate) { return false }
    guard queue.unavailableUntil == .min else {
      if publish != nil, chance(faults.unavailableRefused) { return false }
      queue.heldBack.append((message, publish))
      return nil
    }
    observe(.stored(queue: queue.title, message: message))
    queue.enqueue(message, now: now)
    return true
  }

  /// A queue has a leader again: stores the messages that were held back.
  func becameAvailable(_ queue: RabbitQueue) {
    queue.unavailableUntil = .min
    let heldBack = queue.heldBack
    queue.heldBack = []
    for (message, publish) in heldBack {
      let isStored = store(message, in: queue, publish: publish) ?? true
      guard let publish, publish.channel.answered(publish.number, isRefused: !isStored) else { continue }
      confirm(publish.number, on: publish.channel, isDropped: false)
    }
    queue.checkout(now: now)
    handOver()
  }

  private func giveBack(_ message: RabbitMessage, on channel: RabbitChannel) {
    answer(channel, RabbitMethod.basicReturn) {
      $0.short(312)
      $0.shortText(Array("NO_ROUTE".utf8))
      $0.shortText(message.exchange)
      $0.shortText(message.routingKey)
    }
    channel.session.writer.content(
      message.properties, message.body, channel: channel.number, frameMaximum: limit(channel.session))
    observe(.returned(connection: channel.session.id, channel: channel.number, message: message))
  }

  // MARK: - Confirms

  /// The fate of a publish is decided: schedules its confirm now, later, or never.
  private func confirm(_ number: UInt64, on channel: RabbitChannel, isDropped: Bool) {
    guard !isDropped else { return }
    var due = now + settings.confirmNanoseconds
    if faults.confirmSpreadNanoseconds > 0 { due += pick(faults.confirmSpreadNanoseconds + 1) }
    if chance(faults.confirmLate) { due += pick(faults.confirmLateNanoseconds + 1) }
    channel.confirm(number, at: due)
  }

  /// Sends the confirms that are due: as few as possible, or one by one.
  func sendConfirms(_ channel: RabbitChannel) {
    guard channel.nextConfirmAt <= now else { return }
    let due = channel.takeConfirms(now: now)
    // A closing channel confirms nothing.
    guard channel.phase == .open, !due.isEmpty else { return }
    for publish in due {
      publish.message.atRiskUntil = .min
      let (connection, number) = (channel.session.id, channel.number)
      if publish.isRefused {
        observe(.refused(connection: connection, channel: number, number: publish.number, message: publish.message))
      } else {
        observe(.confirmed(connection: connection, channel: number, number: publish.number, message: publish.message))
      }
    }
    let kept = due.filter { !$0.isRefused }.map(\.number)
    let refused = due.filter(\.isRefused).map(\.number)
    if chance(faults.confirmsSingle) {
      var all = due
      for index in all.indices.reversed() where index > 0 { all.swapAt(index, Int(pick(Int64(index) + 1))) }
      for publish in all { write(publish.number, isMultiple: false, isRefused: publish.isRefused, channel) }
      return
    }
    if kept.count == 1 {
      write(kept[0], isMultiple: false, isRefused: false, channel)
    } else {
      writeTogether(kept, others: refused, isRefused: false, channel)
    }
    writeTogether(refused, others: kept, isRefused: true, channel)
  }

  /// Confirms all numbers below the first other one at once.
  private func writeTogether(_ numbers: [UInt64], others: [UInt64], isRefused: Bool, _ channel: RabbitChannel) {
    guard let last = numbers.last else { return }
    let end = min(channel.unconfirmed.first?.number ?? last + 1, others.first ?? .max)
    let together = numbers.prefix { $0 < end }
    if let highest = together.last { write(highest, isMultiple: true, isRefused: isRefused, channel) }
    for number in numbers.dropFirst(together.count) {
      write(number, isMultiple: false, isRefused: isRefused, channel)
    }
  }

  private func write(_ number: UInt64, isMultiple: Bool, isRefused: Bool, _ channel: RabbitChannel) {
    answer(channel, isRefused ? RabbitMethod.basicNack : RabbitMethod.basicAck) {
      $0.longLong(number)
      $0.octet(isMultiple ? 1 : 0)
    }
  }

  // MARK: - Deliveries

  /// Delivers a message to a consumer.
  func deliver(_ entry: RabbitEntry, id: Int, to consumer: RabbitConsumer) {
    let channel = consumer.channel
    let tag = channel.delivered(id: id, to: consumer, now: now)
    let queue = consumer.queue
    answer(channel, RabbitMethod.basicDeliver) {
      $0.shortText(consumer.tag)
      $0.longLong(tag)
      $0.octet(entry.isRedelivered ? 1 : 0)
      $0.shortText(entry.message.exchange)
      $0.shortText(entry.message.routingKey)
    }
    channel.session.writer.content(
      entry.deliveredProperties(countsDeliveries: queue.isQuorum), entry.message.body, channel: channel.number,
      frameMaximum: limit(channel.session))
    observe(
      .delivered(
        queue: queue.title, message: entry.message,
        delivery: SimulatedRabbitMQDelivery(
          connection: channel.session.id, channel: channel.number, consumerTag: consumer.tag, tag: tag,
          isRedelivered: entry.isRedelivered, deliveryCount: entry.deliveryCount)))
  }

  private func limit(_ session: RabbitSession) -> Int {
    session.frameMaximum == 0 ? .max : session.frameMaximum
  }

  func acknowledge(_ tag: UInt64, isMultiple: Bool, on channel: RabbitChannel) throws(RabbitError) {
    for (consumer, ids) in try settled(tag, isMultiple: isMultiple, on: channel) {
      consumer.queue.complete(ids, of: consumer, now: now)
    }
  }

  func reject(
    _ tag: UInt64, isMultiple: Bool, requeues: Bool, on channel: RabbitChannel
  ) throws(RabbitError) {
    for (consumer, ids) in try settled(tag, isMultiple: isMultiple, on: channel) {
      if requeues {
        consumer.queue.giveBack(ids, of: consumer, now: now)
      } else {
        consumer.queue.discard(ids, of: consumer, now: now)
      }
    }
  }

  /// What a tag settles, by consumer in the order of queues and consumer tags. Messages that their queue took back are left out.
  private func settled(
    _ tag: UInt64, isMultiple: Bool, on channel: RabbitChannel
  ) throws(RabbitError) -> [(consumer: RabbitConsumer, ids: [Int])] {
    guard let deliveries = channel.settle(tag, isMultiple: isMultiple) else {
      throw RabbitError(.preconditionFailed, "unknown delivery tag \(tag)")
    }
    var groups: [(consumer: RabbitConsumer, ids: [Int])] = []
    for delivery in deliveries where delivery.consumer.status != .gone && !delivery.consumer.queue.isDeleted {
      if let index = groups.lastIndex(where: { $0.consumer === delivery.consumer }) {
        groups[index].ids.append(delivery.id)
      } else {
        groups.append((delivery.consumer, [delivery.id]))
      }
    }
    guard groups.count > 1 else { return groups }
    return groups.sorted {
      if $0.consumer.queue !== $1.consumer.queue {
        return $0.consumer.queue.name.lexicographicallyPrecedes($1.consumer.queue.name)
      }
      return $0.consumer.tag.lexicographicallyPrecedes($1.consumer.tag)
    }
  }

  /// A queue removed an acknowledged message.
  func settled(_ entry: RabbitEntry, id: Int, of consumer: RabbitConsumer) {
    observe(.acknowledged(queue: consumer.queue.title, message: entry.message))
    guard faults.acknowledgementLost > 0 else { return }
    recentlySettled.append((consumer, id, entry, now))
    while recentlySettled.count > SimulatedRabbitMQ.recentMaximum { _ = recentlySettled.popFirst() }
  }

  // MARK: - Consumers

  func consume(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    _ = reader.short()
    var name = reader.shortText()
    var tag = reader.shortText()
    let flags = reader.octet()
    _ = reader.table()
    try RabbitSession.check(reader)
    name = try named(name, on: channel)
    guard !channel.consumers.contains(where: { $0.tag == tag }),
      !channel.starts.contains(where: { $0.consumer.tag == tag })
    else {
      throw RabbitError(.notAllowed, "attempt to reuse consumer tag '\(describe(tag))'")
    }
    guard let queue = queuesByName[name] else { throw RabbitError.noQueue(name, in: settings.virtualHost) }
    if queue.settings.kind == .stream { throw RabbitError(.notImplemented, "consumers of streams") }
    if channel.hasGlobalPrefetch, queue.isQuorum {
      throw RabbitError(.notImplemented, "\(title(of: queue)) does not support global qos")
    }
    if tag.isEmpty {
      tag = Array("amq.ctag-".utf8) + (0..<22).map { _ in UInt8(ascii: "A") + UInt8(pick(26)) }
    }
    let consumer = RabbitConsumer(
      tag: tag, queue: queue, channel: channel, prefetch: channel.prefetch, needsNoAck: flags & 2 != 0)
    let start = RabbitChannel.Start(consumer: consumer, prefetch: channel.prefetch, isAnswered: flags & 8 == 0)
    if chance(faults.consumeAnsweredLate) { channel.starts.append(start) } else { self.start(start, on: channel) }
  }

  /// In a real server the queue answers this, while its channel goes on with the next methods.
  private func start(_ start: RabbitChannel.Start, on channel: RabbitChannel) {
    let queue = start.consumer.queue
    if start.isAnswered { answer(channel, RabbitMethod.basicConsumeOK) { $0.shortText(start.consumer.tag) } }
    guard !queue.isDeleted else { return }
    channel.consumers.append(queue.add(start.consumer, prefetch: start.prefetch, now: now))
    queue.checkout(now: now)
  }

  /// Starts the channel's waiting consumers.
  func startLate(_ channel: RabbitChannel) {
    guard !channel.starts.isEmpty else { return }
    let starts = channel.starts
    channel.starts = []
    guard channel.phase == .open else { return }
    for start in starts { self.start(start, on: channel) }
  }

  func cancel(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    let tag = reader.shortText()
    let flags = reader.octet()
    try RabbitSession.check(reader)
    startLate(channel)
    if let index = channel.consumers.firstIndex(where: { $0.tag == tag }) {
      let consumer = channel.consumers.remove(at: index)
      if !consumer.queue.isDeleted { consumer.queue.cancel(consumer, now: now) }
    }
    // An unknown consumer tag is answered like a known one.
    if flags & 1 == 0 { answer(channel, RabbitMethod.basicCancelOK) { $0.shortText(tag) } }
  }

  /// Notifies a client that its consumer was cancelled, if the client supports that.
  func noticeCancelled(_ consumer: RabbitConsumer) {
    let channel = consumer.channel
    channel.consumers.removeAll { $0 === consumer }
    guard channel.phase == .open, channel.session.wantsCancelNotices else { return }
    answer(channel, RabbitMethod.basicCancel) {
      $0.shortText(consumer.tag)
      $0.octet(1)
    }
  }

  // MARK: - Words

  func describe(_ name: [UInt8]) -> String { String(decoding: name, as: UTF8.self) }

  func title(of queue: RabbitQueue) -> String { "queue '\(queue.title)' in vhost '\(settings.virtualHost)'" }
}
