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
  private let publisher: RabbitMQClient
  private let properties = RabbitMQPublishProperties()
  private let direct = AMQPExchange("", isMandatory: true)
  private let jobs: AMQPExchange
  private let results: AMQPExchange
  private let dead: AMQPExchange
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
  private var isBlocked = false
  private var emptyWatch: RabbitMQEmptyWatch?
  private var nextLook: TimerToken?
  /// The queues were empty in two checks in a row, with no delivery between them.
  private var areQueuesEmpty = false
  /// The unanswered consume operations: they are answered before anything else is requested on their channels.
  private var consuming: Set<UInt32> = []
  private var isAskable = false
  private var isDraining = false
  /// On the publisher's current connection.
  private var publishedCount: UInt64 = 0
  private var heldUntil: Instant

  private static let publishChannel: UInt16 = 1
  private static let controlChannel: UInt16 = 2
  private static let refusedPauseMilliseconds: Int64 = 1_000
  /// Much longer than a broker needs, even while its queues elect a leader.
  private static let confirmMilliseconds: Int64 = 60_000
  /// A quorum queue drops acknowledgements in flight when their channel closes.
  private static let lingerMilliseconds: Int64 = 100

  init(loop: EventLoop, settings: ExpansionSettings, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    self.settings = settings
    heldUntil = loop.now.monotonic
    let topology = settings.rabbitmq.topology
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
    results = AMQPExchange(topology.resultsExchange, isMandatory: settings.rabbitmq.outcomesAreMandatory)
    dead = AMQPExchange(topology.deadExchange, isMandatory: true)
    retries = AMQPExchange(topology.retryExchange, isMandatory: true)
    let tell: (RabbitMQRole) -> (Logger.Level, String) -> Void = { role in
      { level, text in notice(level, "rabbitmq (\(role.rawValue)): \(text)") }
    }
    publisher = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings.rabbitmq,
      setUp: [
        (.openChannel, ExpansionQueue.publishChannel), (.selectConfirms, ExpansionQueue.publishChannel),
        (.openChannel, ExpansionQueue.controlChannel),
      ] + topology.declarations.map { ($0, ExpansionQueue.controlChannel) }, notice: tell(.publisher))
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings.rabbitmq,
      setUp: JobClass.allCases.map(ExpansionQueue.channel).flatMap { channel in
        [(.openChannel, channel), (.prefetch(settings.messagesMaximum), channel)]
      }, notice: tell(.consumer))
    publisher.start()
  }

  /// Of the consumer's connection.
  private static func channel(_ jobClass: JobClass) -> UInt16 { UInt16(jobClass.rawValue) + 1 }

  var inFlight: Int { deliveries.count }

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
    while let event = publisher.nextEvent() { take(publisherEvent: event) }
    while let event = consumer.nextEvent() { take(consumerEvent: event) }
    advance()
    missConfirms()
    publish()
  }

  private func take(publisherEvent event: RabbitMQClient.Event) {
    switch event {
    case .up:
      publisher.provedItself()
      isBlocked = publisher.blockedReason != nil
      publishedCount = 0
      for delivery in deliveries { delivery.publisherLost() }
      if !isDraining { consumer.start() }
    case .down:
      for delivery in deliveries { delivery.publisherLost() }
    case .connection(.confirmed(_, let number, let isMultiple)):
      for delivery in deliveries { delivery.settled(number, isMultiple: isMultiple, isConfirmed: true) }
    case .connection(.refused(_, let number, let isMultiple)):
      hold()
      for delivery in deliveries { delivery.settled(number, isMultiple: isMultiple, isConfirmed: false) }
    case .connection(.returned):
      returned()
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      // The broker read nothing while it blocked us: confirm timeouts start now.
      for delivery in deliveries { delivery.restamp(loop.now.monotonic) }
    case .connection(.opened), .connection(.completed), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func take(consumerEvent event: RabbitMQClient.Event) {
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
    onLost()
    declareAgain()
  }

  /// A queue or its binding may be gone: declare it before consuming or publishing again.
  private func declareAgain() {
    guard let connection = publisher.connection else { return }
    for operation in settings.rabbitmq.topology.declarations {
      connection.request(operation, channel: ExpansionQueue.controlChannel)
    }
  }

  private func returned() {
    guard let connection = publisher.connection, let number = RabbitMQPublishNumber.ofReturned(connection) else {
      return
    }
    guard deliveries.contains(where: { $0.markReturned(number) }) else { return }
    declareAgain()
    hold()
  }

  private func hold() {
    heldUntil = loop.now.monotonic.adding(milliseconds: ExpansionQueue.refusedPauseMilliseconds)
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
      connection.acknowledge(delivery.tag, isMultiple: false, channel: ExpansionQueue.channel(delivery.queue))
    }
  }

  private func publish() {
    guard let connection = publisher.connection, !isBlocked, loop.now.monotonic >= heldUntil else { return }
    for delivery in deliveries {
      for index in delivery.publishes.indices where delivery.publishes[index].state == .waiting {
        disturbed()
        let number = publish(delivery.publishes[index], of: delivery, on: connection)
        delivery.sent(index, number: number, at: loop.now.monotonic)
      }
    }
  }

  /// A confirm that is this late is lost, and its delivery would wait forever: it is published again on a new
  /// connection.
  private func missConfirms() {
    let milliseconds = ExpansionQueue.confirmMilliseconds
    let limit = loop.now.monotonic.adding(milliseconds: -milliseconds)
    guard publisher.isUp, !isBlocked, deliveries.contains(where: { $0.waits(since: limit) }) else { return }
    publisher.fail(.timedOut(operation: "the confirm of a page", milliseconds: milliseconds))
    for delivery in deliveries { delivery.publisherLost() }
  }

  private func publish(
    _ publish: ExpansionDelivery.Publish, of delivery: ExpansionDelivery, on connection: AMQPConnection
  ) -> UInt64 {
    switch publish.target {
    case .page(let jobClass, let id):
      properties.describePage(
        id, isRepeated: publish.mayBeRepeated,
        order: delivery.point,
        unixMilliseconds: loop.now.unixMilliseconds, publish.metadata)
      return send(publish.body, to: jobs, Array(jobClass.name.utf8), on: connection)
    case .step(let cursor):
      properties.describeExpansion(
        delivery.jobClass, firstSeen: delivery.firstSeen, cursor: cursor, publish.metadata)
      let queue = settings.rabbitmq.topology.expansionsQueue(delivery.jobClass)
      return send(publish.body, to: direct, Array(queue.utf8), on: connection)
    case .retry(let seconds, let deliveries):
      properties.describeExpansion(
        delivery.jobClass, firstSeen: delivery.firstSeen, cursor: delivery.cursor, deliveries: deliveries,
        isReturning: true, publish.metadata)
      let key = Topology.expansionsRetryRoutingKey(delivery.jobClass, seconds: seconds)
      return send(publish.body, to: retries, Array(key.utf8), on: connection)
    case .channelRequest(let id):
      properties.describeChannelRequest(id, unixMilliseconds: loop.now.unixMilliseconds)
      return send(publish.body, to: direct, Array(settings.rabbitmq.topology.channelsQueue.utf8), on: connection)
    case .outcome(let routingKey, let apnsID):
      properties.describeOutcome(apnsID, unixMilliseconds: loop.now.unixMilliseconds, publish.metadata)
      return send(publish.body, to: results, routingKey, on: connection)
    case .deadLetter(let reason, let detail):
      properties.describeDeadLetter(delivery.jobClass, reason, detail, nil, publish.metadata)
      return send(publish.body, to: dead, [], on: connection)
    }
  }

  private func send(
    _ body: [UInt8], to exchange: AMQPExchange, _ routingKey: [UInt8], on connection: AMQPConnection
  ) -> UInt64 {
    publishedCount += 1
    if exchange.isMandatory { RabbitMQPublishNumber.add(publishedCount, to: properties.properties) }
    let number = connection.publish(
      to: exchange, channel: ExpansionQueue.publishChannel, routingKey: routingKey.span,
      properties: properties.properties, body: body.span)
    assert(number == publishedCount)
    return number
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
    publisher.stop()
    loop.schedule(afterMilliseconds: ExpansionQueue.lingerMilliseconds) { [weak consumer] in
      consumer?.stop()
    }
  }

  var isClosed: Bool { consumer.state == .idle && publisher.state == .idle }
}

extension [AMQPArgument] {
  fileprivate func firstText(of name: String) -> String? {
    for argument in self where argument.name == name {
      if case .text(let text) = argument.value { return text }
    }
    return nil
  }
}
