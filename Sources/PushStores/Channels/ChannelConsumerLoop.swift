import Logging
import PushChannels
import PushCore
import PushCredentials
import PushIO
import PushLane

/// The channel consumer's work on its thread. It takes requests from the queue, carries them out, answers and
/// acknowledges them, and resolves storage policies for lanes.
///
/// A request is acknowledged after the broker confirmed its answer (and, for an invalid request, its dead letter).
/// While APNs or Redis is unavailable, it waits in retry queues with increasing delays, and keeps the time when it was
/// first seen. Requests that several deliveries did not finish are isolated, as jobs are: see `ChannelIsolation`.
final class ChannelConsumerLoop {
  let loop: EventLoop
  let settings: ChannelConsumerSettings
  let access: ChannelAccess
  let redis: RedisClient
  let registry: ChannelRegistry
  /// Of the activities, from the first time that it is asked which channels they hold.
  private var activitiesRedis: RedisClient?
  private let runner: ChannelJobRunner
  private let policies: ChannelPolicyResolver
  private let consumer: RabbitMQClient
  let publisher: ConfirmedPublisher
  /// The default exchange, which routes to queues by name.
  let queues: AMQPExchange
  let results: AMQPExchange
  let retries: AMQPExchange

  /// In delivery order, which is also the publishing order.
  private(set) var requests: [ChannelConsumerRequest] = []
  /// Those whose answers were not confirmed when the connection ended, and the one that is tried now.
  var lostReplies: [ChannelConsumerRequest] = []
  var triedReply: ChannelConsumerRequest?
  /// Of the current or last consumer connection.
  private var epoch: UInt32 = 0
  private var isConsuming = false
  var emptyWatch: RabbitMQEmptyWatch?
  var random: SeededRandom
  private var nextLook: TimerToken?
  /// The queues were empty in two checks in a row, with no delivery between them.
  var isQueueEmpty = false
  /// Consume operations without an answer yet: nothing else is requested before.
  private var consuming: Set<UInt32> = []
  /// Channels with a consume operation on the current connection.
  private var consumed: [UInt16] = []
  private var isAskable = false
  private var drainDeadline: Instant?
  private var isClosing = false

  private static let consumeChannel: UInt16 = 1
  /// Of isolated requests.
  static let isolatedChannel: UInt16 = 2
  /// The delay from connecting to consuming isolated requests. Within it, a starting worker sends or isolates what it
  /// took; with a fast broker that takes milliseconds. Only isolated requests of a newly connected worker wait for it.
  private static let isolatedPauseMilliseconds: Int64 = 1_000

