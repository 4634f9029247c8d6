import PushIO

/// The control port: a small HTTP/1.1 server on loopback, to set faults and read the ledger.
final class ControlServer: ListenerDelegate {
  private let loop: EventLoop
  private let shared: LockedState
  private var listener: Listener?
  private var connections: [ObjectIdentifier: ControlConnection] = [:]
  private(set) var port: UInt16 = 0

  private static let connectionsMaximum = 64

  init(loop: EventLoop, port: UInt16, shared: LockedState) throws(SimulatorError) {
    self.loop = loop
    self.shared = shared
    do throws(LoopError) {
      let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: port, delegate: self)
      self.listener = listener
      self.port = listener.port
    } catch {
      throw SimulatorError("cannot listen on 127.0.0.1:\(port) for the control port: \(error)")
    }
  }

  func close() {
    listener?.close()
    for connection in connections.values { connection.abort() }
    connections.removeAll()
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let connection = ControlConnection(server: self, loop: loop, fileDescriptor: fileDescriptor)
    if connections.count >= ControlServer.connectionsMaximum {
      connection.abort()
    } else {
      connections[ObjectIdentifier(connection)] = connection
    }
  }

  func answer(_ request: ControlRequest) -> ControlResponse {
    shared.withState { [loop] state in
      let time = state.time(loop.now)
      state.service.activities.advance(to: time)
      state.countActivities()
      return ControlAPI.answer(request, &state, now: time)
    }
  }

  func forget(_ connection: ControlConnection) {
    connections[ObjectIdentifier(connection)] = nil
  }
}
