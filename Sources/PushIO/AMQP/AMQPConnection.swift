package import PushCore

/// A connection to a broker over a transport, pulled by its user: call `nextEvent` until it returns nil, once a turn.
///
/// Events are parsed from `Transport.inbound` on demand, so a user who stops asking stops the broker through TCP's back-pressure. A message
/// that is contiguous is read in place. Requests and publishes append to `Transport.outbound`: one write a turn. Nothing here blocks or
/// calls back.
/// Errors: everything that ends the connection is reported once as `.closed`, with `failure`.
@safe
package final class AMQPConnection: TransportDelegate {
  /// Why it ended; nil before, and if we closed it.
  package private(set) var failure: AMQPError?

  private var state: AMQPConnectionState
  private let codec: AMQPMethodCodec
  private let loop: EventLoop
  private let address: AMQPAddress
  private let name: String
  private let options: AMQPOptions
  private var transport: Transport?
  private var delegateProxy: TransportDelegateProxy?
  private var collected: [AMQPCollectedContent]
  private var place = AMQPContentPlace.none
  /// A delivery that came while none was wanted: it is reported before everything after it, and its bytes stay at `place`.
  private var heldDelivery: AMQPEvent?
  /// What no frame of the broker tells: our close of a channel that it had stopped.
  private var untold: AMQPEvent?
  /// Something was received, or happened, since the last nil.
  private var hasNews = false
  /// The error that ended the connection, found outside `nextEvent`.
  private var pendingEnd: AMQPError??
  private var timer: TimerToken?
  private var wasClosedReported = false

  /// Not connected yet. `name` appears in the broker's management, e.g. `herald host-1/0 publisher`.
  package init(
    loop: EventLoop, address: AMQPAddress, name: String, options: AMQPOptions = AMQPOptions()
  ) {
    self.loop = loop
    self.address = address
    self.name = name
    self.options = options
    codec = AMQPMethodCodec(keepsAddresses: options.keepsAddresses)
    collected = Array(repeating: AMQPCollectedContent(), count: Int(options.channelCount) + 1)
    state = AMQPConnectionState(
      options: options, heartbeatSeconds: address.heartbeatSeconds ?? options.heartbeatSeconds, user: address.user,
      virtualHost: address.virtualHost)
    delegateProxy = TransportDelegateProxy(of: self)
  }

  deinit {
    if let timer { loop.cancel(timer) }
    transport?.abort()
  }

  /// Starts to connect to the address; `.opened` or `.closed` follows. An `amqps://` address needs a TLS context.
  package func connect(tls: TLSContext?) {
    precondition(!address.usesTLS || tls != nil, "amqps:// needs a TLS context")
    guard let delegateProxy else { preconditionFailure("made with the connection") }
    var connectOptions = ConnectOptions()
    connectOptions.connectTimeoutMilliseconds = options.connectTimeoutMilliseconds
    transport = Transport.connect(
      loop: loop, to: Endpoint(host: address.host, port: address.port), tls: tls, options: connectOptions,
      delegate: delegateProxy)
  }

  /// Uses a connected socket instead.
  package func adopt(fileDescriptor: Int32) {
    guard let delegateProxy else { preconditionFailure("made with the connection") }
    transport = Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: delegateProxy)
  }

  package var isReady: Bool { state.phase == .ready }
  /// `.closed` was reported.
  package var isClosed: Bool { wasClosedReported }
  /// Why the broker takes no publishes; nil while it does.
  package var blockedReason: String? { state.blockedReason }
  /// Product and version of the broker; empty before the handshake.
  package var server: String { state.server }
  /// Bytes that wait to be written.
  package var outboundCount: Int { transport?.outbound.count ?? 0 }

  /// Why the broker closed a channel.
  package func channelError(_ channel: UInt16) -> AMQPError? { state.error(ofChannel: channel) }

  package func isOpen(channel: UInt16) -> Bool { state.isOpen(channel: channel) }

  /// Open, or being opened: it can be closed, and not opened again before that is answered.
  package func isInUse(channel: UInt16) -> Bool { state.isInUse(channel: channel) }

  /// It can be opened.
  package func canOpen(channel: UInt16) -> Bool { state.canOpen(channel: channel) }

  // MARK: events

  /// The next event; nil once all are reported. Invalidates the last message.
  ///
  /// - Parameter takesDeliveries: false reports everything up to the next delivery, which is kept with everything after it. Nothing is lost
  ///   or reordered, including the end of the connection.
  package func nextEvent(takesDeliveries: Bool = true) -> AMQPEvent? {
    if let heldDelivery {
      guard takesDeliveries else { return nil }
      self.heldDelivery = nil
      return heldDelivery
    }
    releaseContent()
    guard hasNews, let transport else { return nil }
    if let event = untold.take() { return event }
    do throws(AMQPError) {
      while let frame = try nextFrame(transport) {
        guard let event = try take(frame, transport) else { continue }
        if !takesDeliveries, case .delivery = event {
          heldDelivery = event
          return nil
        }
        return event
      }
    } catch {
      return end(error, transport)
    }
    if let pendingEnd, !wasClosedReported { return end(pendingEnd, transport) }
    hasNews = false
    return nil
  }

  /// The frame at the start of what was received.
  @inline(__always)
  private func nextFrame(_ transport: Transport) throws(AMQPError) -> AMQPFrame? {
    guard state.phase != .closed else { return nil }
    let frameMax = Int(state.tuning.frameMax)
    return try transport.inbound.withBytes { (bytes) throws(AMQPError) in
      try AMQPFrame.read(bytes, at: 0, frameMax: frameMax)
    }
  }

  private func take(_ frame: AMQPFrame, _ transport: Transport) throws(AMQPError) -> AMQPEvent? {
    switch frame.kind {
    case .method:
      return try takeMethod(frame, transport)
    case .header:
      try takeHeader(frame, transport)
      transport.inbound.consume(frame.totalCount)
      return completeContent(frame.channel)
    case .body:
      try takeBody(frame, transport)
      transport.inbound.consume(frame.totalCount)
      return completeContent(frame.channel)
    case .heartbeat:
      transport.inbound.consume(frame.totalCount)
      return nil
    }
  }

  private func takeMethod(_ frame: AMQPFrame, _ transport: Transport) throws(AMQPError) -> AMQPEvent? {
    let (id, method) = unsafe try transport.inbound.withUnsafeBytes {
      (bytes) throws(AMQPError) -> (UInt32, AMQPServerMethod) in
      let payload = unsafe UnsafeBufferPointer(
        rebasing: bytes[AMQPFrame.headerCount..<AMQPFrame.headerCount + frame.payloadCount])
      let id = unsafe AMQPTableReader.unsigned(payload.span, at: 0, size: 4) ?? 0
      return (UInt32(id), unsafe try codec.decode(payload, channel: frame.channel))
    }
    let action = try state.received(method, id: id, channel: frame.channel)
    if case .deliver = method, let event = try takeWholeDelivery(frame, transport) { return event }
    transport.inbound.consume(frame.totalCount)
    return perform(action, transport)
  }

  /// A delivery whose header and only body frame follow its method contiguously: it is read in place.
  private func takeWholeDelivery(_ method: AMQPFrame, _ transport: Transport) throws(AMQPError) -> AMQPEvent? {
    let frameMax = Int(state.tuning.frameMax)
    let channel = method.channel
    let headerStart = method.totalCount
    let found = try transport.inbound.withBytes { (bytes) throws(AMQPError) -> (AMQPFrame, AMQPFrame)? in
      guard let header = try AMQPFrame.read(bytes, at: headerStart, frameMax: frameMax), header.kind == .header,
        header.channel == channel, let size = AMQPConnection.bodySize(bytes, header, at: headerStart), size > 0,
        size <= options.bodyBytesMaximum,
        let body = try AMQPFrame.read(bytes, at: headerStart + header.totalCount, frameMax: frameMax),
        body.kind == .body, body.channel == channel, body.payloadCount == size
      else { return nil }
      return (header, body)
    }
    guard let (header, body) = found else { return nil }
    guard try state.contentHeader(channel: channel, size: body.payloadCount),
      try state.contentBody(channel: channel, count: body.payloadCount)
    else { return nil }
    let bodyStart = headerStart + header.totalCount + AMQPFrame.headerCount
    place = .inPlace(
      header: headerStart + AMQPFrame.headerCount..<headerStart + AMQPFrame.headerCount + header.payloadCount,
      body: bodyStart..<bodyStart + body.payloadCount,
      consumed: headerStart + header.totalCount + body.totalCount)
    return state.takeContent(channel: channel, bodyMaximum: options.bodyBytesMaximum)
  }

  /// Class, weight, body size: returns the body size of a content header.
  private static func bodySize(_ bytes: Span<UInt8>, _ frame: AMQPFrame, at offset: Int) -> Int? {
    guard frame.payloadCount >= AMQPPropertiesReader.flagsOffset + 2,
      let size = AMQPTableReader.unsigned(bytes, at: offset + AMQPFrame.headerCount + 4, size: 8)
    else { return nil }
    return Int(exactly: size)
  }

  private func takeHeader(_ frame: AMQPFrame, _ transport: Transport) throws(AMQPError) {
    let size = transport.inbound.withBytes { AMQPConnection.bodySize($0, frame, at: 0) }
    guard let size else { throw .unexpectedContent(channel: frame.channel) }
    guard try state.contentHeader(channel: frame.channel, size: size) else { return }
    let index = Int(frame.channel)
    collected[index].begin()
    unsafe transport.inbound.withUnsafeBytes { bytes in
      unsafe collected[index].header.append(
        contentsOf: bytes[AMQPFrame.headerCount..<AMQPFrame.headerCount + frame.payloadCount])
    }
    if size <= options.bodyBytesMaximum { collected[index].body.reserveCapacity(size) }
  }

  private func takeBody(_ frame: AMQPFrame, _ transport: Transport) throws(AMQPError) {
    guard try state.contentBody(channel: frame.channel, count: frame.payloadCount),
      let size = state.contentSize(channel: frame.channel),
      size <= max(options.bodyBytesMaximum, options.oversizedBytesMaximum)
    else { return }
    unsafe transport.inbound.withUnsafeBytes { bytes in
      unsafe collected[Int(frame.channel)].body.append(
        contentsOf: bytes[AMQPFrame.headerCount..<AMQPFrame.headerCount + frame.payloadCount])
    }
  }

  private func completeContent(_ channel: UInt16) -> AMQPEvent? {
    guard state.contentSize(channel: channel) != nil,
      let event = state.takeContent(channel: channel, bodyMaximum: options.bodyBytesMaximum)
    else { return nil }
    place = .collected(channel: Int(channel))
    return event
  }

  private func releaseContent() {
    switch place {
    case .inPlace(_, _, let consumed): transport?.inbound.consume(consumed)
    case .collected(let channel): collected[channel].shrink()
    case .none: break
    }
    place = .none
  }

  private func perform(_ action: AMQPConnectionAction, _ transport: Transport) -> AMQPEvent? {
    switch action {
    case .none:
      return nil
    case .sendProtocolHeader:
      codec.appendProtocolHeader(to: &transport.outbound)
    case .sendStartOK:
      codec.appendStartOK(
        user: address.user, password: address.password, connectionName: name, productVersion: "1",
        to: &transport.outbound)
    case .sendTuneOKAndOpen(let tuning):
      codec.appendTuneOK(tuning, to: &transport.outbound)
      codec.appendOpen(virtualHost: address.virtualHost, to: &transport.outbound)
    case .tell(let event):
      if event == .opened { startHeartbeat() }
      return event
    case .sendChannelCloseOK(let channel, let event):
      codec.appendChannelCloseOK(channel: channel, to: &transport.outbound)
      flushLater(transport)
      return event
    case .sendFlowOK(let channel, let isActive, let event):
      codec.appendFlowOK(isActive: isActive, channel: channel, to: &transport.outbound)
      flushLater(transport)
      return event
    case .sendCloseOKAndEnd(let error):
      codec.appendConnectionCloseOK(to: &transport.outbound)
      flushLater(transport)
      return end(error, transport)
    case .end:
      return end(nil, transport)
    }
    flushLater(transport)
    return nil
  }

  /// The last event. After a protocol error of the peer, connection.close reports it, if the transport can still carry it.
  private func end(_ error: AMQPError?, _ transport: Transport) -> AMQPEvent? {
    if wasClosedReported { return nil }
    wasClosedReported = true
    failure = error
    if state.phase == .ready, error != nil, pendingEnd == nil {
      codec.appendClose(code: 501, text: "frame error", to: &transport.outbound)
      flushLater(transport)
    }
    state.ended()
    stopTimer()
    transport.close()
    return .closed
  }

  // MARK: the last message

  /// Puts the last delivery back: it is reported again before anything else, and stays readable until then.
  package func keep(_ delivery: AMQPDelivery) {
    if case .none = place { preconditionFailure("only the last delivery can be kept") }
    heldDelivery = .delivery(delivery)
  }

  /// Its body; empty if it was too large to keep.
  package func withBody<Result>(_ read: (Span<UInt8>) -> Result) -> Result {
    switch place {
    case .none:
      preconditionFailure("there is no message to read")
    case .inPlace(_, let body, _):
      guard let transport else { preconditionFailure("a message without a transport") }
      return transport.inbound.withBytes { read($0.extracting(body)) }
    case .collected(let channel):
      let body = collected[channel].body
      return read(body.span)
    }
  }

  /// Replaces the contents of `buffer` by the body, within its capacity if that suffices.
  package func copyBody(into buffer: inout [UInt8]) {
    buffer.removeAll(keepingCapacity: true)
    withBody { body in
      unsafe body.withUnsafeBufferPointer { unsafe buffer.append(contentsOf: $0) }
    }
  }

  /// Copies the message's properties and headers.
  package func copyMetadata(into metadata: inout MessageMetadata) {
    metadata.reset()
    withHeader { AMQPPropertiesReader.read($0, into: &metadata) }
    // Until it has a count of its own, the broker passes on what a producer wrote: a shovel copies the header of another queue.
    if !state.isLastRedelivered { metadata.deliveryCount = 0 }
  }

  /// Where the last delivery was published to; empty unless `AMQPOptions.keepsAddresses`.
  package var exchange: String { codec.exchange }
  package var routingKey: String { codec.routingKey }

  /// Where a returned message was published to.
  package var returnedExchange: String { state.returnedExchange }
  package var returnedRoutingKey: String { state.returnedRoutingKey }

  /// Its headers with text or numbers, for output. Allocates.
  package func headers() -> [AMQPArgument] { withHeader { AMQPPropertiesReader.headers($0) } }

  /// How it left queues before. Allocates.
  package func deaths() -> [AMQPDeath] { withHeader { AMQPPropertiesReader.deaths($0) } }

  @inline(__always)
  private func withHeader<Result>(_ read: (Span<UInt8>) -> Result) -> Result {
    switch place {
    case .none:
      preconditionFailure("there is no message to read")
    case .inPlace(let header, _, _):
      guard let transport else { preconditionFailure("a message without a transport") }
      return transport.inbound.withBytes { read($0.extracting(header)) }
    case .collected(let channel):
      let header = collected[channel].header
      return read(header.span)
    }
  }

  // MARK: requests

  /// Sends an operation; its `.completed` carries the returned number. A channel's operations are answered in order, so many may be in
  /// flight.
  @discardableResult
  package func request(_ operation: AMQPOperation, channel: UInt16) -> UInt32 {
    let wasBlocked = state.blockedReason != nil
    let number = state.requested(operation, channel: channel)
    if wasBlocked, state.blockedReason == nil { (untold, hasNews) = (.unblocked, true) }
    guard let transport else { preconditionFailure("an open connection has a transport") }
    codec.append(operation, channel: channel, to: &transport.outbound)
    flushLater(transport)
    return number
  }

  /// Publishes. Returns the number of its confirm (0 if the channel has no confirms).
  @discardableResult
  package func publish(
    to exchange: AMQPExchange, channel: UInt16, routingKey: Span<UInt8>, properties: AMQPProperties, body: Span<UInt8>
  ) -> UInt64 {
    let number = state.published(channel: channel)
    guard let transport else { preconditionFailure("an open connection has a transport") }
    AMQPPublishEncoder.append(
      to: &transport.outbound, exchange: exchange, channel: channel, routingKey: routingKey, properties: properties,
      body: body, frameMax: Int(state.tuning.frameMax))
    flushLater(transport)
    return number
  }

  /// Acknowledges a delivery, or every one up to it.
  package func acknowledge(_ tag: UInt64, isMultiple: Bool, channel: UInt16) {
    precondition(state.isOpen(channel: channel), "an acknowledgement needs an open channel")
    guard let transport else { preconditionFailure("an open connection has a transport") }
    codec.appendAcknowledgement(upTo: tag, isMultiple: isMultiple, channel: channel, to: &transport.outbound)
    flushLater(transport)
  }

  /// Returns one delivery: to its queue, or (not `requeue`) to the dead letters.
  package func reject(_ tag: UInt64, requeue: Bool, channel: UInt16) {
    precondition(state.isOpen(channel: channel), "a rejection needs an open channel")
    guard let transport else { preconditionFailure("an open connection has a transport") }
    codec.appendReject(tag, requeue: requeue, channel: channel, to: &transport.outbound)
    flushLater(transport)
  }

  /// Closes the connection; `.closed` follows. Everything appended before is still written; a delivery that was kept is not reported again.
  package func close() {
    guard let transport, !wasClosedReported else { return }
    heldDelivery = nil
    if state.closeRequested() {
      codec.appendClose(code: 200, text: "goodbye", to: &transport.outbound)
      flushLater(transport)
      startDeadline(waitingFor: "connection.close-ok")
    } else if state.phase == .closed {
      pendingEnd = .some(nil)
      hasNews = true
      transport.close()
    }
  }

  @inline(__always)
  private func flushLater(_ transport: Transport) {
    state.bytesSent()
    transport.setNeedsFlush()
  }

  // MARK: time

  private func startDeadline(waitingFor what: String?) {
    stopTimer()
    timer = loop.schedule(afterMilliseconds: options.handshakeTimeoutMilliseconds) { [unowned self] in
      deadlinePassed(waitingFor: what)
    }
  }

  private func deadlinePassed(waitingFor what: String?) {
    timer = nil
    endLater(.handshakeTimedOut(to: address.hostAndPort, waitingFor: what ?? state.awaited))
  }

  private func startHeartbeat() {
    stopTimer()
    guard state.tuning.heartbeatSeconds > 0 else { return }
    timer = loop.schedule(afterMilliseconds: Int64(state.tuning.heartbeatSeconds) * 500) { [unowned self] in
      heartbeatTick()
    }
  }

  private func heartbeatTick() {
    timer = nil
    guard let transport, state.phase == .ready else { return }
    switch state.tick(now: loop.now.monotonic, isReading: !transport.isPaused) {
    case .none:
      break
    case .sendHeartbeat:
      codec.appendHeartbeat(to: &transport.outbound)
      transport.setNeedsFlush()
    case .giveUp(let silent):
      endLater(.heartbeatMissed(to: address.hostAndPort, silentMilliseconds: silent))
      return
    }
    startHeartbeat()
  }

  private func stopTimer() {
    if let timer { loop.cancel(timer) }
    timer = nil
  }

  /// Ends the connection at the next `nextEvent`.
  private func endLater(_ error: AMQPError) {
    pendingEnd = error
    hasNews = true
    transport?.abort()
  }

  // MARK: the transport

  package func transportDidOpen(_ transport: Transport) {
    _ = perform(state.transportOpened(now: loop.now.monotonic), transport)
    startDeadline(waitingFor: nil)
  }

  package func transportDidReceive(_ transport: Transport) {
    state.bytesReceived(now: loop.now.monotonic)
    hasNews = true
  }

  package func transportDidClose(_ transport: Transport, error: TransportError?) {
    hasNews = true
    stopTimer()
    guard pendingEnd == nil else { return }
    switch state.phase {
    case .connecting:
      pendingEnd = .cannotConnect(to: address.hostAndPort, reason: error?.text ?? "closed by the peer")
    case .awaitingStart, .awaitingTune, .awaitingOpen, .ready:
      pendingEnd = .connectionLost(to: address.hostAndPort, reason: error?.text)
    case .closing, .closed:
      pendingEnd = .some(nil)
    }
  }
}
