import PushCore

/// One AMQP connection as a pure state machine: methods, content frames and ticks in, actions out. No bytes, no clock.
///
/// A protocol error of the broker throws; the connection then closes. Our own errors trap. Late but legal frames are ignored: everything on
/// a channel that we are closing, and a consumer's deliveries after its cancellation.
struct AMQPConnectionState {
  enum Phase: Equatable {
    /// TCP and TLS are not established. → awaitingStart, closed
    case connecting
    /// Our protocol header was sent; connection.start is due. → awaitingTune, closed
    case awaitingStart
    /// User and password were sent; connection.tune is due. → awaitingOpen, closed
    case awaitingTune
    /// The virtual host was requested; connection.open-ok is due. → ready, closed
    case awaitingOpen
    /// Channels may be used. → closing, closed
    case ready
    /// connection.close was sent; the broker's answer is due, the rest is dropped. → closed
    case closing
    /// Over.
    case closed
  }

  private(set) var phase = Phase.connecting
  private(set) var tuning = AMQPTuning(
    channelMax: 0, frameMax: AMQPConnectionState.frameMaxBeforeTune, heartbeatSeconds: 0)
  /// The reason that the broker gave for an alarm; nil: it has none.
  private var alarmReason: String?
  /// The last message that was taken is a delivery that the broker made before.
  private(set) var isLastRedelivered = false
  /// Where the last returned message was published to.
  private(set) var returnedExchange = ""
  private(set) var returnedRoutingKey = ""
  /// Product and version that the broker reports.
  private(set) var server = ""
  private var channels: [AMQPChannelState]
  private var nextOperation: UInt32 = 0
  private let wanted: AMQPTuning
  private let user: String
  private let virtualHost: String
  private var lastReceived = Instant(nanoseconds: 0)
  private var hasSentSinceTick = true

  /// Frames of the handshake are small; a peer that announces larger ones is not a broker.
  static let frameMaxBeforeTune: UInt32 = 16 * 1024

  init(options: AMQPOptions, heartbeatSeconds: UInt16, user: String, virtualHost: String) {
    precondition(options.channelCount > 0 && options.frameBytesMaximum >= 4096)
    wanted = AMQPTuning(
      channelMax: options.channelCount, frameMax: options.frameBytesMaximum, heartbeatSeconds: heartbeatSeconds)
    self.user = user
    self.virtualHost = virtualHost
    channels = Array(repeating: AMQPChannelState(), count: Int(options.channelCount) + 1)
  }

  /// Why nothing may be published; nil: it may. One stopped channel stops all: a connection publishes on one channel at a time.
  var blockedReason: String? {
    alarmReason ?? channels.firstIndex(where: \.isStopped).map { "channel.flow on channel \($0)" }
  }

  /// What the handshake waits for, in words.
  var awaited: String {
    switch phase {
    case .connecting: "connection"
    case .awaitingStart: "connection.start"
    case .awaitingTune: "connection.tune"
    case .awaitingOpen: "connection.open-ok"
    case .ready, .closing, .closed: "answer"
    }
  }

  // MARK: our requests

  func isOpen(channel: UInt16) -> Bool {
    phase == .ready && Int(channel) < channels.count && channels[Int(channel)].phase == .open
  }

  /// Open, or being opened: its number cannot be opened again before it is closed.
  func isInUse(channel: UInt16) -> Bool {
    guard phase == .ready, Int(channel) < channels.count else { return false }
    return channels[Int(channel)].phase == .open || channels[Int(channel)].phase == .opening
  }

  /// It is closed, and its close answered.
  func canOpen(channel: UInt16) -> Bool {
    phase == .ready && Int(channel) < channels.count && channels[Int(channel)].phase == .closed
  }

  func error(ofChannel channel: UInt16) -> AMQPError? {
    Int(channel) < channels.count ? channels[Int(channel)].error : nil
  }

