import PushCore
import PushIO

/// The simulator's thread: its loop, ports and connections. A turn takes the state's lock once and lets every connection handle its events.
final class SimulatorEngine: ListenerDelegate, LoopWork {
  let loop: EventLoop
  private let options: SimulatorOptions
  private let security: SimulatorSecurity
  private let shared: LockedState
  private(set) var ports = SimulatorPorts(port: 0)
  private var sendListener: Listener?
  private var manageListener: Listener?
  private var control: ControlServer?
  private var connections: [SimulatedConnection] = []
  /// Sockets whose handshake is delayed, by descriptor.
  private var heldBack: [Int32: SimulatedService.Endpoint] = [:]
  private let responder: Responder
  /// Delivers the devices' registrations.
  private let sender: (any RegistrationSender)?
  /// Fires when the next event of a device is due.
  private var dueMilliseconds = SimulatorEngine.waitMillisecondsMaximum
  private var hasBegun = false
  /// The settings for connections, as of the last turn.
  private var connectionFaults = ConnectionFaults()

  /// Connections that a fault refused TLS.
  private var handshakesRefused = 0

  private static let waitMillisecondsMaximum = 1000
  /// Longer than a transport takes to close.
  private static let lingerMilliseconds: Int64 = 3000

  init(
    loop: EventLoop, options: SimulatorOptions, security: SimulatorSecurity, shared: LockedState
  ) throws(SimulatorError) {
    self.loop = loop
    self.options = options
    self.security = security
    self.shared = shared
    responder = Responder()
    sender = options.registrations?.makeSender(on: loop)
    sendListener = try listen(options.port, "notifications")
    ports.port = sendListener?.port ?? 0
    if let port = options.managePort {
      manageListener = try listen(port, "channel management")
      ports.managePort = manageListener?.port
    }
    if let port = options.controlPort {
      let control = try ControlServer(loop: loop, port: port, shared: shared)
      self.control = control
      ports.controlPort = control.port
    }
    ports.authorityFile = security.authorityFile
    ports.authorityPEM = security.authorityPEM
  }

  func run(until flag: StopFlag) {
    while !flag.isRaised, turn() {}
    end()
  }

  var waitMilliseconds: Int { hasBegun ? dueMilliseconds : 0 }

  func turn() -> Bool {
    // Faults that are set from the start apply to the first connection too.
    if !hasBegun { look() }
    hasBegun = true
    loop.poll(maximumWaitMilliseconds: dueMilliseconds)
    look()
    loop.flush()
    return true
  }

  private func look() {
    shared.withState { state in
      applyFaults(state.plan.connection)
      let actions = state.pendingActions
      state.pendingActions = []
      for action in actions { act(action, &state) }
      let now = loop.now
      responder.tell(unixSeconds: state.time(now).unixSeconds)
      var hasClosed = false
      for connection in connections {
        connection.turn(&state, responder, now: now)
        hasClosed = hasClosed || connection.isClosed
      }
      if hasClosed { forgetClosed() }
      playDevices(&state)
    }
  }

  /// Runs due events of devices, and sends their registrations.
  private func playDevices(_ state: inout SimulatorState) {
    let time = state.time(loop.now)
    state.service.activities.advance(to: time)
    for registration in state.service.activities.takeRegistrations() { sender?.send(registration.bytes) }
    sender?.turn()
    if let sender { state.registrationProgress = sender.progress }
    state.countActivities()
    dueMilliseconds = Int(
      min(
        Int64(SimulatorEngine.waitMillisecondsMaximum),
        state.service.activities.waitMilliseconds(now: time) ?? Int64(SimulatorEngine.waitMillisecondsMaximum)))
  }

  /// A closed connection's session has ended, but its last bytes may still have to be written: it is retained for a while.
  private func forgetClosed() {
    for connection in connections where connection.isClosed {
      loop.schedule(afterMilliseconds: SimulatorEngine.lingerMilliseconds) { withExtendedLifetime(connection) {} }
    }
    connections.removeAll { $0.isClosed }
  }

