/// Connections: handshake, tuning, errors, closing and alarms.
extension SimulatedRabbitMQ {
  /// How long the server stays silent before it ends a connection that failed in the handshake.
  private static let silenceNanoseconds: Int64 = 3_000_000_000
  private static let closingNanoseconds: Int64 = 30_000_000_000

  /// Handles the input frame by frame, until no whole frame is left, or the connection is blocked or ended.
  func read(_ session: RabbitSession) {
    while session.phase != .blocked, session.phase != .silent, session.phase != .gone, let frame = session.nextFrame() {
      switch frame {
      case .greeting(let header): greeted(session, header)
      case .frame(let kind, let channel, let start, let end):
        take(kind, channel, RabbitReader(session.input, from: start, to: end), session)
        handOver()
      case .tooLarge(let kind, let count):
        lostFrames(
          session,
          "type \(kind), all octets = <<>>: {frame_too_large,\(count),\(session.frameMaximum - RabbitFrame.overhead)}")
      case .unended(let kind, let mark):
        lostFrames(session, "type \(kind): {invalid_frame_end_marker,\(mark)}")
      }
    }
    if session.phase == .silent || session.phase == .gone { session.dropInput() }
  }

  private func take(_ kind: UInt8, _ channel: UInt16, _ reader: RabbitReader, _ session: RabbitSession) {
    if channel == 0 { return takeOnConnection(kind, reader, session) }
    switch session.phase {
    case .running: takeOnChannel(kind, channel, reader, session)
    case .closing: break
    case .greeting, .starting, .tuning, .opening, .blocked, .silent, .gone: turnAway(session)
    }
  }

  // MARK: - Handshake

  private func greeted(_ session: RabbitSession, _ header: [UInt8]) {
    let ours = Array("AMQP".utf8) + [0, 0, 9, 1]
    guard header == ours else {
      session.writer.raw(ours)
      touch(session)
      end(session, .close(session.id))
      return
    }
    session.phase = .starting
    var properties = RabbitTable()
    var capabilities = RabbitTable()
    for name in [
      "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
      "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to",
    ] {
      capabilities[name] = .flag(true)
    }
    properties["capabilities"] = .table(capabilities)
    properties["cluster_name"] = .text("rabbit@simulated")
    properties["product"] = .text("RabbitMQ")
    properties["version"] = .text("3.10.8")
    session.writer.beginMethod(RabbitMethod.connectionStart, channel: 0)
    session.writer.octet(0)
    session.writer.octet(9)
    session.writer.table(properties)
    session.writer.longText(Array("AMQPLAIN PLAIN".utf8))
    session.writer.longText(Array("en_US".utf8))
    session.writer.endFrame()
    touch(session)
  }

  private func takeOnConnection(_ kind: UInt8, _ reader: RabbitReader, _ session: RabbitSession) {
    var reader = reader
    if kind == RabbitFrame.heartbeat, reader.remainingCount == 0 { return }
    guard kind == RabbitFrame.method, reader.remainingCount >= 4 else {
      if session.phase == .closing { return }
      let isKnown = kind == RabbitFrame.header && reader.remainingCount >= 12 || kind == RabbitFrame.body
      return fail(session, RabbitError(isKnown ? .unexpectedFrame : .frameError, "type \(kind) on channel 0"))
    }
    let method = reader.long()
    do throws(RabbitError) {
      try take(method, reader, session)
    } catch {
      fail(session, RabbitSession.named(error, method))
    }
  }

  private func take(_ method: UInt32, _ reader: RabbitReader, _ session: RabbitSession) throws(RabbitError) {
    var reader = reader
    switch (session.phase, method) {
    case (.starting, RabbitMethod.connectionStartOK): try started(session, &reader)
    case (.tuning, RabbitMethod.connectionTuneOK): try tuned(session, &reader)
    case (.opening, RabbitMethod.connectionOpen): try opened(session, &reader)
    case (.running, RabbitMethod.connectionClose):
      endChannels(of: session)
      answerClose(session)
    case (.closing, RabbitMethod.connectionClose):
      session.writer.method(RabbitMethod.connectionCloseOK, channel: 0)
      touch(session)
    case (.closing, RabbitMethod.connectionCloseOK): end(session, .close(session.id))
    case (.closing, _): break
    default: throw RabbitError(.channelError, "unexpected method in connection state \(session.phase)")
    }
  }

  private func answerClose(_ session: RabbitSession) {
    session.writer.method(RabbitMethod.connectionCloseOK, channel: 0)
    touch(session)
    awaitEnd(session)
  }

  private func awaitEnd(_ session: RabbitSession) {
    session.phase = .closing
    let patience = Self.closingNanoseconds
    session.endsAt = now + (session.heartbeat > 0 ? min(session.heartbeat, patience) : patience)
  }

  private func started(_ session: RabbitSession, _ reader: inout RabbitReader) throws(RabbitError) {
    let client = reader.table()
    let mechanism = reader.shortText()
    let response = reader.longText()
    _ = reader.shortText()
    try RabbitSession.check(reader)
    if case .table(let capabilities)? = client["capabilities"] {
      session.wantsCancelNotices = capabilities["consumer_cancel_notify"] == .flag(true)
      session.wantsBlockedNotices = capabilities["connection.blocked"] == .flag(true)
      session.wantsLoginRefusals = capabilities["authentication_failure_close"] == .flag(true)
    }
    guard mechanism.elementsEqual("PLAIN".utf8) else {
      throw RabbitError(
        .commandInvalid, "unknown authentication mechanism '\(String(decoding: mechanism, as: UTF8.self))'")
    }
    let parts = response.split(separator: 0, omittingEmptySubsequences: false)
    let isKnown =
      parts.count == 3 && parts[1].elementsEqual(settings.user.utf8) && parts[2].elementsEqual(settings.password.utf8)
    guard isKnown else {
      if session.wantsLoginRefusals {
        writeClose(
          RabbitError(
            .accessRefused,
            "Login was refused using authentication mechanism PLAIN. For details see the broker logfile."),
          session)
      }
      turnAway(session)
      return
    }
    session.user = settings.user
    session.phase = .tuning
    session.writer.beginMethod(RabbitMethod.connectionTune, channel: 0)
    session.writer.short(settings.channelMaximum)
    session.writer.long(UInt32(settings.frameBytesMaximum))
    session.writer.short(settings.heartbeatSeconds)
    session.writer.endFrame()
    touch(session)
  }

