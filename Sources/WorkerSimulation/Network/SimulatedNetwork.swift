import PushCore

/// The network of a simulated world: byte streams between sockets of simulated kernels and peers, on a simulated clock.
///
/// Bytes arrive late and split, but in order. Connections are refused, break, or go silent. The same seed
/// gives the same network, event by event. Times are nanoseconds.
package final class SimulatedNetwork {
  /// The network's behaviour without faults.
  package struct Settings: Sendable {
    /// From sending to arrival.
    package var latency: ClosedRange<Int64> = 50_000...2_000_000
    /// The largest segment that arrives at once; most sends are smaller.
    package var segmentMaximum = 64 * 1024
    /// Per mille of the segments that are split at a random byte.
    package var splits = 100
    /// For each direction of a connection; nil: unlimited.
    package var bytesPerSecond: Int64?
    /// Send buffer of a socket: how much is accepted before the owner must wait.
    package var bufferBytes = 256 * 1024

    package init() {}

    /// On a slow connection a body of hundreds of kilobytes takes minutes, and with it all that is behind.
    package var carriesLargeBodies: Bool {
      bytesPerSecond == nil && bufferBytes > 4096 && latency.upperBound <= 2_000_000
    }
  }

  enum Event {
    case bytes([UInt8])
    /// The other side closed its half.
    case end
    /// The other side broke the connection.
    case reset
    /// The connection is established, at the client's end.
    case connected
    case refused(Int32)
  }

  package var settings: Settings
  package private(set) var now: Int64 = 1_000_000_000
  var random: SeededRandom
  private var queue = EventQueue<(line: SimulatedLine, side: Int, event: Event)>()
  private var lastNumber = 0
  private var listeners: [UInt16: Listener] = [:]
  /// Peers with their pending deadlines, by port. The deadlines are cached: asking the peers takes most of the time of a step in a
  /// quiet world.
  private var peers: [(port: UInt16, peer: any SimulatedPeer, deadline: Int64?)] = []
  /// Receives each event as it happens.
  package var trace: ((SimulatedTraceEntry) -> Void)?

  enum Listener {
    case peer(any SimulatedPeer)
    case socket(SimulatedKernel, Int32)
  }

  package init(seed: UInt64, settings: Settings = Settings()) {
    random = SeededRandom(seed: seed)
    self.settings = settings
  }

  // MARK: - Time

  /// The time of the next event; nil: none is scheduled.
  package var nextEvent: Int64? {
    var next = queue.earliest
    for (_, _, deadline) in peers {
      if let deadline { next = min(next ?? .max, deadline) }
    }
    return next
  }

  /// Advances the time to `time` and handles all events that are due.
  package func advance(to time: Int64) {
    while let next = nextEvent, next <= time {
      now = max(now, next)
      while let (line, side, event) = queue.takeDue(at: now) { happen(event, line, side) }
      for index in peers.indices where peers[index].deadline.map({ $0 <= now }) == true {
        let peer = peers[index].peer
        peer.woke(now: now)
        act(peer)
      }
    }
    now = max(now, time)
  }

  // MARK: - Listeners

  /// Makes the peer accept connections to this port.
  package func listen(_ port: UInt16, _ peer: any SimulatedPeer) {
    listeners[port] = .peer(peer)
    peers.removeAll { $0.port == port }
    peers.append((port, peer, peer.deadline))
    peers.sort { $0.port < $1.port }
  }

  func listen(_ port: UInt16, _ kernel: SimulatedKernel, _ fileDescriptor: Int32) -> Bool {
    guard listeners[port] == nil else { return false }
    listeners[port] = .socket(kernel, fileDescriptor)
    return true
  }

  /// Whoever listens on a port listens on another one too.
  func listen(_ port: UInt16, likeOn other: UInt16) { listeners[port] = listeners[other] }

  /// Stops listening on this port. A peer keeps its connections.
  package func refuse(_ port: UInt16) { listeners[port] = nil }

  /// Carries out a peer's pending actions, also after the world changed the peer.
  package func act(_ peer: any SimulatedPeer) {
    while let action = peer.nextAction() {
      switch action {
      case .send(let id, let bytes): line(id).map { send(bytes[...], $0, from: 1) }
      case .close(let id): line(id).map { close($0, side: 1) }
      case .reset(let id): line(id).map { reset($0, from: 1) }
      }
    }
    for index in peers.indices where peers[index].peer === peer { peers[index].deadline = peer.deadline }
  }

  // MARK: - Faults

  /// Connections that are not finished, oldest first.
  package private(set) var lines: [SimulatedLine] = []

  func line(_ id: SimulatedConnectionID) -> SimulatedLine? { lines.first { $0.id == id } }

  /// Resets a connection at both ends, after the bytes on their way.
  package func cut(_ line: SimulatedLine) {
    schedule(.reset, line, to: 0)
    schedule(.reset, line, to: 1)
  }

  /// Stops all delivery on the connection, in both directions, until `heal`.
  package func silence(_ line: SimulatedLine) { line.isSilent = true }

  /// Delivers the held events, at once and in order, so that no later event overtakes them.
  package func heal(_ line: SimulatedLine) {
    line.isSilent = false
    let held = line.held
    line.held = []
    for (side, event) in held { happen(event, line, side) }
  }

  // MARK: - For sockets

  func connect(_ kernel: SimulatedKernel, _ fileDescriptor: Int32, port: UInt16) -> SimulatedLine {
    lastNumber += 1
    let line = SimulatedLine(SimulatedConnectionID(lastNumber), port: port)
    line.ends[0].owner = .socket(kernel, fileDescriptor)
    lines.append(line)
    // The server's end hears of it after one latency; without a listener it refuses.
    schedule(.connected, line, to: 1)
    return line
  }

  /// Sends all bytes, split at random; the caller checks `room`.
  func send(_ bytes: ArraySlice<UInt8>, _ line: SimulatedLine, from side: Int) {
    guard !line.ends[side].hasClosed, !line.ends[side].isBroken else { return }
    line.ends[1 - side].sentCount += bytes.count
    var rest = bytes
    while !rest.isEmpty {
      var count = min(rest.count, settings.segmentMaximum)
      if count > 1, chance(settings.splits) { count = 1 + pick(count - 1) }
      schedule(.bytes(Array(rest.prefix(count))), line, to: 1 - side)
      line.ends[1 - side].underWay += count
      rest = rest.dropFirst(count)
    }
  }

  /// How many bytes the sender may still send: none until a third of its buffer is free, as Linux has it. A slow line would carry single
  /// bytes otherwise.
  func room(_ line: SimulatedLine, from side: Int) -> Int {
    let used = line.ends[1 - side].underWay
    let free = settings.bufferBytes - used
    return free >= used / 2 ? max(0, free) : 0
  }

  /// Closes one direction: this side sends nothing more.
  func close(_ line: SimulatedLine, side: Int) {
    guard !line.ends[side].hasClosed, !line.ends[side].isBroken else { return }
    line.ends[side].hasClosed = true
    schedule(.end, line, to: 1 - side)
  }

  /// Breaks the connection from this side, at once.
  func reset(_ line: SimulatedLine, from side: Int) {
    guard !line.ends[side].isBroken else { return }
    line.ends[side].isBroken = true
    schedule(.reset, line, to: 1 - side)
  }

  // MARK: - Events

  func pick(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
  func chance(_ perMille: Int) -> Bool { perMille > 0 && pick(1000) < perMille }

  private func schedule(_ event: Event, _ line: SimulatedLine, to side: Int) {
    let span = settings.latency.upperBound - settings.latency.lowerBound
    let latency = settings.latency.lowerBound + (span > 0 ? Int64(random.next() % UInt64(span)) : 0)
    var time = max(line.ends[side].lastArrival, now + latency)
    if let bytesPerSecond = settings.bytesPerSecond, case .bytes(let bytes) = event {
      time += Int64(bytes.count) * 1_000_000_000 / bytesPerSecond
    }
    line.ends[side].lastArrival = time
    queue.add((line, side, event), at: time)
  }

  /// Kernels with a socket at either end must check its readiness again.
  func touched(_ line: SimulatedLine) {
    for end in line.ends { if case .socket(let kernel, _) = end.owner { kernel.touched() } }
  }

  private func happen(_ event: Event, _ line: SimulatedLine, _ side: Int) {
    if line.isSilent {
      line.held.append((side, event))
      return
    }
    defer { touched(line) }
    trace?(SimulatedTraceEntry(time: now, line: line.id, port: line.port, isToServer: side == 1, event: event))
    switch event {
    case .connected: side == 1 ? arrived(line) : line.ends[0].connected()
    case .refused(let code): line.ends[0].broken(code)
    case .bytes(let bytes): deliver(bytes, line, side)
    case .end: ended(line, side)
    case .reset: wasReset(line, side)
    }
    if line.isOver { lines.removeAll { $0 === line } }
  }

  private func arrived(_ line: SimulatedLine) {
    switch listeners[line.port] {
    case nil:
      line.ends[1].isBroken = true
      schedule(.refused(SimulatedErrors.refused), line, to: 0)
    case .peer(let peer):
      line.ends[1].owner = .peer(peer)
      schedule(.connected, line, to: 0)
      peer.opened(line.id, now: now)
      act(peer)
    case .socket(let kernel, let fileDescriptor):
      schedule(.connected, line, to: 0)
      kernel.arrived(line, at: fileDescriptor)
    }
  }

  private func deliver(_ bytes: [UInt8], _ line: SimulatedLine, _ side: Int) {
    let end = line.ends[side]
    end.arrivedCount += bytes.count
    guard !end.isBroken, !end.isGone else {
      end.underWay -= bytes.count
      // The end is gone, so the sender gets a reset.
      if !end.isBroken { reset(line, from: side) }
      return
    }
    switch end.owner {
    case .peer(let peer):
      end.underWay -= bytes.count
      peer.received(bytes, on: line.id, now: now)
      act(peer)
    case .socket, .unowned:
      end.received(bytes)
    }
  }

  private func ended(_ line: SimulatedLine, _ side: Int) {
    let end = line.ends[side]
    guard !end.isBroken, !end.hasReceivedEnd else { return }
    end.receivedEnd()
    guard case .peer(let peer) = end.owner else { return }
    peer.ended(line.id, isReset: false, now: now)
    act(peer)
    // A server that hears the end has nothing more to send.
    close(line, side: side)
  }

  private func wasReset(_ line: SimulatedLine, _ side: Int) {
    let end = line.ends[side]
    guard !end.isBroken else { return }
    end.broken(SimulatedErrors.reset)
    guard case .peer(let peer) = end.owner else { return }
    peer.ended(line.id, isReset: true, now: now)
    act(peer)
  }
}

/// One event of the network.
package struct SimulatedTraceEntry {
  package let time: Int64
  package let line: SimulatedConnectionID
  package let port: UInt16
  package let isToServer: Bool
  let event: SimulatedNetwork.Event

  /// The bytes that arrived; empty for other events.
  package var bytes: [UInt8] {
    if case .bytes(let bytes) = event { return bytes }
    return []
  }

  /// The kind of event, in one word.
  package var name: String {
    switch event {
    case .bytes: "bytes"
    case .end: "end"
    case .reset: "reset"
    case .connected: "connect"
    case .refused: "refused"
    }
  }
}
