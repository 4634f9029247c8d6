import NIOCore
import NIOHTTP1
import PushCore
import Synchronization

/// One connection of a client: hands its requests to the responder, one at a time, and writes their answers in order.
///
/// It counts the connection, answers 503 if there are too many, and closes it if the client is slow or was answered before its request was
/// complete. Bytes that arrive do not extend a timeout: a client that sends a byte now and then is closed like one that sends none.
final class GatewayConnection: ChannelDuplexHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = Never
  typealias OutboundIn = Never
  typealias OutboundOut = ByteBuffer

  private enum State {
    /// Waits for a request's head. → reading, refused
    case idle
    /// Receives the body. → answering, refused
    case reading
    /// The request is complete, its answer is not. → idle, refused
    case answering
    /// Drops all input and closes soon.
    case refused
  }

  private let responder: GatewayResponder
  private var context: ChannelHandlerContext?
  private var state = State.idle
  private var membership: GatewayMembership
  /// The client sends nothing more.
  private var isInputClosed = false
  /// The server stops: the next answer is the last one.
  private var isStopping = false
  /// What arrived while a request was not answered yet, or while too many answers were not read.
  private var later: PipelinedInput
  private var isTakingLater = false
  /// Requests that were begun since others had their turn.
  private var requestsOfTurn = 0
  private var isPausing = false
  /// Reading pauses while `later` holds something.
  private var isReadHeld = false

  // The request in progress.
  private var exchange: GatewayExchange?
  private var body: GatewayBodyParts
  private var task: Task<Void, Never>?
  private var isStarted = false
  private var isStreaming = false
  /// The client waits for a 100 before it sends the body.
  private var expectsContinue = false
  /// The connection ends with the answer.
  private var isLast = false
  /// The client understands a stream in chunks. For another, the end of the connection ends the stream.
  private var isChunked = true

  /// When its state has lasted too long; nil: it may last.
  private var deadline: NIODeadline?
  /// Fires no later than the deadline. It is not scheduled anew for each request, since most deadlines move on before they pass.
  private var timer: (fires: NIODeadline, scheduled: Scheduled<Void>)?
  /// What the kernel had not taken when a deadline passed last, bytes.
  private var unwrittenBytes = 0

  private static let headBytes = 512

  init(responder: GatewayResponder) {
    self.responder = responder
    membership = GatewayMembership(responder.services)
    body = GatewayBodyParts(budget: responder.services.budget, key: nil, find: nil)
    later = PipelinedInput(budget: responder.services.pipelineBudget)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if context.channel.isActive { begin(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end()
    self.context = nil
  }

  func channelActive(context: ChannelHandlerContext) { begin(context) }

  func channelInactive(context: ChannelHandlerContext) { end() }

  private func begin(_ context: ChannelHandlerContext) {
    guard !membership.isCounted else { return }
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    membership.join(maximum: responder.connectionsMaximum) { bound.value.context?.close(promise: nil) }
    arm(context, seconds: membership.isExcess ? GatewayLimits.lingerSeconds : GatewayLimits.headSeconds)
  }

  private func end() {
    abandonRequest()
    state = .refused
    deadline = nil
    timer?.scheduled.cancel()
    timer = nil
    membership.leave()
  }

  /// Nobody reads the answer any more. The task goes on, but for a stream or one that waits for the body.
  private func abandonRequest() {
    isStreaming = false
    later.removeAll()
    body.drop()
    exchange = nil
    task?.cancel()
    task = nil
  }

  // MARK: - Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    switch state {
    case .idle where !later.isEmpty || !mayBegin(context): later.append(part, of: membership.key)
    case .idle, .reading: take(part, context)
    case .answering: later.append(part, of: membership.key)
    case .refused: break
    }
  }

  /// Another request may begin. A client that does not read its answers gets no more of them, and one that sends many requests at once must
  /// not keep others waiting.
  private func mayBegin(_ context: ChannelHandlerContext) -> Bool {
    context.channel.isWritable && requestsOfTurn < GatewayLimits.requestsOfTurnMaximum
  }

  private func take(_ part: HTTPServerRequestPart, _ context: ChannelHandlerContext) {
    switch part {
    case .head(let head):
      // A full gateway must be neither restarted nor unseen.
      if membership.isExcess, GatewayRoute(path: GatewayRequest(head).path)?.isProbe != true {
        return refuse(context, Problem(.unavailable, "there are too many connections; try again"))
      }
      requestsOfTurn += 1
      if let problem = GatewayRequest.problem(of: head) { return refuse(context, problem) }
      state = .reading
      isStarted = false
      // The decoder reads nothing after a request for another protocol. Such a request is answered as any other, by HTTP/1.1.
      isLast =
        membership.isExcess || !head.isKeepAlive || head.method == .CONNECT || head.headers.contains(name: "upgrade")
      isChunked = head.version != .http1_0
      expectsContinue = head.version == .http1_1 && head.headers.first(name: "expect")?.lowercased() == "100-continue"
      let request = GatewayRequest(head)
      let route = GatewayRoute(path: request.path)
      let key = responder.knownKey(of: request, route)
      if let key, !membership.show(key) {
        return refuse(context, Problem(.unavailable, "clients with this key have too many connections; try again"))
      }
      body = GatewayBodyParts(
        budget: responder.services.budget, key: key,
        isKeyAwaited: key == nil && responder.looksUpKey(of: request, route), find: responder.finder(route))
      exchange = GatewayExchange(request, route, key: key, self, on: context.eventLoop)
      arm(context, seconds: key == nil ? GatewayLimits.keySeconds : GatewayLimits.bodySeconds)
    case .body(let part):
      let isKeyed = body.key != nil
      body.append(part)
      if let key = body.key, !isKeyed { found(key, context) }
    case .end:
      state = .answering
      // A stream that has begun has the deadline of what is written.
      if !isStreaming { deadline = nil }
      body.end()
      start()
    }
  }

  /// The key of the request in progress was found behind its head.
  private func found(_ key: APIKey, _ context: ChannelHandlerContext) {
    if !membership.show(key) { isLast = true }
    if case .reading = state, !isStreaming { arm(context, seconds: GatewayLimits.bodySeconds) }
    resumeReading(context)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if later.isEmpty { requestsOfTurn = 0 }
    switch state {
    // A request may be refused before its body is complete.
    case .reading: start()
    case .idle where !later.isEmpty: pause(context)
    case .idle, .answering, .refused: break
    }
  }

  /// Goes on with what arrived after other connections have had their turn.
  private func pause(_ context: ChannelHandlerContext) {
    guard !isPausing else { return }
    isPausing = true
    // The event loop reads from sockets only when no task is left, so the next turn begins later.
    context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(1)) { [self] in
      isPausing = false
      requestsOfTurn = 0
      if let context = self.context { takeLater(context) }
    }
  }

  /// Starts the task that answers the request.
  private func start() {
    guard !isStarted, let exchange else { return }
    isStarted = true
    // It runs here until it has to wait for the first time.
    let task = Task.immediate { [responder] in
      guard let answer = await responder.respond(to: exchange) else { return }
      await exchange.send(answer)
    }
    // Unless it has answered already.
    if self.exchange === exchange { self.task = task }
  }

  /// Takes what arrived during the last request, up to the end of the next one.
  private func takeLater(_ context: ChannelHandlerContext) {
    // An answer that comes at once must not make the stack deeper.
    guard !isTakingLater else { return }
    isTakingLater = true
    defer { isTakingLater = false }
    while !later.isEmpty {
      switch state {
      case .idle where !mayBegin(context):
        if context.channel.isWritable { pause(context) }
        return
      case .idle, .reading: break
      case .answering, .refused: return
      }
      switch later.removeFirst() {
      case .part(let part): take(part, context)
      case .refusal(let problem): refuse(context, problem)
      }
    }
    if case .reading = state { start() }
    resumeReading(context)
    if isInputClosed, case .idle = state { closeWhenWritten(context) }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable { takeLater(context) }
  }

  func read(context: ChannelHandlerContext) {
    if mayRead { context.read() } else { isReadHeld = true }
  }

  /// Of a request without a known key, only the beginning is read.
  private var mayRead: Bool {
    if case .reading = state, body.isFull { return false }
    return later.isEmpty
  }

  private func resumeReading(_ context: ChannelHandlerContext) {
    guard isReadHeld, mayRead else { return }
    isReadHeld = false
    context.read()
  }

  // MARK: - The body

  /// The body if it is complete; nil: it is not. Throws why it is refused.
  func bodyNow(of key: APIKey) throws -> GatewayBody? {
    adopt(key)
    return try body.now()
  }

  /// The request's valid key is known.
  func adopt(_ key: APIKey) {
    guard body.key == nil, exchange != nil, let context else { return }
    body.adopt(key)
    found(key, context)
  }

  func whenBodyEnds(of key: APIKey, _ continuation: CheckedContinuation<GatewayBody, any Error>) {
    adopt(key)
    body.waitForEnd(continuation)
    sendContinue()
  }

  func whenBodyBegins(_ continuation: CheckedContinuation<GatewayExchange.Beginning, any Error>) {
    body.waitForBeginning(continuation)
    sendContinue()
  }

  private func sendContinue() {
    guard body.isAwaited, expectsContinue, let context else { return }
    expectsContinue = false
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
  }

  // MARK: - Answers

  /// Sends an answer, unless the connection has ended or was refused meanwhile.
  func send(_ answer: GatewayAnswer) {
    guard let context, let head = beginAnswer(answer, context) else { return }
    finishAnswer(head, isLast: endsWith(answer), context)
  }

  /// Whether the connection ends with this answer.
  private func endsWith(_ answer: GatewayAnswer) -> Bool {
    if case .reading = state { return true }
    if case .stream = answer.body, !isChunked { return true }
    return isLast || isStopping || answer.isLast || (isInputClosed && later.isEmpty)
  }

  /// The answer's bytes; of a stream, its head. nil: nobody waits for it.
  private func beginAnswer(_ answer: GatewayAnswer, _ context: ChannelHandlerContext) -> ByteBuffer? {
    switch state {
    case .reading, .answering: break
    case .idle, .refused: return nil
    }
    var buffer = context.channel.allocator.buffer(capacity: answer.byteCount + GatewayConnection.headBytes)
    answer.encode(
      into: &buffer, date: responder.services.dateText, isLast: endsWith(answer),
      isForHead: exchange?.request.method == .HEAD, isChunked: isChunked)
    return buffer
  }

  private func finishAnswer(_ buffer: ByteBuffer, isLast: Bool, _ context: ChannelHandlerContext) {
    exchange = nil
    task = nil
    body.drop()
    guard !isLast else { return sendLast(buffer, context) }
    state = .idle
    context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    // The write may have failed and closed the connection.
    guard case .idle = state else { return }
    arm(context, seconds: GatewayLimits.idleSeconds)
    takeLater(context)
  }

  /// Ends the connection once all answers are written.
  private func closeWhenWritten(_ context: ChannelHandlerContext) {
    if unwritten(context) == 0 { context.close(promise: nil) } else { sendLast(ByteBuffer(), context) }
  }

  /// Bytes of answers that the kernel has not taken.
  private func unwritten(_ context: ChannelHandlerContext) -> Int {
    (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
  }

  /// Whether the kernel takes answers. At first that is not known.
  private func isBeingRead(_ context: ChannelHandlerContext) -> Bool {
    let before = unwrittenBytes
    unwrittenBytes = unwritten(context)
    return unwrittenBytes > 0 && unwrittenBytes != before
  }

  /// Sends the connection's last bytes and drops input for a while. An immediate close could reset the connection before the client has read
  /// them.
  private func sendLast(_ buffer: ByteBuffer, _ context: ChannelHandlerContext) {
    state = .refused
    later.removeAll()
    arm(context, seconds: unreadSeconds)
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenComplete { [self] _ in
      guard membership.isCounted else { return }
      arm(context, seconds: GatewayLimits.lingerSeconds)
      // Not earlier: where the client has closed its half, this closes the whole connection.
      context.close(mode: .output, promise: nil)
    }
    context.writeAndFlush(wrapOutboundOut(buffer), promise: written)
    if isReadHeld {
      isReadHeld = false
      context.read()
    }
  }

  func beginStream(_ answer: GatewayAnswer) {
    guard let context, let head = beginAnswer(answer, context) else { return }
    isStreaming = true
    isLast = endsWith(answer)
    context.writeAndFlush(wrapOutboundOut(head), promise: nil)
    if isStopping { task?.cancel() }
  }

  func write(_ part: ByteBuffer, then: @escaping @Sendable (Result<Void, any Error>) -> Void) {
    guard isStreaming, let context else { return then(.failure(ConnectionEnded())) }
    var buffer = part
    if isChunked {
      buffer = context.channel.allocator.buffer(capacity: part.readableBytes + 16)
      GatewayAnswer.encode(part: part, into: &buffer)
    }
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenComplete { [self] result in
      if isStreaming { deadline = nil }
      then(result)
    }
    arm(context, seconds: unreadSeconds)
    context.writeAndFlush(wrapOutboundOut(buffer), promise: written)
    unwrittenBytes = unwritten(context)
  }

  func endStream() {
    guard isStreaming, let context else { return }
    isStreaming = false
    finishAnswer(
      ByteBuffer(string: isChunked ? GatewayAnswer.endOfStream : ""), isLast: isLast || isStopping, context)
  }

  /// The client must not take the stream for complete.
  func abortStream() {
    guard isStreaming else { return }
    isStreaming = false
    context?.close(promise: nil)
  }

  // MARK: - Refusals and ends

  /// Answers without waiting for the rest of the request.
  private func refuse(_ context: ChannelHandlerContext, _ problem: Problem) {
    let answer = GatewayAnswer(GatewayReply(problem))
    var buffer = context.channel.allocator.buffer(capacity: answer.byteCount + GatewayConnection.headBytes)
    answer.encode(
      into: &buffer, date: responder.services.dateText, isLast: true, isForHead: false, isChunked: true)
    abandonRequest()
    sendLast(buffer, context)
  }

  /// The client sent something that is not HTTP, or too large a head.
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? HTTPParserError else { return context.close(promise: nil) }
    switch state {
    case .reading where isStreaming: context.close(promise: nil)
    // Its answer comes after those of the requests before it.
    case .idle where !later.isEmpty: later.append(GatewayRequest.problem(of: error))
    case .idle, .reading: refuse(context, GatewayRequest.problem(of: error))
    case .answering: later.append(GatewayRequest.problem(of: error))
    case .refused: break
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case ChannelEvent.inputClosed:
      isInputClosed = true
      switch state {
      case .idle where !later.isEmpty: break
      // In reading: the request's end cannot come any more.
      case .idle, .reading: closeWhenWritten(context)
      // Whoever reads events has gone, more likely than not.
      case .answering where isStreaming: context.close(promise: nil)
      // The client may still wait for its answer.
      case .answering, .refused: break
      }
    case is ChannelShouldQuiesceEvent:
      isStopping = true
      if isStreaming {
        task?.cancel()
        // It waits for the client to take what was written.
        if deadline != nil { arm(context, seconds: unreadSeconds) }
      } else if case .idle = state {
        closeWhenWritten(context)
      }
    default: break
    }
  }

  // MARK: - Time

  /// How long the client may take nothing of what is written to it.
  private var unreadSeconds: Int64 {
    if isStopping { return GatewayLimits.stopSeconds }
    return isStreaming ? GatewayLimits.streamSeconds : GatewayLimits.idleSeconds
  }

  private func arm(_ context: ChannelHandlerContext, seconds: Int64) {
    let deadline = NIODeadline.now() + .seconds(seconds)
    self.deadline = deadline
    if let timer, timer.fires <= deadline { return }
    timer?.scheduled.cancel()
    schedule(context, deadline)
  }

  private func schedule(_ context: ChannelHandlerContext, _ deadline: NIODeadline) {
    let scheduled = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
      timer = nil
      guard let latest = self.deadline else { return }
      if latest <= .now() { expired(context) } else { schedule(context, latest) }
    }
    timer = (deadline, scheduled)
  }

  private func expired(_ context: ChannelHandlerContext) {
    switch state {
    case .reading where !isStreaming:
      let rule =
        body.key == nil
        ? "the key did not come within \(GatewayLimits.keySeconds) s"
        : "the body took longer than \(GatewayLimits.bodySeconds) s"
      refuse(context, Problem(.timeout, rule))
    // The client reads its answers, but slowly.
    case _ where isBeingRead(context): arm(context, seconds: unreadSeconds)
    case .idle, .reading, .answering, .refused: context.close(promise: nil)
    }
  }
}
