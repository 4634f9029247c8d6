import Logging
import PushChannels
import PushCore
import PushCredentials
import PushIO
import PushLane

/// The channel consumer's work on its thread: takes requests from the queue, has them done, answers, acknowledges; finds out
/// storage policies for lanes.
///
/// A request is acknowledged once the broker has confirmed its answer (and, where it is wrong, its dead letter). While APNs
/// or Redis is away it waits in retry queues, longer and longer, with the time when it was first seen.
final class ChannelConsumerLoop {
  private let loop: EventLoop
  private let settings: ChannelConsumerSettings
  private let client: ChannelClient
  private let redis: RedisClient
  private let registry: ChannelRegistry
  private let runner: ChannelJobRunner
  private let policies: ChannelPolicyResolver
  private let consumer: RabbitMQClient
  private let publisher: RabbitMQClient
  private let properties = AMQPProperties()
  private let answers: AMQPExchange
  private let results: AMQPExchange
  private let dead: AMQPExchange
  private let retries: AMQPExchange

  /// As they came: so they are published.
  private var requests: [ChannelConsumerRequest] = []
  /// Of the consumer connection in use, or the last.
  private var epoch: UInt32 = 0
  private var isConsuming = false
  private var isBlocked = false
  private var emptyWatch: RabbitMQEmptyWatch?
  /// The queue was empty at two looks in a row, and nothing came between them.
  private var isQueueEmpty = false
  /// The request for requests, which is answered before anything else is asked on its channel.
  private var consuming: UInt32?
  private var isAskable = false
  private var drainDeadline: Instant?
  private var isClosing = false
  /// On the publisher's connection in use.
  private var publishedCount: UInt64 = 0

  private static let publishChannel: UInt16 = 1
  private static let controlChannel: UInt16 = 2
  private static let consumeChannel: UInt16 = 1
  private static let refusedPauseMilliseconds: Int64 = 1_000
  /// Much longer than a broker takes, also one whose queues look for a leader.
  private static let confirmMilliseconds: Int64 = 60_000
  private var heldUntil: Instant