  private func tuned(_ session: RabbitSession, _ reader: inout RabbitReader) throws(RabbitError) {
    let channels = Int(reader.short())
    let frame = Int(reader.long())
    let heartbeat = reader.short()
    try RabbitSession.check(reader)
    try agree("frame_max", frame, RabbitFrame.smallestMaximum, settings.frameBytesMaximum)
    try agree("channel_max", channels, 1, Int(settings.channelMaximum))
    session.frameMaximum = frame
    session.channelMaximum = channels
    session.startHeartbeat(seconds: heartbeat, now: now)
    session.phase = .opening
  }

  /// 0 requests no limit.
  private func agree(_ field: String, _ value: Int, _ minimum: Int, _ maximum: Int) throws(RabbitError) {
    if value != 0, value < minimum {
      throw RabbitError(
        .notAllowed, "negotiated \(field) = \(value) is lower than the minimum allowed value (\(minimum))")
    }
    if maximum != 0, value == 0 || value > maximum {
      let shown = value == 0 ? "0 (no limit)" : "\(value)"
      throw RabbitError(
        .notAllowed, "negotiated \(field) = \(shown) is higher than the maximum allowed value (\(maximum))")
    }
  }

  private func opened(_ session: RabbitSession, _ reader: inout RabbitReader) throws(RabbitError) {
    let host = reader.shortText()
    _ = reader.shortText()
    _ = reader.octet()
    try RabbitSession.check(reader)
    guard host.elementsEqual(settings.virtualHost.utf8) else {
      throw RabbitError(.notAllowed, "vhost \(String(decoding: host, as: UTF8.self)) not found")
    }
    session.writer.beginMethod(RabbitMethod.connectionOpenOK, channel: 0)
    session.writer.octet(0)
    session.writer.endFrame()
    touch(session)
    session.phase = .running
    session.endsAt = nil
  }

  // MARK: - Errors

  /// Closes the connection with an error, if its state allows a close frame.
  func fail(_ session: RabbitSession, _ error: RabbitError) {
    switch session.phase {
    case .running, .blocked:
      endChannels(of: session)
      writeClose(error, session)
      session.dropInputIfBlocked()
      awaitEnd(session)
    case .opening:
      writeClose(error, session)
      awaitEnd(session)
    // A real server does not report failed tuning.
    case .greeting, .starting, .tuning: turnAway(session)
    case .closing, .silent, .gone: break
    }
  }

  /// The byte stream cannot be parsed any more: reports this and reads nothing further.
  private func lostFrames(_ session: RabbitSession, _ explanation: String) {
    let wasUsable = session.isUsable
    if wasUsable {
      endChannels(of: session)
      writeClose(RabbitError(.frameError, explanation), session)
    }
    turnAway(session)
  }

  /// Goes silent, and ends the connection a little later.
  private func turnAway(_ session: RabbitSession) {
    session.phase = .silent
    session.stopHeartbeat()
    session.endsAt = now + Self.silenceNanoseconds
  }

  func writeClose(_ error: RabbitError, _ session: RabbitSession) {
    session.writer.beginMethod(RabbitMethod.connectionClose, channel: 0)
    session.writer.short(error.code)
    session.writer.shortText(error.text)
    session.writer.long(error.method)
    session.writer.endFrame()
    touch(session)
  }

  // MARK: - Alarms

  /// Blocks a connection that publishes while an alarm is on. Returns whether it did.
  func blocksPublish(_ session: RabbitSession) -> Bool {
    guard !alarms.isEmpty, session.phase == .running else { return false }
    session.phase = .blocked
    session.pauseListening()
    guard session.wantsBlockedNotices, !session.wasToldBlocked else { return true }
    session.wasToldBlocked = true
    session.writer.beginMethod(RabbitMethod.connectionBlocked, channel: 0)
    session.writer.shortText(Array(("low on " + alarms.joined(separator: " & ")).utf8))
    session.writer.endFrame()
    touch(session)
    return true
  }

  /// All alarms are off: reads what waits in a blocked connection.
  func unblock(_ session: RabbitSession) {
    guard session.phase == .blocked else { return }
    session.phase = .running
    session.resumeListening(now: now)
    if session.wasToldBlocked {
      session.wasToldBlocked = false
      session.writer.method(RabbitMethod.connectionUnblocked, channel: 0)
      touch(session)
    }
    read(session)
  }
}

extension RabbitSession {
  /// The error with the method that caused it.
  static func named(_ error: RabbitError, _ method: UInt32) -> RabbitError {
    var error = error
    if error.method == 0, error.code != 541 { error.method = method }
    return error
  }

  /// Arguments that cannot be decoded are an error of the connection.
  static func check(_ reader: RabbitReader) throws(RabbitError) {
    if reader.hasFailed { throw RabbitError(.frameError, "cannot decode the method's arguments") }
  }

  /// Unread input of a blocked client is dropped.
  func dropInputIfBlocked() {
    if phase == .blocked { dropInput() }
  }
}
