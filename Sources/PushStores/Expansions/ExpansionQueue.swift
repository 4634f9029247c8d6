import Logging
import PushCore
import PushIO
import PushLane

/// RabbitMQ for an expansion consumer: takes messages from the queues of both classes, publishes their results, and
/// acknowledges each message once the broker confirmed its results. Each class has a channel with a prefetch of its own.
final class ExpansionQueue {
  private let loop: EventLoop
  private let settings: ExpansionSettings
  private let consumer: RabbitMQClient
  private let publisher: ConfirmedPublisher
  private let direct = AMQPExchange("", isMandatory: true)
  private let jobs: AMQPExchange
  private let results: AMQPExchange
  private let retries: AMQPExchange

  /// Called with each delivery.
  var onDelivery: (ExpansionDelivery) -> Void = { _ in }
  /// Called with each delivery that is finished.
  var onFinished: (ExpansionDelivery) -> Void = { _ in }
  /// Called when the connection of the deliveries is gone.
  var onLost: () -> Void = {}

  /// In delivery order.
  private var deliveries: [ExpansionDelivery] = []
  /// Of the current or last consumer connection.
  private var epoch: UInt32 = 0
  private(set) var isConsuming = false
  private var emptyWatch: RabbitMQEmptyWatch?
  private var nextLook: TimerToken?
  /// The queues were empty in two checks in a row, with no delivery between them.
  private var areQueuesEmpty = false
  /// The unanswered consume operations: they are answered before anything else is requested on their channels.
  private var consuming: Set<UInt32> = []
  private var isAskable = false
  private var isDraining = false

  /// A quorum queue drops acknowledgements in flight when their channel closes.
  private static let lingerMilliseconds: Int64 = 100

