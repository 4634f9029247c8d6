import PushCore
import PushIO
import PushLane

/// Publishes answers, dead letters and copies until the broker confirms them.
extension ChannelConsumerLoop {
  /// A full reply queue is its owner's business: after this many refusals, or lost connections, the answer goes to the results exchange.
  private static let repliesMaximum = 3
  /// Until an answer is tried again, after the first refusal; twice as long after the next.
  private static let replyPauseMilliseconds: Int64 = 100

  func publish() {
    if triedReply == nil, publisher.isReady, !publisher.isBlocked, !lostReplies.isEmpty {
      let request = lostReplies.removeFirst()
      if requests.contains(where: { $0 === request }) {
        triedReply = request
        publish(request, .reply)
      }
    }
    for request in requests {
      for target in request.takeTargets() { publish(request, target) }
    }
    publisher.send()
  }

  private func publish(_ request: ChannelConsumerRequest, _ target: ChannelConsumerRequest.Target) {
    let topology = settings.rabbitmq.topology
    switch target {
    case .reply:
      guard let reply = request.reply else { preconditionFailure("an answer has its bytes") }
      publisher.publishOnce(
        reply.body,
        as: message(request, to: queues, routingKey: request.replyTo, ChannelConsumerLoop.describeAnswer) {
          [weak self] in self?.replied(request, $0)
        }, isForOthers: true)
    case .results:
      guard let reply = request.reply else { preconditionFailure("an answer has its bytes") }
      keep(reply.body, request, to: results, routingKey: reply.routingKey, ChannelConsumerLoop.describeAnswer)
    case .dead:
      // One that is alone holds up all that wait to be.
      let isAlone = request.channel == ChannelConsumerLoop.isolatedChannel
      keep(
        request.body, request, to: queues, routingKey: topology.deadQueue,
        waitingMaximum: isAlone ? 0 : ChannelConsumerSettings.refusedMaximum, ChannelConsumerLoop.describeDeadLetter)
    case .retry(let seconds):
      let key = Topology.channelsRetryRoutingKey(seconds: seconds)
      keep(request.body, request, to: retries, routingKey: key) { request, properties, now in
        ChannelConsumerLoop.describeCopy(request, properties, now)
        RabbitMQPublishProperties(properties).delay(seconds: seconds)
      }
      disturbed()
    case .isolated:
      let key = topology.isolatedChannelsQueue
      keep(request.body, request, to: queues, routingKey: key, ChannelConsumerLoop.describeCopy)
      disturbed()
    }
  }

  /// What became of an answer in the queue that its request names.
  private func replied(_ request: ChannelConsumerRequest, _ ending: ConfirmedPublisher.Ending) {
    if triedReply === request { triedReply = nil }
    switch ending {
    case .confirmed: confirmed(request)
    case .returned: publish(request, .results)
    case .unsent: lostReplies.append(request)
    case .lost:
      // RabbitMQ closes the connection for some names of queues. So these are tried one by one: one that ends the connection takes few
      // others with it, and seldom.
      request.losses += 1
      if request.losses < ChannelConsumerLoop.repliesMaximum {
        lostReplies.append(request)
      } else {
        publish(request, .results)
      }
    case .refused:
      let triesAgain =
        request.refusals > 0 || requests.count { $0.refusals > 0 } < settings.refusedRepliesMaximum
      request.refusals += 1
      guard triesAgain, request.refusals < ChannelConsumerLoop.repliesMaximum else {
        request.refusals = 0
        return publish(request, .results)
      }
      replyAgain(request, afterMilliseconds: ChannelConsumerLoop.replyPauseMilliseconds << (request.refusals - 1))
    }
  }

