/// Channels: the order of frames, the dispatch of methods, and how a channel ends.
extension SimulatedRabbitMQ {
  func takeOnChannel(_ kind: UInt8, _ number: UInt16, _ reader: RabbitReader, _ session: RabbitSession) {
    let isHeader = kind == RabbitFrame.header && reader.remainingCount >= 12
    let isKnown =
      kind == RabbitFrame.method && reader.remainingCount >= 4 || isHeader || kind == RabbitFrame.body
    guard isKnown else {
      let isHeartbeat = kind == RabbitFrame.heartbeat && reader.remainingCount == 0
      return fail(
        session,
        RabbitError(isHeartbeat ? .unexpectedFrame : .frameError, "type \(kind) on channel \(number)"))
    }
    let channel: RabbitChannel
    if let known = session.channel(number) {
      channel = known
    } else {
      guard session.channelMaximum == 0 || session.channelCount < session.channelMaximum else {
        return fail(
          session,
          RabbitError(
            .notAllowed,
            "number of channels opened (\(session.channelCount)) has reached the negotiated channel_max "
              + "(\(session.channelMaximum))"))
      }
      channel = RabbitChannel(number: number, session: session, now: now)
      session.add(channel)
    }
    do throws(RabbitError) {
      try assemble(kind, reader, channel)
    } catch {
      fail(channel, error)
    }
  }

  /// Handles a method, or assembles a method, a header and a body.
  private func assemble(_ kind: UInt8, _ reader: RabbitReader, _ channel: RabbitChannel) throws(RabbitError) {
    var reader = reader
    switch channel.assembly {
    case .method:
      guard kind == RabbitFrame.method else {
        throw RabbitError(.unexpectedFrame, "expected method frame, got non method frame instead")
      }
      let method = reader.long()
      // A real server drops the connection on an unknown method, without an error.
      guard RabbitMethod.isKnown(method) else { return end(channel.session, .close(channel.session.id)) }
      if method == RabbitMethod.basicPublish {
        channel.assembly = .header(try incoming(&reader))
        return
      }
      let isStart = method == RabbitMethod.basicConsume
      do throws(RabbitError) {
        try take(method, &reader, channel)
      } catch {
        throw RabbitSession.named(error, method)
      }
      // Late consumers start with the next method, not with their own.
      if !isStart { startLate(channel) }
    case .header(var incoming):
      guard kind == RabbitFrame.header else {
        throw RabbitError(
          .unexpectedFrame, "expected content header for class 60, got non content header frame instead",
          method: RabbitMethod.basicPublish)
      }
      let contentClass = reader.short()
      guard contentClass == RabbitMethod.basicClass, reader.short() == 0 else {
        throw RabbitError(
          .unexpectedFrame, "expected content header for class 60, got one for class \(contentClass) instead",
          method: RabbitMethod.basicPublish)
      }
      incoming.remaining = Int64(bitPattern: reader.longLong())
      incoming.properties = reader.rest()
      channel.assembly = incoming.remaining == 0 ? .method : .body(incoming)
      if incoming.remaining == 0 { try publishedWhole(incoming, channel) }
      _ = blocksPublish(channel.session)
    case .body(var incoming):
      guard kind == RabbitFrame.body else {
        throw RabbitError(
          .unexpectedFrame, "expected content body, got non content body frame instead",
          method: RabbitMethod.basicPublish)
      }
      // Releases the state's copy, so that the body is not copied for each frame.
      channel.assembly = .method
      incoming.remaining -= Int64(reader.remainingCount)
      if incoming.body.isEmpty { incoming.body = reader.rest() } else { incoming.body += reader.rest() }
      if incoming.remaining == 0 {
        try publishedWhole(incoming, channel)
      } else {
        channel.assembly = .body(incoming)
      }
      _ = blocksPublish(channel.session)
    }
  }

  private func incoming(_ reader: inout RabbitReader) throws(RabbitError) -> RabbitIncoming {
    _ = reader.short()
    let exchange = reader.shortText()
    let key = reader.shortText()
    let flags = reader.octet()
    if reader.hasFailed {
      throw RabbitError(
        .frameError, "cannot decode the method's arguments", method: RabbitMethod.basicPublish)
    }
    return RabbitIncoming(
      exchange: exchange, routingKey: key, isMandatory: flags & 1 != 0, isImmediate: flags & 2 != 0)
  }

  private func publishedWhole(_ incoming: RabbitIncoming, _ channel: RabbitChannel) throws(RabbitError) {
    do throws(RabbitError) {
      switch channel.phase {
      case .starting: throw RabbitError(.channelError, "expected 'channel.open'")
      case .closing: break
      case .open: try publish(incoming, on: channel)
      }
    } catch {
      throw RabbitSession.named(error, RabbitMethod.basicPublish)
    }
  }

  // MARK: - Methods

  private func take(_ method: UInt32, _ reader: inout RabbitReader, _ channel: RabbitChannel) throws(RabbitError) {
    switch (channel.phase, method) {
    case (.starting, RabbitMethod.channelOpen):
      _ = reader.shortText()
      try RabbitSession.check(reader)
      channel.phase = .open
      answer(channel, RabbitMethod.channelOpenOK) { $0.long(0) }
    case (.open, RabbitMethod.channelOpen): throw RabbitError(.channelError, "second 'channel.open' seen")
    case (.starting, _): throw RabbitError(.channelError, "expected 'channel.open'")
    case (.closing, RabbitMethod.channelClose): answer(channel, RabbitMethod.channelCloseOK)
    case (.closing, RabbitMethod.channelCloseOK): forget(channel)
    case (.closing, _): break
    case (.open, RabbitMethod.channelClose):
      forget(channel)
      answer(channel, RabbitMethod.channelCloseOK)
    case (.open, _): try takeOpen(method, &reader, channel)
    }
  }

