import Glibc
import PushCore

/// A non-blocking byte stream over TCP or a unix socket, with or without TLS, client or server.
///
/// It reads into `inbound` (up to a limit, then it pauses) and writes `outbound` once a turn, in `EventLoop.flush`. The
/// loop holds it while it is open; it holds neither its loop nor its delegate.
///
/// Its life from connecting to closing is here, the bytes are in TransportReading and TransportWriting. What these three
/// share is not `private`, and yet for nobody else.
package final class Transport: ReadinessHandler, LoopMember {
  /// Trivial, because every request asks for it: errors are kept beside it.
  enum State {
    /// The name is looked up or addresses are tried. → opening, handshaking, closed
    case connecting
    /// Connected without TLS: open as soon as the next poll can say so. → open, closed
    case opening
    /// The TLS handshake is under way. → open, closed
    case handshaking
    /// Bytes flow both ways. → closing, closed
    case open(Reading)
    /// `close()` was called, or the peer has ended: what `outbound` holds is written, nothing is read any more.
    /// `peerEnded`: the peer closed its half. `saidGoodbye`: TLS said its goodbye, which is written last.
    /// → lingering, closed
    case closing(peerEnded: Bool, saidGoodbye: Bool)
    /// All is written and our half is closed; waits for the peer's end and drops what still comes. → closed
    case lingering
    /// The descriptor is closed; the delegate knows, or hears of it in the next poll.
    case closed
  }

  /// Whether an open transport takes what comes in.
  enum Reading {
    /// → paused
    case flowing
    /// Stopped at the inbound limit. → suspended, flowing, resumed
    case paused
    /// Paused, and taken out of epoll, because the socket reported an end that cannot be read yet. → flowing, resumed
    case suspended
    /// Reads again; what TLS held back meanwhile is decrypted in the next poll. → flowing, paused
    case resumed
  }

  /// Independent of `state`: a send may be short or fail in the handshake, while open and while closing.
  enum Writing {
    /// → blocked, failed
    case ready
    /// The last send was short: the rest goes when the socket is writable. → ready
    case blocked
    /// A send failed: what the peer said before is read in the next poll, then the transport is closed with this error.
    case failed(TransportError)
  }

  /// Plaintext received and not consumed yet. Whoever consumes need not say so: the next flush notices.
  package var inbound = ByteQueue()
  /// Plaintext to be written: append, then call `setNeedsFlush`. Its bound is the owner's: look at `pendingBytes`.
  package var outbound = ByteQueue()
  package weak var delegate: (any TransportDelegate)?
  /// Whom it talks to: the endpoint, and the address once connected.
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
  /// Ends opening, or closing, that takes too long.
  private var deadline: TimerToken?
  /// In the loop's list for the next flush. The lists may still hold a transport whose state has changed since.
  private var awaitsFlush = false
  /// In the loop's list for the next poll.
  private var isDeferred = false
  /// Plaintext that was encrypted, and ciphertext that the kernel took, since the last of it was taken.
  var encryptedBytes = 0
  var takenCiphertextBytes = 0
  /// Why it is closing or closed; nil: in order.
  var closeError: TransportError?

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

  /// The connection is over; `transportDidClose` was called or is called in the next poll.
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

  /// What ALPN agreed on; nil before the transport opened, or where there was nothing to agree on.
  package private(set) var negotiatedProtocol: String?
  /// An earlier TLS session was resumed: no certificates were exchanged.
  package private(set) var resumedSession = false
  /// The certificate that the peer showed.
  package var peerCertificate: CertificateFacts? { tls?.peerCertificate }

  /// Bytes that the kernel did not take yet: the plaintext of `outbound`, and what is encrypted already.
  package var pendingBytes: Int { outbound.count + (tls?.ciphertextOut.count ?? 0) }

  /// The last bytes of plaintext that the kernel surely did not take: `outbound`, and of what is encrypted as much as cannot stand in
  /// the ciphertext that it took. They never left once the transport is closed.
  package var unwrittenBytes: Int { outbound.count + max(0, encryptedBytes - takenCiphertextBytes) }

  /// Gives back the memory of buffers that are empty.
  package func releaseMemory() {
    inbound.releaseMemory()
    outbound.releaseMemory()
    tls?.releaseMemory()
  }

  /// Writes `outbound` at the end of this turn. Before the transport is open this has no effect: it writes as it opens.
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

  /// Writes what `outbound` holds, says goodbye and closes. What still comes in is dropped. `transportDidClose`
  /// follows.
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
      // Connected in this very poll: what has come already is reported again.
      break
    case .handshaking, .open:
      if readiness.contains(.writable) { becameWritable() }
      if !readiness.isDisjoint(with: [.readable, .hangUp, .failed]) { receive() }
      // The end is heard together with the last bytes, so that nothing is sent between the two.
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

  /// The loop's flush, for a transport that asked for it.
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

  /// What an earlier turn left for this poll.
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
    case .connecting, .opening:
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