  private func replyAgain(_ request: ChannelConsumerRequest, afterMilliseconds milliseconds: Int64) {
    loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
      guard let self, requests.contains(where: { $0 === request }) else { return }
      publish(request, .reply)
    }
  }

  private func confirmed(_ request: ChannelConsumerRequest) {
    if request.confirmed() { settled(request) }
  }

  private typealias Describe = (ChannelConsumerRequest, AMQPProperties, _ unixMilliseconds: Int64) -> Void

  /// Publishes it until it is confirmed. A dead letter that is refused beyond its share is left to RabbitMQ.
  private func keep(
    _ body: [UInt8], _ request: ChannelConsumerRequest, to exchange: AMQPExchange, routingKey: String,
    waitingMaximum: Int? = nil, _ describe: @escaping Describe
  ) {
    publisher.publish(
      body,
      as: message(request, to: exchange, routingKey: routingKey, describe) { [weak self] ending in
        if ending != .confirmed { request.isLeftToBroker = true }
        self?.confirmed(request)
      }, waitingMaximum: waitingMaximum)
  }

  private func message(
    _ request: ChannelConsumerRequest, to exchange: AMQPExchange, routingKey: String, _ describe: @escaping Describe,
    then: @escaping (ConfirmedPublisher.Ending) -> Void
  ) -> ConfirmedPublisher.Message {
    ConfirmedPublisher.Message(
      exchange: exchange, routingKey: Array(routingKey.utf8),
      describe: { [loop] properties, _ in
        let metadata = request.metadata
        let bytes = metadata.bytes.span
        if !metadata.correlationID.isEmpty {
          properties.setCorrelationID(bytes.extracting(metadata.correlationID.range))
        }
        if !metadata.traceparent.isEmpty {
          properties.addHeader("traceparent", bytes.extracting(metadata.traceparent.range))
        }
        if !metadata.tracestate.isEmpty {
          properties.addHeader("tracestate", bytes.extracting(metadata.tracestate.range))
        }
        describe(request, properties, loop.now.unixMilliseconds)
      }, then: then)
  }

  private static func describeAnswer(
    _ request: ChannelConsumerRequest, _ properties: AMQPProperties, _ unixMilliseconds: Int64
  ) {
    properties.setMessageID(request.answerID.utf8.span)
    properties.setType("push.channel.v1")
    properties.setTimestamp(unixMilliseconds: unixMilliseconds)
  }

  private static func describeDeadLetter(
    _ request: ChannelConsumerRequest, _ properties: AMQPProperties, _ unixMilliseconds: Int64
  ) {
    keepOriginal(request, properties)
    properties.addHeader("x-herald-reason", literal: request.deadReason?.reason ?? "invalid")
    properties.addHeader("x-herald-detail", request.deadReason?.detail ?? "")
    properties.addHeader("x-herald-class", literal: "channels")
  }

  /// Of a copy for a retry or isolated queue.
  private static func describeCopy(
    _ request: ChannelConsumerRequest, _ properties: AMQPProperties, _ unixMilliseconds: Int64
  ) {
    keepOriginal(request, properties)
    if let enqueuedAt = request.metadata.enqueuedAt { properties.setTimestamp(unixMilliseconds: enqueuedAt) }
    properties.addHeader("x-herald-first-seen", request.firstSeen)
    // Also if it waits because Redis is unavailable: it may crash the next worker that carries it out.
    let carried = request.metadata.carriedDeliveries
    if carried > 0 { properties.addHeader("x-herald-deliveries", Int64(carried)) }
  }

  /// Properties of the request that its dead letter and every copy keep.
  private static func keepOriginal(_ request: ChannelConsumerRequest, _ properties: AMQPProperties) {
    let metadata = request.metadata
    let bytes = metadata.bytes.span
    if !metadata.replyTo.isEmpty { properties.setReplyTo(bytes.extracting(metadata.replyTo.range)) }
    if !metadata.messageID.isEmpty { properties.setMessageID(bytes.extracting(metadata.messageID.range)) }
    properties.addHeader("x-herald-ambiguous", request.isRepeated)
  }

  private func disturbed() {
    isQueueEmpty = false
    emptyWatch?.wasDisturbed = true
  }
}
