import TestSupport
import Testing
import WorkerSimulation

/// Random scripts of client operations, run against the simulated RabbitMQ and a real one: both must answer the same.
///
/// Declarations of eight kinds of queues, publishes with and without confirms, mandatory ones, returns, consumers, every way to
/// settle, limits, expiry, dead letters, purges, closed channels, lost connections, and errors. In every second script the
/// simulated one receives split bytes.
@Suite(.timeLimit(.minutes(3)))
struct SimulatedRabbitMQDifferentialTests {
  /// Some differed once:
  /// - 228601861: a consumer of a classic queue was cancelled and came again with its tag, while it held messages.
  /// - 69168905: a channel that held an expired message of a classic queue ended with an error.
  /// - 656326977: a consumer of a quorum queue that never acknowledges had its turn again before other messages of the same publish.
  /// - 987629451: a dead letter and a message that was given back came to a queue in an undefined order.
  /// - 651149748: a message came to a queue of the simulated server that did not know its lifetime yet.
  private static let seeds: [UInt64] = [1, 2, 3, 4, 228_601_861, 69_168_905, 656_326_977, 987_629_451, 651_149_748]
  private static let freshCount: UInt64 = 4
  private static let stepCount = 60

  @Test func aRealServerSaysTheSame() throws {
    let port = try RabbitMQServer.shared().port
    var lineCount = 0
    // The same scripts every time, and fresh ones.
    let fresh = UInt64.random(in: 1_000_000..<1_000_000_000)
    for (index, seed) in (Self.seeds + (0..<Self.freshCount).map { fresh + $0 }).enumerated() {
      var script = try SimulatedRabbitMQScript(
        seed: seed, prefix: "differential.\(seed)", port: port, splits: index % 2 == 0)
      script.play(steps: Self.stepCount)
      lineCount += script.lineCount
      if let difference = script.difference {
        Issue.record("seed \(seed): \(script.trace.suffix(30).joined(separator: "\n"))\n\(difference)")
        return
      }
    }
    // Something was compared.
    #expect(lineCount > 1000)
  }

