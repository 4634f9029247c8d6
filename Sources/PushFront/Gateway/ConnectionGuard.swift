import HTTPTypes
import HummingbirdCore
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import PushCore
import Synchronization

/// Guards one connection: counts it, answers 503 if there are too many connections, and closes it if the client is slow or was answered
/// before its request was complete.
///
/// Bytes that arrive do not extend a timeout: a client that sends a byte now and then is closed like one that sends none.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private enum State {
    /// Waits for a request's head. → reading
    case idle
    /// Receives the body. → answering, refused
    case reading
    /// The request is complete. → idle, refused
    case answering
    /// Drops all input and closes soon.
    case refused
  }

  private let metrics: GatewayMetrics
  private let connectionsMaximum: Int
  private var state = State.idle
  private var isCounted = false
  /// There are too many connections.
  private var isExcess = false
  private var hasResponseBegun = false
  private var closesAfterResponse = false
  /// When its state has lasted too long; nil: it may last.
  private var deadline: NIODeadline?
  /// Fires no later than the deadline. It is not scheduled anew for each request, since most deadlines move on before they pass.
  private var timer: (fires: NIODeadline, scheduled: Scheduled<Void>)?

  init(metrics: GatewayMetrics, connectionsMaximum: Int) {
    self.metrics = metrics
    self.connectionsMaximum = connectionsMaximum
  }

  func handlerAdded(context: ChannelHandlerContext) {
    if context.channel.isActive { begin(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { end() }

  func channelActive(context: ChannelHandlerContext) {
    begin(context)
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  private func begin(_ context: ChannelHandlerContext) {
    guard !isCounted else { return }
    isCounted = true
    isExcess = metrics.connections.add(1, ordering: .relaxed).newValue > connectionsMaximum
    if isExcess { metrics.connectionsRefused.add(1, ordering: .relaxed) }
    arm(context, seconds: isExcess ? GatewayLimits.lingerSeconds : GatewayLimits.headSeconds)
  }

  private func end() {
    deadline = nil
    timer?.scheduled.cancel()
    timer = nil
    guard isCounted else { return }
    isCounted = false
    metrics.connections.subtract(1, ordering: .relaxed)
  }

  // MARK: - Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    if case .refused = state { return }
    switch part {
    case .head(let head):
      if isExcess { return refuse(context, Problem(.unavailable, "there are too many connections; try again")) }
      state = .reading
      hasResponseBegun = false
      closesAfterResponse = ConnectionGuard.closes(head.headerFields)
      arm(context, seconds: GatewayLimits.bodySeconds)
    case .body: break
    case .end:
      if case .reading = state { state = .answering }
      deadline = nil
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .refused = state {
      promise?.succeed()
      return
    }
    switch unwrapOutboundIn(data) {
    case .head(let head):
      hasResponseBegun = true
      closesAfterResponse = closesAfterResponse || ConnectionGuard.closes(head.headerFields)
      context.write(data, promise: promise)
    case .body: context.write(data, promise: promise)
    case .end:
      context.writeAndFlush(data, promise: promise)
      responded(context)
    }
  }

  private static func closes(_ fields: HTTPFields) -> Bool { fields[.connection]?.lowercased() == "close" }

  private func responded(_ context: ChannelHandlerContext) {
    switch state {
    case .answering where !closesAfterResponse:
      state = .idle
      arm(context, seconds: GatewayLimits.idleSeconds)
    case .idle, .reading, .answering: leave(context)
    case .refused: break
    }
  }

  /// The client sent something that is not HTTP, or too large a head. While an earlier request waits for its answer, the server sends that
  /// answer first and then its own 400.
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
    switch state {
    case .reading where hasResponseBegun: context.fireErrorCaught(error)
    case .idle, .reading: refuse(context, ConnectionGuard.problem(error))
    case .answering: context.fireErrorCaught(error)
    case .refused: break
    }
  }

  private static func problem(_ error: HTTPParserError) -> Problem {
    guard error == .headerOverflow else {
      return Problem(.badRequest, "these bytes are not an HTTP/1.1 request: \(error)")
    }
    return Problem(
      .badRequest,
      """
      the request line and each header field must have at most \(GatewayLimits.headerFieldBytesMaximum) bytes, all fields together at most \
      \(GatewayLimits.headerBytesMaximum), and there may be at most \(GatewayLimits.headerCountMaximum) of them
      """)
  }

  // MARK: - Ends

  /// Answers without waiting for the rest of the request, then closes the connection.
  private func refuse(_ context: ChannelHandlerContext, _ problem: Problem) {
    let reply = GatewayReply(problem)
    var head = GatewayAnswer.response(reply, rate: nil, allowed: []).head
    head.headerFields[.contentLength] = "\(reply.bytes.count)"
    head.headerFields[.connection] = "close"
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(ByteBuffer(bytes: reply.bytes))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    leave(context)
  }

  /// Closes the output, and drops input for a while. An immediate close could reset the connection before the client has read the answer.
  private func leave(_ context: ChannelHandlerContext) {
    state = .refused
    context.close(mode: .output, promise: nil)
    arm(context, seconds: GatewayLimits.lingerSeconds)
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
    case .reading where !hasResponseBegun:
      refuse(context, Problem(.timeout, "the body took longer than \(GatewayLimits.bodySeconds) s"))
    case .idle, .reading, .answering, .refused: context.close(promise: nil)
    }
  }
}
