import Logging
package import PushCore
package import PushIO

/// RabbitMQ as a lane's `Broker`: two connections, one that consumes and one that publishes.
///
/// The publisher declares the topology and connects first; then jobs are consumed. This type does what concerns both: an oversized job of
/// the consumer becomes a dead letter of the publisher, and after the consumer is lost the topology is declared again.
package final class RabbitMQBroker: Broker {
  private let loop: EventLoop
  private let settings: RabbitMQSettings
  private let notices = RabbitMQNoticeBox()
  private var consumer: RabbitMQConsumer
  private var publisher: RabbitMQPublisher
  private var emptyWatch: RabbitMQEmptyWatch?
  private var isLookScheduled = false
  /// Reported before anything else: connections that we closed, consumers that had waited.
  private var unreported: [BrokerEvent] = []

  private static let lingerMilliseconds: Int64 = 100
  /// How long to wait before the next try if the broker refused a dead letter: it would refuse it again at once.
  private static let oversizedRetryMilliseconds: Int64 = 1_000

  package init(loop: EventLoop, settings: RabbitMQSettings) {
    self.loop = loop
    self.settings = settings
    publisher = RabbitMQPublisher(loop: loop, settings: settings, notices: notices)
    consumer = RabbitMQConsumer(loop: loop, settings: settings, notices: notices)
    publisher.client.start()
  }

  // MARK: - State, for output

  /// Changes since the last call, for the log.
  package func takeNotices() -> [RabbitMQNotice] { notices.take() }

  package func isConnected(_ role: RabbitMQRole) -> Bool {
    switch role {
    case .consumer: consumer.isConsuming
    case .publisher: publisher.client.isUp
    }
  }

  /// Why a connection is down; nil if it is up or was not tried.
  package func failure(_ role: RabbitMQRole) -> AMQPError? {
    switch role {
    case .consumer: consumer.client.failure
    case .publisher: publisher.client.failure
    }
  }

  package var canPublish: Bool { publisher.canPublish }

  package func renewChannel() {
    if let event = publisher.renewChannel() { unreported.append(event) }
  }

  /// With one address a fresh connection would lead to the same node.
  package func renewConnection() {
    guard settings.addresses.count > 1 else { return renewChannel() }
    if let event = publisher.restart(.ended(reason: "the broker refuses what is published")) {
      unreported.append(event)
    }
  }

  package func note(_ destination: PublishDestination, app: String?, refusedForMilliseconds: Int64?) {
    publisher.note(destination, app: app, refusedForMilliseconds: refusedForMilliseconds)
  }

  package var counters: RabbitMQCounters {
    var counters = RabbitMQCounters()
    counters.deliveries = consumer.deliveryCount
    counters.published = publisher.publishedCount
    counters.confirmed = publisher.confirmedCount
    counters.refused = publisher.refusedCount
    counters.returned = publisher.returnedCount
    counters.acknowledgements = consumer.acknowledgementCount
    counters.connectionsLost = consumer.lostCount + publisher.lostCount
    counters.isConsumerConnected = consumer.isConsuming
    counters.isPublisherConnected = publisher.isPublishing
    counters.isBlocked = publisher.isBlocked
    counters.refusing = publisher.refusing
    return counters
  }

  /// Sequence numbers that were returned and whose confirm, which follows, is not reported.
  package var returned: Set<UInt64> { publisher.channels.sequence.returned }

  // MARK: - Events

  /// The next event of this turn; nil once everything is reported.
  ///
  /// - Parameter takesDeliveries: false leaves the next delivery, and everything after it on the consumer's connection, for later; confirms
  ///   and all else from the publisher's connection are reported.
  package func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !unreported.isEmpty { return unreported.removeFirst() }
    while let event = publisher.nextEvent() {
      if let reported = take(event) { return reported }
    }
    publishOversized()
    while let event = consumer.nextEvent(takesDeliveries: takesDeliveries, canPublish: canPublish) {
      if let reported = take(event) { return reported }
    }
    return nil
  }

  private func take(_ event: RabbitMQPublisher.Event) -> BrokerEvent? {
    switch event {
    case .reported(.confirmed(let numbers)):
      consumer.oversized.confirmed(numbers)
      return .confirmed(numbers)
    case .reported(.refused(let numbers)):
      if let triesAgain = consumer.oversized.refused(numbers, now: loop.now.monotonic) {
        renewChannel()
        if triesAgain { publishOversizedLater() }
      }
      return .refused(numbers)
    case .reported(let event):
      return event
    case .up:
      consumer.oversized.publisherLost()
      emptyWatch?.restart()
      checkWhetherEmpty()
      startConsumer()
      return .publishing
    case .unblocked:
      startConsumer()
      return .unblocked
    case .answered(let operation, let reply):
      guard let isEmpty = emptyWatch?.answered(operation, reply) else { return nil }
      // What the queues gave may still be on its way to us.
      if isEmpty, consumer.beginFence() { emptyWatch?.isFenced = true } else { checkWhetherEmptyLater() }
      return nil
    }
  }

  private func take(_ event: RabbitMQConsumer.Event) -> BrokerEvent? {
    switch event {
    case .consuming(let epoch):
      return .consuming(epoch: epoch)
    case .stopped:
      emptyWatch?.restart()
      checkWhetherEmpty()
      publisher.declareAgain()
      return .consumingStopped
    case .delivery(let delivery):
      emptyWatch?.wasDisturbed = true
      return .delivery(delivery)
    case .oversized(let tag, let bodyCount, let milliseconds):
      emptyWatch?.wasDisturbed = true
      publishOversized()
      giveUpOversizedLater(tag, bodyCount: bodyCount, afterMilliseconds: milliseconds)
      return nil
    case .fenced:
      guard emptyWatch?.isFenced == true else { return nil }
      emptyWatch?.isFenced = false
      checkWhetherEmptyLater()
      return emptyWatch?.wasDisturbed == false && !consumer.oversized.isWaiting ? .exhausted : nil
    }
  }

  private func startConsumer() {
    if let event = consumer.start(), let reported = take(event) { unreported.append(reported) }
  }

  /// Closes both connections: unacknowledged deliveries return to their queues. Keep turning until `isClosed`.
  ///
  /// The consumers are cancelled first and their connection is closed a little later: a channel of a quorum queue holds acknowledgements
  /// back while many are in flight, and loses them when it closes.
  package func close() {
    emptyWatch = nil
    publisher.client.stop()
    let wasConsuming = consumer.isConsuming
    consumer.stop()
    if wasConsuming {
      loop.schedule(afterMilliseconds: RabbitMQBroker.lingerMilliseconds) { [weak client = consumer.client] in
        client?.stop()
      }
    } else {
      consumer.client.stop()
    }
  }

  /// Both connections have ended after `close`.
  package var isClosed: Bool { consumer.client.state == .idle && publisher.client.state == .idle }

  /// Closes both connections, if they are up or connecting, and connects again after the usual waits. `.publishingStopped` and
  /// `.consumingStopped` are reported; unacknowledged deliveries return to their queues, for any consumer. For a lane that stands still.
  package func restart(reason: String) {
    if let reported = publisher.restart(.ended(reason: reason)) { unreported.append(reported) }
    if let event = consumer.restart(.ended(reason: reason)), let reported = take(event) { unreported.append(reported) }
  }

  // MARK: - Deliveries

  package func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    consumer.copyDelivery(into: &job, metadata: &metadata)
  }

  package func acknowledge(upTo tag: DeliveryTag) {
    consumer.acknowledge(tag, isMultiple: true)
  }

  package func acknowledge(one tag: DeliveryTag) {
    consumer.acknowledge(tag, isMultiple: false)
  }

  package func reject(_ tag: DeliveryTag, requeue: Bool) {
    consumer.reject(tag, requeue: requeue)
  }

  package func stopConsuming() {
    consumer.stop()
  }

  // MARK: - Publishes

  package func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    emptyWatch?.wasDisturbed = true
    return publisher.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
  }

  package func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    emptyWatch?.wasDisturbed = true
    return publisher.publishRetry(
      body, jobClass: jobClass, delaySeconds: delaySeconds, state: state, metadata: metadata)
  }

  package func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    emptyWatch?.wasDisturbed = true
    return publisher.publishIsolated(body, jobClass: jobClass, firstSeen: firstSeen, metadata: metadata)
  }

  package func publishExpansion(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    emptyWatch?.wasDisturbed = true
    return publisher.publishExpansion(body, jobClass: jobClass, firstSeen: firstSeen, metadata: metadata)
  }

  package func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64 {
    emptyWatch?.wasDisturbed = true
    return publisher.publishSettlement(body, jobClass: jobClass)
  }

  package func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue? = nil,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    emptyWatch?.wasDisturbed = true
    return publisher.publishDeadLetter(
      body, jobClass: jobClass, reason: reason, detail: detail, apnsID: apnsID, metadata: metadata)
  }

  // MARK: - Oversized jobs, whose bytes the lane never sees

  /// Publishes the waiting oversized job's dead letter: only the consumer has its bytes.
  private func publishOversized() {
    guard let (tag, bodyCount) = consumer.oversized.due, let source = consumer.client.connection,
      let number = publisher.publishOversized(tag, bodyCount: bodyCount, from: source)
    else { return }
    emptyWatch?.wasDisturbed = true
    consumer.oversized.published(number)
  }

  private func publishOversizedLater() {
    loop.schedule(afterMilliseconds: RabbitMQBroker.oversizedRetryMilliseconds) { [weak self] in
      self?.consumer.oversized.tryAgain()
    }
  }

  private func giveUpOversizedLater(_ tag: DeliveryTag, bodyCount: Int, afterMilliseconds milliseconds: Int64) {
    loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
      guard let self, consumer.oversized.giveUp(tag, now: loop.now.monotonic) else { return }
      // For the next one: this one's may be what refuses.
      renewChannel()
      notices.add(
        .warning, .publisher,
        """
        \(settings.topology.deadQueue) did not take the dead letter of a job of \(bodyCount) bytes within \
        \(milliseconds / 1000) s (\(canPublish ? "it may be full" : unpublishable)): \
        RabbitMQ moves the job there itself, without the reason, and the next ones at once
        """)
    }
  }

  private var unpublishable: String {
    publisher.client.isUp ? "RabbitMQ blocks publishing" : "there is no connection to publish on"
  }

  // MARK: - Until empty

  /// From now on `.exhausted` is reported whenever all work queues were empty in two looks in a row, with no delivery and no publish
  /// between them, and nothing is on its way from RabbitMQ. Jobs in flight in other lanes are not considered.
  package func watchUntilEmpty() {
    guard emptyWatch == nil else { return }
    emptyWatch = RabbitMQEmptyWatch(
      settings.topology.workQueues.map { .inspectQueue(name: $0) }, channel: RabbitMQPublisher.controlChannel)
    checkWhetherEmpty()
  }

  private func checkWhetherEmptyLater() {
    guard !isLookScheduled else { return }
    isLookScheduled = true
    loop.schedule(afterMilliseconds: settings.emptyPollMilliseconds) { [weak self] in
      self?.isLookScheduled = false
      self?.checkWhetherEmpty()
    }
  }

  private func checkWhetherEmpty() {
    guard let connection = publisher.client.connection else { return }
    emptyWatch?.look(on: connection)
  }
}
