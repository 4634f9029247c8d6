import Glibc

/// Reads from the socket, through TLS if configured, into `inbound`, up to its limit.
extension Transport {
  /// Reads one buffer from the socket. false: there was nothing, or reading is not wanted.
  @discardableResult
  func receive() -> Bool {
    if case .failed = writing { return false }
    switch state {
    case .open(.paused):
      // An end that cannot be read yet would be reported in every turn.
      if let registration {
        state = .open(.suspended)
        loop?.suspend(registration)
      }
      return false
    case .open(.suspended):
      return false
    case .connecting, .opening, .handshaking, .open(.flowing), .open(.resumed), .closing, .lingering, .closed:
      break
    }
    guard let loop, delegate != nil else {
      abort()
      return false
    }
    let buffer = unsafe loop.receiveBuffer
    let room = tls == nil ? min(buffer.count, options.inboundLimit - inbound.count) : buffer.count
    let count = unsafe kernel.receive(
      fileDescriptor, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<max(room, 1)]))
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
    } else if count != -Int(EAGAIN), count != -Int(EINTR) {
      finish(broken("receiving", Int32(-count)))
    }
    return count > 0
  }

  /// Decrypts received bytes, up to the inbound limit, and tells the delegate.
  func decrypt() {
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
    // TLS itself answered, for example to a key update.
    if !tls.ciphertextOut.isEmpty { setNeedsFlush() }
  }

  /// The peer closed the stream.
  private func peerClosed() {
    if case .handshaking = state {
      finish(error(.tls, "the peer closed the connection during the TLS handshake; check that this port uses TLS"))
    } else if tls != nil {
      peerHalfClosed(error: error(.truncated, "the connection ended without TLS's close_notify"))
    } else {
      peerHalfClosed(error: nil)
    }
  }

  /// Nothing more comes in; what is written in this turn is sent before the end.
  private func peerHalfClosed(error: TransportError?) {
    guard case .open = state else { return }
    closeError = error
    state = .closing(peerEnded: true, saidGoodbye: false)
    startDeadline(options.closeTimeoutMilliseconds)
    setInterest(interest.subtracting(.reading))
    setNeedsFlush()
    delegate?.transportPeerDidEnd(self, error: error)
  }

  /// A send failed: reads what the peer sent before it broke the connection (often a GOAWAY), as far as there is room.
  func receiveRest() {
    guard let loop else { return }
    let before = inbound.count
    while inbound.count < options.inboundLimit {
      let buffer = unsafe loop.receiveBuffer
      let count = unsafe kernel.receive(fileDescriptor, into: buffer)
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

  /// Closing: received bytes are dropped, only the end matters.
  func discard() {
    if case .closing(peerEnded: true, _) = state { return }
    guard let loop else { return }
    let buffer = unsafe loop.receiveBuffer
    let count = unsafe kernel.receive(fileDescriptor, into: buffer)
    if count > 0 || count == -Int(EAGAIN) || count == -Int(EINTR) { return }
    if case .lingering = state {
      finish(nil)
    } else if count == 0, case .closing(_, let saidGoodbye) = state {
      state = .closing(peerEnded: true, saidGoodbye: saidGoodbye)
      setInterest(interest.subtracting(.reading))
    } else {
      finish(broken("closing", Int32(-count)))
    }
  }

  // MARK: - Pausing

  private func pauseIfFull() {
    if case .open = state, inbound.count >= options.inboundLimit { pause() }
  }

  private func pause() {
    if isPaused { return }
    state = .open(.paused)
    setInterest(interest.subtracting(.reading))
    loop?.pause(self)
  }

  /// Watches the socket for input again, if `reading` had stopped that; `state` is changed already.
  func watchReading(after reading: Reading) {
    switch reading {
    case .flowing, .resumed:
      break
    case .paused:
      setInterest(interest.union(.reading))
    case .suspended:
      interest.formUnion(.reading)
      guard let loop, let registration else { return }
      if !loop.resume(registration, interest: interest) { finish(error(.broken, "the socket could not be watched")) }
    }
  }

  /// Whether the loop can remove this transport from its paused ones: it reads again, or never will.
  func resumeReadingIfRoom() -> Bool {
    guard isPaused, case .open(let reading) = state else { return true }
    if inbound.count >= options.inboundLimit { return false }
    state = .open(tls == nil ? .flowing : .resumed)
    watchReading(after: reading)
    if case .open(.resumed) = state { runInNextPoll() }
    return true
  }
}
