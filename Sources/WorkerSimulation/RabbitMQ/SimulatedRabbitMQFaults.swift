/// Faults that the world injects, and what an observer may read.
extension SimulatedRabbitMQ {
  // MARK: - Connections and channels

  /// Closes a connection with 320 CONNECTION_FORCED: an operator closed it, or the server shuts down.
  package func closeConnection(_ connection: SimulatedConnectionID, now: Int64) {
    act(now: now) {
      guard let session = sessions.first(where: { $0.id == connection }) else { return }
      fail(session, RabbitError(.connectionForced, "Closed via management plugin"))
    }
  }

  /// Resets a connection.
  package func resetConnection(_ connection: SimulatedConnectionID, now: Int64) {
    act(now: now) {
      guard let session = sessions.first(where: { $0.id == connection }) else { return }
      end(session, .reset(connection))
    }
  }

  /// Closes a channel with an error.
  package func closeChannel(_ connection: SimulatedConnectionID, channel: UInt16, now: Int64) {
    act(now: now) {
      guard let session = sessions.first(where: { $0.id == connection }), session.isUsable,
        let channel = session.channel(channel), channel.phase == .open
      else { return }
      fail(channel, RabbitError(.preconditionFailed, "a fault of the simulated world"))
    }
  }

  // MARK: - Queues

  /// Cancels the consumers of a queue, notifies them, and requeues their messages.
  package func cancelConsumers(of queue: String, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)] else { return }
      for consumer in queue.consumers + queue.waiting where consumer.status != .gone { noticeCancelled(consumer) }
      queue.lose(where: { _ in true }, now: self.now)
    }
  }

  /// Moves the leader of a queue: for this long nothing is delivered and publishes wait. Then the messages that consumers held
  /// are redelivered; settlements of them in between have no effect. The consumers stay.
  package func moveLeader(of queue: String, unavailableNanoseconds: Int64, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)] else { return }
      // A longer time would be the loss of a leader, not a move.
      precondition(unavailableNanoseconds >= 0 && unavailableNanoseconds < 86_400_000_000_000, "a leader comes back")
      queue.unavailableUntil = now + unavailableNanoseconds
      queue.moveLeader(now: now)
    }
  }

  /// Deletes a queue and its messages.
  package func deleteQueue(_ queue: String, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)] else { return }
      remove(queue)
    }
  }

  /// An analyst's queue of what an exchange gets with such routing keys: it takes one message, and refuses all others.
  package func addFullQueue(_ name: String, exchange: String, routingKey: String, now: Int64) {
    act(now: now) {
      guard queuesByName[Array(name.utf8)] == nil, let exchange = exchanges[Array(exchange.utf8)] else { return }
      var arguments = RabbitTable()
      arguments["x-max-length"] = .number(1)
      arguments["x-overflow"] = .text("reject-publish")
      guard let queue = try? declaredQueue(Array(name.utf8), isDurable: true, isAutoDelete: false, arguments) else {
        preconditionFailure("its arguments are right")
      }
      exchange.bind(queue, key: Array(routingKey.utf8), arguments: RabbitTable())
    }
  }

  /// Removes a binding.
  package func unbind(queue: String, exchange: String, routingKey: String, now: Int64) {
    act(now: now) {
      guard let queue = queuesByName[Array(queue.utf8)], let exchange = exchanges[Array(exchange.utf8)] else { return }
      exchange.unbind(queue, key: Array(routingKey.utf8), arguments: RabbitTable())
    }
  }

  // MARK: - Publishers

  /// Turns the alarm for `memory` or `disk` on or off. While an alarm is on, connections that publish are blocked.
  package func setAlarm(_ resource: String, isOn: Bool, now: Int64) {
    act(now: now) {
      alarms.removeAll { $0 == resource }
      if isOn { alarms.append(resource) }
      guard alarms.isEmpty else { return }
      for session in sessions { unblock(session) }
    }
  }

  /// The next publishes with confirms are kept, but never confirmed.
  package func dropNextConfirms(_ count: Int) { confirmsToDrop += count }

  /// The next publishes with confirms are refused; some are kept, as `Faults.refusedKept` says.
  package func refuseNextPublishes(_ count: Int) { publishesToRefuse += count }

  /// Turns off all random and planned faults.
  package func calm() {
    faults = Faults()
    confirmsToDrop = 0
    publishesToRefuse = 0
  }

  // MARK: - The whole server

  /// Crashes the server and starts it again at once.
  package func restart(now: Int64) {
    stop(now: now)
    start(now: now)
  }

  /// Crashes the server: all connections are cut. Confirmed messages survive.
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

  /// Starts the server again, with its queues.
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

  /// Undoes some recent settlements, as if they had not been stored.
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
        // Confirmed, or spared by chance: it survives.
        return false
      }
      observe(.lost(queue: queue.title, message: entry.message))
      return true
    }
    let heldBack = queue.heldBack
    queue.heldBack = []
    queue.unavailableUntil = .min
    for (message, publish) in heldBack {
      // A publisher without a confirm publishes again. A dead letter stays in its queue until the next one has it, so it is handed
      // over again.
      if publish == nil {
        _ = store(message, in: queue, publish: nil)
      } else {
        observe(.lost(queue: queue.title, message: message))
      }
    }
  }

  /// After a restart, a queue may hand over recent dead letters again, and may start late.
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

  /// Wraps every action of the world.
  private func act(now: Int64, _ body: () -> Void) {
    advance(to: now)
    body()
    handOver()
    flush()
  }

  // MARK: - Producers and observers

  /// Publishes a message as a producer that gets a confirm. Returns how many queues have it.
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

  /// The queues' names, in order of declaration.
  package var queueNames: [String] { queues.map(\.title) }

  /// Open connections, oldest first.
  package var connections: [SimulatedConnectionID] { sessions.map(\.id) }

  /// The ready messages of a queue, in delivery order; empty if the queue does not exist.
  package func readyMessages(in queue: String) -> [RabbitEntry] {
    guard let queue = queuesByName[Array(queue.utf8)] else { return [] }
    return Array(queue.returned.all) + Array(queue.ready.all)
  }

  /// The messages that consumers of a queue hold.
  package func heldMessages(in queue: String) -> [RabbitEntry] {
    queuesByName[Array(queue.utf8)]?.consumers.flatMap { $0.held.map(\.entry) } ?? []
  }

  /// Dead letters that no queue accepted yet, and publishes that wait for a leader: in the queue, but not deliverable now.
  package func waitingMessages(in queue: String) -> [RabbitMessage] {
    guard let queue = queuesByName[Array(queue.utf8)] else { return [] }
    return queue.undelivered.map(\.message) + queue.heldBack.map(\.message)
  }

  /// How many messages a queue has, including those that consumers hold.
  package func messageCount(in queue: String) -> Int {
    queuesByName[Array(queue.utf8)]?.messageCount ?? 0
  }

  /// Whether all queues are empty, except the left-out ones.
  func isEmpty(besides isLeftOut: (String) -> Bool) -> Bool {
    queues.allSatisfy { $0.messageCount == 0 || isLeftOut($0.title) }
  }

  package func consumerCount(of queue: String) -> Int {
    queuesByName[Array(queue.utf8)].map { $0.consumers.count + $0.waiting.count } ?? 0
  }
}
