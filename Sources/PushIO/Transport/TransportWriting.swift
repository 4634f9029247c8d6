import Glibc

/// Writes `outbound`, through TLS if configured, as far as the socket accepts it; and close_notify.
extension Transport {
  /// Ciphertext that is produced at once: enough for one send. The rest stays plaintext, so that memory is bounded.
  private static let ciphertextTarget = 256 * 1024

  func becameWritable() {
    if case .blocked = writing { writing = .ready }
    setInterest(interest.subtracting(.writable))
    if case .handshaking = state { sendCiphertext() } else { writeOut() }
  }

  func writeOut() {
    if case .failed = writing { return }
    if let tls {
      let before = outbound.count
      let error = tls.write(from: &outbound, ciphertextTarget: Transport.ciphertextTarget)
      encryptedBytes += before - outbound.count
      if let error {
        finish(tlsFailure(error))
        return
      }
      sendCiphertext()
    } else if !outbound.isEmpty {
      let sent = send(&outbound)
      outbound.consume(sent)
    }
    guard case .ready = writing else { return }
    switch state {
    case .open:
      if !outbound.isEmpty { setNeedsFlush() }
    case .closing:
      if outbound.isEmpty { finishWriting() } else { setNeedsFlush() }
    case .connecting, .opening, .handshaking, .lingering, .closed:
      break
    }
  }

  func sendCiphertext() {
    guard let tls, !tls.ciphertextOut.isEmpty, case .ready = writing else { return }
    let sent = send(&tls.ciphertextOut)
    tls.ciphertextOut.consume(sent)
    takenCiphertextBytes += sent
    if tls.ciphertextOut.isEmpty {
      encryptedBytes = 0
      takenCiphertextBytes = 0
    }
  }

  /// One send. Returns how much the kernel accepted; if that is less than all, the rest waits for the socket.
  private func send(_ queue: inout ByteQueue) -> Int {
    let count = queue.count
    let sent = unsafe queue.withUnsafeBytes { bytes in unsafe kernel.send(fileDescriptor, UnsafeRawBufferPointer(bytes))
    }
    if sent == count { return sent }
    if sent < 0, sent != -Int(EAGAIN), sent != -Int(EINTR) {
      writeFailed(Int32(-sent))
      return 0
    }
    writing = .blocked
    setInterest(interest.union(.writable))
    return max(0, sent)
  }

  private func writeFailed(_ code: Int32) {
    if case .closing(_, saidGoodbye: true) = state {
      // All of the user's bytes were accepted; the peer was gone before close_notify.
      finish(closeError)
      return
    }
    writing = .failed(broken("sending", code))
    runInNextPoll()
  }

  /// Closing, and everything is written.
  private func finishWriting() {
    guard case .closing(let peerEnded, let saidGoodbye) = state else { return }
    if let tls, !saidGoodbye {
      state = .closing(peerEnded: peerEnded, saidGoodbye: true)
      tls.sayGoodbye()
      sendCiphertext()
      if awaitsWritable || isClosed { return }
    }
    if peerEnded {
      finish(closeError)
    } else {
      state = .lingering
      kernel.endWriting(fileDescriptor)
    }
  }
}