  /// - Parameter seed: of everything that it draws.
  init(
    loop: EventLoop, settings: ChannelConsumerSettings, credentials: Credentials, cache: ChannelPolicyCache,
    seed: UInt64, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    var random = SeededRandom(seed: seed)
    var settings = settings
    settings.rabbitmq.randomSeed = random.next()
    self.settings = settings
    heldUntil = loop.now.monotonic
    client = ChannelClient(
      loop: loop, credentials: credentials, configuration: settings.client, seed: random.next())
    redis = RedisClient(loop: loop, configuration: settings.redis, tls: settings.redisTLS, seed: random.next())
    registry = ChannelRegistry(
      loop: loop, redis: redis, manager: client, prefix: settings.prefix,
      timing: ChannelEnsureState.Timing(requestMilliseconds: settings.client.requestTimeoutMilliseconds),
      limit: settings.limit, seed: random.next(), notice: notice)
    runner = ChannelJobRunner(registry)
    policies = ChannelPolicyResolver(loop: loop, registry: registry, cache: cache, settings: settings)
    let topology = settings.rabbitmq.topology
    answers = AMQPExchange("", isMandatory: true)
    results = AMQPExchange(topology.resultsExchange, isMandatory: settings.rabbitmq.outcomesAreMandatory)
    dead = AMQPExchange(topology.deadExchange, isMandatory: true)
    retries = AMQPExchange(topology.retryExchange, isMandatory: true)
    let tell: (RabbitMQRole) -> (Logger.Level, String) -> Void = { role in
      { level, text in notice(level, "rabbitmq (\(role.rawValue)): \(text)") }
    }
    publisher = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings.rabbitmq,
      setUp: [
        (.openChannel, ChannelConsumerLoop.publishChannel), (.selectConfirms, ChannelConsumerLoop.publishChannel),
        (.openChannel, ChannelConsumerLoop.controlChannel),
      ] + topology.declarations.map { ($0, ChannelConsumerLoop.controlChannel) }, notice: tell(.publisher))
    consumer = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings.rabbitmq,
      setUp: [
        (.openChannel, ChannelConsumerLoop.consumeChannel),
        (.prefetch(settings.requestsMaximum), ChannelConsumerLoop.consumeChannel),
      ], notice: tell(.consumer))
    publisher.start()
  }

  var counters: ChannelCounters {
    var counters = registry.counters
    counters.inFlight = requests.count
    counters.isConnected = isConsuming && redis.isConnected
    return counters
  }

  // MARK: - Until empty

  /// From now on it looks whether requests wait in the queue; `isExhausted` tells.
  func watchUntilEmpty() {
    emptyWatch = RabbitMQEmptyWatch(queues: settings.rabbitmq.topology.channelQueues)
    lookWhetherEmpty()
  }

  /// No request waits, and none is on its way here.
  var isExhausted: Bool { isQueueEmpty && requests.isEmpty }

  /// Asks on the channel that requests come on: those that the queue gave before it counted are heard before the answer.
  private func lookWhetherEmpty() {
    guard isAskable, let connection = consumer.connection else { return }
    emptyWatch?.look(on: connection, channel: ChannelConsumerLoop.consumeChannel)
  }

  private func looked(_ operation: UInt32, _ reply: AMQPReply) {
    if operation == consuming {
      // Not before: a quorum queue may answer a question before it answers the consumer that came first.
      isAskable = true
      emptyWatch?.restart()
      return lookWhetherEmpty()
    }
    guard let isEmpty = emptyWatch?.answered(operation, reply) else { return }
    isQueueEmpty = isEmpty
    loop.schedule(afterMilliseconds: settings.rabbitmq.emptyPollMilliseconds) { [weak self] in
      self?.lookWhetherEmpty()
    }
  }

  func replaceCredentials(_ credentials: Credentials) { client.replaceCredentials(credentials) }

  func revoke(credential: String) {
    client.revoke(credential: credential)
    registry.say(
      .warning,
      "channels: the credential \(credential) is revoked: its connections are closed, its requests wait for a reload")
  }

  // MARK: - Turns

  /// One turn, after the loop's poll.
  func turn() {
    client.turn()
    redis.turn()
    while let event = publisher.nextEvent() { take(publisherEvent: event) }
    while let event = consumer.nextEvent() { take(consumerEvent: event) }
    policies.turn()
    missConfirms()
    publish()
  }

  // MARK: - The end

  /// Takes no more requests.
  func drain() {
    guard drainDeadline == nil else { return }
    drainDeadline = loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
    if isConsuming, let connection = consumer.connection {
      connection.request(.cancel(consumerTag: settings.rabbitmq.laneName), channel: ChannelConsumerLoop.consumeChannel)
    }
  }

  /// What was taken is done, or the drain's time is over.
  var isDrained: Bool {
    guard let drainDeadline else { return false }
    return requests.isEmpty || loop.now.monotonic >= drainDeadline
  }

  /// Says goodbye everywhere: unacknowledged requests go back to their queue. Keep turning until `isClosed`.
  func close() {
    guard !isClosing else { return }
    isClosing = true
    emptyWatch = nil
    policies.tellUses()
    requests = []
    publisher.stop()
    client.close()
    // A channel of a quorum queue forgets acknowledgements that are under way when it closes.
    loop.schedule(afterMilliseconds: 100) { [consumer, redis] in
      consumer.stop()
      redis.close()
    }
  }

  var isClosed: Bool { isClosing && consumer.state == .idle && publisher.state == .idle && client.isClosed }

  // MARK: - RabbitMQ

  private func take(publisherEvent event: RabbitMQClient.Event) {
    switch event {
    case .up:
      publisher.provedItself()
      isBlocked = publisher.blockedReason != nil
      publishedCount = 0
      for request in requests { request.publisherLost() }
      if drainDeadline == nil { consumer.start() }
    case .down:
      for request in requests { request.publisherLost() }
    case .connection(.confirmed(_, let number, let isMultiple)):
      settled(number, isMultiple: isMultiple, isConfirmed: true)
    case .connection(.refused(_, let number, let isMultiple)):
      heldUntil = loop.now.monotonic.adding(milliseconds: ChannelConsumerLoop.refusedPauseMilliseconds)
      settled(number, isMultiple: isMultiple, isConfirmed: false)
    case .connection(.returned):
      returned()
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      // The broker read nothing meanwhile: what it owes a confirm of counts from now on.
      for request in requests { request.restamp(loop.now.monotonic) }
    case .connection(.opened), .connection(.completed), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func take(consumerEvent event: RabbitMQClient.Event) {
    switch event {
    case .up:
      guard drainDeadline == nil, let connection = consumer.connection else { return consumer.stop() }
      consumer.provedItself()
      epoch &+= 1
      isConsuming = true
      consuming = connection.request(
        .consume(
          queue: settings.rabbitmq.topology.channelsQueue, consumerTag: settings.rabbitmq.laneName, arguments: []),
        channel: ChannelConsumerLoop.consumeChannel)
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
      declareAgain()
    case .connection(.opened), .connection(.confirmed), .connection(.refused), .connection(.returned),
      .connection(.blocked), .connection(.unblocked), .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  /// What was taken comes again: the work goes on, its answer is remembered, and whoever gets the request tells it.
  private func consumingEnded() {
    isConsuming = false
    isAskable = false
    consuming = nil
    isQueueEmpty = false
    requests = []
  }

  /// The queue is gone: it is declared before it is consumed again.
  private func declareAgain() {
    guard let connection = publisher.connection else { return }
    for operation in settings.rabbitmq.topology.declarations {
      connection.request(operation, channel: ChannelConsumerLoop.controlChannel)
    }
  }

  private func settled(_ number: UInt64, isMultiple: Bool, isConfirmed: Bool) {
    for request in requests {
      request.settled(number, isMultiple: isMultiple, isConfirmed: isConfirmed)
      guard request.isSettled else { continue }
      guard isConsuming, request.epoch == epoch, let connection = consumer.connection else { continue }
      if request.isOversized {
        connection.reject(request.tag, requeue: false, channel: ChannelConsumerLoop.consumeChannel)
      } else {
        connection.acknowledge(request.tag, isMultiple: false, channel: ChannelConsumerLoop.consumeChannel)
      }
    }
    requests.removeAll { $0.isSettled }
  }

  private func returned() {
    guard let connection = publisher.connection else { return }
    guard let number = RabbitMQPublishNumber.ofReturned(connection) else { return }
    var target: ChannelConsumerRequest.Publish.Target?
    for request in requests where target == nil { target = request.returned(number) }
    // Its sender's queue is its sender's affair; one of ours is declared before anything is published again.
    guard let target, target != .reply else { return }
    declareAgain()
    heldUntil = loop.now.monotonic.adding(milliseconds: ChannelConsumerLoop.refusedPauseMilliseconds)
  }

  // MARK: - A request's way

  private func received(_ delivery: AMQPDelivery) {
    guard let connection = consumer.connection else { return }
    guard drainDeadline == nil else {
      return connection.reject(delivery.tag, requeue: true, channel: ChannelConsumerLoop.consumeChannel)
    }
    var body: [UInt8] = []
    var metadata = MessageMetadata()
    connection.copyBody(into: &body)
    connection.copyMetadata(into: &metadata)
    let fallbackID = ChannelConsumerRequest.text(metadata.messageID, of: metadata)
    var job: ChannelJob?
    var fault: ChannelJobFault?
    do throws(ChannelJobFault) {
      guard !delivery.isOversized else {
        let rule = "must be at most \(ChannelJobParser.bytesMaximum) bytes, not \(delivery.bodyCount)"
        throw ChannelJobFault(error: JobError(field: "body", rule: rule))
      }
      job = try ChannelJobParser.parse(body, fallbackID: fallbackID)
    } catch {
      fault = error
    }
    let request = ChannelConsumerRequest(
      answerID: job?.id ?? fault?.id ?? fallbackID, epoch: epoch, tag: delivery.tag, body: body, metadata: metadata,
      isRepeated: delivery.isRedelivered || metadata.deliveryCount > 0 || metadata.isAmbiguous,
      isOversized: delivery.isOversized, now: loop.now.unixMilliseconds, job: job)
    requests.append(request)
    if let fault { refuse(request, ChannelReply(to: fault)) } else { recall(request) }
  }

  private func refuse(_ request: ChannelConsumerRequest, _ reply: ChannelReply) {
    count(reply)
    request.answer(reply.json, routingKey: reply.routingKey, dead: ("invalid", reply.failure?.detail ?? ""))
  }

  /// It may have been answered before.
  private func recall(_ request: ChannelConsumerRequest) {
    guard let job = request.job else { preconditionFailure("only a sound request is recalled") }
    guard job.task.changesSomething else { return run(request, job) }
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).answer(job.id)
    redis.call(["GET", key], key: key) { [self] result in
      switch result {
      case .failure(let failure): again(request, .redis(failure.text))
      case .success(.bulk(let body)): request.answer(body, routingKey: ChannelReply(to: job).routingKey)
      case .success: run(request, job)
      }
    }
  }

  private func run(_ request: ChannelConsumerRequest, _ job: ChannelJob) {
    runner.run(job, isRepeated: request.isRepeated) { [self] result in
      switch result {
      case .success(let reply): finish(request, reply)
      case .failure(let failure): failed(request, failure)
      }
    }
  }

  private func failed(_ request: ChannelConsumerRequest, _ failure: ChannelRegistryFailure) {
    // It failed because the worker ends: whoever gets the request next carries it out.
    guard !isClosing else { return }
    guard !failure.isTemporary else { return again(request, failure) }
    guard let job = request.job else { preconditionFailure("only a sound request is carried out") }
    var reply = ChannelReply(to: job)
    let reported = ChannelReply.Failure(failure)
    reply.failure = reported
    // Such as an app that no credential serves.
    if reported.kind == .invalid { refuse(request, reply) } else { finish(request, reply) }
  }

  /// Tries again later: a copy waits in a retry queue for about as long again as the request is old, and never much past
  /// the request's end.
  private func again(_ request: ChannelConsumerRequest, _ failure: ChannelRegistryFailure) {
    if case .apns(let failure) = failure, failure.isAmbiguous { request.isRepeated = true }
    let age = max(0, loop.now.unixMilliseconds - request.firstSeen)
    guard age < settings.ageMaximumMilliseconds else {
      guard let job = request.job else { preconditionFailure("only a sound request is carried out") }
      var reply = ChannelReply(to: job)
      reply.failure = ChannelReply.Failure(.unavailable, detail: failure.description)
      count(reply)
      return request.answer(reply.json, routingKey: reply.routingKey, dead: ("failed", failure.description))
    }
    let wanted = min(age, settings.ageMaximumMilliseconds - age)
    let delays = Topology.channelDelaysSeconds
    registry.counters.postponed += 1
    request.postpone(seconds: delays.last { Int64($0) * 1000 <= wanted } ?? delays[0])
  }

  /// Remembers the answer, then has it published: a request that comes again is answered with it.
  private func finish(_ request: ChannelConsumerRequest, _ reply: ChannelReply) {
    guard let job = request.job else { preconditionFailure("only a sound request is carried out") }
    count(reply)
    let body = reply.json
    guard job.task.changesSomething else { return request.answer(body, routingKey: reply.routingKey) }
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).answer(job.id)
    redis.call(["SETEX", key, String(settings.answerSeconds)], last: body, key: key) { _ in
      // Not remembered where Redis is away: done again, it comes to the same, because names and requests are known.
      request.answer(body, routingKey: reply.routingKey)
    }
  }

  private func count(_ reply: ChannelReply) {
    let key = ChannelCounters.RequestKey(
      action: reply.action ?? "unknown", result: reply.failure?.kind.rawValue ?? "ok")
    registry.counters.requests[key, default: 0] += 1
  }

  // MARK: - Publishing

  private func publish() {
    guard let connection = publisher.connection, !isBlocked, loop.now.monotonic >= heldUntil else { return }
    for request in requests {
      for index in request.publishes.indices where request.publishes[index].state == .waiting {
        let number = publish(request, request.publishes[index].target, on: connection)
        request.publishes[index].state = .unconfirmed(number)
        request.publishes[index].sentAt = loop.now.monotonic
      }
    }
  }

  /// A confirm that does not come for so long is lost, and its request would wait for ever: it is published again on a new connection.
  private func missConfirms() {
    let milliseconds = ChannelConsumerLoop.confirmMilliseconds
    let limit = loop.now.monotonic.adding(milliseconds: -milliseconds)
    guard publisher.isUp, !isBlocked, requests.contains(where: { $0.waits(since: limit) }) else { return }
    publisher.fail(.timedOut(operation: "the confirm of an answer", milliseconds: milliseconds))
    for request in requests { request.publisherLost() }
  }

  private func publish(
    _ request: ChannelConsumerRequest, _ target: ChannelConsumerRequest.Publish.Target, on connection: AMQPConnection
  ) -> UInt64 {
    let metadata = request.metadata
    let bytes = metadata.bytes.span
    properties.reset()
    if !metadata.correlationID.isEmpty { properties.setCorrelationID(bytes.extracting(metadata.correlationID.range)) }
    if !metadata.traceparent.isEmpty {
      properties.addHeader("traceparent", bytes.extracting(metadata.traceparent.range))
    }
    if !metadata.tracestate.isEmpty { properties.addHeader("tracestate", bytes.extracting(metadata.tracestate.range)) }
    publishedCount += 1
    switch target {
    case .reply, .results:
      guard let reply = request.reply else { preconditionFailure("an answer has its bytes") }
      properties.setMessageID(request.answerID.utf8.span)
      properties.setType("push.channel.v1")
      properties.setTimestamp(unixMilliseconds: loop.now.unixMilliseconds)
      let isReply = target == .reply
      return publish(
        reply.body, to: isReply ? answers : results, routingKey: isReply ? request.replyTo : reply.routingKey,
        on: connection)
    case .dead:
      keepOriginal(request)
      properties.addHeader("x-herald-reason", literal: request.deadReason?.reason ?? "invalid")
      properties.addHeader("x-herald-detail", request.deadReason?.detail ?? "")
      properties.addHeader("x-herald-class", literal: "channels")
      return publish(request.body, to: dead, routingKey: "", on: connection)
    case .retry(let seconds):
      keepOriginal(request)
      if let enqueuedAt = metadata.enqueuedAt { properties.setTimestamp(unixMilliseconds: enqueuedAt) }
      properties.addHeader("x-herald-first-seen", request.firstSeen)
      isQueueEmpty = false
      emptyWatch?.wasDisturbed = true
      return publish(
        request.body, to: retries, routingKey: Topology.channelsRetryRoutingKey(seconds: seconds), on: connection)
    }
  }

  /// What a copy of a request keeps, to be carried out as the request itself.
  private func keepOriginal(_ request: ChannelConsumerRequest) {
    let metadata = request.metadata
    let bytes = metadata.bytes.span
    if !metadata.replyTo.isEmpty { properties.setReplyTo(bytes.extracting(metadata.replyTo.range)) }
    if !metadata.messageID.isEmpty { properties.setMessageID(bytes.extracting(metadata.messageID.range)) }
    properties.addHeader("x-herald-ambiguous", request.isRepeated)
  }

  private func publish(
    _ body: [UInt8], to exchange: AMQPExchange, routingKey: String, on connection: AMQPConnection
  ) -> UInt64 {
    if exchange.isMandatory { RabbitMQPublishNumber.add(publishedCount, to: properties) }
    let number = connection.publish(
      to: exchange, channel: ChannelConsumerLoop.publishChannel, routingKey: routingKey.utf8.span,
      properties: properties,
      body: body.span)
    assert(number == publishedCount)
    return number
  }
}
