/// What the world does to the server, and what an onlooker may see of it.
extension SimulatedRabbitMQ {
  // MARK: - Connections and channels

  /// Ends connections in order, with 320 CONNECTION_FORCED: an operator closes them, or the server shuts down.
  package func closeConnection(_ connection: SimulatedConnectionID, now: Int64) {
    act(now: now) {
      guard let session = sessions.first(where: { $0.id == connection }) else { return }
      fail(session, RabbitError(.connectionForced, "Closed via management plugin"))
    }
  }

  /// Cuts a connection without a word.
  package func resetConnection(_ connection: SimulatedConnectionID, now: Int64) {
    act(now: now) {
      guard let session = sessions.first(where: { $0.id == connection }) else { return }
      end(session, .reset(connection))
    }
  }

  /// Ends a channel as a fault in it would.
  package func closeChannel(_ connection: SimulatedConnectionID, channel: UInt16, now: Int64) {
    act(now: now) {
      guard let session = sessions.first(where: { $0.id == connection }), session.isUsable,
        let channel = session.channel(channel), channel.phase == .open
      else { return }
      fail(channel, RabbitError(.preconditionFailed, "a fault of the simulated world"))
    }
  }

  // MARK: - Queues

  /// The consumers of a queue are told that they are gone; what they held is given again.
  package func cancelConsumers(of queue: String, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)] else { return }
      for consumer in queue.consumers + queue.waiting where consumer.status != .gone { noticeCancelled(consumer) }
      queue.lose(where: { _ in true }, now: self.now)
    }
  }

  /// A queue's leader moves: nothing is given, and publishes wait, for so long. What consumers held is given again afterwards,
  /// and what they settle of it meanwhile changes nothing; they stay consumers.
  package func moveLeader(of queue: String, unavailableNanoseconds: Int64, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)] else { return }
      // Until the end of the world's clock it would be lost, not moving.
      precondition(unavailableNanoseconds >= 0 && unavailableNanoseconds < 86_400_000_000_000, "a leader comes back")
      queue.unavailableUntil = now + unavailableNanoseconds
      queue.moveLeader(now: now)
    }
  }

  /// Somebody deletes a queue with all that is in it.
  package func deleteQueue(_ queue: String, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)] else { return }
      remove(queue)
    }
  }

  /// Somebody removes a binding.
  package func unbind(queue: String, exchange: String, routingKey: String, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)], let exchange = exchanges[Array(exchange.utf8)] else { return }
      exchange.unbind(queue, key: Array(routingKey.utf8), arguments: RabbitTable())
    }
  }

  // MARK: - Publishers

  /// `memory` or `disk` is low: connections that publish are blocked until nothing is low.
  package func setAlarm(_ resource: String, isOn: Bool, now: Int64) {
    act(now: now) {
      alarms.removeAll { $0 == resource }
      if isOn { alarms.append(resource) }
      guard alarms.isEmpty else { return }
      for session in sessions { unblock(session) }
    }
  }

  /// The next publishes with confirms are kept, and never confirmed.
  package func dropNextConfirms(_ count: Int) { confirmsToDrop += count }

  /// The next publishes with confirms are refused, and some of them kept, as `Faults.refusedKept` says.
  package func refuseNextPublishes(_ count: Int) { publishesToRefuse += count }

  /// Nothing goes wrong by itself any more, nor in the next publishes.
  package func calm() {
    faults = Faults()
    confirmsToDrop = 0
    publishesToRefuse = 0
  }

  // MARK: - The whole server

  /// The server crashes and is there again at once.
  package func restart(now: Int64) {
    stop(now: now)
    start(now: now)
  }

  /// The server crashes: every connection is cut. What publishers were told is kept is kept.
  package func stop(now: Int64) {
    act(now: now) {
      guard !isStopped else { return }
      forgetSettlements()
      let gone = sessions
      for queue in queues { queue.loseEverybody() }
      for session in gone { end(session, .reset(session.id)) }
      for queue in queues { crash(queue) }
      recentlySettled.removeAll()
      isStopped = true
    }
  }

  /// The server is there again, with its queues.
  package func start(now: Int64) {
    act(now: now) {
      guard isStopped else { return }
      isStopped = false
      alarms = []
      for queue in queues {
        handOnAgain(queue)
        queue.checkout(now: now)
      }
      handOver()
    }
  }

  /// Some of what consumers settled just now was not written down.
  private func forgetSettlements() {
    while let (consumer, id, entry, at) = recentlySettled.popFirst() {
      guard now - at <= faults.acknowledgementLostNanoseconds, consumer.status != .gone,
        !consumer.queue.isDeleted, chance(faults.acknowledgementLost)
      else { continue }
      consumer.holdAgain(id, entry)
    }
  }

  private func crash(_ queue: RabbitQueue) {
    let now = now
    queue.lose { entry in
      guard entry.message.atRiskUntil > now, chance(faults.unconfirmedLost) else {
        // What the queue has after a crash it has.
        return false
      }
      observe(.lost(queue: queue.title, message: entry.message))
      return true
    }
    let heldBack = queue.heldBack
    queue.heldBack = []
    queue.unavailableUntil = .min
    for (message, publish) in heldBack {
      // Whoever waits for a confirm publishes it again; a dead letter stays in its queue until the next one has it, so it is handed on
      // again.
      if publish == nil {
        _ = store(message, in: queue, publish: nil)
      } else {
        observe(.lost(queue: queue.title, message: message))
      }
    }
  }

  /// A queue that restarts may not know any more what it handed over, and may take its time until it hands over again.
  private func handOnAgain(_ queue: RabbitQueue) {
    if queue.settings.keepsDeadLetters, chance(faults.handedOnLate) {
      queue.handsOverFrom = now + settings.deadLetterRetryNanoseconds
    }
    while let letter = queue.handedOver.popFirst() {
      guard now - letter.at <= faults.handedOnTwiceNanoseconds, chance(faults.handedOnTwice) else { continue }
      queue.undelivered.append(
        RabbitDeadLetter(message: letter.message, reason: letter.reason, at: max(now, queue.handsOverFrom)))
    }
    queue.undelivered.sort { $0.at < $1.at }
    retryDeadLetters(of: queue)
  }

  /// Everything that the world does begins and ends so.
  private func act(now: Int64, _ body: () -> Void) {
    advance(to: now)
    body()
    handOver()
    flush()
  }

  // MARK: - Producers and onlookers

  /// Publishes a message as a producer does who is told that it is kept. Returns how many queues have it.
  @discardableResult
  package func publish(
    exchange: String, routingKey: String, properties: RabbitProperties, body: [UInt8], now: Int64
  ) -> Int {
    var count = 0
    act(now: now) {
      guard let exchange = exchanges[Array(exchange.utf8)] else { return }
      let message = makeMessage(
        exchange: exchange.name, routingKey: Array(routingKey.utf8), properties: properties.bytes, body: body,
        lifetime: properties.expiration.flatMap { Int64(String(decoding: $0, as: UTF8.self)) }.map { $0 * 1_000_000 })
      for queue in route(exchange, message.routingKey) where store(message, in: queue, publish: nil) != false {
        count += 1
      }
    }
    return count
  }

  /// The queues' names, in the order in which they were declared.
  package var queueNames: [String] { queues.map(\.title) }

  /// The connections that are open, oldest first.
  package var connections: [SimulatedConnectionID] { sessions.map(\.id) }

  /// What the next consumer of a queue would get, in that order; nothing where there is no such queue.
  package func readyMessages(in queue: String) -> [RabbitEntry] {
    guard let queue = queuesByName[Array(queue.utf8)] else { return [] }
    return Array(queue.returned.all) + Array(queue.ready.all)
  }

  /// What the consumers of a queue hold.
  package func heldMessages(in queue: String) -> [RabbitEntry] {
    queuesByName[Array(queue.utf8)]?.consumers.flatMap { $0.held.map(\.entry) } ?? []
  }

  /// Dead letters that no queue took yet, and publishes that wait for a leader: in a queue, and not to be had now.
  package func waitingMessages(in queue: String) -> [RabbitMessage] {
    guard let queue = queuesByName[Array(queue.utf8)] else { return [] }
    return queue.undelivered.map(\.message) + queue.heldBack.map(\.message)
  }

  /// How many messages wait in a queue or with its consumers.
  package func messageCount(in queue: String) -> Int {
    queuesByName[Array(queue.utf8)]?.messageCount ?? 0
  }

  /// Whether all queues are empty but those with these names.
  func isEmpty(besides isLeftOut: (String) -> Bool) -> Bool {
    queues.allSatisfy { $0.messageCount == 0 || isLeftOut($0.title) }
  }

  /// How many consumers a queue has.
  package func consumerCount(of queue: String) -> Int {
    queuesByName[Array(queue.utf8)].map { $0.consumers.count + $0.waiting.count } ?? 0
  }
}