  /// An operation is about to be sent. Returns its number.
  mutating func requested(_ operation: AMQPOperation, channel: UInt16) -> UInt32 {
    precondition(phase == .ready, "operations need an open connection")
    precondition(channel > 0 && Int(channel) < channels.count, "channels are numbered 1 to \(channels.count - 1)")
    let index = Int(channel)
    switch operation {
    case .openChannel:
      precondition(channels[index].phase == .closed, "channel \(channel) is open already")
      channels[index].reset(to: .opening)
      channels[index].error = nil
    case .closeChannel:
      // May follow channel.open without waiting for its answer.
      precondition(isInUse(channel: channel), "channel \(channel) is not open")
      channels[index].reset(to: .closing)
    case .declareExchange, .declareQueue, .inspectQueue, .inspectExchange, .bind, .unbind, .purge, .deleteQueue,
      .deleteExchange, .prefetch, .consume, .cancel, .selectConfirms:
      // Operations may follow channel.open without waiting for its answer.
      precondition(isInUse(channel: channel), "channel \(channel) is not open")
    }
    nextOperation &+= 1
    channels[index].pending.append(AMQPChannelState.Pending(number: nextOperation, reply: operation.reply))
    return nextOperation
  }

  /// A message is about to be published. Returns its number: 1 for the first since confirm.select; 0 without confirms.
  @inline(__always)
  mutating func published(channel: UInt16) -> UInt64 {
    precondition(isOpen(channel: channel), "publishing needs an open channel")
    guard channels[Int(channel)].isConfirming else { return 0 }
    channels[Int(channel)].publishedCount &+= 1
    return channels[Int(channel)].publishedCount
  }

  /// We want to close. false: there is no handshake to close.
  mutating func closeRequested() -> Bool {
    switch phase {
    case .ready, .awaitingOpen:
      phase = .closing
      return true
    case .connecting, .awaitingStart, .awaitingTune:
      phase = .closed
      return false
    case .closing, .closed:
      return false
    }
  }

  mutating func ended() {
    phase = .closed
  }

  // MARK: the transport

  mutating func transportOpened(now: Instant) -> AMQPConnectionAction {
    precondition(phase == .connecting)
    phase = .awaitingStart
    lastReceived = now
    return .sendProtocolHeader
  }

  mutating func bytesReceived(now: Instant) {
    lastReceived = now
  }

  mutating func bytesSent() {
    hasSentSinceTick = true
  }

  /// Called about every half of the agreed interval. A peer does not count as silent while nothing is read from it.
  mutating func tick(now: Instant, isReading: Bool) -> AMQPHeartbeatAction {
    guard tuning.heartbeatSeconds > 0, phase == .ready else { return .none }
    if !isReading { lastReceived = now }
    let silent = now.milliseconds(since: lastReceived)
    if silent > Int64(tuning.heartbeatSeconds) * 2000 { return .giveUp(silentMilliseconds: silent) }
    defer { hasSentSinceTick = false }
    return hasSentSinceTick ? .none : .sendHeartbeat
  }

  // MARK: content

  /// The content header of the message that is due on this channel. Returns false if it must be dropped.
  mutating func contentHeader(channel: UInt16, size: Int) throws(AMQPError) -> Bool {
    guard try accepts(channel) else { return false }
    guard case .awaitingHeader(let kind) = channels[Int(channel)].content, size >= 0 else {
      throw .unexpectedContent(channel: channel)
    }
    channels[Int(channel)].content = .awaitingBody(kind, size: size, remaining: size)
    return true
  }

  /// A part of its body. Returns false if it must be dropped.
  mutating func contentBody(channel: UInt16, count: Int) throws(AMQPError) -> Bool {
    guard try accepts(channel) else { return false }
    guard case .awaitingBody(let kind, let size, let remaining) = channels[Int(channel)].content,
      count > 0, count <= remaining
    else { throw .unexpectedContent(channel: channel) }
    channels[Int(channel)].content = .awaitingBody(kind, size: size, remaining: remaining - count)
    return true
  }

  /// The message, once its last byte came; nil before that.
  @inline(__always)
  mutating func takeContent(channel: UInt16, bodyMaximum: Int) -> AMQPEvent? {
    guard case .awaitingBody(let kind, let size, 0) = channels[Int(channel)].content else { return nil }
    channels[Int(channel)].content = .none
    switch kind {
    case .delivery(let tag, let isRedelivered):
      isLastRedelivered = isRedelivered
      return .delivery(
        AMQPDelivery(
          channel: channel, tag: tag, isRedelivered: isRedelivered, bodyCount: size, isOversized: size > bodyMaximum))
    case .returned(let code):
      isLastRedelivered = false
      return .returned(channel: channel, code: code)
    }
  }

  /// The size of the body being received; nil if there is none.
  func contentSize(channel: UInt16) -> Int? {
    guard Int(channel) < channels.count, case .awaitingBody(_, let size, _) = channels[Int(channel)].content else {
      return nil
    }
    return size
  }

