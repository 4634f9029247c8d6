import CLinux
import Glibc
import PushCore

/// A non-blocking byte stream over TCP or a unix socket, with or without TLS, client or server.
///
/// It reads into `inbound` (up to a limit, then it pauses) and writes `outbound` once a turn, in `EventLoop.flush`. The
/// loop holds it while it is open; it holds neither its loop nor its delegate.
package final class Transport: ReadinessHandler {
  private enum State {
    /// The name is looked up or addresses are tried. → handshaking, open, closed
    case connecting
    /// The TLS handshake is under way. → open, closed
    case handshaking
    /// Bytes flow both ways. → closing, closed
    case open
    /// `close()` was called, or the peer has ended: what `outbound` holds is written, nothing is read any more.
    /// → lingering, closed
    case closing
    /// All is written and our half is closed; waits for the peer's end and drops what still comes. → closed
    case lingering
    /// The descriptor is closed; the delegate was told, or is told in the next poll.
    case closed
  }

  /// Plaintext received and not consumed yet. Whoever consumes need not say so: the next flush notices.
  package var inbound = ByteQueue()
  /// Plaintext to be written: append, then call `setNeedsFlush`. Its bound is the owner's: look at `pendingBytes`.
  package var outbound = ByteQueue()
  package weak var delegate: (any TransportDelegate)?
  /// Whom it talks to: the endpoint, and the address once connected.
  package private(set) var peerDescription: String

  private weak var loop: EventLoop?
  private let options: ConnectOptions
  private let tlsContext: TLSContext?
  private let serverName: String
  private var tls: TLSStream?
  private var state: State
  private var fileDescriptor: Int32 = -1
  private var registration: Registration?
  private var interest: Readiness = []
  private var connector: Connector?
  /// Ends opening, or closing, that takes too long.
  private var deadline: TimerToken?
  /// In the loop's list for the next flush.
  private var awaitsFlush = false
  /// In the loop's list for the next poll.
  private var isDeferred = false
  /// The last send was short: the rest goes when the socket is writable.
  private var awaitsWritable = false
  /// Reading stopped at the inbound limit.
  private var isPaused = false
  /// Taken out of epoll while paused, because the socket reported an end that cannot be read yet.
  private var isSuspended = false
  /// The peer closed its half.
  private var peerEnded = false
  /// TLS said its goodbye, which is written last.
  private var saidGoodbye = false
  /// Connected without TLS: open as soon as the next poll can say so.
  private var opensInNextPoll = false
  /// Room was made while TLS held back bytes it had received: they are decrypted in the next poll.
  private var readsInNextPoll = false
  /// A send failed with this: what the peer said before is read first.
  private var writeError: TransportError?
  private var closeError: TransportError?

  // MARK: - Making

  /// Starts to connect. The outcome comes from `poll`: `transportDidOpen` or `transportDidClose`.
  package static func connect(
    loop: EventLoop, to endpoint: Endpoint, tls: TLSContext?, options: ConnectOptions = ConnectOptions(),
    delegate: any TransportDelegate
  ) -> Transport {
    let transport = Transport(
      loop: loop, peer: endpoint.description, serverName: options.serverName ?? endpoint.host, tls: tls,
      options: options, delegate: delegate)
    transport.startDeadline(options.connectTimeoutMilliseconds)
    let connector = Connector(loop: loop, endpoint: endpoint, options: options) { [unowned transport] outcome in
      transport.connectorEnded(outcome, endpoint: endpoint)
    }
    transport.connector = connector
    loop.hold(transport)
    connector.start()
    return transport
  }

  /// Takes over a connected socket (accepted, or an end of a socket pair); the role is the TLS context's.
  package static func adopt(
    loop: EventLoop, fileDescriptor: Int32, tls: TLSContext?, options: ConnectOptions = ConnectOptions(),
    delegate: any TransportDelegate
  ) -> Transport {
    let address = SocketAddress(of: fileDescriptor, isLocal: false)
    let transport = Transport(
      loop: loop, peer: address?.description ?? "socket \(fileDescriptor)", serverName: options.serverName ?? "",
      tls: tls, options: options, delegate: delegate)
    makeNonBlocking(fileDescriptor)
    transport.startDeadline(options.connectTimeoutMilliseconds)
    loop.hold(transport)
    transport.connected(fileDescriptor, isUnix: address?.isUnix ?? true)
    return transport
  }

  private init(
    loop: EventLoop, peer: String, serverName: String, tls: TLSContext?, options: ConnectOptions,
    delegate: any TransportDelegate
  ) {
    self.loop = loop
    self.options = options
    self.serverName = serverName
    self.delegate = delegate
    tlsContext = tls
    peerDescription = peer
    state = .connecting
  }

  deinit {
    cancelDeadline()
    if fileDescriptor >= 0 { closeDescriptor(fileDescriptor) }
  }

  // MARK: - For the user

  /// Bytes flow both ways.
  package var isOpen: Bool {
    if case .open = state { return true }
    return false
  }

  /// The connection is over; `transportDidClose` was told or is told in the next poll.
  package var isClosed: Bool {
    if case .closed = state { return true }
    return false
  }

  /// What ALPN agreed on; nil before the transport opened, or where there was nothing to agree on.
  package private(set) var negotiatedProtocol: String?
  /// An earlier TLS session was resumed: no certificates were exchanged.
  package private(set) var resumedSession = false
  /// The certificate that the peer showed.
  package var peerCertificate: CertificateFacts? { tls?.peerCertificate }

  /// Bytes that the kernel did not take yet: the plaintext of `outbound`, and what is encrypted already.
  package var pendingBytes: Int { outbound.count + (tls?.ciphertextOut.count ?? 0) }

  /// Writes `outbound` at the end of this turn. Before the transport is open this has no effect: it writes as it opens.
  package func setNeedsFlush() {
    if awaitsFlush || awaitsWritable { return }
    switch state {
    case .open, .closing:
      awaitsFlush = true
      loop?.flushLater(self)
    case .connecting, .handshaking, .lingering, .closed:
      break
    }
  }

  /// Writes what `outbound` holds, says goodbye and closes. What still comes in is dropped. `transportDidClose`
  /// follows.
  package func close() {
    switch state {
    case .connecting, .handshaking:
      finish(nil)
    case .open:
      state = .closing
      startDeadline(options.closeTimeoutMilliseconds)
      if isPaused { stopPausing() }
      setNeedsFlush()
    case .closing, .lingering, .closed:
      break
    }
  }

  /// Closes at once and drops what was not written. `transportDidClose` follows, with an error of kind `aborted`.
  package func abort() {
    finish(error(.aborted, "the connection was given up here"))
  }

  // MARK: - Opening

  private func connectorEnded(_ outcome: Connector.Outcome, endpoint: Endpoint) {
    guard case .connecting = state else { return }
    connector = nil
    switch outcome {
    case .success(let (descriptor, address)):
      if endpoint.unixPath == nil {
        peerDescription = "\(endpoint) (\(options.proxy == nil ? "" : "proxy ")\(address))"
      }
      connected(descriptor, isUnix: address.isUnix)
    case .failure(let error):
      finish(error)
    }
  }

  /// A socket is connected, through the proxy where there is one: the one place from which every next step starts.
  private func connected(_ descriptor: Int32, isUnix: Bool) {
    fileDescriptor = descriptor
    guard let loop else { return }
    if !isUnix { tuneStream(descriptor, keepAliveSeconds: options.keepAliveSeconds) }
    do {
      interest = .readable
      registration = try loop.register(descriptor, interest: interest, handler: self)
    } catch {
      finish(self.error(.connect, error.description))
      return
    }
    loop.release(self)
    guard let tlsContext else {
      opensInNextPoll = true
      runInNextPoll()
      return
    }
    do {
      tls = try TLSStream(context: tlsContext, serverName: serverName, peer: peerDescription)
      state = .handshaking
      advanceHandshake()
    } catch {
      finish(tlsFailure(error))
    }
  }

  private func advanceHandshake() {
    guard let tls else { return }
    switch tls.handshake() {
    case .blocked:
      sendCiphertext()
    case .done:
      sendCiphertext()
      guard case .handshaking = state else { return }
      negotiatedProtocol = tls.negotiatedProtocol
      resumedSession = tls.resumedSession
      opened()
      decrypt()
    case .failed(let error):
      // The alert tells the peer why.
      sendCiphertext()
      finish(tlsFailure(error))
    }
  }

  private func opened() {
    cancelDeadline()
    state = .open
    delegate?.transportDidOpen(self)
    if pendingBytes > 0 { setNeedsFlush() }
  }

  // MARK: - From the loop

  package func becameReady(_ readiness: Readiness) {
    switch state {
    case .connecting, .closed:
      // Connected in this very poll: what has come already is reported again.
      break
    case .handshaking, .open:
      if readiness.contains(.writable) { becameWritable() }
      if !readiness.isDisjoint(with: [.readable, .hangUp, .failed]) { receive() }
    case .closing, .lingering:
      if readiness.contains(.writable) { becameWritable() }
      if !readiness.isDisjoint(with: [.readable, .hangUp, .failed]) { discard() }
    }
  }

  package func loopEnded() {
    registration = nil
    connector = nil
    state = .closed
    delegate = nil
    tls = nil
    if fileDescriptor >= 0 { closeDescriptor(fileDescriptor) }
    fileDescriptor = -1
  }

  /// The loop's flush, for a transport that asked for it.
  func flushOutbound() {
    awaitsFlush = false
    if awaitsWritable { return }
    switch state {
    case .open, .closing:
      writeOut()
    case .connecting, .handshaking, .lingering, .closed:
      break
    }
  }

  /// What an earlier turn left for this poll.
  func runDeferred() {
    isDeferred = false
    if case .closed = state {
      let told = delegate
      delegate = nil
      told?.transportDidClose(self, error: closeError)
    } else if let writeError {
      receiveRest()
      finish(writeError)
    } else if opensInNextPoll {
      opensInNextPoll = false
      opened()
    } else if readsInNextPoll {
      readsInNextPoll = false
      decrypt()
    }
  }

  /// Whether the loop may forget that this transport is paused: it reads again, or never will.
  func resumeReadingIfRoom() -> Bool {
    guard isPaused, case .open = state else { return true }
    if inbound.count >= options.inboundLimit { return false }
    stopPausing()
    if tls != nil {
      readsInNextPoll = true
      runInNextPoll()
    }
    return true
  }

  private func runInNextPoll() {
    if isDeferred { return }
    isDeferred = true
    loop?.runLater(self)
  }

  // MARK: - Reading

  private func receive() {
    if writeError != nil { return }
    if isPaused {
      // An end that cannot be read yet would be reported in every turn.
      if let registration, !isSuspended {
        isSuspended = true
        loop?.suspend(registration)
      }
      return
    }
    guard let loop, delegate != nil else {
      abort()
      return
    }
    let buffer = unsafe loop.receiveBuffer
    let room = tls == nil ? min(buffer.count, options.inboundLimit - inbound.count) : buffer.count
    let count = unsafe recv(fileDescriptor, buffer.baseAddress, max(room, 1), 0)
    if count > 0 {
      let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count]).assumingMemoryBound(to: UInt8.self)
      if let tls {
        unsafe tls.ciphertextIn.append(bytes)
        if case .handshaking = state { advanceHandshake() } else { decrypt() }
      } else {
        unsafe inbound.append(bytes)
        delegate?.transportDidReceive(self)
        pauseIfFull()
      }
    } else if count == 0 {
      peerClosed()
    } else if errno != EAGAIN, errno != EINTR {
      finish(broken("receiving", errno))
    }
  }

  /// Turns what came into plaintext, up to the inbound limit, and tells the delegate.
  private func decrypt() {
    guard let tls, case .open = state else { return }
    let before = inbound.count
    let progress = tls.read(into: &inbound, limit: options.inboundLimit)
    if inbound.count > before { delegate?.transportDidReceive(self) }
    guard case .open = state else { return }
    switch progress {
    case .blocked:
      pauseIfFull()
    case .full:
      pause()
    case .ended:
      peerHalfClosed(error: nil)
    case .failed(let error):
      sendCiphertext()
      finish(tlsFailure(error))
    }
    // An answer of TLS itself, to a key update say.
    if !tls.ciphertextOut.isEmpty { setNeedsFlush() }
  }

  /// The peer's end of the stream.
  private func peerClosed() {
    if case .handshaking = state {
      finish(error(.tls, "the peer closed the connection during the TLS handshake; is this port meant for TLS?"))
    } else if tls != nil {
      peerHalfClosed(error: error(.truncated, "the connection ended without TLS's goodbye (close_notify)"))
    } else {
      peerHalfClosed(error: nil)
    }
  }

  /// Nothing more comes in; what this turn still writes goes out before the end.
  private func peerHalfClosed(error: TransportError?) {
    guard case .open = state else { return }
    peerEnded = true
    closeError = error
    state = .closing
    startDeadline(options.closeTimeoutMilliseconds)
    setInterest(interest.subtracting(.readable))
    setNeedsFlush()
  }

  /// A send failed: takes what the peer said before it broke the connection (a GOAWAY often), as far as there is room.
  private func receiveRest() {
    guard let loop else { return }
    let before = inbound.count
    while inbound.count < options.inboundLimit {
      let buffer = unsafe loop.receiveBuffer
      let count = unsafe recv(fileDescriptor, buffer.baseAddress, buffer.count, 0)
      if count <= 0 { break }
      let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count]).assumingMemoryBound(to: UInt8.self)
      if let tls {
        unsafe tls.ciphertextIn.append(bytes)
        guard case .blocked = tls.read(into: &inbound, limit: options.inboundLimit) else { break }
      } else {
        unsafe inbound.append(bytes)
      }
    }
    if inbound.count > before { delegate?.transportDidReceive(self) }
  }

  /// Closing: what comes in is of no interest, but its end is.
  private func discard() {
    if peerEnded { return }
    guard let loop else { return }
    let buffer = unsafe loop.receiveBuffer
    let count = unsafe recv(fileDescriptor, buffer.baseAddress, buffer.count, 0)
    if count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)) { return }
    if case .lingering = state {
      finish(nil)
    } else if count == 0 {
      peerEnded = true
      setInterest(interest.subtracting(.readable))
    } else {
      finish(broken("closing", errno))
    }
  }

  private func pauseIfFull() {
    if case .open = state, inbound.count >= options.inboundLimit { pause() }
  }

  private func pause() {
    if isPaused { return }
    isPaused = true
    setInterest(interest.subtracting(.readable))
    loop?.pause(self)
  }

  private func stopPausing() {
    isPaused = false
    interest.insert(.readable)
    guard let loop, let registration else { return }
    if isSuspended {
      isSuspended = false
      if !loop.resume(registration, interest: interest) { finish(error(.broken, "the socket could not be watched")) }
    } else {
      loop.change(registration, interest: interest)
    }
  }

  // MARK: - Writing

  /// Ciphertext that is made at once: one send's worth. The rest stays plaintext, so that memory is bounded.
  private static let ciphertextTarget = 256 * 1024

  private func becameWritable() {
    awaitsWritable = false
    setInterest(interest.subtracting(.writable))
    if case .handshaking = state { sendCiphertext() } else { writeOut() }
  }

  private func writeOut() {
    if writeError != nil { return }
    if let tls {
      if let error = tls.write(from: &outbound, ciphertextTarget: Transport.ciphertextTarget) {
        finish(tlsFailure(error))
        return
      }
      sendCiphertext()
    } else if !outbound.isEmpty {
      let sent = send(&outbound)
      outbound.consume(sent)
    }
    if awaitsWritable || writeError != nil { return }
    switch state {
    case .open:
      if !outbound.isEmpty { setNeedsFlush() }
    case .closing:
      if outbound.isEmpty { finishWriting() } else { setNeedsFlush() }
    case .connecting, .handshaking, .lingering, .closed:
      break
    }
  }

  private func sendCiphertext() {
    guard let tls, !tls.ciphertextOut.isEmpty, !awaitsWritable else { return }
    let sent = send(&tls.ciphertextOut)
    tls.ciphertextOut.consume(sent)
  }

  /// One send. Returns how much the kernel took; less than all: the rest waits for the socket.
  private func send(_ queue: inout ByteQueue) -> Int {
    let count = queue.count
    let sent = unsafe queue.withUnsafeBytes { bytes in
      unsafe Glibc.send(fileDescriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    }
    if sent == count { return sent }
    if sent < 0, errno != EAGAIN, errno != EINTR {
      writeFailed(errno)
      return 0
    }
    awaitsWritable = true
    setInterest(interest.union(.writable))
    return max(0, sent)
  }

  private func writeFailed(_ code: Int32) {
    if saidGoodbye {
      // Everything of the user's was taken; the peer was gone before the goodbye.
      finish(closeError)
      return
    }
    writeError = broken("sending", code)
    runInNextPoll()
  }

  /// Closing, and all is written.
  private func finishWriting() {
    if let tls, !saidGoodbye {
      saidGoodbye = true
      tls.sayGoodbye()
      sendCiphertext()
      if awaitsWritable || isClosed { return }
    }
    if peerEnded {
      finish(closeError)
    } else {
      state = .lingering
      _ = shutdown(fileDescriptor, Int32(SHUT_WR))
    }
  }

  // MARK: - The end

  private func finish(_ error: TransportError?) {
    if isClosed { return }
    state = .closed
    closeError = error
    cancelDeadline()
    connector?.cancel()
    connector = nil
    if let registration { loop?.unregister(registration) }
    registration = nil
    if fileDescriptor >= 0 { closeDescriptor(fileDescriptor) }
    fileDescriptor = -1
    tls = nil
    loop?.release(self)
    runInNextPoll()
  }

  private func startDeadline(_ milliseconds: Int64) {
    cancelDeadline()
    // Cancelled before this object ends. A weak reference would make every retain of it a slow one.
    deadline = loop?.schedule(afterMilliseconds: milliseconds) { [unowned self] in
      deadlinePassed(milliseconds)
    }
  }

  private func cancelDeadline() {
    if let deadline { loop?.cancel(deadline) }
    deadline = nil
  }

  private func deadlinePassed(_ milliseconds: Int64) {
    deadline = nil
    switch state {
    case .connecting:
      finish(error(.timeout, "not connected within \(milliseconds) ms"))
    case .handshaking:
      finish(error(.timeout, "the TLS handshake was not over within \(milliseconds) ms"))
    case .closing:
      finish(error(.timeout, "\(pendingBytes) bytes were not taken within \(milliseconds) ms of the close"))
    case .lingering:
      finish(nil)
    case .open, .closed:
      break
    }
  }

  private func setInterest(_ wanted: Readiness) {
    if wanted == interest { return }
    interest = wanted
    if let registration, !isSuspended { loop?.change(registration, interest: wanted) }
  }

  private func error(_ kind: TransportError.Kind, _ text: String) -> TransportError {
    TransportError(kind: kind, peer: peerDescription, text: text)
  }

  private func broken(_ doing: String, _ code: Int32) -> TransportError {
    error(.broken, "\(doing) failed: \(systemErrorText(code))")
  }

  private func tlsFailure(_ error: TLSError) -> TransportError {
    TransportError(kind: .tls, peer: peerDescription, text: error.description, tls: error)
  }
}
