package import Logging
import PushCore
package import PushIO
import PushLane

/// The work on the thread of the consumer of what RabbitMQ gave up. A message is acknowledged once RabbitMQ confirmed the one that replaces
/// it.
package final class UndeliveredConsumerLoop: ConsumerLoop {
  package static let name = "undelivered"
  package static let noticeSubjects = ["rabbitmq"]

  private let loop: EventLoop
  private let settings: UndeliveredSettings
  private let consumer: RabbitMQClient
  private let publisher: ConfirmedPublisher
  private let direct = AMQPExchange("", isMandatory: true)
  private let notice: (Logger.Level, String) -> Void

  /// Unacknowledged deliveries, of the current consumer connection.
  private var tags: Set<UInt64> = []
  /// Of the current or last consumer connection.
  private var epoch: UInt32 = 0
  private var isConsuming = false
  private var taken: [String: UInt64] = [:]
  /// Those that no log line has told.
  private var untold: [String: UInt64] = [:]
  private var nextTelling = Instant(nanoseconds: .min)
  private var emptyWatch: RabbitMQEmptyWatch?
  private var nextLook: TimerToken?
  /// The queue was empty in two checks in a row, with no delivery between them.
  private var isQueueEmpty = false
  /// The unanswered consume operations: they are answered before anything else is requested on their channel.
  private var consuming: Set<UInt32> = []
  private var isAskable = false
  private var drainDeadline: Instant?
  private var isClosing = false

  private static let channel: UInt16 = 1
  private static let tellingMilliseconds: Int64 = 60_000
  private static let lingerMilliseconds: Int64 = 100
  private static let reasons: Set = ["expired", "delivery_limit", "maxlen", "rejected"]

  package init(
    loop: EventLoop, settings: UndeliveredSettings, seed: UInt64, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.notice = notice
    var settings = settings
    settings.rabbitmq.randomSeed = seed
    self.settings = settings
    publisher = ConfirmedPublisher(loop: loop, settings: settings.rabbitmq, notice: notice)
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings.rabbitmq,
      setUp: [
        (.openChannel, UndeliveredConsumerLoop.channel),
        (.prefetch(settings.messagesMaximum), UndeliveredConsumerLoop.channel),
      ]
    ) { level, text in notice(level, "rabbitmq (\(RabbitMQRole.consumer.rawValue)): \(text)") }
  }

  package var counters: UndeliveredCounters {
    var counters = UndeliveredCounters()
    counters.taken = taken
    counters.inFlight = tags.count
    counters.refusing = publisher.refusedDestinations
    counters.isConnected = isConsuming
    return counters
  }

  // MARK: - Until empty

  package func watchUntilEmpty() {
    let topology = settings.rabbitmq.topology
    emptyWatch = RabbitMQEmptyWatch(
      topology.declarations(of: [topology.undeliveredQueue, topology.lateQueue]),
      channel: UndeliveredConsumerLoop.channel)
    checkWhetherEmpty()
  }

  package var isExhausted: Bool { isQueueEmpty && tags.isEmpty }

  /// Asks on the channel that delivers: messages that left the queue before it was counted arrive before the answer.
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
    isQueueEmpty = isEmpty
    nextLook = loop.schedule(afterMilliseconds: settings.rabbitmq.emptyPollMilliseconds) { [weak self] in
      self?.checkWhetherEmpty()
    }
  }

  // MARK: - Turns

  package func turn() {
    publisher.turn()
    // By then the queues exist.
    if publisher.isReady, drainDeadline == nil { consumer.start() }
    while let event = consumer.nextEvent() { take(event) }
    publisher.send()
    tell()
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      guard drainDeadline == nil, let connection = consumer.connection else { return consumer.stop() }
      consumer.provedItself()
      epoch &+= 1
      isConsuming = true
      for queue in queues {
        consuming.insert(
          connection.request(
            .consume(queue: queue, consumerTag: consumerTag(queue), arguments: []),
            channel: UndeliveredConsumerLoop.channel))
      }
    case .down:
      consumingEnded()
    case .connection(.delivery(let delivery)):
      isQueueEmpty = false
      emptyWatch?.wasDisturbed = true
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

  /// Unacknowledged messages are redelivered.
  private func consumingEnded() {
    isConsuming = false
    isAskable = false
    consuming = []
    isQueueEmpty = false
    tags = []
    publisher.forget()
    // The queue may be gone: declare it before consuming again.
    publisher.declareAgain()
  }

  private var queues: [String] {
    [settings.rabbitmq.topology.undeliveredQueue, settings.rabbitmq.topology.lateQueue]
  }

  private func consumerTag(_ queue: String) -> String { "\(settings.rabbitmq.laneName)/\(queue)" }

  // MARK: - A message's way

  private func received(_ delivery: AMQPDelivery) {
    guard let connection = consumer.connection else { return }
    tags.insert(delivery.tag)
    guard drainDeadline == nil else {
      tags.remove(delivery.tag)
      return connection.reject(delivery.tag, requeue: true, channel: UndeliveredConsumerLoop.channel)
    }
    var metadata = MessageMetadata()
    connection.copyMetadata(into: &metadata)
    let headers = connection.headers()
    let deaths = connection.deaths()
    let isUnroutable = connection.exchange == settings.rabbitmq.topology.jobsExchange
    count(isUnroutable ? "unroutable" : deaths.first?.reason ?? "other")
    let message = UndeliveredMessage(
      metadata, deaths: deaths, exchange: connection.exchange, routingKey: connection.routingKey,
      settings.rabbitmq.topology)
    let cursor = headers.firstText(of: "\(RabbitMQPublishProperties.cursorHeader)")
    let isLate = deaths.first?.queue == settings.rabbitmq.topology.undeliveredQueue
    switch message {
    case .goes(let queue, let jobClass, let deliveries, let address, let undelivered) where !delivery.isOversized:
      replace(delivery, by: queue, on: connection) { properties in
        RabbitMQPublishProperties(properties).describeReturned(
          jobClass, deliveries: deliveries, cursor: cursor, undelivered, routingKey: address, metadata)
      }
    case .deadLetter where isLate && !delivery.isOversized:
      // RabbitMQ would make it without end: what it once found full, its own dead letters find full for ever.
      let letter = UndeliveredLetter(deaths, headers, settings.rabbitmq.topology)
      if letter.isAmbiguous { metadata.isAmbiguous = true }
      replace(delivery, by: settings.rabbitmq.topology.deadQueue, on: connection) { [metadata] properties in
        RabbitMQPublishProperties(properties).describeReturned(
          nil, deliveries: metadata.carriedDeliveries, cursor: cursor, nil, routingKey: "", metadata)
        letter.describe(properties)
      }
    case .goes, .deadLetter:
      // To the late ones, with all its headers; a large one that is late to the dead letters.
      tags.remove(delivery.tag)
      connection.reject(delivery.tag, requeue: false, channel: UndeliveredConsumerLoop.channel)
    }
  }

  private func replace(
    _ delivery: AMQPDelivery, by queue: String, on connection: AMQPConnection,
    describe: @escaping (AMQPProperties) -> Void
  ) {
    var body: [UInt8] = []
    connection.copyBody(into: &body)
    let (tag, epoch) = (delivery.tag, epoch)
    let replacement = ConfirmedPublisher.Message(
      exchange: direct, routingKey: Array(queue.utf8), describe: { properties, _ in describe(properties) },
      // Its body is kept, so it is always confirmed in the end.
      then: { [weak self] _ in self?.settled(tag, epoch) })
    publisher.publish(body, as: replacement)
  }

  private func settled(_ tag: UInt64, _ epoch: UInt32) {
    guard epoch == self.epoch, tags.remove(tag) != nil else { return }
    consumer.connection?.acknowledge(tag, isMultiple: false, channel: UndeliveredConsumerLoop.channel)
  }

  // MARK: - What is told

  private func count(_ reason: String) {
    let reason = UndeliveredConsumerLoop.reasons.contains(reason) || reason == "unroutable" ? reason : "other"
    taken[reason, default: 0] += 1
    untold[reason, default: 0] += 1
  }

  private func tell() {
    let now = loop.now.monotonic
    guard !untold.isEmpty, now >= nextTelling else { return }
    nextTelling = now.adding(milliseconds: UndeliveredConsumerLoop.tellingMilliseconds)
    let counts = untold.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    untold = [:]
    notice(.warning, "RabbitMQ gave up messages (\(counts)); their outcomes and dead letters say which")
  }

  // MARK: - The end

  package func drain() {
    guard drainDeadline == nil else { return }
    drainDeadline = loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
    guard isConsuming, let connection = consumer.connection else { return }
    for queue in queues {
      connection.request(.cancel(consumerTag: consumerTag(queue)), channel: UndeliveredConsumerLoop.channel)
    }
  }

  package var isDrained: Bool {
    guard let drainDeadline else { return false }
    return tags.isEmpty || loop.now.monotonic >= drainDeadline
  }

  package func close() {
    guard !isClosing else { return }
    isClosing = true
    emptyWatch = nil
    publisher.close()
    // A quorum queue drops acknowledgements in flight when their channel closes.
    loop.schedule(afterMilliseconds: UndeliveredConsumerLoop.lingerMilliseconds) { [weak consumer] in consumer?.stop() }
  }

  package var isClosed: Bool { isClosing && consumer.state == .idle && publisher.isClosed }
}
