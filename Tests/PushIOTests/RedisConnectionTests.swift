import PushCore
import PushIO
import Testing

/// The connection against a scripted server on the same loop: greeting, order, losses, silence, invalid bytes.
@Suite(.timeLimit(.minutes(5)))
struct RedisConnectionTests {
  private let digest = String(repeating: "a", count: 40)

  private func configuration(_ server: ScriptedRedis) -> RedisConfiguration {
    var configuration = RedisConfiguration(address: .network(host: "127.0.0.1", port: server.port))
    configuration.reconnectDelayMinimumMilliseconds = 5
    configuration.reconnectDelayMaximumMilliseconds = 20
    configuration.connectTimeoutMilliseconds = 300
    configuration.silenceTimeoutMilliseconds = 150
    return configuration
  }

  /// Turns the loop until the connection reports something.
  private func next(_ connection: RedisConnection, _ loop: EventLoop, milliseconds: Int64 = 5000) -> RedisEvent? {
    let end = loop.now.monotonic.adding(milliseconds: milliseconds)
    while loop.now.monotonic < end {
      if let event = connection.nextEvent() { return event }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 5)
    }
    return nil
  }

  private func expectReady(_ event: RedisEvent?, _ location: SourceLocation = #_sourceLocation) {
    guard case .ready = event else {
      Issue.record("\(String(describing: event)) instead of ready", sourceLocation: location)
      return
    }
  }

  @Test func greetsThenAnswersInOrder() throws {
    let loop = try EventLoop()
    let server = try ScriptedRedis(loop: loop)
    var settings = configuration(server)
    settings.user = "worker"
    settings.password = "pass word"
    settings.database = 2
    server.answers = [
      "+OK\r\n+OK\r\n-ERR no names here\r\n$40\r\n\(digest)\r\n", ":1\r\n:2\r\n", "*2\r\n$1\r\na\r\n:9\r\n",
    ]
    let connection = RedisConnection(loop: loop, configuration: settings, tls: nil, scripts: ["return 0"], seed: 1)
    #expect(!connection.send(RedisCommand(["PING"]), tag: 1), "not ready yet")
    connection.connect()
    expectReady(next(connection, loop))
    let greeting = "*3\r\n$4\r\nAUTH\r\n$6\r\nworker\r\n$9\r\npass word\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n"
    #expect(server.received.hasPrefix(greeting))
    #expect(server.received.hasSuffix("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 0\r\n"))
    #expect(connection.scriptDigest(0) == Array(digest.utf8))

    #expect(connection.send(RedisCommand(["A"]), tag: 10))
    #expect(connection.send(RedisCommand(["B"]), tag: 11))
    for (tag, value) in [(UInt64(10), Int64(1)), (11, 2)] {
      guard case .reply(tag, let head) = next(connection, loop) else {
        Issue.record("no reply for \(tag)")
        return
      }
      #expect(head.integer == value)
    }
    let id = try #require(connection.request(["HMGET", "x"]))
    guard case .reply(id, let head) = next(connection, loop) else {
      Issue.record("no reply")
      return
    }
    #expect(head.kind == .array && connection.valueCount == 3)
    #expect(connection.copyReply() == .array([.bulk([97]), .integer(9)]))
    #expect(connection.waitingCount == 0)
  }

  @Test func everyWaitingCommandIsReportedOnce() throws {
    let loop = try EventLoop()
    let server = try ScriptedRedis(loop: loop)
    server.answers = ["+OK\r\n", ":1\r\n:2\r\n:", "+OK\r\n", ":5\r\n"]
    server.closesAfter = 2
    let connection = RedisConnection(loop: loop, configuration: configuration(server), tls: nil, seed: 1)
    connection.connect()
    expectReady(next(connection, loop))
    for tag in UInt64(0)..<5 { #expect(connection.send(RedisCommand(["X"]), tag: tag)) }
    var reported: [String] = []
    while reported.count < 7, let event = next(connection, loop) {
      switch event {
      case .reply(let tag, let head): reported.append("\(tag)=\(head.integer)")
      case .lost(let tag): reported.append("lost \(tag)")
      case .disconnected: reported.append("disconnected")
      case .ready: reported.append("ready")
      }
    }
    #expect(reported == ["0=1", "1=2", "lost 2", "lost 3", "lost 4", "disconnected", "ready"])
    #expect(connection.send(RedisCommand(["Y"]), tag: 77))
    guard case .reply(77, let head) = next(connection, loop) else {
      Issue.record("the new connection does not answer")
      return
    }
    #expect(head.integer == 5, "nothing of the old connection reaches the new one")
    #expect(connection.readyCount == 2)
  }

  @Test(arguments: [
    ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "check user and password"),
    ("-NOAUTH Authentication required.\r\n", "set user and password"),
    ("-LOADING Redis is loading the dataset in memory\r\n", "wait until"),
    ("-ERR unknown command 'AUTH', with args beginning with: 'hunter2', \r\n", "unknown command"),
    ("-ERR invalid command: AUTH hunter2\r\n", "***"),
    ("-NOPERM this user has no permissions to run the 'script|load' command\r\n", "allow the ACL user"),
  ])
  func aRefusedGreetingIsTriedAgain(answer: String, advice: String) throws {
    let loop = try EventLoop()
    let server = try ScriptedRedis(loop: loop)
    server.answers = ["+OK\r\n" + answer, "+OK\r\n+OK\r\n$40\r\n\(digest)\r\n"]
    var settings = configuration(server)
    settings.password = "hunter2"
    let connection = RedisConnection(loop: loop, configuration: settings, tls: nil, scripts: ["x"], seed: 1)
    connection.connect()
    // The second step is CLIENT SETNAME, which may be refused; here the first step is refused.
    server.answers[0] = answer
    guard case .disconnected(let error) = next(connection, loop) else {
      Issue.record("not refused")
      return
    }
    #expect(error.description.contains(advice) && error.description.contains("AUTH"))
    #expect(!error.description.contains("hunter2"))
    expectReady(next(connection, loop))
  }

  @Test func silenceIsNotWaitedForForEver() throws {
    let loop = try EventLoop()
    let server = try ScriptedRedis(loop: loop)
    server.answers = ["+OK\r\n", "", "+OK\r\n"]
    let connection = RedisConnection(loop: loop, configuration: configuration(server), tls: nil, seed: 1)
    connection.connect()
    expectReady(next(connection, loop))
    #expect(connection.send(RedisCommand(["X"]), tag: 3))
    guard case .lost(3) = next(connection, loop), case .disconnected(.silent) = next(connection, loop) else {
      Issue.record("a silent server is kept")
      return
    }
    expectReady(next(connection, loop))
  }

  @Test func aSilentGreetingIsGivenUp() throws {
    let loop = try EventLoop()
    let server = try ScriptedRedis(loop: loop)
    server.answers = ["", "+OK\r\n"]
    let connection = RedisConnection(loop: loop, configuration: configuration(server), tls: nil, seed: 1)
    connection.connect()
    guard case .disconnected(.silent) = next(connection, loop) else {
      Issue.record("a silent greeting is waited for")
      return
    }
    expectReady(next(connection, loop))
  }

  @Test(arguments: [":1\r\n:2\r\n", "nonsense\r\n", ":1\r\n*99999999\r\n"])
  func nonsenseEndsTheConnection(answer: String) throws {
    let loop = try EventLoop()
    let server = try ScriptedRedis(loop: loop)
    server.answers = ["+OK\r\n", answer, "+OK\r\n"]
    let connection = RedisConnection(loop: loop, configuration: configuration(server), tls: nil, seed: 1)
    connection.connect()
    expectReady(next(connection, loop))
    #expect(connection.send(RedisCommand(["X"]), tag: 3))
    var reported = 0
    while let event = next(connection, loop) {
      switch event {
      case .reply(3, _), .lost(3): reported += 1
      case .reply, .lost: Issue.record("a tag that was never sent")
      case .ready: Issue.record("ready before the loss was reported")
      case .disconnected(let error):
        #expect(reported == 1)
        guard case .badReply = error else {
          Issue.record("\(error)")
          return
        }
        expectReady(next(connection, loop))
        return
      }
    }
    Issue.record("the connection is kept")
  }

  @Test func aRefusedConnectionIsTriedUntilItSucceeds() throws {
    let loop = try EventLoop()
    let closed = try ScriptedRedis(loop: loop)
    let settings = configuration(closed)
    closed.close()
    let connection = RedisConnection(loop: loop, configuration: settings, tls: nil, seed: 1)
    connection.connect()
    for _ in 0..<3 {
      guard case .disconnected(.unreachable) = next(connection, loop) else {
        Issue.record("not reported")
        return
      }
    }
    #expect(!connection.isReady)
    connection.close()
    #expect(next(connection, loop, milliseconds: 100) == nil)
  }
}

/// Gives scripted answers: one for each batch of bytes, in order.
private final class ScriptedRedis: ListenerDelegate, TransportDelegate {
  var answers: [String] = []
  /// Closes the connection right after this many answers.
  var closesAfter: Int?
  private(set) var received = ""
  private(set) var port: UInt16 = 0
  private let loop: EventLoop
  private var listener: Listener?
  private var transports: [Transport] = []
  private var given = 0

  init(loop: EventLoop) throws {
    self.loop = loop
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
    self.listener = listener
    port = listener.port
  }

  func close() {
    listener?.close()
    listener = nil
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    transports.append(Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: self))
  }

  func transportDidOpen(_ transport: Transport) {}

  func transportDidReceive(_ transport: Transport) {
    received += transport.inbound.withBytes { span in
      var bytes: [UInt8] = []
      for index in span.indices { bytes.append(span[index]) }
      return String(decoding: bytes, as: UTF8.self)
    }
    transport.inbound.removeAll()
    guard given < answers.count else { return }
    transport.outbound.append(answers[given])
    transport.setNeedsFlush()
    given += 1
    if given == closesAfter { transport.close() }
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {}
}
