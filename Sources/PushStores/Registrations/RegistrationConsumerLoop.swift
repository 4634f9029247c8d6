package import Logging
import PushCore
package import PushIO
import PushLane

/// The registration consumer's work on its thread. It takes registrations from the queue, stores and acknowledges them.
///
/// A registration is acknowledged once Redis stored it, an invalid one once the broker confirmed its dead letter. While Redis is unavailable,
/// registrations wait here, up to the prefetch, and each app's are retried in delivery order. In a cluster only those of some apps may wait:
/// what exceeds an app's share waits in retry queues. So do dead letters that their queue refuses, beyond a share of the prefetch.
package final class RegistrationConsumerLoop: ConsumerLoop {
  package static let name = "registrations"
  package static let noticeSubjects = ["rabbitmq"]

  private let loop: EventLoop
  private let settings: RegistrationConsumerSettings
  private let redis: RedisClient
  private let registry: DeviceRegistry
  private let activities: ActivityRegistrar
  private let forgetter: DeviceForgetter
  private let consumer: RabbitMQClient
  private let publisher: ConfirmedPublisher
  private let direct = AMQPExchange("", isMandatory: true)
  private let retries: AMQPExchange
  private let notice: (Logger.Level, String) -> Void

  /// Unacknowledged deliveries by tag, of the current consumer connection.
  private var deliveries: [UInt64: RegistrationDelivery] = [:]
  private var watermark: AckWatermark
  private var shares: FairShares<AppScope, RegistrationDelivery>
  /// Apps whose registrations Redis does not store: the first that failed comes first.
  private var waits: [RegistrationWait] = []
  private var oversized = OversizedRegistrations()
  private var putOffCount: UInt64 = 0
  private var random: SeededRandom
  private var received: UInt64 = 0
  private var results: [RegistrationCounters.Key: UInt64] = [:]
  /// Of the current or last consumer connection.
  private var epoch: UInt32 = 0
  private var isConsuming = false
  private var emptyWatch: RabbitMQEmptyWatch?
  private var nextLook: TimerToken?
  /// The queue was empty in two checks in a row, with no delivery between them.
  private var isQueueEmpty = false
  /// The consume operation: it is answered before anything else is requested on its channel.
  private var consuming: UInt32?
  private var isAskable = false
  private var drainDeadline: Instant?
  private var isClosing = false

  private static let consumeChannel: UInt16 = 1
  /// A single acknowledgement costs a frame: only if an old delivery blocks this many.
  private static let acknowledgeOneMinimum = 64

  package init(
    loop: EventLoop, settings: RegistrationConsumerSettings, seed: UInt64,
    notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.notice = notice
    var random = SeededRandom(seed: seed)
    var settings = settings
    settings.rabbitmq.randomSeed = random.next()
    self.settings = settings
    redis = RedisClient(loop: loop, configuration: settings.redis, tls: settings.redisTLS, seed: random.next())
    registry = DeviceRegistry(loop: loop, redis: redis, prefix: settings.prefix, seed: random.next())
    shares = FairShares(limits: settings.shares)
    retries = AMQPExchange(settings.rabbitmq.topology.retryExchange, isMandatory: true)
    self.random = random
    watermark = AckWatermark(capacity: Int(settings.registrationsMaximum))
    let topology = settings.rabbitmq.topology
    publisher = ConfirmedPublisher(loop: loop, settings: settings.rabbitmq, notice: notice)
    let known = ActivityRegistry(loop: loop, redis: redis, prefix: settings.prefix)
    known.followStarts(of: registry)
    activities = ActivityRegistrar(devices: registry, activities: known, publisher: publisher, topology: topology)
    forgetter = DeviceForgetter(devices: registry, activities: known)
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings.rabbitmq,
      setUp: [
        (.openChannel, RegistrationConsumerLoop.consumeChannel),
        (.prefetch(settings.registrationsMaximum), RegistrationConsumerLoop.consumeChannel),
      ]
    ) { level, text in notice(level, "rabbitmq (\(RabbitMQRole.consumer.rawValue)): \(text)") }
  }

  deinit {
    redis.abandon()
    registry.abandon()
  }

  package var counters: RegistrationCounters {
    var counters = RegistrationCounters()
    counters.results = results
    counters.inFlight = deliveries.count
    counters.waiting = heldCount
    counters.putOff = putOffCount
    counters.conflicts = registry.counters.conflicts
    counters.latePushes = activities.latePushes
    counters.refusing = publisher.refusedDestinations
    counters.isConnected = isConsuming && redis.isConnected
    return counters
  }

  // MARK: - Until empty

  /// Checks from now on whether registrations wait in the queue, for `isExhausted`.
  package func watchUntilEmpty() {
    let topology = settings.rabbitmq.topology
    emptyWatch = RabbitMQEmptyWatch(
      topology.declarations(of: topology.registrationQueues), channel: RegistrationConsumerLoop.consumeChannel)
    checkWhetherEmpty()
  }

  /// No registration waits or is in progress.
  package var isExhausted: Bool { isQueueEmpty && deliveries.isEmpty }

  /// Asks on the channel that delivers registrations: messages that left the queue before it was counted arrive before
  /// the answer.
  private func checkWhetherEmpty() {
    guard isAskable, let connection = consumer.connection else { return }
    emptyWatch?.look(on: connection)
  }

  private func looked(_ operation: UInt32, _ reply: AMQPReply) {
    if operation == consuming {
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

  /// One turn, after the loop's poll.
  package func turn() {
    redis.turn()
    publisher.turn()
    // By then the queues exist, and dead letters can be published.
    if publisher.isReady, drainDeadline == nil { consumer.start() }
    while let event = consumer.nextEvent() { take(event) }
    retry()
    returnOversized()
    putOffExcess()
    registry.turn()
    acknowledge()
  }

  // MARK: - The end

  package func drain() {
    guard drainDeadline == nil else { return }
    drainDeadline = loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
    if isConsuming, let connection = consumer.connection {
      connection.request(
        .cancel(consumerTag: settings.rabbitmq.laneName), channel: RegistrationConsumerLoop.consumeChannel)
    }
  }

  /// All registrations are finished or wait for Redis, or the drain's deadline has passed. Those that wait are
  /// requeued.
  package var isDrained: Bool {
    guard let drainDeadline else { return false }
    return deliveries.values.count { $0.hasShare || $0.refusal != nil } == heldCount + oversized.count
      || loop.now.monotonic >= drainDeadline
  }

  /// Closes all connections: unacknowledged registrations are requeued. Keep turning until `isClosed`.
  package func close() {
    guard !isClosing else { return }
    isClosing = true
    emptyWatch = nil
    forgetDeliveries()
    publisher.close()
    // A quorum queue drops acknowledgements in flight when their channel closes.
    loop.schedule(afterMilliseconds: 100) { [weak consumer, weak redis] in
      consumer?.stop()
      redis?.close()
    }
  }

  package var isClosed: Bool { isClosing && consumer.state == .idle && publisher.isClosed }

  // MARK: - RabbitMQ

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      guard drainDeadline == nil, let connection = consumer.connection else { return consumer.stop() }
      consumer.provedItself()
      epoch &+= 1
      watermark.reset()
      isConsuming = true
      consuming = connection.request(
        .consume(
          queue: settings.rabbitmq.topology.registrationsQueue, consumerTag: settings.rabbitmq.laneName, arguments: []),
        channel: RegistrationConsumerLoop.consumeChannel)
    case .down:
      consumingEnded()
    case .connection(.delivery(let delivery)):
      isQueueEmpty = false
      emptyWatch?.wasDisturbed = true
      accept(delivery)
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

  /// Unacknowledged registrations are redelivered; storing one twice is idempotent.
  private func consumingEnded() {
    isConsuming = false
    isAskable = false
    consuming = nil
    isQueueEmpty = false
    forgetDeliveries()
    publisher.forget()
    // The queue may be gone: declare it before consuming again.
    publisher.declareAgain()
  }

  private func forgetDeliveries() {
    deliveries = [:]
    waits = []
    oversized = OversizedRegistrations()
    shares = FairShares(limits: settings.shares)
  }

  private func acknowledge() {
    guard isConsuming, let connection = consumer.connection else { return }
    let now = loop.now.monotonic
    if let tag = watermark.takeDue(now: now, batch: 1, delayMilliseconds: 0) {
      connection.acknowledge(tag, isMultiple: true, channel: RegistrationConsumerLoop.consumeChannel)
    }
    let alone = min(RegistrationConsumerLoop.acknowledgeOneMinimum, max(1, Int(settings.registrationsMaximum) / 8))
    while let tag = watermark.takeOne(now: now, batch: alone) {
      connection.acknowledge(tag, isMultiple: false, channel: RegistrationConsumerLoop.consumeChannel)
    }
  }

  private func settled(_ delivery: RegistrationDelivery) {
    // Ignore an answer that came after its connection was lost.
    guard delivery.epoch == epoch, deliveries.removeValue(forKey: delivery.tag) != nil else { return }
    watermark.done(delivery.tag, now: loop.now.monotonic)
    leave(delivery)
  }

  private func giveBack(_ delivery: RegistrationDelivery) {
    guard delivery.epoch == epoch, let connection = consumer.connection,
      deliveries.removeValue(forKey: delivery.tag) != nil
    else { return }
    connection.reject(delivery.tag, requeue: true, channel: RegistrationConsumerLoop.consumeChannel)
    watermark.rejected(delivery.tag, now: loop.now.monotonic)
    leave(delivery)
  }

  /// It is acknowledged, and its share free.
  private func leave(_ delivery: RegistrationDelivery) {
    guard delivery.hasShare, let scope = delivery.registration?.scope else { return }
    shares.leave(scope)
    while let (next, _) = shares.next() { begin(next) }
  }

  // MARK: - A registration's way

  private func accept(_ received: AMQPDelivery) {
    guard let connection = consumer.connection else { return }
    guard watermark.delivered(received.tag) else {
      consumer.fail(.unexpectedContent(channel: RegistrationConsumerLoop.consumeChannel))
      return consumingEnded()
    }
    var body: [UInt8] = []
    var metadata = MessageMetadata()
    if !received.isOversized { connection.copyBody(into: &body) }
    connection.copyMetadata(into: &metadata)
    var registration: PushCore.Registration?
    var refusal: RegistrationDelivery.Refusal?
    do throws(JobError) {
      guard !received.isOversized else { throw RegistrationParser.oversized(received.bodyCount) }
      registration = try RegistrationParser.parse(
        body, messageID: Array(metadata.bytes[metadata.messageID.range]), now: loop.now.unixMilliseconds)
      if metadata.deliveryCount >= settings.deliveriesMaximum {
        refusal = .init(reason: .redelivered, detail: "it was delivered \(metadata.deliveryCount) times before")
      }
    } catch {
      refusal = .init(reason: .invalid, detail: error.detail)
    }
    self.received += 1
    let delivery = RegistrationDelivery(
      number: self.received, epoch: epoch, tag: received.tag, metadata: metadata, body: body,
      isOversized: received.isOversized, registration: registration, refusal: refusal)
    deliveries[received.tag] = delivery
    if delivery.refusal != nil {
      refuse(delivery, connection: connection)
    } else if drainDeadline != nil {
      giveBack(delivery)
    } else if let registration, shares.enter(delivery, of: registration.scope, now: loop.now.monotonic) {
      begin(delivery)
    }
  }

  private func begin(_ delivery: RegistrationDelivery) {
    delivery.hasShare = true
    if let place = wait(of: delivery) { waits[place].held.append(delivery) } else { store(delivery) }
  }

  private func store(_ delivery: RegistrationDelivery) {
    guard let registration = delivery.registration else { preconditionFailure("only a sound registration is stored") }
    let scope = registration.scope
    let at = registration.at
    switch registration.subject {
    case .device(let device):
      registry.register(device, at: at, in: scope) { [weak self] in self?.answered(delivery, $0) }
    case .forget(let subject):
      forgetter.forget(subject, at: at, in: scope) { [weak self] result in
        self?.answered(delivery, result.map { $0 > 0 ? .changed : .unchanged })
      }
    case .activity(let activity):
      activities.register(activity, at: at, in: scope) { [weak self] in self?.answered(delivery, $0) }
    }
  }

  private func answered(_ delivery: RegistrationDelivery, _ result: Result<RegistrationAnswer, DeviceRegistryFailure>) {
    guard delivery.epoch == epoch, deliveries[delivery.tag] != nil else { return }
    switch result {
    case .success(.refused(let error)):
      redisAnswered(delivery)
      delivery.refusal = .init(reason: .invalid, detail: error.detail)
      refuse(delivery)
    case .success(let answer):
      redisAnswered(delivery)
      count(delivery, answer.word)
      settled(delivery)
    case .failure(.unreadable(let text)):
      redisAnswered(delivery)
      delivery.refusal = .init(reason: .failed, detail: text)
      refuse(delivery)
    case .failure(let failure):
      hold(delivery, failure)
    }
  }

  /// - Parameter connection: of its bytes, where they are not kept.
  private func refuse(_ delivery: RegistrationDelivery, connection: AMQPConnection? = nil) {
    let letter = deadLetter(of: delivery)
    guard delivery.isOversized else {
      return publisher.publish(delivery.body, as: letter, waitingMaximum: settings.refusedMaximum)
    }
    var messages = [letter]
    if oversized.count >= settings.refusedMaximum { messages.append(refusedCopy(of: delivery)) }
    // It must not be returned any more: newer brokers would drop it in the end.
    if delivery.metadata.deliveryCount >= settings.deliveriesMaximum { messages = [refusedCopy(of: delivery), letter] }
    guard let connection, let message = messages.first(where: publisher.takes) else {
      return oversized.hold(delivery, now: loop.now.monotonic)
    }
    var body: [UInt8] = []
    connection.copyBody(into: &body)
    publisher.publishOnce(body, as: message)
  }

  /// Its bytes come again, when its dead letter may be taken, or the retry queue while too many wait.
  private func returnOversized() {
    guard let next = oversized.due(now: loop.now.monotonic),
      publisher.takes(deadLetter(of: next))
        || oversized.count > settings.refusedMaximum && publisher.takes(refusedCopy(of: next))
    else { return }
    oversized.returned(now: loop.now.monotonic)
    giveBack(next)
  }

  private func deadLetter(of delivery: RegistrationDelivery) -> ConfirmedPublisher.Message {
    guard let refusal = delivery.refusal else { preconditionFailure("it was not refused") }
    let routingKey = Array(settings.rabbitmq.topology.deadQueue.utf8)
    return copy(of: delivery, to: direct, routingKey, result: refusal.reason.word) { properties in
      properties.addHeader("x-herald-reason", literal: refusal.reason.word)
      properties.addHeader("x-herald-detail", refusal.detail)
      properties.addHeader("x-herald-class", literal: "registrations")
    }
  }

  /// Of one whose dead letter is refused.
  private func refusedCopy(of delivery: RegistrationDelivery) -> ConfirmedPublisher.Message {
    retryCopy(of: delivery, seconds: Topology.registrationDelaysSeconds.last ?? 1)
  }

  private func retryCopy(of delivery: RegistrationDelivery, seconds: Int) -> ConfirmedPublisher.Message {
    let routingKey = Array(Topology.registrationsRetryRoutingKey(seconds: seconds).utf8)
    return copy(of: delivery, to: retries, routingKey) { RabbitMQPublishProperties($0).delay(seconds: seconds) }
  }

  /// A copy that replaces it.
  /// - Parameter result: what is counted, if that is its end.
  private func copy(
    of delivery: RegistrationDelivery, to exchange: AMQPExchange, _ routingKey: [UInt8], result: StaticString? = nil,
    describe: @escaping (AMQPProperties) -> Void
  ) -> ConfirmedPublisher.Message {
    ConfirmedPublisher.Message(
      exchange: exchange, routingKey: routingKey,
      describe: { properties, _ in
        let metadata = delivery.metadata
        if !metadata.messageID.isEmpty {
          properties.setMessageID(metadata.bytes.span.extracting(metadata.messageID.range))
        }
        if let enqueuedAt = metadata.enqueuedAt { properties.setTimestamp(unixMilliseconds: enqueuedAt) }
        describe(properties)
      },
      then: { [weak self] in self?.ended(delivery, $0, result) })
  }

  private func ended(_ delivery: RegistrationDelivery, _ ending: ConfirmedPublisher.Ending, _ result: StaticString?) {
    guard delivery.epoch == epoch, deliveries[delivery.tag] != nil else { return }
    if ending != .confirmed {
      guard delivery.isOversized else { return putOff(delivery, refusedCopy(of: delivery)) }
      return oversized.hold(delivery, now: loop.now.monotonic)
    }
    if let result { count(delivery, "\(result)") }
    if delivery.isOversized { oversized.taken() }
    settled(delivery)
  }

  private func count(_ delivery: RegistrationDelivery, _ result: String) {
    let key = RegistrationCounters.Key(kind: delivery.registration?.kind.rawValue ?? "unknown", result: result)
    results[key, default: 0] += 1
  }

  // MARK: - Shares

  /// Puts off what exceeds an app's share. While one Redis is away, nobody's registrations can be stored: they stay in the queue.
  private func putOffExcess() {
    let isRedisAway = settings.redis.topology != .cluster && waits.contains { $0.isForRedis }
    guard drainDeadline == nil, !isRedisAway else { return }
    let delays = Topology.registrationDelaysSeconds
    for (delivery, _, slow) in shares.takeExcess(now: loop.now.monotonic) {
      let seconds = FairShareLimits.delaySeconds(slowMilliseconds: slow, of: delays, random: random.next())
      putOff(delivery, retryCopy(of: delivery, seconds: seconds))
    }
  }

  private func putOff(_ delivery: RegistrationDelivery, _ copy: ConfirmedPublisher.Message) {
    putOffCount += 1
    publisher.publish(delivery.body, as: copy)
  }

  // MARK: - While Redis is away

  private var heldCount: Int { waits.reduce(0) { $0 + $1.held.count } }

  private func wait(of delivery: RegistrationDelivery) -> Int? {
    waits.firstIndex { $0.scope == delivery.registration?.scope }
  }

  private func hold(_ delivery: RegistrationDelivery, _ failure: DeviceRegistryFailure) {
    guard let scope = delivery.registration?.scope else { preconditionFailure("only a sound registration is stored") }
    if waits.isEmpty { notice(.warning, "registrations wait: \(failure)") }
    let place = wait(of: delivery) ?? waits.count
    if place == waits.count {
      let backoff = Backoff(
        initialMilliseconds: settings.retryInitialMilliseconds, maximumMilliseconds: settings.retryMaximumMilliseconds)
      waits.append(RegistrationWait(scope: scope, backoff: backoff))
    }
    waits[place].held.append(delivery)
    waits[place].isForRedis = if case .redis = failure { true } else { false }
    guard waits[place].retryAt == nil else { return }
    waits[place].retryAt = loop.now.monotonic.adding(milliseconds: waits[place].backoff.failed(random: random.next()))
  }

  /// Redis stores this app's registrations again: those that came while the first ones were stored again follow them.
  private func redisAnswered(_ delivery: RegistrationDelivery) {
    guard let place = wait(of: delivery) else { return }
    waits[place].backoff.succeeded()
    guard waits[place].retryAt == nil else { return }
    for delivery in waits.remove(at: place).held { store(delivery) }
  }

  private func retry() {
    guard !waits.isEmpty, drainDeadline == nil else { return }
    for place in waits.indices {
      guard let retryAt = waits[place].retryAt, loop.now.monotonic >= retryAt else { continue }
      let again = waits[place].held.sorted { $0.number < $1.number }
      waits[place].held = []
      waits[place].retryAt = nil
      for delivery in again { store(delivery) }
    }
  }
}