  /// Whether a frame on this channel is to be handled: false while we close it. Throws if the channel is not open.
  private func accepts(_ channel: UInt16) throws(AMQPError) -> Bool {
    guard phase == .ready || phase == .closing, channel > 0, Int(channel) < channels.count else {
      throw .unexpectedChannel(channel)
    }
    if phase == .closing { return false }
    switch channels[Int(channel)].phase {
    case .open, .opening: return true
    case .closing: return false
    case .closed: throw .unexpectedChannel(channel)
    }
  }

  // MARK: methods

  mutating func received(_ method: AMQPServerMethod, id: UInt32, channel: UInt16) throws(AMQPError)
    -> AMQPConnectionAction
  {
    if channel == 0 { return try receivedOnConnection(method, id: id) }
    guard try accepts(channel) else { return closingChannelReceived(method, channel) }
    let index = Int(channel)
    guard channels[index].content == .none else { throw .unexpectedContent(channel: channel) }
    switch method {
    case .deliver(let tag, let isRedelivered):
      channels[index].content = .awaitingHeader(.delivery(tag: tag, isRedelivered: isRedelivered))
      return .none
    case .returned(let code, let exchange, let routingKey):
      returnedExchange = exchange
      returnedRoutingKey = routingKey
      channels[index].content = .awaitingHeader(.returned(code: code))
      return .none
    case .acknowledged(let sequence, let isMultiple):
      let sequence = try confirmed(sequence, isMultiple: isMultiple, channel)
      return .tell(.confirmed(channel: channel, sequence: sequence, isMultiple: isMultiple))
    case .refused(let sequence, let isMultiple):
      let sequence = try confirmed(sequence, isMultiple: isMultiple, channel)
      return .tell(.refused(channel: channel, sequence: sequence, isMultiple: isMultiple))
    case .channelOpenOK:
      let action = try answered(.channelOpen, id: id, channel)
      channels[index].phase = .open
      return action
    case .channelClose(let code, let text):
      channels[index].reset(to: .closed)
      channels[index].error = AMQPConnectionState.channelError(channel: channel, code: code, text: text)
      return .sendChannelCloseOK(channel: channel, tell: .channelClosed(channel: channel))
    case .channelFlow(let isActive):
      let wasBlocked = blockedReason != nil
      channels[index].isStopped = !isActive
      let isBlocked = blockedReason != nil
      let event = isBlocked == wasBlocked ? nil : isBlocked ? AMQPEvent.blocked : .unblocked
      return .sendFlowOK(channel: channel, isActive: isActive, tell: event)
    case .exchangeDeclareOK: return try answered(.exchangeDeclare, id: id, channel)
    case .exchangeDeleteOK: return try answered(.exchangeDelete, id: id, channel)
    case .queueDeclareOK(let messageCount, let consumerCount):
      let reply = AMQPReply(messageCount: messageCount, consumerCount: consumerCount)
      return try answered(.queueDeclare, reply, id: id, channel)
    case .queueBindOK: return try answered(.queueBind, id: id, channel)
    case .queueUnbindOK: return try answered(.queueUnbind, id: id, channel)
    case .queuePurgeOK(let count):
      return try answered(.queuePurge, AMQPReply(messageCount: count), id: id, channel)
    case .queueDeleteOK(let count):
      return try answered(.queueDelete, AMQPReply(messageCount: count), id: id, channel)
    case .qosOK: return try answered(.qos, id: id, channel)
    case .consumeOK: return try answered(.consume, id: id, channel)
    case .cancelOK: return try answered(.cancel, id: id, channel)
    case .confirmSelectOK:
      let action = try answered(.confirmSelect, id: id, channel)
      channels[index].isConfirming = true
      return action
    case .cancel:
      return .tell(.cancelled(channel: channel))
    case .connectionStart, .connectionTune, .connectionOpenOK, .connectionClose, .connectionCloseOK,
      .connectionBlocked, .connectionUnblocked, .channelCloseOK:
      throw .unexpectedMethod(id: id, channel: channel)
    }
  }

