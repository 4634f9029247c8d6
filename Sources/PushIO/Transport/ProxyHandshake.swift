import Glibc

/// Asks the proxy at the other end of a connected socket for a tunnel, and returns the socket once the tunnel is open.
final class ProxyHandshake: ReadinessHandler {
  private unowned let loop: EventLoop
  private let kernel: any Kernel
  private var fileDescriptor: Int32
  private var registration: Registration?
  private var tunnel: ProxyTunnel
  private var sentCount = 0
  /// Called once, inside `poll`: the descriptor, or why there is no tunnel.
  private let ended: (Result<Int32, ProxyFailure>) -> Void

  struct ProxyFailure: Error {
    let text: String
  }

  /// Takes the socket over.
  init(
    loop: EventLoop, fileDescriptor: Int32, tunnel: ProxyTunnel, ended: @escaping (Result<Int32, ProxyFailure>) -> Void
  ) {
    self.loop = loop
    kernel = loop.kernel
    self.fileDescriptor = fileDescriptor
    self.tunnel = tunnel
    self.ended = ended
  }

  deinit {
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
  }

  func start() {
    do {
      registration = try loop.register(fileDescriptor, interest: .writable, handler: self)
    } catch {
      end(.failure(ProxyFailure(text: error.description)))
    }
  }

  func cancel() {
    if let registration { loop.unregister(registration) }
    registration = nil
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
    fileDescriptor = -1
  }

  func becameReady(_ readiness: Readiness) {
    if sentCount < tunnel.request.count { send() } else { receive() }
  }

  func loopEnded() {
    registration = nil
    cancel()
  }

  private func send() {
    let rest = tunnel.request[sentCount...]
    let count = unsafe rest.withUnsafeBytes { bytes in unsafe kernel.send(fileDescriptor, bytes) }
    if count < 0 {
      if count != -Int(EAGAIN), count != -Int(EINTR) { fail(count) }
      return
    }
    sentCount += count
    if sentCount == tunnel.request.count, let registration { loop.change(registration, interest: .readable) }
  }

  private func receive() {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = unsafe buffer.withUnsafeMutableBytes { bytes in unsafe kernel.receive(fileDescriptor, into: bytes) }
    if count < 0 {
      if count != -Int(EAGAIN), count != -Int(EINTR) { fail(count) }
      return
    }
    switch count == 0 ? tunnel.ended() : tunnel.receive(buffer.span.extracting(..<count)) {
    case .more: break
    case .open: end(.success(fileDescriptor))
    case .failed(let text): end(.failure(ProxyFailure(text: text)))
    }
  }

  /// A system call failed.
  private func fail(_ code: Int) {
    end(.failure(ProxyFailure(text: systemErrorText(Int32(-code)))))
  }

  private func end(_ result: Result<Int32, ProxyFailure>) {
    if let registration { loop.unregister(registration) }
    registration = nil
    if case .success = result { fileDescriptor = -1 }
    ended(result)
  }
}
