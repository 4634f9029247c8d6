import PushCore
import PushIO
import PushLane

/// Publishes answers, dead letters and copies until the broker confirms them.
extension ChannelConsumerLoop {
  func publish() {
    guard let connection = publisher.connection, !isBlocked, loop.now.monotonic >= heldUntil else { return }
    let now = loop.now.monotonic
    for request in requests {
      for index in request.publishes.indices
      where request.publishes[index].state == .waiting && request.publishes[index].heldUntil <= now {
        let number = publish(request, request.publishes[index].target, on: connection)
        request.publishes[index].state = .unconfirmed(number)
        request.publishes[index].sentAt = now
      }
    }
  }

  /// A confirm that is this late is lost, and its request would wait forever: it is published again on a new
  /// connection.
  func missConfirms() {
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
        reply.body, to: isReply ? queues : results, routingKey: isReply ? request.replyTo : reply.routingKey,
        on: connection)
    case .dead:
      keepOriginal(request)
      properties.addHeader("x-herald-reason", literal: request.deadReason?.reason ?? "invalid")
      properties.addHeader("x-herald-detail", request.deadReason?.detail ?? "")
      properties.addHeader("x-herald-class", literal: "channels")
      return publish(request.body, to: dead, routingKey: "", on: connection)
    case .retry(let seconds):
      keepPlace(request)
      return publish(
        request.body, to: retries, routingKey: Topology.channelsRetryRoutingKey(seconds: seconds), on: connection)
    case .isolated:
      keepPlace(request)
      return publish(
        request.body, to: queues, routingKey: settings.rabbitmq.topology.isolatedChannelsQueue, on: connection)
    }
  }

  /// Properties of the request that every copy keeps.
  private func keepOriginal(_ request: ChannelConsumerRequest) {
    let metadata = request.metadata
    let bytes = metadata.bytes.span
    if !metadata.replyTo.isEmpty { properties.setReplyTo(bytes.extracting(metadata.replyTo.range)) }
    if !metadata.messageID.isEmpty { properties.setMessageID(bytes.extracting(metadata.messageID.range)) }
    properties.addHeader("x-herald-ambiguous", request.isRepeated)
  }

  /// Properties that a copy for a retry or isolated queue keeps too.
  private func keepPlace(_ request: ChannelConsumerRequest) {
    keepOriginal(request)
    if let enqueuedAt = request.metadata.enqueuedAt { properties.setTimestamp(unixMilliseconds: enqueuedAt) }
    properties.addHeader("x-herald-first-seen", request.firstSeen)
    // Also if it waits because Redis is unavailable: it may crash the next worker that carries it out.
    let carried = request.metadata.carriedDeliveries
    if carried > 0 { properties.addHeader("x-herald-deliveries", Int64(carried)) }
    isQueueEmpty = false
    emptyWatch?.wasDisturbed = true
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
