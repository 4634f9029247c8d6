import Glibc
import PushCore

/// A non-blocking byte stream over TCP or a unix socket, with or without TLS, client or server.
///
/// It reads into `inbound` (up to a limit, then it pauses) and writes `outbound` once a turn, in `EventLoop.flush`. The loop retains it
/// while it is open; it retains neither its loop nor its delegate.
///
/// This file has its states from connecting to closing; TransportReading and TransportWriting move the bytes. What these three share is not
/// `private`, but no other file may use it.
package final class Transport: ReadinessHandler, LoopMember {
  /// Trivial, because every request reads it: errors are stored beside it.
  enum State {
    /// The name is being resolved, or addresses are tried. → opening, handshaking, closed
    case connecting
    /// Connected without TLS: open as soon as the next poll can say so. → open, closed
    case opening
    /// The TLS handshake is in progress. → open, closed
    case handshaking
    /// Bytes flow both ways. → closing, closed
    case open(Reading)
    /// `close()` was called, or the peer has ended: `outbound` is still written, and nothing is read. `peerEnded`: the peer closed its
    /// direction. `saidGoodbye`: TLS has produced close_notify, which is written last. → lingering, closed
    case closing(peerEnded: Bool, saidGoodbye: Bool)
    /// Everything is written and our direction is closed; waits for the peer's end and drops received bytes. → closed
    case lingering
    /// The descriptor is closed; the delegate was told, or will be in the next poll.
    case closed
  }

  /// Whether an open transport reads.
  enum Reading {
    /// → paused
    case flowing
    /// Stopped at the inbound limit. → suspended, flowing, resumed
    case paused
    /// Paused, and removed from epoll, because the socket reported an end that cannot be read yet. → flowing, resumed
    case suspended
    /// Reads again; bytes that TLS held back are decrypted in the next poll. → flowing, paused
    case resumed
  }

  /// Independent of `state`: a short send may happen in the handshake, while open and while closing.
  enum Writing {
    /// → blocked, failed
    case ready
    /// The last send was short: the rest is sent when the socket is writable. → ready
    case blocked
    /// A send failed: what the peer sent before is read in the next poll, then the transport is closed with this error.
    case failed(TransportError)
  }

  /// Received plaintext that is not consumed yet. After consuming, no call is needed: the next flush notices.
  package var inbound = ByteQueue()
  /// Plaintext to be written: append, then call `setNeedsFlush`. Its owner must limit it: check `pendingBytes`.
  package var outbound = ByteQueue()
  package weak var delegate: (any TransportDelegate)?
  /// The peer: the endpoint, and the address once connected.
  package private(set) var peerDescription: String

  weak var loop: EventLoop?
  let kernel: any Kernel
  let options: ConnectOptions
  private let tlsContext: TLSContext?
  private let serverName: String
  var tls: TLSStream?
  var state: State
  var writing = Writing.ready
  var fileDescriptor: Int32 = -1
  var registration: Registration?
  var interest: Readiness = []
  private var connector: Connector?
  /// Limits the time of opening or closing.
  private var deadline: TimerToken?
  /// In the loop's list for the next flush. The lists may still contain a transport whose state has changed since.
  private var awaitsFlush = false
  /// In the loop's list for the next poll.
  private var isDeferred = false
  /// Plaintext that was encrypted, and ciphertext that the kernel accepted, since it last accepted all of it.
  var encryptedBytes = 0
  var takenCiphertextBytes = 0
  /// Why it is closing or closed; nil: in order.
  var closeError: TransportError?

  // MARK: - Making

  /// Starts to connect. `poll` reports the result: `transportDidOpen` or `transportDidClose`.
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

  /// Uses a connected socket (accepted, or one end of a socket pair); the TLS context determines the role.
  package static func adopt(
    loop: EventLoop, fileDescriptor: Int32, tls: TLSContext?, options: ConnectOptions = ConnectOptions(),
    delegate: any TransportDelegate
  ) -> Transport {
    let address = loop.kernel.peerAddress(of: fileDescriptor)
    let transport = Transport(
      loop: loop, peer: address?.description ?? "socket \(fileDescriptor)", serverName: options.serverName ?? "",
      tls: tls, options: options, delegate: delegate)
    loop.kernel.adopt(fileDescriptor)
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
    kernel = loop.kernel
    self.options = options
    self.serverName = serverName
    self.delegate = delegate
    tlsContext = tls
    peerDescription = peer
    state = .connecting
  }

  deinit {
    cancelDeadline()
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
  }

  // MARK: - For the user

  /// Bytes flow both ways.
  package var isOpen: Bool {
    if case .open = state { return true }
    return false
  }

  /// The connection ended; `transportDidClose` was called or will be in the next poll.
  package var isClosed: Bool {
    if case .closed = state { return true }
    return false
  }

  /// Open, and reading stopped at the inbound limit.
  var isPaused: Bool {
    switch state {
    case .open(.paused), .open(.suspended): true
    case .connecting, .opening, .handshaking, .open(.flowing), .open(.resumed), .closing, .lingering, .closed: false
    }
  }

  /// The last send was short.
  var awaitsWritable: Bool {
    if case .blocked = writing { return true }
    return false
  }

  /// ALPN's protocol; nil before the transport opened, or if none was negotiated.
  package private(set) var negotiatedProtocol: String?
  /// An earlier TLS session was resumed: no certificates were exchanged.
  package private(set) var resumedSession = false
  /// The peer's certificate.
  package var peerCertificate: CertificateFacts? { tls?.peerCertificate }

  /// Bytes that the kernel did not accept yet: the plaintext in `outbound`, and ciphertext.
  package var pendingBytes: Int { outbound.count + (tls?.ciphertextOut.count ?? 0) }

  /// The last bytes of plaintext that the kernel certainly did not accept: `outbound`, and as much of the encrypted bytes as cannot be in
  /// the ciphertext that it accepted. Once the transport is closed, they were never sent.
  package var unwrittenBytes: Int { outbound.count + max(0, encryptedBytes - takenCiphertextBytes) }

  /// Frees empty buffers.
  package func releaseMemory() {
    inbound.releaseMemory()
    outbound.releaseMemory()
    tls?.releaseMemory()
  }

  /// Writes `outbound` at the end of this turn. Has no effect before the transport is open; it writes when it opens.
  package func setNeedsFlush() {
    if awaitsFlush || awaitsWritable { return }
    switch state {
    case .open, .closing:
      awaitsFlush = true
      loop?.flushLater(self)
    case .connecting, .opening, .handshaking, .lingering, .closed:
      break
    }
  }

  /// Writes `outbound`, sends TLS's close_notify and closes. Bytes that are still received are dropped. `transportDidClose` follows.
  package func close() {
    switch state {
    case .connecting, .opening, .handshaking:
      finish(nil)
    case .open(let reading):
      state = .closing(peerEnded: false, saidGoodbye: false)
      startDeadline(options.closeTimeoutMilliseconds)
      watchReading(after: reading)
      setNeedsFlush()
    case .closing, .lingering, .closed:
      break
    }
  }

  /// Closes at once and drops unwritten bytes. `transportDidClose` follows, with an error of kind `aborted`.
  package func abort() {
    finish(error(.aborted, "the connection was closed here"))
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

  /// A socket is connected, through the proxy if there is one. All next steps start here.
  private func connected(_ descriptor: Int32, isUnix: Bool) {
    fileDescriptor = descriptor
    guard let loop else { return }
    if !isUnix { kernel.tune(descriptor, keepAliveSeconds: options.keepAliveSeconds) }
    do {
      interest = .reading
      registration = try loop.register(descriptor, interest: interest, handler: self)
    } catch {
      finish(self.error(.connect, error.description))
      return
    }
    loop.release(self)
    guard let tlsContext else {
      state = .opening
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

  func advanceHandshake() {
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
    state = .open(.flowing)
    delegate?.transportDidOpen(self)
    if pendingBytes > 0 { setNeedsFlush() }
  }

  // MARK: - From the loop

  package func becameReady(_ readiness: Readiness) {
    switch state {
    case .connecting, .opening, .closed:
      // It connected in this very poll: bytes that have already come are reported again.
      break
    case .handshaking, .open:
      if readiness.contains(.writable) { becameWritable() }
      if !readiness.isDisjoint(with: [.readable, .hangUp, .failed]) { receive() }
      // The end is reported together with the last bytes, so that nothing is sent between the two.
      if readiness.contains(.peerEnded) { while isOpen, !isPaused, receive() {} }
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
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
    fileDescriptor = -1
  }

  /// The loop's flush, for a transport that requested it.
  func flushOutbound() {
    awaitsFlush = false
    if awaitsWritable { return }
    switch state {
    case .open, .closing:
      writeOut()
    case .connecting, .opening, .handshaking, .lingering, .closed:
      break
    }
  }

  /// What an earlier turn deferred to this poll.
  func runDeferred() {
    isDeferred = false
    if case .closed = state {
      let closing = delegate
      delegate = nil
      closing?.transportDidClose(self, error: closeError)
    } else if case .failed(let error) = writing {
      receiveRest()
      finish(error)
    } else if case .opening = state {
      opened()
    } else if case .open(.resumed) = state {
      state = .open(.flowing)
      decrypt()
    }
  }

  func runInNextPoll() {
    if isDeferred { return }
    isDeferred = true
    loop?.runLater(self)
  }

  // MARK: - The end

  func finish(_ error: TransportError?) {
    if isClosed { return }
    state = .closed
    closeError = error
    cancelDeadline()
    connector?.cancel()
    connector = nil
    if let registration { loop?.unregister(registration) }
    registration = nil
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
    fileDescriptor = -1
    tls = nil
    loop?.release(self)
    runInNextPoll()
  }

  func startDeadline(_ milliseconds: Int64) {
    cancelDeadline()
    // Cancelled before this object is freed. A weak reference would make each retain slow.
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
    case .connecting, .opening:
      finish(error(.timeout, "not connected within \(milliseconds) ms"))
    case .handshaking:
      finish(error(.timeout, "the TLS handshake did not finish within \(milliseconds) ms"))
    case .closing:
      finish(error(.timeout, "the peer did not take \(pendingBytes) bytes within \(milliseconds) ms of the close"))
    case .lingering:
      finish(nil)
    case .open, .closed:
      break
    }
  }

  func setInterest(_ wanted: Readiness) {
    if wanted == interest { return }
    interest = wanted
    if case .open(.suspended) = state { return }
    if let registration { loop?.change(registration, interest: wanted) }
  }

  func error(_ kind: TransportError.Kind, _ text: String) -> TransportError {
    TransportError(kind: kind, peer: peerDescription, text: text)
  }

  func broken(_ doing: String, _ code: Int32) -> TransportError {
    error(.broken, "\(doing) failed: \(systemErrorText(code))")
  }

  func tlsFailure(_ error: TLSError) -> TransportError {
    TransportError(kind: .tls, peer: peerDescription, text: error.description, tls: error)
  }
}