  /// A server's answer to one mistake, on a connection with one channel and a queue.
  @Test func whatIsWrongIsAnsweredAlike() throws {
    let quorum: RawAMQP.Arguments = [("x-queue-type", .text("quorum"))]
    let publish = RawAMQP.method(0x003C_0028, 1, [0, 0, 0] + RawAMQP.short("q") + [0])
    let wrong: [[UInt8]] = [
      RawAMQP.method(0x003C_0063, 1), RawAMQP.frame(1, 1, [0, 60, 0, 80, 1]), RawAMQP.frame(9, 1, []),
      RawAMQP.frame(8, 1, []), RawAMQP.frame(2, 1, [UInt8](repeating: 0, count: 14)), RawAMQP.frame(3, 1, [1]),
      RawAMQP.qos(1, 5), Array(RawAMQP.openChannel(3).dropLast()) + [7], [1, 0, 1, 0, 1, 0, 0],
      RawAMQP.declareExchange("e", "weird", 1),
      publish + RawAMQP.frame(2, 1, [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 99]),
      publish + RawAMQP.frame(2, 1, [0, 61, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), publish + RawAMQP.heartbeat + publish,
      RawAMQP.method(0x0014_0029, 1), RawAMQP.method(0x0014_0015, 1, [1]), RawAMQP.close,
      RawAMQP.declareQueue("t", 1, arguments: [("x-queue-type", .text("odd"))]),
      RawAMQP.declareQueue("t", 1, arguments: quorum + [("x-max-priority", .number(3))]),
      RawAMQP.declareQueue("t", 1, arguments: quorum + [("x-message-ttl", .number(-3))]),
      RawAMQP.declareQueue("t", 1, arguments: quorum + [("x-message-ttl", .text("1"))]),
      RawAMQP.declareQueue("t", 1, arguments: quorum + [("x-overflow", .text("odd"))]),
      RawAMQP.declareQueue("t", 1, arguments: quorum + [("x-dead-letter-routing-key", .text("odd"))]),
      RawAMQP.declareExchange("amq.own", "direct", 1), RawAMQP.declareExchange("", "direct", 1, isPassive: true),
      RawAMQP.deleteExchange("amq.topic", 1), RawAMQP.bind("none", to: "amq.topic", "k", 1),
      RawAMQP.purge("none", 1), RawAMQP.deleteQueue("none", 1), RawAMQP.cancel(tag: "none", 1),
    ]
    let server = try RabbitMQServer.shared()
    let real = try RawAMQPPort(port: server.port, connectionCount: 1, queue: "wrong.barrier")
    let simulated = SimulatedRabbitMQPlayer(seed: 1, connectionCount: 1, splits: false)
    for (index, bytes) in wrong.enumerated() {
      var answers: [[String]] = []
      var expected: [Int]?
      for server in [simulated, real] as [any RawAMQPServer] {
        server.connect(0)
        for (bytes, count) in [
          (RawAMQP.greeting, 1), (RawAMQP.startOK(), 1),
          (RawAMQP.tuneOK() + RawAMQP.open() + RawAMQP.openChannel(1), 2),
        ] {
          server.send(bytes, on: 0)
          _ = server.hear(expected: [count])
        }
        server.send(bytes, on: 0)
        let heard = server.hear(expected: expected)
        expected = heard.map(\.count)
        // The text in between contains bytes, which differ.
        answers.append(
          heard[0].map { line in
            let words = line.text.split(separator: " ")
            return "\(line.channel) \(words.prefix(3)) \(words.suffix(2))"
          })
        server.disconnect(0)
      }
      #expect(answers[0] == answers[1], "number \(index)")
    }
  }

  /// A channel that the server closed receives messages until the client answers, and keeps its deliveries until then.
  @Test func aClosingChannelIsGivenMessagesStill() throws {
    let port = try RabbitMQServer.shared().port
    let real = try RawAMQPPort(port: port, connectionCount: 2, queue: "closing.barrier")
    let simulated = SimulatedRabbitMQPlayer(seed: 1, connectionCount: 2, splits: false)
    // RabbitMQ answers for each channel in its own time, so one is opened after the other.
    let opening = RawAMQP.tuneOK() + RawAMQP.open() + RawAMQP.openChannel(1)
    let declaration = RawAMQP.declareQueue("closing", 1, arguments: [("x-queue-type", .text("quorum"))])
    let steps: [(Int, [UInt8])] = [
      (0, RawAMQP.startOK()), (1, RawAMQP.startOK()), (0, opening), (1, opening),
      (0, RawAMQP.openChannel(2)), (1, RawAMQP.openChannel(2)), (0, declaration),
      (0, RawAMQP.consume("closing", tag: "c", 2)), (1, RawAMQP.publish([65], to: "", "closing", 1)),
      (0, RawAMQP.acknowledge(77, 2)), (1, RawAMQP.publish([66], to: "", "closing", 1)),
      (1, RawAMQP.declareQueue("closing", 1, isPassive: true)),
      (0, RawAMQP.closeChannelOK(2) + RawAMQP.declareQueue("closing", 1, isPassive: true)),
    ]
    for server in [simulated, real] as [any RawAMQPServer] {
      for connection in 0...1 {
        server.connect(connection)
        server.send(RawAMQP.greeting, on: connection)
        _ = server.hear(expected: connection == 0 ? [1, 0] : [0, 1])
      }
    }
    for (connection, bytes) in steps {
      simulated.send(bytes, on: connection)
      let expected = simulated.hear(expected: nil)
      real.send(bytes, on: connection)
      let heard = real.hear(expected: expected.map(\.count))
      guard bytes != steps.last?.1 else { continue }
      #expect(heard == expected)
    }
    simulated.send(declaration, on: 1)
    real.pass(milliseconds: 200)
    real.send(declaration, on: 1)
    let expected = simulated.hear(expected: nil)
    #expect(expected[1].map(\.text) == ["queue.declare-ok closing 2 0"])
    #expect(real.hear(expected: expected.map(\.count)) == expected)
  }

  /// A full queue refuses until it is well below its limit; a message that is returned too often frees two credits.
  @Test func limitsAreAlike() throws {
    let port = try RabbitMQServer.shared().port
    let real = try RawAMQPPort(port: port, connectionCount: 1, queue: "limits.barrier")
    let simulated = SimulatedRabbitMQPlayer(seed: 1, connectionCount: 1, splits: false)
    let full: RawAMQP.Arguments = [
      ("x-queue-type", .text("quorum")), ("x-max-length", .number(5)), ("x-overflow", .text("reject-publish")),
    ]
    let limited: RawAMQP.Arguments = [("x-queue-type", .text("quorum")), ("x-delivery-limit", .number(1))]
    var steps = [
      RawAMQP.greeting, RawAMQP.startOK(), RawAMQP.tuneOK() + RawAMQP.open(),
      RawAMQP.openChannel(1) + RawAMQP.selectConfirms(1) + RawAMQP.openChannel(2) + RawAMQP.qos(1, 2),
      RawAMQP.declareQueue("limits.full", 1, arguments: full),
      RawAMQP.declareQueue("limits.few", 1, arguments: limited),
    ]
    func publish(_ queue: String, _ count: Int) {
      for index in 0..<count { steps.append(RawAMQP.publish([65 + UInt8(index)], to: "", queue, 1)) }
    }
    publish("limits.full", 8)
    steps.append(RawAMQP.consume("limits.full", tag: "c", 2))
    for tag in UInt64(1)...4 {
      publish("limits.full", 1)
      steps.append(RawAMQP.acknowledge(tag, 2) + RawAMQP.declareQueue("limits.few", 2, isPassive: true))
    }
    publish("limits.few", 5)
    steps.append(RawAMQP.closeChannel(2))
    steps.append(RawAMQP.openChannel(2) + RawAMQP.qos(1, 2))
    steps.append(RawAMQP.consume("limits.few", tag: "d", 2))
    for tag in UInt64(1)...3 {
      steps.append(RawAMQP.nack(tag, 2) + RawAMQP.declareQueue("limits.full", 2, isPassive: true))
    }
    simulated.connect(0)
    real.connect(0)
    for (index, bytes) in steps.enumerated() {
      simulated.send(bytes, on: 0)
      let expected = simulated.hear(expected: nil)[0].map { "\($0.channel) \($0.text)" }
      real.send(bytes, on: 0)
      let heard = real.hear(expected: [expected.count])[0].map { "\($0.channel) \($0.text)" }
      #expect(heard.sorted() == expected.sorted(), "step \(index)")
    }
  }
}
