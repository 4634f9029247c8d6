import TestSupport
import Testing
import WorkerSimulation

/// The simulated RabbitMQ as protocol traces: connections, channels, declarations and errors.
struct SimulatedRabbitMQTests {
  private let trace = RabbitMQTrace()

  @Test func handshake() {
    let client = trace.connect()
    #expect(trace.send(RawAMQP.greeting, on: client) == ["0 connection.start"])
    #expect(trace.send(RawAMQP.startOK(), on: client) == ["0 connection.tune 2047 131072 60"])
    #expect(trace.send(RawAMQP.tuneOK(), on: client) == [])
    #expect(trace.send(RawAMQP.open(), on: client) == ["0 connection.open-ok"])
    #expect(trace.send(RawAMQP.openChannel(1), on: client) == ["1 channel.open-ok"])
    #expect(trace.send(RawAMQP.close, on: client) == ["0 connection.close-ok"])
    #expect(trace.ends[client] == nil, "the client closes the connection")
    trace.disconnect(client, isReset: false)
    #expect(trace.ends[client] == "closed at 0")
  }

  @Test func anotherProtocolIsToldOurs() {
    let client = trace.connect()
    #expect(trace.send(Array("GET / HT".utf8), on: client) == ["0 protocol header"])
    #expect(trace.ends[client] == "closed at 0")
  }

