package import PushCore
package import PushIO

/// RabbitMQ as a lane's `Broker`: two connections, one channel for each job class, one for publishing.
///
/// The publisher declares the topology and is up first; then jobs are consumed. Sequence numbers count up over the
/// adapter's life, so that a confirm of an old connection can never be taken for a new one's; a tag's epoch counts
/// consumer connections for the same reason. Nothing is buffered here: a lost publish is the lane's to repeat.
package final class RabbitMQBroker: Broker {
  package private(set) var counters = RabbitMQCounters()

  let loop: EventLoop
  let settings: RabbitMQSettings
  let consumer: RabbitMQClient
  let publisher: RabbitMQClient
  private let notices = RabbitMQNoticeBox()
  /// Of the publish that is being made.
  let properties = AMQPProperties()
  private let results: AMQPExchange
  private let retries: AMQPExchange
  let deadLetters: AMQPExchange
  private let jobs: AMQPExchange
  private let isolatedKey = Array(Topology.isolatedRoutingKey.utf8)
  /// By class, then by delay.
  private let retryKeys: [[[UInt8]]]

  /// Of the consumer connection in use, or the last.
  private var epoch: UInt32 = 0
  private var isConsuming = false
  /// The consumer's connection is up, and takes nothing before publishing is possible: each delivery that ends in nothing counts
  /// against its message.
  private var isConsumerWaiting = false
  private var isStopped = false
  private var isBlocked = false
  /// Consumers that were asked for and did not answer.
  private var startingConsumers: Set<UInt32> = []

  private var nextSequence: UInt64 = 1
  /// The connection's confirm number 1 is the sequence number behind this one.
  private var sequenceBase: UInt64 = 0
  /// Numbers that came back and whose confirm, which follows, is not worth telling.
  package private(set) var returned: Set<UInt64> = []
  private var isRedeclaring = false
  var oversized = RabbitMQOversizedJobs()
  private var isOversizedTold = false
  /// Told before anything else: ends of connections that we wanted, consumers that had waited.
  private var untold: [BrokerEvent] = []

  var emptyWatch: RabbitMQEmptyWatch?

  private static let noticesMaximum = 64
  private static let lingerMilliseconds: Int64 = 100

  package init(loop: EventLoop, settings: RabbitMQSettings) {
    self.loop = loop
    self.settings = settings
    let topology = settings.topology
    results = AMQPExchange(topology.resultsExchange, isMandatory: settings.outcomesAreMandatory)
    retries = AMQPExchange(topology.retryExchange, isMandatory: true)
    deadLetters = AMQPExchange(topology.deadExchange, isMandatory: true)
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
    retryKeys = JobClass.allCases.map { jobClass in
      topology.retryDelaysSeconds.map { Array(Topology.retryRoutingKey(jobClass, seconds: $0).utf8) }
    }
    let notices = notices
    publisher = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings, setUp: RabbitMQBroker.publisherSetUp(topology)
    ) { notices.add(RabbitMQNotice(level: $0, role: .publisher, text: $1), maximum: RabbitMQBroker.noticesMaximum) }
    var consumerSettings = settings
    consumerSettings.connection.oversizedBytesMaximum = Limits.deadLetterBytesMaximum
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: consumerSettings, setUp: RabbitMQBroker.consumerSetUp(settings)
    ) { notices.add(RabbitMQNotice(level: $0, role: .consumer, text: $1), maximum: RabbitMQBroker.noticesMaximum) }
    publisher.start()
  }

  // MARK: state, for people

  /// What changed since the last call, to be logged.
  package func takeNotices() -> [RabbitMQNotice] { notices.take() }

  package func isConnected(_ role: RabbitMQRole) -> Bool {
    switch role {
    case .consumer: isConsuming
    case .publisher: publisher.isUp
    }
  }

  /// Why a connection is down; nil where it is up or was not tried.
  package func failure(_ role: RabbitMQRole) -> AMQPError? {
    switch role {
    case .consumer: consumer.failure
    case .publisher: publisher.failure
    }
  }

  package var canPublish: Bool { publisher.isUp && !isBlocked }

  // MARK: events

  /// The next event of this turn; nil once everything is told.
  ///
  /// - Parameter takesDeliveries: false leaves the next delivery, and what the consumer's connection said behind it, where
  ///   they are until they are wanted again; confirms, and all else of the publisher's connection, are told.
  package func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !untold.isEmpty { return untold.removeFirst() }
    while let event = publisher.nextEvent() {
      if let told = take(publisherEvent: event) { return told }
    }
    copyOversized()
    while let event = consumer.nextEvent(takesDeliveries: takesDeliveries && !oversized.isWaiting) {
      if let told = take(consumerEvent: event) { return told }
    }
    return nil
  }

  private func take(publisherEvent event: RabbitMQClient.Event) -> BrokerEvent? {
    switch event {
    case .up:
      publisher.provedItself()
      sequenceBase = nextSequence - 1
      returned.removeAll()
      oversized.publisherLost()
      isRedeclaring = false
      isBlocked = false
      counters.isPublisherConnected = true
      emptyWatch?.restart()
      lookWhetherEmpty()
      if !isStopped { consumer.start() }
      startWaitingConsumers()
      return .publishing
    case .down:
      return publishingEnded()
    case .connection(.confirmed(RabbitMQBroker.oversizedChannel, let number, _)):
      oversized.confirmed(number)
      return nil
    case .connection(.refused(RabbitMQBroker.oversizedChannel, let number, _)):
      oversized.refused(number)
      copyOversizedLater()
      return nil
    case .connection(.returned(RabbitMQBroker.oversizedChannel, _)):
      oversized.cameBack()
      redeclare()
      copyOversizedLater()
      return nil
    case .connection(.confirmed(_, let number, let isMultiple)):
      let sequence = sequenceBase + number
      guard !wasReturned(sequence, isMultiple: isMultiple) else { return nil }
      counters.confirmed = isMultiple ? max(counters.confirmed, sequence) : counters.confirmed + 1
      return .confirmed(sequence: sequence, isMultiple: isMultiple)
    case .connection(.refused(_, let number, let isMultiple)):
      let sequence = sequenceBase + number
      guard !wasReturned(sequence, isMultiple: isMultiple) else { return nil }
      counters.refused += 1
      return .refused(sequence: sequence, isMultiple: isMultiple)
    case .connection(.returned):
      return takeReturned()
    case .connection(.blocked):
      isBlocked = true
      counters.isBlocked = true
      let reason = publisher.blockedReason ?? "no reason given"
      addNotice(.warning, .publisher, "blocked by the broker: \(reason); publishing waits")
      return .blocked
    case .connection(.unblocked):
      isBlocked = false
      counters.isBlocked = false
      addNotice(.info, .publisher, "no longer blocked")
      startWaitingConsumers()
      return .unblocked
    case .connection(.completed(_, let operation, let reply)):
      return takeAnswer(operation, reply)
    case .connection(.delivery), .connection(.cancelled), .connection(.opened), .connection(.channelClosed),
      .connection(.closed):
      return nil
    }
  }

  private func take(consumerEvent event: RabbitMQClient.Event) -> BrokerEvent? {
    switch event {
    case .up:
      if isStopped {
        consumer.stop()
        return nil
      }
      isConsumerWaiting = !canPublish
      return isConsumerWaiting ? nil : startConsumers()
    case .down:
      return consumingEnded()
    case .connection(.delivery(let delivery)):
      let isIsolated = delivery.channel == RabbitMQBroker.isolatedChannel
      // The class of an isolated job is read with its other properties.
      let number = isIsolated ? 0 : UInt8(truncatingIfNeeded: delivery.channel &- 1)
      guard let jobClass = JobClass(rawValue: number) else { return nil }
      emptyWatch?.wasDisturbed = true
      let tag = DeliveryTag(epoch: epoch, jobClass: jobClass, value: delivery.tag, isIsolated: isIsolated)
      if delivery.isOversized, !isStopped, delivery.bodyCount <= Limits.deadLetterBytesMaximum,
        !oversized.isDecided(tag)
      {
        consumer.connection?.keep(delivery)
        oversized.met(tag, bodyCount: delivery.bodyCount)
        copyOversized()
        giveUpOversizedLater(tag, bodyCount: delivery.bodyCount)
        return nil
      }
      counters.deliveries += 1
      isOversizedTold = delivery.isOversized
      return .delivery(
        Delivery(
          tag: tag, bodyCount: delivery.bodyCount, isOversized: delivery.isOversized))
    case .connection(.cancelled(let channel)):
      consumer.fail(.consumerCancelled(channel: channel))
      return consumingEnded()
    case .connection(.completed(_, let operation, _)):
      if startingConsumers.remove(operation) != nil, startingConsumers.isEmpty { consumer.provedItself() }
      return nil
    case .connection(.blocked), .connection(.unblocked), .connection(.confirmed), .connection(.refused),
      .connection(.returned), .connection(.opened), .connection(.channelClosed), .connection(.closed):
      return nil
    }
  }

  private func startWaitingConsumers() {
    guard isConsumerWaiting, !isStopped, let event = startConsumers() else { return }
    isConsumerWaiting = false
    untold.append(event)
  }

  /// The epoch is told before the first delivery can come.
  private func startConsumers() -> BrokerEvent? {
    guard let connection = consumer.connection else { return nil }
    epoch &+= 1
    isConsuming = true
    counters.isConsumerConnected = true
    startingConsumers.removeAll()
    for (queue, channel) in consumedQueues {
      let consume = AMQPOperation.consume(queue: queue, consumerTag: settings.laneName, arguments: [])
      startingConsumers.insert(connection.request(consume, channel: channel))
    }
    return .consuming(epoch: epoch)
  }

  private var consumedQueues: [(queue: String, channel: UInt16)] {
    JobClass.allCases.map { (settings.topology.jobsQueue($0), RabbitMQBroker.channel($0)) }
      + [(settings.topology.isolatedQueue, RabbitMQBroker.isolatedChannel)]
  }

  private func publishingEnded() -> BrokerEvent {
    counters.isPublisherConnected = false
    counters.isBlocked = false
    counters.connectionsLost += 1
    return .publishingStopped
  }

  private func consumingEnded() -> BrokerEvent? {
    isConsumerWaiting = false
    guard isConsuming else { return nil }
    isConsuming = false
    oversized.consumerLost()
    counters.isConsumerConnected = false
    counters.connectionsLost += 1
    // The queues may be gone: whoever declares them does it before they are consumed again.
    redeclare()
    return .consumingStopped
  }

  // MARK: what came back

  /// A message that no queue takes, by the number that it carries: the topology is declared again.
  private func takeReturned() -> BrokerEvent? {
    guard let connection = publisher.connection else { return nil }
    counters.returned += 1
    addNotice(
      .warning, .publisher,
      "no queue takes messages of \(connection.returnedExchange) with '\(connection.returnedRoutingKey)': "
        + "declaring queues and bindings again")
    guard let sequence = RabbitMQPublishNumber.ofReturned(connection), sequence > sequenceBase, sequence < nextSequence
    else {
      // Which one it was cannot be told: all unconfirmed ones are published again on a new connection.
      publisher.fail(.connectionLost(to: "the broker", reason: "a returned message does not carry its number"))
      return publishingEnded()
    }
    returned.insert(sequence)
    redeclare()
    return .refused(sequence: sequence, isMultiple: false)
  }

  /// What came back was told when it did. A confirm of many covers others too, and is told.
  private func wasReturned(_ sequence: UInt64, isMultiple: Bool) -> Bool {
    guard !returned.isEmpty else { return false }
    guard isMultiple else { return returned.remove(sequence) != nil }
    returned = returned.filter { $0 > sequence }
    return false
  }

  private func redeclare() {
    guard !isRedeclaring, let connection = publisher.connection else { return }
    isRedeclaring = true
    for operation in settings.topology.declarations {
      connection.request(operation, channel: RabbitMQBroker.controlChannel)
    }
    // At most one a second, however much comes back.
    loop.schedule(afterMilliseconds: 1000) { [weak self] in self?.isRedeclaring = false }
  }

  func addNotice(_ level: RabbitMQNotice.Level, _ role: RabbitMQRole, _ text: String) {
    notices.add(
      RabbitMQNotice(level: level, role: role, text: text), maximum: RabbitMQBroker.noticesMaximum)
  }

  // MARK: deliveries

  package func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    guard let connection = consumer.connection else { preconditionFailure("no delivery was told") }
    if isOversizedTold { job.bytes.removeAll(keepingCapacity: true) } else { connection.copyBody(into: &job.bytes) }
    job.bodyCount = job.bytes.count
    connection.copyMetadata(into: &metadata)
  }

  package func acknowledge(upTo tag: DeliveryTag) {
    guard tag.epoch == epoch, isConsuming, let connection = consumer.connection else { return }
    counters.acknowledgements += 1
    connection.acknowledge(tag.value, isMultiple: true, channel: RabbitMQBroker.channel(tag))
  }

  package func acknowledge(one tag: DeliveryTag) {
    guard tag.epoch == epoch, isConsuming, let connection = consumer.connection else { return }
    counters.acknowledgements += 1
    connection.acknowledge(tag.value, isMultiple: false, channel: RabbitMQBroker.channel(tag))
  }

  package func reject(_ tag: DeliveryTag, requeue: Bool) {
    guard tag.epoch == epoch, isConsuming, let connection = consumer.connection else { return }
    // Its dead letter is there already, with the reason.
    if oversized.settled(tag), !requeue { return acknowledge(one: tag) }
    connection.reject(tag.value, requeue: requeue, channel: RabbitMQBroker.channel(tag))
  }

  package func stopConsuming() {
    guard !isStopped else { return }
    isStopped = true
    oversized.stopped()
    guard isConsuming, let connection = consumer.connection else {
      consumer.stop()
      return
    }
    for (_, channel) in consumedQueues {
      connection.request(.cancel(consumerTag: settings.laneName), channel: channel)
    }
  }

  /// Says goodbye on both connections: unacknowledged deliveries go back to their queues. Keep turning until `isClosed`.
  ///
  /// The consumers are cancelled first and their connection closed a little later: a channel of a quorum queue holds
  /// acknowledgements back while many are under way, and forgets them when it closes.
  package func close() {
    emptyWatch = nil
    publisher.stop()
    if isConsuming {
      stopConsuming()
      loop.schedule(afterMilliseconds: RabbitMQBroker.lingerMilliseconds) { [consumer] in consumer.stop() }
    } else {
      isStopped = true
      consumer.stop()
    }
  }

  /// Both connections are gone after `close`.
  package var isClosed: Bool { consumer.state == .idle && publisher.state == .idle }

  /// Ends both connections on purpose, where they are up or on their way there, and connects anew after the usual waits.
  /// `.publishingStopped` and `.consumingStopped` are told; unacknowledged deliveries go back to their queues, for whoever
  /// consumes them. For a lane that stands still.
  package func restart(reason: String) {
    let (wasPublishing, wasConsuming) = (publisher.isUp, isConsuming)
    publisher.restart(.ended(reason: reason))
    consumer.restart(.ended(reason: reason))
    if wasPublishing { untold.append(publishingEnded()) }
    if wasConsuming, let event = consumingEnded() { untold.append(event) }
  }

  // MARK: publishes

  package func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.reset()
    properties.setMessageID(apnsID)
    properties.setType("push.outcome.v1")
    properties.setTimestamp(unixMilliseconds: loop.now.unixMilliseconds)
    passOn(metadata)
    return publish(body, to: results, routingKey: routingKey)
  }

  package func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    properties.addHeader("x-herald-attempts", Int64(state.attempts))
    properties.addHeader("x-herald-first-seen", state.firstSeen)
    if state.claim > 0 { properties.addHeader("x-herald-claim", Int64(state.claim)) }
    properties.addHeader("x-herald-ambiguous", state.isAmbiguous)
    if let apnsID = state.apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    if metadata.carriedDeliveries > 0 {
      properties.addHeader("x-herald-deliveries", Int64(metadata.carriedDeliveries))
    }
    if state.redeliveries > 0 { properties.addHeader("x-herald-redeliveries", Int64(state.redeliveries)) }
    if let reason = state.reason { properties.addHeader("x-herald-reason", reason.name) }
    let delays = settings.topology.retryDelaysSeconds
    let index = delays.firstIndex { $0 >= delaySeconds } ?? delays.count - 1
    return publish(body, to: retries, routingKey: retryKeys[Int(jobClass.rawValue)][index])
  }

  package func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.reset()
    keepOriginal(metadata)
    passOn(metadata)
    properties.addHeader("x-herald-attempts", Int64(metadata.attempts))
    properties.addHeader("x-herald-first-seen", firstSeen)
    if metadata.claim > 0 { properties.addHeader("x-herald-claim", Int64(metadata.claim)) }
    properties.addHeader("x-herald-ambiguous", metadata.isAmbiguous)
    if let apnsID = metadata.apnsID { properties.addHeader("x-herald-apns-id", apnsID) }
    properties.addHeader("x-herald-deliveries", Int64(metadata.carriedDeliveries))
    properties.addHeader("x-herald-class", literal: jobClass == .bulk ? "bulk" : "transactional")
    return publish(body, to: jobs, routingKey: isolatedKey)
  }

  package func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue? = nil,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    describeDeadLetter(jobClass, reason, detail, apnsID, metadata)
    return publish(body, to: deadLetters, routingKey: [])
  }

  /// While the publisher is down the number is given out and nothing is sent: `.publishing` tells the lane to repeat it.
  private func publish(_ body: [UInt8], to exchange: AMQPExchange, routingKey: [UInt8]) -> UInt64 {
    let sequence = nextSequence
    nextSequence += 1
    emptyWatch?.wasDisturbed = true
    counters.published += 1
    guard let connection = publisher.connection else { return sequence }
    if exchange.isMandatory { RabbitMQPublishNumber.add(sequence, to: properties) }
    let number = connection.publish(
      to: exchange, channel: RabbitMQBroker.publishChannel, routingKey: routingKey.span, properties: properties,
      body: body.span)
    assert(sequenceBase + number == sequence)
    return sequence
  }

  // MARK: until empty

  /// From now on `.exhausted` is told whenever all queues with work were seen empty twice in a row, with nothing delivered
  /// and nothing published in between. What other lanes have in flight is theirs to know.
  package func watchUntilEmpty() {
    guard emptyWatch == nil else { return }
    emptyWatch = RabbitMQEmptyWatch(queues: settings.topology.workQueues)
    lookWhetherEmpty()
  }

  private func lookWhetherEmpty() {
    guard var watch = emptyWatch, let connection = publisher.connection else { return }
    guard watch.pending.isEmpty else { return }
    for queue in watch.queues {
      watch.pending.insert(connection.request(.inspectQueue(name: queue), channel: RabbitMQBroker.controlChannel))
    }
    emptyWatch = watch
  }

  private func takeAnswer(_ operation: UInt32, _ reply: AMQPReply) -> BrokerEvent? {
    guard emptyWatch?.pending.remove(operation) != nil else { return nil }
    guard let isEmpty = emptyWatch?.answered(reply) else { return nil }
    loop.schedule(afterMilliseconds: settings.emptyPollMilliseconds) { [weak self] in self?.lookWhetherEmpty() }
    return isEmpty && !oversized.isWaiting ? .exhausted : nil
  }
}