  init(loop: EventLoop, settings: ExpansionSettings, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    self.settings = settings
    let topology = settings.rabbitmq.topology
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
    results = AMQPExchange(topology.resultsExchange, isMandatory: settings.rabbitmq.outcomesAreMandatory)
    retries = AMQPExchange(topology.retryExchange, isMandatory: true)
    publisher = ConfirmedPublisher(loop: loop, settings: settings.rabbitmq, notice: notice)
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings.rabbitmq,
      setUp: JobClass.allCases.map(ExpansionQueue.channel).flatMap { channel in
        [(.openChannel, channel), (.prefetch(settings.messagesMaximum), channel)]
      }
    ) { level, text in notice(level, "rabbitmq (\(RabbitMQRole.consumer.rawValue)): \(text)") }
  }

  /// Of the consumer's connection.
  private static func channel(_ jobClass: JobClass) -> UInt16 { UInt16(jobClass.rawValue) + 1 }

  var inFlight: Int { deliveries.count }
  var refusedDestinations: [RefusedDestination] { publisher.refusedDestinations }

  // MARK: - Until empty

  /// Checks from now on whether messages wait in the queues, for `isExhausted`.
  func watchUntilEmpty() {
    let topology = settings.rabbitmq.topology
    emptyWatch = RabbitMQEmptyWatch(
      JobClass.allCases.map { jobClass in
        (topology.declarations(of: topology.expansionQueues(jobClass)), ExpansionQueue.channel(jobClass))
      })
    checkWhetherEmpty()
  }

  /// No message waits or is in progress.
  var isExhausted: Bool { areQueuesEmpty && deliveries.isEmpty }

  /// Asks on the channels that deliver messages: messages that left a queue before it was counted arrive before the
  /// answer.
  private func checkWhetherEmpty() {
    guard isAskable, let connection = consumer.connection else { return }
    emptyWatch?.look(on: connection)
  }

  private func looked(_ operation: UInt32, _ reply: AMQPReply) {
    if consuming.remove(operation) != nil {
      guard consuming.isEmpty else { return }
      // Not earlier: a quorum queue may answer a count before an earlier consume operation.
      isAskable = true
      emptyWatch?.restart()
      // Or the looks of two connections would follow each other too soon.
      if let nextLook { loop.cancel(nextLook) }
      return checkWhetherEmpty()
    }
    guard let isEmpty = emptyWatch?.answered(operation, reply) else { return }
    areQueuesEmpty = isEmpty
    nextLook = loop.schedule(afterMilliseconds: settings.rabbitmq.emptyPollMilliseconds) { [weak self] in
      self?.checkWhetherEmpty()
    }
  }

  private func disturbed() {
    areQueuesEmpty = false
    emptyWatch?.wasDisturbed = true
  }

  // MARK: - Turns

  /// One turn, after the loop's poll.
  func turn() {
    publisher.turn()
    if publisher.isReady, !isDraining { consumer.start() }
    while let event = consumer.nextEvent() { take(event) }
    advance()
    publish()
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      guard !isDraining, let connection = consumer.connection else { return consumer.stop() }
      consumer.provedItself()
      epoch &+= 1
      isConsuming = true
      for jobClass in JobClass.allCases {
        let queue = settings.rabbitmq.topology.expansionsQueue(jobClass)
        consuming.insert(
          connection.request(
            .consume(queue: queue, consumerTag: settings.rabbitmq.laneName, arguments: []),
            channel: ExpansionQueue.channel(jobClass)))
      }
    case .down:
      consumingEnded()
    case .connection(.delivery(let delivery)):
      disturbed()
      received(delivery)
    case .connection(.completed(_, let operation, let reply)):
      looked(operation, reply)
    case .connection(.cancelled(let channel)):
      consumer.fail(.consumerCancelled(channel: channel))
      consumingEnded()
    case .connection(.opened), .connection(.confirmed), .connection(.refused), .connection(.returned),
      .connection(.blocked), .connection(.unblocked), .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func received(_ delivery: AMQPDelivery) {
    guard let connection = consumer.connection,
      let queue = JobClass.allCases.first(where: { ExpansionQueue.channel($0) == delivery.channel })
    else { return }
    guard !isDraining else {
      return connection.reject(delivery.tag, requeue: true, channel: delivery.channel)
    }
    guard !delivery.isOversized else {
      // No lane wrote it: the broker dead-letters it.
      return connection.reject(delivery.tag, requeue: false, channel: delivery.channel)
    }
    var body: [UInt8] = []
    var metadata = MessageMetadata()
    connection.copyBody(into: &body)
    connection.copyMetadata(into: &metadata)
    metadata.boundTimes(now: loop.now.unixMilliseconds)
    let taken = ExpansionDelivery(
      epoch: epoch, queue: queue, tag: delivery.tag, body: body, metadata: metadata,
      cursor: connection.headers().firstText(of: "\(RabbitMQPublishProperties.cursorHeader)").flatMap(
        ExpansionCursor.init),
      now: loop.now.unixMilliseconds)
    deliveries.append(taken)
    onDelivery(taken)
  }

  /// Unacknowledged messages are redelivered.
  private func consumingEnded() {
    isConsuming = false
    isAskable = false
    consuming = []
    areQueuesEmpty = false
    for delivery in deliveries { delivery.isGone = true }
    deliveries = []
    publisher.forget()
    onLost()
    // A queue may be gone.
    publisher.declareAgain()
  }

  // MARK: - Deliveries

  /// Continues deliveries whose messages are confirmed, and acknowledges the finished ones.
  private func advance() {
    for delivery in deliveries { delivery.advance() }
    guard deliveries.contains(where: \.isFinished) else { return }
    let finished = deliveries.filter(\.isFinished)
    deliveries.removeAll(where: \.isFinished)
    for delivery in finished {
      onFinished(delivery)
      guard isConsuming, delivery.epoch == epoch, let connection = consumer.connection else { continue }
      let channel = ExpansionQueue.channel(delivery.queue)
      if delivery.isLeftToBroker {
        connection.reject(delivery.tag, requeue: false, channel: channel)
      } else {
        connection.acknowledge(delivery.tag, isMultiple: false, channel: channel)
      }
    }
  }

  private func publish() {
    var isPublishing = false
    for delivery in deliveries {
      for publish in delivery.takePublishes() {
        isPublishing = true
        let mayEnd =
          switch publish.target {
          case .deadLetter, .outcome: true
          case .page, .step, .retry, .latePage, .channelRequest: false
          }
        publisher.publish(
          publish.body, as: message(publish, of: delivery), waitingMaximum: mayEnd ? settings.refusedMaximum : nil)
      }
    }
    guard isPublishing else { return }
    disturbed()
    publisher.send()
  }

  private func message(
    _ publish: ExpansionDelivery.Publish, of delivery: ExpansionDelivery
  ) -> ConfirmedPublisher.Message {
    let topology = settings.rabbitmq.topology
    let (exchange, routingKey): (AMQPExchange, [UInt8]) =
      switch publish.target {
      case .page(let jobClass, _): (jobs, Array(jobClass.name.utf8))
      case .latePage: (jobs, Array(JobClass.transactional.name.utf8))
      case .step: (direct, Array(topology.expansionsQueue(delivery.jobClass).utf8))
      case .retry(let seconds, _):
        (retries, Array(Topology.expansionsRetryRoutingKey(delivery.jobClass, seconds: seconds).utf8))
      case .channelRequest: (direct, Array(topology.channelsQueue.utf8))
      case .outcome(let routingKey, _): (results, routingKey)
      case .deadLetter: (direct, Array(topology.deadQueue.utf8))
      }
    return ConfirmedPublisher.Message(
      exchange: exchange, routingKey: routingKey,
      describe: { [loop] properties, isRepeated in
        ExpansionQueue.describe(
          publish, of: delivery, RabbitMQPublishProperties(properties), isRepeated: isRepeated,
          unixMilliseconds: loop.now.unixMilliseconds)
      },
      // Only a dead letter or an outcome can end otherwise.
      then: { delivery.ended(publish, isConfirmed: $0 == .confirmed) })
  }

  /// - Parameter isRepeated: the broker may have it already.
  private static func describe(
    _ publish: ExpansionDelivery.Publish, of delivery: ExpansionDelivery, _ properties: RabbitMQPublishProperties,
    isRepeated: Bool, unixMilliseconds: Int64
  ) {
    switch publish.target {
    case .page(_, let id):
      properties.describePage(
        id, isRepeated: publish.isRepeated || isRepeated, order: delivery.point, unixMilliseconds: unixMilliseconds,
        publish.metadata)
    case .latePage(let id, let apnsID):
      properties.describeLatePage(id, apnsID: apnsID, unixMilliseconds: unixMilliseconds)
    case .step(let cursor):
      properties.describeExpansion(delivery.jobClass, firstSeen: delivery.firstSeen, cursor: cursor, publish.metadata)
    case .retry(let seconds, let deliveries):
      properties.describeExpansion(
        delivery.jobClass, firstSeen: delivery.firstSeen, cursor: delivery.cursor, deliveries: deliveries,
        isReturning: true, publish.metadata)
      properties.delay(seconds: seconds)
    case .channelRequest(let id): properties.describeChannelRequest(id, unixMilliseconds: unixMilliseconds)
    case .outcome(_, let apnsID):
      properties.describeOutcome(apnsID, unixMilliseconds: unixMilliseconds, publish.metadata)
    case .deadLetter(let reason, let detail):
      properties.describeDeadLetter(delivery.jobClass, reason, detail, nil, publish.metadata)
    }
  }

  // MARK: - The end

  func drain() {
    guard !isDraining else { return }
    isDraining = true
    guard isConsuming, let connection = consumer.connection else { return }
    for jobClass in JobClass.allCases {
      connection.request(
        .cancel(consumerTag: settings.rabbitmq.laneName), channel: ExpansionQueue.channel(jobClass))
    }
  }

  /// Drops the continuations of all deliveries.
  func abandon() {
    for delivery in deliveries { delivery.isGone = true }
  }

  /// Closes the connections: unacknowledged messages are requeued. Keep turning until `isClosed`.
  func close() {
    isDraining = true
    emptyWatch = nil
    for delivery in deliveries { delivery.isGone = true }
    deliveries = []
    publisher.close()
    loop.schedule(afterMilliseconds: ExpansionQueue.lingerMilliseconds) { [weak consumer] in
      consumer?.stop()
    }
  }

  var isClosed: Bool { consumer.state == .idle && publisher.isClosed }
}