  @Test func aWrongPasswordIsRefused() {
    let client = trace.connect()
    _ = trace.send(RawAMQP.greeting, on: client)
    #expect(
      trace.send(RawAMQP.startOK(password: "other"), on: client) == [
        "0 connection.close 403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
          + "For details see the broker logfile. by 0"
      ])
    trace.pass(4)
    #expect(trace.ends[client] == "closed at 3")
  }

  @Test func anUnknownHostIsNotAllowed() {
    let client = trace.connect()
    _ = trace.send(RawAMQP.greeting + RawAMQP.startOK() + RawAMQP.tuneOK(), on: client)
    #expect(
      trace.send(RawAMQP.open(host: "other"), on: client) == [
        "0 connection.close 530 NOT_ALLOWED - vhost other not found by 655400"
      ])
  }

  @Test(arguments: [(UInt16(3000), UInt32(4096)), (16, 100), (16, 0), (0, 4096)])
  func whatIsNotAgreedOnEndsTheConnection(channels: UInt16, frame: UInt32) {
    let client = trace.connect()
    _ = trace.send(RawAMQP.greeting + RawAMQP.startOK(), on: client)
    #expect(trace.send(RawAMQP.tuneOK(channels: channels, frame: frame), on: client) == [])
    trace.pass(4)
    #expect(trace.ends[client] == "closed at 3")
  }

  @Test func aClientThatOpensNothingIsGivenUp() {
    let client = trace.connect()
    _ = trace.send(RawAMQP.greeting, on: client)
    trace.pass(9.9)
    #expect(trace.ends.isEmpty)
    trace.pass(0.2)
    #expect(trace.ends[client] == "closed at 10")
  }

  @Test func heartbeatsComeTwiceInTheirTimeAndASilentClientIsGivenUp() {
    let client = trace.open(heartbeat: 10)
    trace.pass(10)
    #expect(trace.heard(client) == ["0 heartbeat", "0 heartbeat"])
    for _ in 0..<4 {
      trace.pass(9)
      _ = trace.send(RawAMQP.heartbeat, on: client)
    }
    #expect(trace.ends.isEmpty)
    trace.pass(31)
    #expect(trace.ends[client] != nil)
  }

  // MARK: - Errors

  @Test func errorsOfAChannelCloseItAndNoOther() {
    let client = trace.open(channels: 2)
    #expect(
      trace.send(RawAMQP.declareQueue("none", 2, isPassive: true), on: client) == [
        "2 channel.close 404 NOT_FOUND - no queue 'none' in vhost '/' by 3276810"
      ])
    #expect(trace.send(RawAMQP.qos(3, 2), on: client) == [], "the channel is ignored until close-ok")
    #expect(trace.send(RawAMQP.closeChannelOK(2) + RawAMQP.openChannel(2), on: client) == ["2 channel.open-ok"])
    #expect(
      trace.send(RawAMQP.acknowledge(7, 2), on: client) == [
        "2 channel.close 406 PRECONDITION_FAILED - unknown delivery tag 7 by 3932240"
      ])
    #expect(
      trace.send(RawAMQP.publish([1], to: "none", "", 1), on: client) == [
        "1 channel.close 404 NOT_FOUND - no exchange 'none' in vhost '/' by 3932200"
      ])
    #expect(
      trace.send(RawAMQP.closeChannelOK(1) + RawAMQP.openChannel(1), on: client) == ["1 channel.open-ok"])
    #expect(
      trace.send(RawAMQP.declareQueue("amq.own", 1), on: client) == [
        "1 channel.close 403 ACCESS_REFUSED - queue name 'amq.own' contains reserved prefix 'amq.*' by 3276810"
      ])
  }

  @Test func declarationsAreCompared() {
    let client = trace.open()
    let limited = RabbitMQTrace.quorum + [("x-delivery-limit", .number(20))]
    #expect(
      trace.send(RawAMQP.declareQueue("q", 1, arguments: limited), on: client) == ["1 queue.declare-ok q 0 0"])
    #expect(
      trace.send(RawAMQP.declareQueue("q", 1, arguments: limited), on: client) == ["1 queue.declare-ok q 0 0"])
    let other = RabbitMQTrace.quorum + [("x-delivery-limit", .number(10))]
    #expect(
      trace.send(RawAMQP.declareQueue("q", 1, arguments: other), on: client) == [
        "1 channel.close 406 PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q' in vhost '/': "
          + "received '10' but current is '20' by 3276810"
      ])
    _ = trace.send(RawAMQP.closeChannelOK(1) + RawAMQP.openChannel(1), on: client)
    #expect(
      trace.send(RawAMQP.declareQueue("q", 1, arguments: RabbitMQTrace.quorum), on: client) == [
        "1 channel.close 406 PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q' in vhost '/': "
          + "received none but current is the value '20' of type 'long' by 3276810"
      ])
  }

  @Test func errorsOfAConnectionEndIt() {
    for (bytes, close) in [
      (RawAMQP.frame(9, 1, []), "501 FRAME_ERROR - type 9 on channel 1 by 0"),
      (
        RawAMQP.frame(3, 1, [1]),
        "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead by 0"
      ),
      (RawAMQP.openChannel(1), "504 CHANNEL_ERROR - second 'channel.open' seen by 1310730"),
      (RawAMQP.qos(1, 5), "504 CHANNEL_ERROR - expected 'channel.open' by 0"),
      (RawAMQP.frame(1, 1, [0, 60, 0, 80, 1]), "501 FRAME_ERROR - cannot decode the method's arguments by 3932240"),
      (
        RawAMQP.declareExchange("e", "weird", 1),
        "503 COMMAND_INVALID - unknown exchange type 'weird' by 2621450"
      ),
    ] {
      let client = trace.open()
      let expected =
        close.hasPrefix("504 CHANNEL_ERROR - expected") ? close.replacing(" by 0", with: " by 3932170") : close
      #expect(trace.send(bytes, on: client) == ["0 connection.close \(expected)"])
      #expect(trace.send(RawAMQP.openChannel(3), on: client) == [], "only close-ok is read")
      #expect(trace.send(RawAMQP.closeOK, on: client) == [])
      #expect(trace.ends[client] == "closed at 0")
    }
  }

  @Test func aFrameThatIsTooLargeOrHasNoEndEndsTheConnection() {
    for bytes in [[1, 0, 1, 0, 1, 0, 0], Array(RawAMQP.openChannel(3).dropLast()) + [7]] as [[UInt8]] {
      let client = trace.open()
      let lines = trace.send(bytes, on: client)
      #expect(lines.count == 1 && lines[0].hasPrefix("0 connection.close 501"))
      let start = trace.now / 1_000_000_000
      trace.pass(4)
      #expect(trace.ends[client] == "closed at \(start + 3)")
    }
  }

  @Test func noMoreChannelsThanAgreedOn() {
    let client = trace.open(channels: 16)
    #expect(
      trace.send(RawAMQP.openChannel(17), on: client) == [
        "0 connection.close 530 NOT_ALLOWED - number of channels opened (16) has reached the negotiated channel_max "
          + "(16) by 0"
      ])
  }

  // MARK: - Routing

  @Test func exchangesRouteAsTheirKindSays() {
    let client = trace.open()
    for queue in ["a", "b", "c", "rest"] {
      _ = trace.send(RawAMQP.declareQueue(queue, 1, arguments: RabbitMQTrace.quorum), on: client)
    }
    var bytes = RawAMQP.declareExchange("all", "fanout", 1)
    bytes += RawAMQP.declareExchange("topic", "topic", 1)
    bytes += RawAMQP.declareExchange("direct", "direct", 1, arguments: [("alternate-exchange", .text("all"))])
    bytes += RawAMQP.bind("rest", to: "all", "", 1)
    bytes += RawAMQP.bind("a", to: "direct", "one", 1) + RawAMQP.bind("a", to: "direct", "two", 1)
    bytes += RawAMQP.bind("a", to: "topic", "x.*", 1) + RawAMQP.bind("b", to: "topic", "x.#", 1)
    bytes += RawAMQP.bind("c", to: "topic", "#", 1)
    #expect(trace.send(bytes, on: client).count == 9)
    for (exchange, key, queues) in [
      ("direct", "one", ["a"]), ("direct", "two", ["a"]), ("direct", "none", ["rest"]), ("all", "any", ["rest"]),
      ("", "b", ["b"]), ("topic", "x", ["b", "c"]), ("topic", "x.y", ["a", "b", "c"]),
      ("topic", "x.y.z", ["b", "c"]), ("topic", "", ["c"]),
    ] {
      _ = trace.takeEvents()
      _ = trace.send(RawAMQP.publish([1], to: exchange, key, 1), on: client)
      let stored = trace.takeEvents().filter { $0.hasPrefix("stored") }.compactMap { $0.split(separator: " ").last }
      #expect(stored.map(String.init).sorted() == queues, "\(exchange)/\(key)")
    }
    #expect(
      trace.send(RawAMQP.publish(Array("m".utf8), to: "", "nowhere", 1, isMandatory: true), on: client) == [
        "1 basic.return 312 NO_ROUTE  nowhere 12:2 'm'", "1 ack of 10",
      ])
  }

  @Test func aStreamTakesPublishesAndConfirms() {
    let client = trace.open()
    let stream: RawAMQP.Arguments = [("x-queue-type", .text("stream")), ("x-max-age", .text("7D"))]
    _ = trace.send(RawAMQP.declareQueue("s", 1, arguments: stream), on: client)
    #expect(trace.send(RawAMQP.publish([1], to: "", "s", 1), on: client) == ["1 ack of 1"])
    #expect(trace.server.readyMessages(in: "s").count == 1)
  }

  // MARK: - Bytes

  /// The answers do not depend on how the bytes are split, even for hostile bytes.
  @Test func anyPartsOfTheBytesGiveTheSame() {
    var script = RawAMQP.greeting + RawAMQP.startOK() + RawAMQP.tuneOK() + RawAMQP.open() + RawAMQP.openChannel(1)
    script += RawAMQP.selectConfirms(1) + RawAMQP.declareQueue("q", 1, arguments: RabbitMQTrace.quorum)
    for index in 0..<20 { script += RawAMQP.publish([UInt8](repeating: 65, count: index * 400), to: "", "q", 1) }
    script += RawAMQP.consume("q", tag: "c", 1) + RawAMQP.acknowledge(5, 1, isMultiple: true)
    script += RawAMQP.nack(9, 1) + RawAMQP.publish([1], to: "", "nowhere", 1, isMandatory: true)
    for seed in UInt64(0)..<60 {
      var random = TestRandom(seed: seed)
      var bytes = script
      // After the first few, something is broken.
      if seed >= 10 {
        for _ in 0...seed % 4 {
          bytes[8 + Int(random.next() % UInt64(bytes.count - 8))] = UInt8(truncatingIfNeeded: random.next())
        }
      }
      let whole = RabbitMQTrace(seed: seed)
      let client = whole.connect()
      whole.server.received(bytes, on: client, now: 0)
      let parts = RabbitMQTrace(seed: seed)
      let other = parts.connect()
      var start = 0
      while start < bytes.count {
        let count = min(bytes.count - start, 1 + Int(random.next() % 90))
        parts.server.received(Array(bytes[start..<start + count]), on: other, now: 0)
        start += count
      }
      #expect(whole.heard(client) == parts.heard(other), "seed \(seed)")
      #expect(whole.events == parts.events, "seed \(seed)")
      whole.pass(40)
      parts.pass(40)
      #expect(whole.ends == parts.ends)
    }
  }
}

private struct TestRandom {
  private var state: UInt64
  init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }
  mutating func next() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state
  }
}
