package import PushIO

/// A machine of the simulated world, as one event loop sees it. Its sockets use the simulated network; its clocks are the
/// world's, with an offset on the wall clock.
package final class SimulatedKernel: Kernel {
  private final class Socket {
    var line: SimulatedLine?
    let side: Int
    /// A listener's port, and connections to accept.
    let port: UInt16?
    var backlog: [SimulatedLine] = []
    /// The interest includes what epoll always reports.
    var watch: (interest: Readiness, data: UInt64)?
    /// A listener's address.
    let address: SocketAddress?

    init(line: SimulatedLine? = nil, side: Int = 0, port: UInt16? = nil, address: SocketAddress? = nil) {
      self.line = line
      self.side = side
      self.port = port
      self.address = address
    }
  }

  let network: SimulatedNetwork
  /// The wall clock at the network's time 0, Unix milliseconds.
  package var wallClockMilliseconds: Int64
  /// By descriptor.
  private var sockets: [Socket?] = []
  /// Whether a watched socket is ready; nil: unknown. A cache, because the world asks before each of its turns.
  private var knownReady: Bool?
  private var events: [(data: UInt64, readiness: Readiness)] = []
  private static let firstDescriptor = 3
  /// Called for each wait with the time at which it ends at the latest, in the network's nanoseconds: simulated time passes there. nil: a wait
  /// returns at once, since simulated time passes between turns.
  var onWait: ((Int64) -> Void)?

  private let process: SimulatedProcess

  package init(
    _ network: SimulatedNetwork, wallClockMilliseconds: Int64, process: SimulatedProcess = SimulatedProcess()
  ) {
    self.network = network
    self.wallClockMilliseconds = wallClockMilliseconds
    self.process = process
  }

  package var monotonicNanoseconds: Int64 { network.now }
  package var unixMilliseconds: Int64 { wallClockMilliseconds + network.now / 1_000_000 }

  /// Closes every socket, as a kernel does when a process dies.
  package func kill() {
    for descriptor in sockets.indices where sockets[descriptor] != nil { close(Int32(descriptor)) }
  }

  // MARK: - Sockets

  private func take(_ socket: Socket) -> Int32 {
    touched()
    while sockets.count < SimulatedKernel.firstDescriptor { sockets.append(Socket()) }
    if let free = sockets.indices.first(where: { sockets[$0] == nil }) {
      sockets[free] = socket
      return Int32(free)
    }
    sockets.append(socket)
    return Int32(sockets.count - 1)
  }

  private func end(_ fileDescriptor: Int32) -> SimulatedEnd? {
    guard let socket = sockets[Int(fileDescriptor)], let line = socket.line else { return nil }
    return line.ends[socket.side]
  }

  package func makeSocket(for address: SocketAddress) -> Int32 { take(Socket()) }

  package func listen(on address: SocketAddress, backlog: Int32) -> Int32 {
    let descriptor = take(Socket(port: address.port, address: address))
    guard network.listen(address.port, self, descriptor) else {
      sockets[Int(descriptor)] = nil
      return -SimulatedErrors.inUse
    }
    return descriptor
  }

  func arrived(_ line: SimulatedLine, at fileDescriptor: Int32) {
    sockets[Int(fileDescriptor)]?.backlog.append(line)
    touched()
  }

  package func accept(_ fileDescriptor: Int32) -> Int32 {
    guard let listener = sockets[Int(fileDescriptor)] else { return -SimulatedErrors.badDescriptor }
    guard let line = listener.backlog.first else { return -SimulatedErrors.again }
    listener.backlog.removeFirst()
    let descriptor = take(Socket(line: line, side: 1))
    line.ends[1].owner = .socket(self, descriptor)
    line.ends[1].connected()
    return descriptor
  }

  package func adopt(_ fileDescriptor: Int32) {}
  package func localAddress(of fileDescriptor: Int32) -> SocketAddress? { sockets[Int(fileDescriptor)]?.address }
  package func peerAddress(of fileDescriptor: Int32) -> SocketAddress? {
    SocketAddress(numericHost: "127.0.0.1", port: sockets[Int(fileDescriptor)]?.line?.port ?? 0)
  }

  package func connect(_ fileDescriptor: Int32, to address: SocketAddress) -> Int32 {
    if process.isDead { return -SimulatedErrors.badDescriptor }
    sockets[Int(fileDescriptor)]?.line = network.connect(self, fileDescriptor, port: address.port)
    touched()
    return -SimulatedErrors.inProgress
  }

  package func takeError(of fileDescriptor: Int32) -> Int32 {
    touched()
    return end(fileDescriptor)?.takeError() ?? 0
  }
  package func tune(_ fileDescriptor: Int32, keepAliveSeconds: Int32) {}

  package func receive(_ fileDescriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    guard let socket = sockets[Int(fileDescriptor)], let line = socket.line, !process.isDead else {
      return -Int(SimulatedErrors.badDescriptor)
    }
    // The other side may have room again.
    defer { network.touched(line) }
    return unsafe line.ends[socket.side].read(into: buffer)
  }

  package func send(_ fileDescriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    guard let socket = sockets[Int(fileDescriptor)], let line = socket.line else {
      return -Int(SimulatedErrors.badDescriptor)
    }
    defer { network.touched(line) }
    let end = line.ends[socket.side]
    if end.isBroken {
      let code = end.takeError()
      return -Int(code == 0 ? SimulatedErrors.brokenPipe : code)
    }
    let room = min(bytes.count, network.room(line, from: socket.side))
    if room == 0 { return unsafe bytes.isEmpty ? 0 : -Int(SimulatedErrors.again) }
    let count = process.write(room)
    if count == 0 { return -Int(SimulatedErrors.brokenPipe) }
    unsafe network.send(Array(bytes.prefix(count))[...], line, from: socket.side)
    return count
  }

  package func endWriting(_ fileDescriptor: Int32) {
    guard let socket = sockets[Int(fileDescriptor)], let line = socket.line else { return }
    network.close(line, side: socket.side)
  }

  package func close(_ fileDescriptor: Int32) {
    guard let socket = sockets[Int(fileDescriptor)] else { return }
    sockets[Int(fileDescriptor)] = nil
    touched()
    if let port = socket.port {
      network.refuse(port)
      for line in socket.backlog { network.reset(line, from: 1) }
    }
    guard let line = socket.line else { return }
    defer { network.touched(line) }
    let end = line.ends[socket.side]
    end.owner = .unowned
    end.isGone = true
    // Unread bytes are lost, so the other side gets a reset.
    if end.unreadCount > 0 { network.reset(line, from: socket.side) } else { network.close(line, side: socket.side) }
  }

  // MARK: - Readiness

  package func watch(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32 {
    sockets[Int(fileDescriptor)]?.watch = (interest.union(Self.always), data)
    touched()
    return 0
  }

  package func change(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32 {
    watch(fileDescriptor, interest, data: data)
  }

  package func unwatch(_ fileDescriptor: Int32) {
    sockets[Int(fileDescriptor)]?.watch = nil
    touched()
  }

  private func readiness(_ socket: Socket) -> Readiness {
    guard let line = socket.line else { return socket.backlog.isEmpty ? [] : .readable }
    let end = line.ends[socket.side]
    if end.isBroken { return Self.broken }
    var ready = end.hasReceivedEnd ? Self.ended : end.unreadCount > 0 ? .readable : Self.none
    if end.isConnected, network.room(line, from: socket.side) > 0 {
      ready = Readiness(rawValue: ready.rawValue | Readiness.writable.rawValue)
    }
    return ready
  }

  private static let none = Readiness(rawValue: 0)
  private static let always: Readiness = [.hangUp, .failed]
  private static let ended: Readiness = [.readable, .peerEnded]
  private static let broken: Readiness = [.readable, .writable, .peerEnded, .hangUp, .failed]

  /// Whether a watched socket is ready.
  package var isReady: Bool {
    if let knownReady { return knownReady }
    let isReady = sockets.contains { socket in
      guard let socket, let watch = socket.watch else { return false }
      return readiness(socket).rawValue & watch.interest.rawValue != 0
    }
    knownReady = isReady
    return isReady
  }

  /// The state of one of its sockets may have changed.
  func touched() { knownReady = nil }

  package func wait(milliseconds: Int32) -> Int {
    onWait?(network.now + Int64(milliseconds) * 1_000_000)
    events.removeAll(keepingCapacity: true)
    for socket in sockets {
      guard let socket, let watch = socket.watch else { continue }
      let ready = readiness(socket).rawValue & watch.interest.rawValue
      if ready != 0 { events.append((watch.data, Readiness(rawValue: ready))) }
    }
    return events.count
  }

  package func event(_ index: Int) -> (data: UInt64, readiness: Readiness) { events[index] }
  package func sleep(nanoseconds: Int64) {}
}