  /// - Parameter seed: of all its random numbers.
  init(
    loop: EventLoop, settings: ChannelConsumerSettings, credentials: Credentials, cache: ChannelPolicyCache,
    seed: UInt64, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    var random = SeededRandom(seed: seed)
    var settings = settings
    settings.rabbitmq.randomSeed = random.next()
    self.settings = settings
    access = ChannelAccess(
      ChannelClient(loop: loop, credentials: credentials, configuration: settings.client, seed: random.next()),
      ChannelAccess.Shares(
        limits: settings.shares, window: settings.window, slowMaximum: settings.slowMaximum, now: loop.now.monotonic))
    redis = RedisClient(loop: loop, configuration: settings.redis, tls: settings.redisTLS, seed: random.next())
    registry = ChannelRegistry(
      loop: loop, redis: redis, manager: access, prefix: settings.prefix,
      timing: ChannelEnsureState.Timing(requestMilliseconds: settings.client.requestTimeoutMilliseconds),
      limit: settings.limit, seed: random.next(), notice: notice)
    runner = ChannelJobRunner(registry)
    self.random = SeededRandom(seed: random.next())
    policies = ChannelPolicyResolver(loop: loop, registry: registry, cache: cache, settings: settings)
    let topology = settings.rabbitmq.topology
    queues = AMQPExchange("", isMandatory: true)
    results = AMQPExchange(topology.resultsExchange, isMandatory: settings.rabbitmq.outcomesAreMandatory)
    retries = AMQPExchange(topology.retryExchange, isMandatory: true)
    publisher = ConfirmedPublisher(loop: loop, settings: settings.rabbitmq, notice: notice)
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings.rabbitmq,
      setUp: [
        (.openChannel, ChannelConsumerLoop.consumeChannel),
        (.prefetch(ChannelConsumerSettings.requestsMaximum), ChannelConsumerLoop.consumeChannel),
        (.openChannel, ChannelConsumerLoop.isolatedChannel), (.prefetch(1), ChannelConsumerLoop.isolatedChannel),
      ]
    ) { level, text in notice(level, "rabbitmq (\(RabbitMQRole.consumer.rawValue)): \(text)") }
    registry.inUse = { [weak self] scope, then in self?.findInUse(scope, then) }
  }

  deinit {
    redis.abandon()
    activitiesRedis?.abandon()
  }

  private func findInUse(_ scope: AppScope, _ then: @escaping ChannelRegistry.Then<Set<ChannelID>>) {
    guard let known = settings.activities else { return then(.success([])) }
    let redis =
      activitiesRedis
      ?? RedisClient(loop: loop, configuration: known.configuration, tls: known.tls, seed: random.next())
    activitiesRedis = redis
    let activities = ActivityRegistry(loop: loop, redis: redis, prefix: settings.prefix)
    activities.channelsInUse(scope) { then($0.mapError { .redis("\($0)") }) }
  }

  var counters: ChannelCounters {
    var counters = registry.counters
    counters.inFlight = requests.count
    counters.refusing = publisher.refusedDestinations
    counters.isConnected = isConsuming && redis.isConnected
    return counters
  }

  // MARK: - Until empty

  /// Checks from now on whether requests wait in the queue, for `isExhausted`.
  func watchUntilEmpty() {
    let topology = settings.rabbitmq.topology
    emptyWatch = RabbitMQEmptyWatch(
      topology.declarations(of: topology.channelQueues), channel: ChannelConsumerLoop.consumeChannel)
    checkWhetherEmpty()
  }

  /// No request waits or is in progress.
  var isExhausted: Bool { isQueueEmpty && requests.isEmpty }

  /// Asks on the channel that delivers requests: messages that left the queue before it was counted arrive before the
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
    isQueueEmpty = isEmpty
    nextLook = loop.schedule(afterMilliseconds: settings.rabbitmq.emptyPollMilliseconds) { [weak self] in
      self?.checkWhetherEmpty()
    }
  }

  func replaceCredentials(_ credentials: Credentials, revoked: Set<String>) {
    access.client.replaceCredentials(credentials, revoked: revoked)
  }

  func revoke(credential: String) {
    access.client.revoke(credential: credential)
    registry.say(
      .warning,
      "channels: the credential \(credential) is revoked: its connections are closed, its requests wait")
  }

  // MARK: - Turns

  /// One turn, after the loop's poll.
  func turn() {
    access.client.turn()
    redis.turn()
    activitiesRedis?.turn()
    publisher.turn()
    if publisher.isReady, drainDeadline == nil { consumer.start() }
    while let event = consumer.nextEvent() { take(event) }
    policies.turn()
    shareOut()
    publish()
  }

  // MARK: - The end

  func drain() {
    guard drainDeadline == nil else { return }
    drainDeadline = loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
    if isConsuming, let connection = consumer.connection {
      for channel in consumed {
        connection.request(.cancel(consumerTag: settings.rabbitmq.laneName), channel: channel)
      }
    }
  }

  var isDraining: Bool { drainDeadline != nil }

  /// All requests that had begun are finished, or the drain's deadline has passed. Those that wait are requeued.
  var isDrained: Bool {
    guard let drainDeadline else { return false }
    return requests.allSatisfy { $0.isWaiting } || loop.now.monotonic >= drainDeadline
  }

  /// Closes all connections: unacknowledged requests are requeued. Keep turning until `isClosed`.
  func close() {
    guard !isClosing else { return }
    isClosing = true
    emptyWatch = nil
    policies.reportUses()
    forgetRequests()
    publisher.close()
    access.client.close()
    // A quorum queue drops acknowledgements in flight when their channel closes.
    loop.schedule(afterMilliseconds: 100) { [weak consumer, weak redis, weak activitiesRedis] in
      consumer?.stop()
      redis?.close()
      activitiesRedis?.close()
    }
  }

  var isClosed: Bool { isClosing && consumer.state == .idle && publisher.isClosed && access.client.isClosed }

  // MARK: - RabbitMQ

  private func consume(_ queue: String, _ channel: UInt16, on connection: AMQPConnection) {
    let consume = AMQPOperation.consume(queue: queue, consumerTag: settings.rabbitmq.laneName, arguments: [])
    consuming.insert(connection.request(consume, channel: channel))
    consumed.append(channel)
    isAskable = false
    emptyWatch?.restart()
  }

  /// The isolated queue may hold a request that crashed the previous worker. Lanes first send or isolate their jobs and
  /// acknowledge them. Otherwise workers that crash at once, again and again, would lose the same jobs each time, and
  /// each crash would add one copy.
  private func consumeIsolatedLater() {
    loop.schedule(afterMilliseconds: ChannelConsumerLoop.isolatedPauseMilliseconds) { [weak self, epoch] in
      guard let self, isConsuming, epoch == self.epoch, drainDeadline == nil, let connection = consumer.connection
      else { return }
      consume(
        settings.rabbitmq.topology.isolatedChannelsQueue, ChannelConsumerLoop.isolatedChannel, on: connection)
    }
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      guard drainDeadline == nil, let connection = consumer.connection else { return consumer.stop() }
      consumer.provedItself()
      epoch &+= 1
      isConsuming = true
      consumed = []
      consume(settings.rabbitmq.topology.channelsQueue, ChannelConsumerLoop.consumeChannel, on: connection)
      consumeIsolatedLater()
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

  /// Unacknowledged requests are redelivered. Their work goes on and its answer is stored; the worker with the
  /// redelivery sends that answer.
  private func consumingEnded() {
    isConsuming = false
    isAskable = false
    consuming = []
    isQueueEmpty = false
    forgetRequests()
    // A queue may be gone.
    publisher.declareAgain()
  }

  private func forgetRequests() {
    requests = []
    // The publisher tells no ending of what it forgets.
    (lostReplies, triedReply) = ([], nil)
    publisher.forget()
    access.shares.forgetMessages()
  }

  /// The broker has all that answers or replaces it.
  func settled(_ request: ChannelConsumerRequest) {
    requests.removeAll { $0 === request }
    leave(request)
    guard isConsuming, request.epoch == epoch, let connection = consumer.connection else { return }
    if request.isOversized || request.isLeftToBroker {
      connection.reject(request.tag, requeue: false, channel: request.channel)
    } else {
      connection.acknowledge(request.tag, isMultiple: false, channel: request.channel)
    }
  }

  // MARK: - A request's way

  private func received(_ delivery: AMQPDelivery) {
    guard let connection = consumer.connection else { return }
    guard drainDeadline == nil else {
      return connection.reject(delivery.tag, requeue: true, channel: delivery.channel)
    }
    var body: [UInt8] = []
    var metadata = MessageMetadata()
    connection.copyBody(into: &body)
    connection.copyMetadata(into: &metadata)
    let isolation = ChannelConsumerLoop.judge(delivery, &metadata)
    let parsed: Result<ChannelJob, ChannelJobFault>? =
      switch isolation {
      case .process, .fail: ChannelConsumerLoop.parse(delivery, body, metadata)
      case .isolate, .postpone: nil
      }
    let request = ChannelConsumerRequest(
      delivery, epoch: epoch, body: body, metadata: metadata, parsed: parsed, isGivenUp: isolation == .fail,
      now: loop.now.unixMilliseconds)
    requests.append(request)
    switch (isolation, parsed) {
    case (.isolate, _):
      registry.counters.isolated += 1
      request.isolate()
    case (.postpone(let seconds), _): postpone(request, wantedMilliseconds: seconds * 1000)
    case (_, .failure(let fault)): refuse(request, ChannelReply(to: fault))
    case (_, .success(let job)) where metadata.undelivered == .expired:
      // Who sent it does not wait for it any more.
      let detail = "given up by RabbitMQ: its time in a queue was over"
      var reply = ChannelReply(to: job)
      reply.failure = ChannelReply.Failure(.unavailable, detail: detail)
      fail(request, reply, detail)
    case (_, .success), (_, nil):
      if delivery.channel == ChannelConsumerLoop.isolatedChannel { recallIsolated(request) } else { enter(request) }
    }
  }

  private static func parse(
    _ delivery: AMQPDelivery, _ body: [UInt8], _ metadata: MessageMetadata
  ) -> Result<ChannelJob, ChannelJobFault> {
    Result { () throws(ChannelJobFault) in
      guard !delivery.isOversized else {
        let rule = "must be at most \(ChannelJobParser.bytesMaximum) bytes, not \(delivery.bodyCount)"
        throw ChannelJobFault(error: JobError(field: "body", rule: rule))
      }
      return try ChannelJobParser.parse(body, fallbackID: ChannelConsumerRequest.text(metadata.messageID, of: metadata))
    }
  }

  private func refuse(_ request: ChannelConsumerRequest, _ reply: ChannelReply) {
    count(reply)
    request.answer(reply.json, routingKey: reply.routingKey, dead: ("invalid", reply.failure?.detail ?? ""))
  }

  /// Looks for a stored answer of an earlier delivery.
  func recall(_ request: ChannelConsumerRequest) {
    guard let job = request.job else { preconditionFailure("only a sound request is recalled") }
    let keys = ChannelKeys(prefix: settings.prefix, scope: job.scope)
    recall(keys.answer(job.id), request, job) { [weak self] in
      guard let self else { return }
      // Only for an isolated copy: a request that its sender repeats, or a replayed dead letter, is carried out.
      guard request.channel == ChannelConsumerLoop.isolatedChannel, !request.isGivenUp else { return run(request, job) }
      recall(keys.givenUp(job.id), request, job) { [weak self] in self?.tryAlone(request, job) }
    }
  }

  private func recall(
    _ key: String, _ request: ChannelConsumerRequest, _ job: ChannelJob, otherwise: @escaping () -> Void
  ) {
    guard job.task.changesSomething else { return otherwise() }
    redis.call(["GET", key], key: key) { [weak self] result in
      switch result {
      case .failure(let failure): self?.again(request, .redis(failure.text))
      case .success(.bulk(let body)): request.answer(body, routingKey: ChannelReply(to: job).routingKey)
      case .success: otherwise()
      }
    }
  }

  func run(_ request: ChannelConsumerRequest, _ job: ChannelJob) {
    guard !request.isGivenUp else { return giveUp(request, job, after: Int64(request.metadata.carriedDeliveries)) }
    let pool = access.pool(of: job)
    let asked = pool.map { access.shares.asked($0) }
    runner.run(job, isRepeated: request.isRepeated) { [weak self] result in
      guard let self else { return }
      if request.channel == ChannelConsumerLoop.isolatedChannel { triedAlone(job) }
      if let pool, let asked { access.shares.answered(pool, result.isTemporaryFailure ? .bad : .good, since: asked) }
      switch result {
      case .success(let reply): finish(request, reply)
      case .failure(let failure): failed(request, failure)
      }
    }
  }

  private func failed(_ request: ChannelConsumerRequest, _ failure: ChannelRegistryFailure) {
    // It failed because the worker stops: the next delivery carries it out.
    guard !isClosing else { return }
    guard !failure.isTemporary else { return again(request, failure) }
    guard let job = request.job else { preconditionFailure("only a sound request is carried out") }
    var reply = ChannelReply(to: job)
    let reported = ChannelReply.Failure(failure)
    reply.failure = reported
    // For example, no credential serves the app.
    if reported.kind == .invalid { refuse(request, reply) } else { finish(request, reply) }
  }

  func fail(_ request: ChannelConsumerRequest, _ reply: ChannelReply, _ detail: String) {
    count(reply)
    request.answer(reply.json, routingKey: reply.routingKey, dead: ("failed", detail))
  }

  /// Stores the answer, then publishes it: a redelivered request gets the stored answer.
  private func finish(_ request: ChannelConsumerRequest, _ reply: ChannelReply) {
    guard let job = request.job else { preconditionFailure("only a sound request is carried out") }
    count(reply)
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).answer(job.id)
    remember(reply, of: job, key) { request.answer(reply.json, routingKey: reply.routingKey) }
  }

  func remember(_ reply: ChannelReply, of job: ChannelJob, _ key: String, then: @escaping () -> Void) {
    guard job.task.changesSomething else { return then() }
    redis.call(["SETEX", key, String(settings.answerSeconds)], last: reply.json, key: key) { _ in
      // Without Redis the answer is not stored. Repeating the request gives the same result, because names and requests
      // are known.
      then()
    }
  }

  private func count(_ reply: ChannelReply) {
    let key = ChannelCounters.RequestKey(
      action: reply.action ?? "unknown", result: reply.failure?.kind.rawValue ?? "ok")
    registry.counters.requests[key, default: 0] += 1
  }
}