  private func end() {
    sendListener?.close()
    manageListener?.close()
    control?.close()
    sender?.close()
    for (descriptor, endpoint) in heldBack { adopt(descriptor, endpoint) }
    for connection in connections { connection.abort() }
    // Records in the ledger how each connection ended.
    loop.poll(maximumWaitMilliseconds: 0)
    look()
    loop.flush()
  }

  // MARK: - Connections

  private func listen(_ port: UInt16, _ purpose: String) throws(SimulatorError) -> Listener {
    do throws(LoopError) {
      return try Listener.listen(loop: loop, host: options.host, port: port, delegate: self)
    } catch {
      throw SimulatorError("cannot listen on \(options.host):\(port) for \(purpose): \(error)")
    }
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let endpoint: SimulatedService.Endpoint = listener === manageListener ? .manage : .send
    // A fault that was set before the client connected applies to it, even if both are seen in one turn.
    shared.withState { applyFaults($0.plan.connection) }
    if connectionFaults.failsHandshakes {
      refuseHandshake(fileDescriptor)
      return
    }
    let delay = connectionFaults.handshakeDelayMilliseconds
    guard delay > 0 else {
      adopt(fileDescriptor, endpoint)
      return
    }
    heldBack[fileDescriptor] = endpoint
    loop.schedule(afterMilliseconds: delay) { [weak self] in
      guard let self, let endpoint = self.heldBack.removeValue(forKey: fileDescriptor) else { return }
      self.adopt(fileDescriptor, endpoint)
    }
  }

  /// Answers everything with something that is not TLS.
  private func refuseHandshake(_ fileDescriptor: Int32) {
    handshakesRefused += 1
    shared.withState { [handshakesRefused] in $0.ledger.handshakesRefused = handshakesRefused }
    let refusal = TLSRefusal()
    let transport = Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: refusal)
    // Retained for a while: a transport does not retain its delegate.
    loop.schedule(afterMilliseconds: SimulatorEngine.lingerMilliseconds) {
      withExtendedLifetime((refusal, transport)) {}
    }
  }

  private func adopt(_ fileDescriptor: Int32, _ endpoint: SimulatedService.Endpoint) {
    var settings = HTTP2ServerSettings()
    settings.maximumStreams = options.startsWithOneStream && !options.isFast ? 1 : options.maximumStreams
    settings.acknowledgesPings = !connectionFaults.ignoresPings
    let http = HTTP2ServerConnection.adopt(
      loop: loop, fileDescriptor: fileDescriptor, tls: security.context, settings: settings)
    let connection = SimulatedConnection(http: http, endpoint: endpoint, loop: loop, options: options)
    connection.apply(connectionFaults)
    connections.append(connection)
  }

  // MARK: - Faults of whole connections

  private func applyFaults(_ faults: ConnectionFaults) {
    if faults.refusesConnections { stopListening() } else { listenAgain() }
    guard faults != connectionFaults else { return }
    connectionFaults = faults
    for connection in connections { connection.apply(faults) }
  }

  private func stopListening() {
    sendListener?.close()
    manageListener?.close()
    sendListener = nil
    manageListener = nil
  }

  /// While nobody listened, another process may have taken a port, even with a connection of its own: then each turn tries again.
  private func listenAgain() {
    if sendListener == nil { sendListener = try? listen(ports.port, "notifications") }
    if let port = ports.managePort, manageListener == nil { manageListener = try? listen(port, "channel management") }
  }

  private func act(_ action: SimulatorAction, _ state: inout SimulatorState) {
    switch action {
    case .goAway(let goAway):
      for connection in connections { connection.goAway(goAway, at: nil) }
    case .dropConnections:
      for connection in connections { connection.abort() }
    case .changeStreamLimits(let limits):
      for connection in connections { connection.changeStreamLimits(limits) }
    case .shutdown:
      for connection in connections {
        connection.goAway(FaultEffect.GoAway(last: .this, code: 0, reason: "Shutdown"), at: nil)
      }
      if let rule = try? FaultRule("status=503,reason=Shutdown") { state.plan.add(rule) }
    case .swipe(let activity, let device):
      _ = state.service.activities.swipe(activity: activity, device: device, now: state.time(loop.now))
    case .revoke(let key):
      state.service.tokens.revoke(key: key)
      for connection in connections where connection.identity.key == key { connection.close() }
    }
  }
}
