import PushCore
package import PushIO

/// A scripted Redis server on a test's loop. Answers come in the order of the commands: one without an answer
/// blocks all later ones, as in a server that hangs.
package final class ScriptedRedisNode: ListenerDelegate, TransportDelegate {
  /// A connection and the commands that it has not answered.
  private struct Client {
    let transport: Transport
    var waiting: [[String]] = []
  }

  /// The encoded answer to a command; nil: none.
  package var answer: ([String]) -> String? = ScriptedRedisNode.greeted
  /// All received commands, in order.
  package private(set) var commands: [[String]] = []
  package private(set) var port: UInt16 = 0
  private let loop: EventLoop
  private let tls: TLSContext?
  private var listener: Listener?
  private var clients: [Client] = []

  package init(loop: EventLoop, tls: TLSContext? = nil) throws {
    self.loop = loop
    self.tls = tls
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
    self.listener = listener
    port = listener.port
  }

  /// Connections that are open now.
  package var openCount: Int { clients.count }

  package func count(of name: String) -> Int { commands.count { $0.first == name } }

  /// Probes among the `EVALSHA`.
  package var probeCount: Int { commands.count(where: Self.isProbe) }

  /// Whether a store asks by it if admissions would be carried out.
  package static func isProbe(_ command: [String]) -> Bool {
    command.first == "EVALSHA" && command.count > 3 && command[3].contains("probe")
  }

  /// Closes the listener and all connections.
  package func close() {
    listener?.close()
    listener = nil
    for client in clients { client.transport.close() }
  }

  /// Answers waiting commands that have an answer now.
  package func release() {
    for index in clients.indices { answerWaiting(index) }
  }

  /// A server's answers to greetings and probes; none to other commands.
  package static func greeted(_ command: [String]) -> String? {
    switch command.first {
    case "AUTH", "CLIENT", "SELECT", "ASKING": "+OK\r\n"
    case "EVALSHA" where isProbe(command): "+OK\r\n"
    case "PING": "+PONG\r\n"
    case "SCRIPT": "$40\r\n\(String(repeating: "a", count: 40))\r\n"
    case "ROLE": "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
    default: nil
    }
  }

  package func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    clients.append(
      Client(transport: Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: tls, delegate: self)))
  }

  package func transportDidOpen(_ transport: Transport) {}

  package func transportDidReceive(_ transport: Transport) {
    guard let index = clients.firstIndex(where: { $0.transport === transport }) else { return }
    while let command = ScriptedRedisNode.takeCommand(from: transport) {
      commands.append(command)
      clients[index].waiting.append(command)
    }
    answerWaiting(index)
  }

  package func transportDidClose(_ transport: Transport, error: TransportError?) {
    clients.removeAll { $0.transport === transport }
  }

  private func answerWaiting(_ index: Int) {
    while let command = clients[index].waiting.first, let text = answer(command) {
      clients[index].waiting.removeFirst()
      clients[index].transport.outbound.append(text)
      clients[index].transport.setNeedsFlush()
    }
  }

  /// One RESP array of bulk strings; nil: not all of it is there.
  private static func takeCommand(from transport: Transport) -> [String]? {
    var bytes: [UInt8] = []
    transport.inbound.withBytes { span in for index in span.indices { bytes.append(span[index]) } }
    var position = 0
    func number(after marker: Character) -> Int? {
      guard let end = bytes[position...].firstIndex(of: 13), end + 1 < bytes.count, bytes[position] == marker.asciiValue
      else { return nil }
      defer { position = end + 2 }
      return Int(String(decoding: bytes[(position + 1)..<end], as: UTF8.self))
    }
    guard !bytes.isEmpty, let count = number(after: "*") else { return nil }
    var words: [String] = []
    for _ in 0..<count {
      guard position < bytes.count, let length = number(after: "$"), position + length + 2 <= bytes.count else {
        return nil
      }
      words.append(String(decoding: bytes[position..<position + length], as: UTF8.self))
      position += length + 2
    }
    transport.inbound.consume(position)
    return words
  }
}
