import Glibc

/// Receives accepted connections.
package protocol ListenerDelegate: AnyObject {
  /// A connection: a non-blocking socket that now belongs to the delegate (`Transport.adopt` takes it).
  func listener(_ listener: Listener, didAccept fileDescriptor: Int32)
}

/// Accepts connections on a TCP port or a unix path.
package final class Listener: ReadinessHandler {
  package private(set) weak var delegate: (any ListenerDelegate)?
  /// The port in use, even if 0 was requested; 0 for a unix path.
  package let port: UInt16

  private weak var loop: EventLoop?
  private let kernel: any Kernel
  private var fileDescriptor: Int32
  private var registration: Registration?
  private var unixPath: String?

  /// Maximum of connections accepted in one turn; the others wait in the kernel's queue.
  private static let acceptsPerTurn = 64
  /// How long to wait after descriptors or memory ran out.
  private static let exhaustedPauseMilliseconds: Int64 = 100

  /// Listens on a numeric address. Port 0: the system chooses.
  package static func listen(
    loop: EventLoop, host: String, port: UInt16, backlog: Int32 = 1024, delegate: any ListenerDelegate
  ) throws(LoopError) -> Listener {
    guard let address = SocketAddress(numericHost: host, port: port) else {
      throw LoopError(call: "listening on \(host) (an address in numbers is needed)", code: EINVAL)
    }
    return try Listener(loop: loop, address: address, backlog: backlog, unixPath: nil, delegate: delegate)
  }

  /// Listens on a unix path, which must not exist. It is removed with the listener.
  package static func listen(
    loop: EventLoop, unixPath: String, backlog: Int32 = 1024, delegate: any ListenerDelegate
  ) throws(LoopError) -> Listener {
    guard let address = SocketAddress(unixPath: unixPath) else {
      throw LoopError(call: "listening on \(unixPath)", code: ENAMETOOLONG)
    }
    return try Listener(loop: loop, address: address, backlog: backlog, unixPath: unixPath, delegate: delegate)
  }

  private init(
    loop: EventLoop, address: SocketAddress, backlog: Int32, unixPath: String?, delegate: any ListenerDelegate
  ) throws(LoopError) {
    kernel = loop.kernel
    let descriptor = kernel.listen(on: address, backlog: backlog)
    guard descriptor >= 0 else {
      throw LoopError(call: "listening on \(unixPath ?? address.description)", code: -descriptor)
    }
    fileDescriptor = descriptor
    port = kernel.localAddress(of: descriptor)?.port ?? 0
    self.loop = loop
    self.unixPath = unixPath
    self.delegate = delegate
    registration = try loop.register(descriptor, interest: .readable, handler: self)
  }

  deinit {
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
  }

  /// Accepts nothing more. Accepted connections stay.
  package func close() {
    if let registration { loop?.unregister(registration) }
    loopEnded()
  }

  package func loopEnded() {
    registration = nil
    if fileDescriptor >= 0 { kernel.close(fileDescriptor) }
    fileDescriptor = -1
    if let unixPath { _ = unsafe unlink(unixPath) }
    unixPath = nil
  }

  package func becameReady(_ readiness: Readiness) {
    for _ in 0..<Listener.acceptsPerTurn {
      guard fileDescriptor >= 0 else { return }
      let accepted = kernel.accept(fileDescriptor)
      guard accepted >= 0 else {
        // A connection that broke before it was accepted is harmless; exhaustion would make the loop spin.
        if accepted == -ECONNABORTED || accepted == -EINTR { continue }
        if accepted != -EAGAIN { pauseAccepting() }
        return
      }
      if let delegate {
        delegate.listener(self, didAccept: accepted)
      } else {
        kernel.close(accepted)
      }
    }
  }

  private func pauseAccepting() {
    guard let loop, let registration else { return }
    loop.change(registration, interest: [])
    loop.schedule(afterMilliseconds: Listener.exhaustedPauseMilliseconds) { [weak self] in
      guard let self, let registration = self.registration else { return }
      self.loop?.change(registration, interest: .readable)
    }
  }
}