  /// We are closing the channel or the connection.
  private mutating func closingChannelReceived(
    _ method: AMQPServerMethod, _ channel: UInt16
  ) -> AMQPConnectionAction {
    guard phase == .ready else { return .none }
    let index = Int(channel)
    switch method {
    case .channelCloseOK:
      let number = channels[index].pending.first?.number ?? 0
      channels[index].reset(to: .closed)
      return .tell(.completed(channel: channel, operation: number, reply: AMQPReply()))
    case .channelClose:
      // Both sides closed at once: we answer the broker's close, and ours is answered too.
      return .sendChannelCloseOK(channel: channel, tell: .channelClosed(channel: channel))
    default:
      return .none
    }
  }

  private mutating func receivedOnConnection(
    _ method: AMQPServerMethod, id: UInt32
  ) throws(AMQPError) -> AMQPConnectionAction {
    switch (phase, method) {
    case (.closing, .connectionCloseOK):
      phase = .closed
      return .end
    case (.connecting, _), (.closed, _):
      throw .unexpectedMethod(id: id, channel: 0)
    case (_, .connectionClose(let code, let text)):
      let wasClosing = phase == .closing
      let error = closeError(code: code, text: text)
      phase = .closed
      return wasClosing ? .end : .sendCloseOKAndEnd(error)
    case (.closing, _):
      return .none
    case (.awaitingStart, .connectionStart(let mechanisms, let server)):
      guard mechanisms.split(separator: " ").contains("PLAIN") else { throw .noCommonMechanism(offered: mechanisms) }
      self.server = server
      phase = .awaitingTune
      return .sendStartOK
    case (.awaitingTune, .connectionTune(let channelMax, let frameMax, let heartbeat)):
      tuning = negotiated(channelMax: channelMax, frameMax: frameMax, heartbeatSeconds: heartbeat)
      phase = .awaitingOpen
      return .sendTuneOKAndOpen(tuning)
    case (.awaitingOpen, .connectionOpenOK):
      phase = .ready
      return .tell(.opened)
    case (_, .connectionBlocked(let reason)):
      alarmReason = reason
      return .tell(.blocked)
    case (_, .connectionUnblocked):
      alarmReason = nil
      return blockedReason == nil ? .tell(.unblocked) : .none
    default:
      throw .unexpectedMethod(id: id, channel: 0)
    }
  }

  private func negotiated(channelMax: UInt16, frameMax: UInt32, heartbeatSeconds: UInt16) -> AMQPTuning {
    // 0 means "no limit", for heartbeats "none".
    AMQPTuning(
      channelMax: channelMax == 0 ? wanted.channelMax : min(wanted.channelMax, channelMax),
      frameMax: frameMax == 0 ? wanted.frameMax : min(wanted.frameMax, max(4096, frameMax)),
      heartbeatSeconds: heartbeatSeconds == 0 || wanted.heartbeatSeconds == 0
        ? wanted.heartbeatSeconds : min(wanted.heartbeatSeconds, heartbeatSeconds))
  }

  /// The oldest operation of the channel is answered.
  private mutating func answered(
    _ kind: AMQPChannelState.Reply, _ reply: AMQPReply = AMQPReply(), id: UInt32, _ channel: UInt16
  ) throws(AMQPError) -> AMQPConnectionAction {
    guard let first = channels[Int(channel)].pending.first, first.reply == kind else {
      throw .unexpectedMethod(id: id, channel: channel)
    }
    channels[Int(channel)].pending.removeFirst()
    return .tell(.completed(channel: channel, operation: first.number, reply: reply))
  }

  private func confirmed(_ sequence: UInt64, isMultiple: Bool, _ channel: UInt16) throws(AMQPError) -> UInt64 {
    let published = channels[Int(channel)].publishedCount
    // "0, multiple" means all.
    if sequence == 0, isMultiple { return published }
    guard sequence > 0, sequence <= published else {
      throw .confirmOfNothing(sequence: sequence, published: published)
    }
    return sequence
  }

  private func closeError(code: UInt16, text: String) -> AMQPError {
    let isLogin = phase == .awaitingTune || phase == .awaitingOpen
    if code == AMQPError.accessRefusedCode || (isLogin && code == 530) {
      return .accessRefused(user: user, virtualHost: virtualHost, text: text)
    }
    return .closedByBroker(code: code, text: text)
  }

  private static func channelError(channel: UInt16, code: UInt16, text: String) -> AMQPError {
    if code == AMQPError.preconditionFailedCode, let mismatch = AMQPMismatch(replyText: text) {
      return .mismatch(mismatch)
    }
    return .channelClosed(channel: channel, code: code, text: text)
  }
}