  private func takeOpen(
    _ method: UInt32, _ reader: inout RabbitReader, _ channel: RabbitChannel
  ) throws(RabbitError) {
    switch method {
    case RabbitMethod.basicAck:
      let (tag, flags) = (reader.longLong(), reader.octet())
      try RabbitSession.check(reader)
      try acknowledge(tag, isMultiple: flags & 1 != 0, on: channel)
    case RabbitMethod.basicNack:
      let (tag, flags) = (reader.longLong(), reader.octet())
      try RabbitSession.check(reader)
      try reject(tag, isMultiple: flags & 1 != 0, requeues: flags & 2 != 0, on: channel)
    case RabbitMethod.basicReject:
      let (tag, flags) = (reader.longLong(), reader.octet())
      try RabbitSession.check(reader)
      try reject(tag, isMultiple: false, requeues: flags & 1 != 0, on: channel)
    case RabbitMethod.basicQoS:
      let (size, count, flags) = (reader.long(), reader.short(), reader.octet())
      try RabbitSession.check(reader)
      if size != 0 { throw RabbitError(.notImplemented, "prefetch_size!=0 (\(size))") }
      if flags & 1 != 0 { channel.hasGlobalPrefetch = count > 0 } else { channel.prefetch = Int(count) }
      answer(channel, RabbitMethod.basicQoSOK)
    case RabbitMethod.confirmSelect:
      let flags = reader.octet()
      try RabbitSession.check(reader)
      channel.isConfirming = true
      if flags & 1 == 0 { answer(channel, RabbitMethod.confirmSelectOK) }
    case RabbitMethod.channelFlow:
      let isActive = reader.octet() & 1 != 0
      try RabbitSession.check(reader)
      guard isActive else { throw RabbitError(.notImplemented, "active=false") }
      answer(channel, RabbitMethod.channelFlowOK) { $0.octet(1) }
    case RabbitMethod.channelFlowOK, RabbitMethod.channelCloseOK:
      throw RabbitError(.commandInvalid, "unimplemented method")
    case RabbitMethod.basicConsume: try consume(&reader, on: channel)
    case RabbitMethod.basicCancel: try cancel(&reader, on: channel)
    case RabbitMethod.exchangeDeclare: try declareExchange(&reader, on: channel)
    case RabbitMethod.exchangeDelete: try deleteExchange(&reader, on: channel)
    case RabbitMethod.queueDeclare: try declareQueue(&reader, on: channel)
    case RabbitMethod.queueBind: try bind(&reader, on: channel)
    case RabbitMethod.queueUnbind: try unbind(&reader, on: channel)
    case RabbitMethod.queuePurge: try purge(&reader, on: channel)
    case RabbitMethod.queueDelete: try deleteQueue(&reader, on: channel)
    default:
      // A real server supports more methods; the rest are sent by servers only.
      let isMissing = RabbitMethod.missing.contains(method)
      throw RabbitError(isMissing ? .notImplemented : .commandInvalid, "unimplemented method")
    }
  }

  /// Sends a method back, with the arguments that `write` adds.
  func answer(_ channel: RabbitChannel, _ method: UInt32, _ write: (inout RabbitWriter) -> Void = { _ in }) {
    let session = channel.session
    session.writer.beginMethod(method, channel: channel.number)
    write(&session.writer)
    session.writer.endFrame()
    touch(session)
  }

  // MARK: - Ends

  /// Closes a channel, or its connection, with an error.
  func fail(_ channel: RabbitChannel, _ error: RabbitError) {
    guard !error.isHard else { return fail(channel.session, error) }
    guard channel.phase != .closing else { return }
    // Like RabbitMQ, the channel keeps its deliveries until the client answers, except those of classic queues.
    channel.phase = .closing
    answer(channel, RabbitMethod.channelClose) {
      $0.short(error.code)
      $0.shortText(error.text)
      $0.long(error.method)
    }
    for queue in consumed(by: [channel]) where queue.settings.kind == .classic {
      queue.lose(where: { $0.channel === channel }, now: now)
    }
    handOver()
  }

  /// Removes the channel and requeues its deliveries.
  func forget(_ channel: RabbitChannel) {
    channel.session.remove(channel)
    for queue in consumed(by: [channel]) { queue.lose(where: { $0.channel === channel }, now: now) }
    handOver()
  }

  func endChannels(of session: RabbitSession) {
    let channels = session.channels.compactMap { $0 }
    for channel in channels { session.remove(channel) }
    // Consumers hold their channels unowned.
    withExtendedLifetime(channels) {
      for queue in consumed(by: channels) { queue.lose(where: { $0.channel.session === session }, now: now) }
    }
    handOver()
  }

  /// The queues with consumers on these channels, in order of declaration.
  private func consumed(by channels: [RabbitChannel]) -> [RabbitQueue] {
    queues.filter { queue in
      queue.consumers.contains { consumer in channels.contains { $0 === consumer.channel } }
        || queue.waiting.contains { consumer in channels.contains { $0 === consumer.channel } }
    }
  }
}
