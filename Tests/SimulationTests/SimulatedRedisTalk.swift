import WorkerSimulation

/// A client of a simulated Redis or Sentinel that reads the replies as text.
final class SimulatedRedisTalk {
  let server: SimulatedRedisFront
  /// The world's clock, nanoseconds.
  var now: Int64
  let connection: SimulatedConnectionID
  /// The server's actions other than sending.
  private(set) var ends: [SimulatedPeerAction] = []

  init(_ server: SimulatedRedisFront, connection: Int = 1, now: Int64 = 0) {
    self.server = server
    self.now = now
    self.connection = SimulatedConnectionID(connection)
    server.opened(self.connection, now: now)
  }

  /// An encoded command.
  static func encode(_ words: [[UInt8]]) -> [UInt8] {
    Array("*\(words.count)\r\n".utf8) + words.flatMap { Array("$\($0.count)\r\n".utf8) + $0 + [13, 10] }
  }

  /// Words separated by spaces.
  static func encode(_ text: String) -> [UInt8] { encode(text.split(separator: " ").map { Array($0.utf8) }) }

  /// Sends commands and returns the immediate replies, separated by spaces.
  @discardableResult
  func say(_ commands: String...) -> String { send(commands.flatMap(Self.encode)) }

  @discardableResult
  func say(_ words: [[UInt8]]) -> String { send(Self.encode(words)) }

  @discardableResult
  func send(_ bytes: [UInt8]) -> String {
    server.received(bytes, on: connection, now: now)
    return heard()
  }

  /// What the server sent to this connection.
  func heard() -> String { Self.text(of: heardBytes()) }

  func heardBytes() -> [UInt8] {
    var bytes: [UInt8] = []
    while let action = server.nextAction() {
      switch action {
      case .send(connection, let part): bytes += part
      case .send: break
      case .close, .reset: ends.append(action)
      }
    }
    return bytes
  }

  static func text(of bytes: [UInt8]) -> String {
    String(decoding: bytes, as: UTF8.self).replacing("\r\n", with: " ").trimmingSuffix()
  }
}

extension String {
  fileprivate func trimmingSuffix() -> String { hasSuffix(" ") ? String(dropLast()) : self }
}
