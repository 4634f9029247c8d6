import NIOCore
import PushIO

/// One server connection's TLS, by OpenSSL: ciphertext on the network's side, plaintext on the other.
///
/// It has no time limits: `GatewayConnection` closes a connection whose handshake takes too long, because no request comes.
final class TLSHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum State {
    /// Writes wait. → open, ended
    case handshaking
    /// → finished, ended
    case open
    /// Our close_notify is written; the client may still send. → ended
    case finished
    /// Nothing is read or written any more.
    case ended
  }

  private let tls: TLSStream
  private var state = State.handshaking
  private var plaintextIn = ByteQueue()
  private var plaintextOut = ByteQueue()
  /// Of the writes in `plaintextOut`.
  private var promises: [EventLoopPromise<Void>] = []
  /// Plaintext that was written during the handshake is to be flushed after it.
  private var isFlushPending = false

  /// Plaintext passed on at once.
  private static let readBytes = 64 * 1024

  init(context: TLSContext) throws(TLSError) {
    tls = try TLSStream(context: context, serverName: "", peer: "a client")
  }

  func handlerRemoved(context: ChannelHandlerContext) { end() }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  private func end() {
    state = .ended
    let failed = promises
    promises = []
    for promise in failed { promise.fail(ChannelError.ioOnClosedChannel) }
  }

  // MARK: - From the network

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .ended = state { return }
    let ciphertext = unwrapInboundIn(data)
    tls.ciphertextIn.append(ciphertext.readableBytesUInt8Span)
    if case .handshaking = state { advanceHandshake(context) }
    decrypt(context)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    // A connection between two requests keeps no buffers.
    tls.releaseMemory()
    plaintextIn.releaseMemory()
    context.fireChannelReadComplete()
  }

  private func advanceHandshake(_ context: ChannelHandlerContext) {
    switch tls.handshake() {
    case .blocked: sendCiphertext(context)
    case .done:
      state = .open
      sendCiphertext(context)
      if isFlushPending { encrypt(context) }
    case .failed: fail(context)
    }
  }

  private func decrypt(_ context: ChannelHandlerContext) {
    while true {
      switch state {
      case .open, .finished: break
      case .handshaking, .ended: return
      }
      let progress = tls.read(into: &plaintextIn, limit: TLSHandler.readBytes)
      if !plaintextIn.isEmpty { context.fireChannelRead(wrapInboundOut(TLSHandler.take(&plaintextIn, context))) }
      switch progress {
      case .full: continue
      case .blocked: return sendCiphertext(context)
      case .ended:
        // As when a client ends its half of a TCP connection: it may still wait for the answer.
        sendCiphertext(context)
        return context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      case .failed: return fail(context)
      }
    }
  }

  // MARK: - From the server

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch state {
    case .handshaking, .open:
      let plaintext = unwrapOutboundIn(data)
      plaintextOut.append(plaintext.readableBytesUInt8Span)
      if let promise { promises.append(promise) }
    case .finished: promise?.fail(ChannelError.outputClosed)
    case .ended: promise?.fail(ChannelError.ioOnClosedChannel)
    }
  }

  func flush(context: ChannelHandlerContext) {
    switch state {
    case .handshaking: isFlushPending = true
    case .open: encrypt(context)
    case .finished, .ended: context.flush()
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if case .open = state, mode != .input {
      encrypt(context)
      // Unless that failed.
      if case .open = state {
        tls.sayGoodbye()
        sendCiphertext(context)
        state = .finished
      }
    }
    context.close(mode: mode, promise: promise)
  }

  private func encrypt(_ context: ChannelHandlerContext) {
    if tls.write(from: &plaintextOut, ciphertextTarget: .max) != nil { return fail(context) }
    guard !promises.isEmpty else { return sendCiphertext(context) }
    let written = context.eventLoop.makePromise(of: Void.self)
    for promise in promises { written.futureResult.cascade(to: promise) }
    promises = []
    sendCiphertext(context, written)
  }

  private func sendCiphertext(_ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>? = nil) {
    guard !tls.ciphertextOut.isEmpty else {
      promise?.succeed()
      return
    }
    context.writeAndFlush(wrapOutboundOut(TLSHandler.take(&tls.ciphertextOut, context)), promise: promise)
  }

  /// Sends the alert that says why, and closes.
  private func fail(_ context: ChannelHandlerContext) {
    sendCiphertext(context)
    end()
    context.close(promise: nil)
  }

  private static func take(_ queue: inout ByteQueue, _ context: ChannelHandlerContext) -> ByteBuffer {
    var buffer = context.channel.allocator.buffer(capacity: queue.count)
    queue.withRawBytes { _ = buffer.writeBytes($0) }
    queue.removeAll()
    return buffer
  }
}
