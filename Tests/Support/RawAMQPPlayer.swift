/// A server, real or simulated, that a script of raw AMQP runs against: connections by number, and the events that they receive.
package protocol RawAMQPServer: AnyObject {
  func connect(_ connection: Int)
  func disconnect(_ connection: Int)
  func send(_ bytes: [UInt8], on connection: Int)
  func pass(milliseconds: Int)
  /// All new events, by connection, once they are complete. `expected`: how many lines another
  /// server sent; nil: unknown.
  func hear(expected: [Int]?) -> [[RawAMQPListener.Line]]
}

/// A real server on a port, with blocking sockets.
package final class RawAMQPPort: RawAMQPServer {
  private let port: UInt16
  private var sockets: [RawSocket?]
  private var listeners: [RawAMQPListener]
  private let watch: RawSocket
  private var watchListener = RawAMQPListener()
  /// The longest wait for an expected line.
  private static let patienceMilliseconds = 3000

  /// `queue`: one of its own; its confirms show that the server has stored all earlier commands.
  package init(port: UInt16, connectionCount: Int, queue: String) throws(TestFailure) {
    self.port = port
    sockets = Array(repeating: nil, count: connectionCount)
    listeners = Array(repeating: RawAMQPListener(), count: connectionCount)
    self.queue = queue
    watch = try RawSocket(port: port)
    watch.send(RawAMQP.greeting)
    for (bytes, answer) in [
      (RawAMQP.startOK(), "connection.tune"), (RawAMQP.tuneOK() + RawAMQP.open(), "connection.open-ok"),
      (RawAMQP.openChannel(1) + RawAMQP.selectConfirms(1), "method 85"),
      (
        RawAMQP.declareQueue(
          queue, 1, arguments: [("x-queue-type", .text("quorum")), ("x-max-length", .number(1))]), "queue.declare-ok"
      ),
    ] {
      watch.send(bytes)
      guard heard(answer) else { throw TestFailure("RabbitMQ did not say \(answer)") }
    }
  }

  private let queue: String

  private func heard(_ beginning: String) -> Bool {
    for _ in 0..<300 {
      if watchListener.takeLines().contains(where: { $0.text.hasPrefix(beginning) }) { return true }
      watchListener.take(watch.receive(milliseconds: 10))
    }
    return false
  }

  package func connect(_ connection: Int) {
    listeners[connection] = RawAMQPListener()
    sockets[connection] = try? RawSocket(port: port)
  }

  package func disconnect(_ connection: Int) {
    sockets[connection] = nil
    // The server requeues its deliveries when it notices the loss.
    pass(milliseconds: 60)
    _ = heardBarrier()
  }

  package func send(_ bytes: [UInt8], on connection: Int) { sockets[connection]?.send(bytes) }

  package func pass(milliseconds: Int) {
    // Reads connections while time passes, or the server might block.
    for _ in 0..<max(1, milliseconds / 10) { _ = watch.receive(milliseconds: Int32(min(10, milliseconds))) }
  }

  package func hear(expected: [Int]?) -> [[RawAMQPListener.Line]] {
    var lines = Array(repeating: [RawAMQPListener.Line](), count: sockets.count)
    for connection in sockets.indices {
      var waited = 0
      while let socket = sockets[connection], !socket.isAtEnd,
        lines[connection].count < expected?[connection] ?? 1, waited < RawAMQPPort.patienceMilliseconds
      {
        listeners[connection].take(socket.receive(milliseconds: 20))
        let more = listeners[connection].takeLines()
        if more.isEmpty { waited += 20 }
        lines[connection] += more
      }
    }
    _ = heardBarrier()
    for connection in sockets.indices {
      guard let socket = sockets[connection] else { continue }
      listeners[connection].take(socket.receive(milliseconds: 0))
      lines[connection] += listeners[connection].takeLines()
    }
    return lines
  }

  /// Everything sent to the server before is in its log now.
  private func heardBarrier() -> Bool {
    watch.send(RawAMQP.publish([0], to: "", queue, 1))
    return heard("ack")
  }

  package func forget(channel: UInt16, on connection: Int) { listeners[connection].forget(channel: channel) }
}
