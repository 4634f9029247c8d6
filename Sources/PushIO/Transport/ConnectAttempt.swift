import Glibc

/// One non-blocking `connect` to one address.
final class ConnectAttempt: ReadinessHandler {
  let address: SocketAddress
  private unowned let loop: EventLoop
  private let kernel: any Kernel
  private var fileDescriptor: Int32 = -1
  private var registration: Registration?
  private var timeout: TimerToken?
  /// Called once, inside `poll`; nil: connected.
  private let ended: (ConnectAttempt, _ failure: String?) -> Void

  init(loop: EventLoop, address: SocketAddress, ended: @escaping (ConnectAttempt, String?) -> Void) {
    self.loop = loop
    kernel = loop.kernel
    self.address = address
    self.ended = ended
  }

  deinit {
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
  }

  /// Returns the error if it fails at once.
  func start(timeoutMilliseconds: Int64) -> String? {
    let made = kernel.makeSocket(for: address)
    guard made >= 0 else { return systemErrorText(-made) }
    fileDescriptor = made
    let code = kernel.connect(fileDescriptor, to: address)
    // A socket that connected at once is also writable at once, so both cases continue the same way.
    if code != 0, code != -EINPROGRESS { return systemErrorText(-code) }
    do {
      registration = try loop.register(fileDescriptor, interest: .writable, handler: self)
    } catch {
      return error.description
    }
    timeout = loop.schedule(afterMilliseconds: timeoutMilliseconds) { [weak self] in
      self?.end(failure: "no answer within \(timeoutMilliseconds) ms")
    }
    return nil
  }

  func becameReady(_ readiness: Readiness) {
    let code = kernel.takeError(of: fileDescriptor)
    end(failure: code == 0 ? nil : systemErrorText(code))
  }

  func loopEnded() {
    registration = nil
    timeout = nil
    cancel()
  }

  /// Transfers the connected socket.
  func takeDescriptor() -> Int32 {
    let taken = fileDescriptor
    fileDescriptor = -1
    return taken
  }

  func cancel() {
    stopWatching()
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
    fileDescriptor = -1
  }

  private func end(failure: String?) {
    stopWatching()
    ended(self, failure)
    // The socket was not transferred, or never connected.
    cancel()
  }

  private func stopWatching() {
    if let registration { loop.unregister(registration) }
    registration = nil
    if let timeout { loop.cancel(timeout) }
    timeout = nil
  }
}
