import PushCore
import Testing

@testable import PushIO

/// A connection against a broker that a test scripts, over a socket pair.
struct AMQPConnectionTests {
  @Test func handshakeOnTheWire() throws {
    let broker = try AMQPScriptedBroker()
    broker.turn()
    #expect(broker.received() == Array("AMQP".utf8) + [0, 0, 9, 1])
    broker.send(AMQPFrames.start)
    broker.turn()
    let startOK = broker.received()
    #expect(Array(startOK[7..<11]) == [0, 10, 0, 11])
    let text = String(decoding: startOK, as: UTF8.self)
    for word in [
      "consumer_cancel_notify", "connection.blocked", "publisher_confirms", "basic.nack",
      "authentication_failure_close", "connection_name", "test", "PLAIN", "\0user\0password",
    ] {
      #expect(text.contains(word), "\(word) is missing")
    }
    broker.send(AMQPFrames.tune)
    broker.turn()
    let answer = broker.received()
    #expect(
      answer.starts(
        with: AMQPFrames.method(
          0x000A_001F, AMQPFrames.big(UInt16(4)) + AMQPFrames.big(UInt32(131_072)) + AMQPFrames.big(UInt16(7)),
          channel: 0)))
    broker.send(AMQPFrames.openOK)
    #expect(broker.events() == [.opened])
    #expect(broker.connection.server == "RabbitMQ 3.10.8")
  }

  @Test func deliveryInOnePieceAndInMany() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    let body = Array("{\"a\":1}".utf8)
    let bytes =
      AMQPFrames.deliver(1) + AMQPFrames.header(size: body.count, flags: 0x0080, properties: AMQPFrames.short("id-1"))
      + AMQPFrames.body(body)
    for pieces in [bytes.count, 1, 3, 40] {
      var seen = 0
      var offset = 0
      while offset < bytes.count {
        let count = min(pieces, bytes.count - offset)
        broker.send(Array(bytes[offset..<offset + count]))
        offset += count
        broker.loop.poll(maximumWaitMilliseconds: 5)
        while let event = broker.connection.nextEvent() {
          #expect(
            event
              == .delivery(
                AMQPDelivery(channel: 1, tag: 1, isRedelivered: false, bodyCount: body.count, isOversized: false)))
          var copy: [UInt8] = [9]
          var metadata = MessageMetadata()
          broker.connection.copyBody(into: &copy)
          broker.connection.copyMetadata(into: &metadata)
          #expect(copy == body)
          #expect(Array(metadata.bytes[metadata.messageID.range]) == Array("id-1".utf8))
          seen += 1
        }
      }
      #expect(seen == 1)
    }
  }

  /// A shovel copies all headers of a message, so a first delivery may have another message's count.
  @Test func aDeliveryCountIsTheQueuesOnlyIfItDeliveredBefore() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    let table = AMQPFrames.short("x-delivery-count") + [UInt8(ascii: "l")] + AMQPFrames.big(Int64(19))
    let content = AMQPFrames.header(size: 1, flags: 0x2000, properties: AMQPFrames.long(table)) + AMQPFrames.body([1])
    let bytes =
      AMQPFrames.deliver(1) + content + AMQPFrames.deliver(2, isRedelivered: true) + content + AMQPFrames.deliver(3)
      + content
    for piece in [bytes.count, 7] {
      var counts: [UInt32] = []
      for start in stride(from: 0, to: bytes.count, by: piece) {
        broker.send(Array(bytes[start..<min(start + piece, bytes.count)]))
        _ = broker.eventsWithoutDeliveries()
        broker.turn { event in
          guard case .delivery = event else { return }
          var metadata = MessageMetadata()
          broker.connection.copyMetadata(into: &metadata)
          counts.append(metadata.deliveryCount)
        }
      }
      #expect(counts == [0, 19, 0])
    }
  }

  @Test func bodiesOfManyFramesEmptyAndTooLarge() throws {
    var options = AMQPOptions()
    options.bodyBytesMaximum = 10
    let broker = try AMQPScriptedBroker(options: options)
    broker.open()
    broker.send(
      AMQPFrames.deliver(1) + AMQPFrames.header(size: 9) + AMQPFrames.body([1, 2, 3]) + AMQPFrames.heartbeat
        + AMQPFrames.body([4, 5]) + AMQPFrames.body([6, 7, 8, 9])
        + AMQPFrames.deliver(2) + AMQPFrames.header(size: 0)
        + AMQPFrames.deliver(3) + AMQPFrames.header(size: 11) + AMQPFrames.body([UInt8](repeating: 7, count: 11)))
    var bodies: [[UInt8]] = []
    var oversized: [Bool] = []
    broker.turn { event in
      guard case .delivery(let delivery) = event else { return }
      var copy: [UInt8] = []
      broker.connection.copyBody(into: &copy)
      bodies.append(copy)
      oversized.append(delivery.isOversized)
    }
    #expect(bodies == [[1, 2, 3, 4, 5, 6, 7, 8, 9], [], []])
    #expect(oversized == [false, false, true])
  }

  /// channel.flow is answered behind what was published before it. A stopped channel that is closed stops nothing any more.
  @Test func channelFlow_isAnswered_andStopsPublishing() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    _ = broker.received()
    func flow(_ isActive: Bool) -> [UInt8] { AMQPFrames.method(0x0014_0014, [isActive ? 1 : 0]) }
    func flowOK(_ isActive: Bool) -> [UInt8] { AMQPFrames.method(0x0014_0015, [isActive ? 1 : 0]) }
    broker.connection.publish(
      to: AMQPExchange("", isMandatory: false), channel: 1, routingKey: "q".utf8.span, properties: AMQPProperties(),
      body: "job".utf8.span)
    broker.send(flow(false) + AMQPFrames.ack(1))
    #expect(broker.events() == [.blocked, .confirmed(channel: 1, sequence: 1, isMultiple: false)])
    #expect(broker.connection.blockedReason == "channel.flow on channel 1")
    let sent = broker.received()
    #expect(Array(sent[7..<11]) == [0, 60, 0, 40], "the publish")
    #expect(Array(sent.suffix(flowOK(false).count)) == flowOK(false))
    broker.send(flow(true))
    #expect(broker.events() == [.unblocked])
    #expect(broker.received() == flowOK(true) && broker.connection.blockedReason == nil)

    broker.send(flow(false))
    #expect(broker.events() == [.blocked])
    let close = broker.connection.request(.closeChannel, channel: 1)
    #expect(broker.connection.blockedReason == nil)
    #expect(broker.events() == [.unblocked])
    broker.send(AMQPFrames.method(0x0014_0029))
    #expect(broker.events() == [.completed(channel: 1, operation: close, reply: AMQPReply())])
  }

  /// While no delivery is wanted, everything before it is reported; the delivery and all that follows stay, in order.
  @Test func deliveriesThatAreNotWantedStayWhereTheyAre() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    for sequence in 1...2 {
      let number = broker.connection.publish(
        to: AMQPExchange("e", isMandatory: false), channel: 1, routingKey: Span(), properties: AMQPProperties(),
        body: [1].span)
      #expect(number == UInt64(sequence))
    }
    broker.send(
      AMQPFrames.ack(1) + AMQPFrames.deliver(1) + AMQPFrames.header(size: 2) + AMQPFrames.body([1, 2])
        + AMQPFrames.heartbeat + AMQPFrames.ack(2) + AMQPFrames.deliver(2) + AMQPFrames.header(size: 2))
    #expect(broker.eventsWithoutDeliveries() == [.confirmed(channel: 1, sequence: 1, isMultiple: false)])
    // The rest of the second comes while the first waits, and then the peer closes.
    broker.send(AMQPFrames.body([3]) + AMQPFrames.body([4]))
    broker.hangUp()
    #expect(broker.eventsWithoutDeliveries() == [])
    var bodies: [[UInt8]] = []
    var events: [AMQPEvent] = []
    broker.turn { event in
      events.append(event)
      guard case .delivery = event else { return }
      var body: [UInt8] = []
      broker.connection.copyBody(into: &body)
      bodies.append(body)
    }
    func delivery(_ tag: UInt64) -> AMQPEvent {
      .delivery(AMQPDelivery(channel: 1, tag: tag, isRedelivered: false, bodyCount: 2, isOversized: false))
    }
    #expect(
      events == [delivery(1), .confirmed(channel: 1, sequence: 2, isMultiple: false), delivery(2), .closed])
    #expect(bodies == [[1, 2], [3, 4]])
  }

  /// A delivery that came in pieces is kept like one that came whole, and stays readable.
  @Test func aCollectedDeliveryIsKept() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    broker.send(AMQPFrames.deliver(7) + AMQPFrames.header(size: 4) + AMQPFrames.body([1, 2]))
    #expect(broker.eventsWithoutDeliveries() == [])
    broker.send(AMQPFrames.body([3, 4]) + AMQPFrames.deliver(8) + AMQPFrames.header(size: 1) + AMQPFrames.body([5]))
    #expect(broker.eventsWithoutDeliveries() == [])
    #expect(broker.eventsWithoutDeliveries() == [])
    var bodies: [[UInt8]] = []
    broker.turn { _ in
      var body: [UInt8] = []
      broker.connection.copyBody(into: &body)
      bodies.append(body)
    }
    #expect(bodies == [[1, 2, 3, 4], [5]])
  }

  @Test func aGoodbyeForgetsTheDeliveryThatWasKept() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    broker.send(AMQPFrames.deliver(1) + AMQPFrames.header(size: 1) + AMQPFrames.body([1]))
    #expect(broker.eventsWithoutDeliveries() == [])
    broker.connection.close()
    broker.send(
      AMQPFrames.deliver(2) + AMQPFrames.header(size: 1) + AMQPFrames.body([2])
        + AMQPFrames.method(0x000A_0033, channel: 0))
    #expect(broker.eventsWithoutDeliveries() == [.closed])
  }

  @Test func publishOnTheWire() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    _ = broker.received()
    let properties = AMQPProperties()
    properties.setMessageID(UUIDValue(high: 0x8C1F_6F0E_3A57_4D0C, low: 0x9F0E_2F3F_6D1C_7A11))
    properties.setType("push.outcome.v1")
    properties.setTimestamp(unixMilliseconds: 1_796_000_000_999)
    properties.addHeader("x-herald-attempts", 3)
    let exchange = AMQPExchange("push.results", isMandatory: true)
    let sequence = broker.connection.publish(
      to: exchange, channel: 1, routingKey: "accepted".utf8.span, properties: properties, body: [1, 2, 3].span)
    #expect(sequence == 1)
    let headers =
      AMQPFrames.short("x-herald-attempts") + [UInt8(ascii: "l")] + AMQPFrames.big(UInt64(3))
    let expected =
      AMQPFrames.method(
        0x003C_0028, [0, 0] + AMQPFrames.short("push.results") + AMQPFrames.short("accepted") + [1])
      + AMQPFrames.header(
        size: 3, flags: 0xB0E0,
        properties: AMQPFrames.short("application/json") + AMQPFrames.long(headers) + [2]
          + AMQPFrames.short("8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11") + AMQPFrames.big(UInt64(1_796_000_000))
          + AMQPFrames.short("push.outcome.v1")) + AMQPFrames.body([1, 2, 3])
    #expect(broker.received() == expected)
    broker.send(AMQPFrames.ack(1))
    #expect(broker.events() == [.confirmed(channel: 1, sequence: 1, isMultiple: false)])
  }

  /// As with Redis: TLS without a context is a mistake of the caller, and nothing is sent in clear text.
  @Test func tlsWithoutAContextIsAMistake() async {
    await #expect(processExitsWith: .failure) {
      let loop = try EventLoop()
      AMQPConnection(loop: loop, address: try AMQPAddress("amqps://127.0.0.1:1"), name: "test").connect(tls: nil)
    }
    await #expect(processExitsWith: .success) {
      let loop = try EventLoop()
      AMQPConnection(loop: loop, address: try AMQPAddress("amqp://127.0.0.1:1"), name: "test").connect(tls: nil)
    }
  }

  @Test func largeBodiesAreSplit() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    _ = broker.received()
    let body = [UInt8](repeating: 5, count: 131_064 + 1)
    broker.connection.publish(
      to: AMQPExchange("e", isMandatory: false), channel: 1, routingKey: Span(), properties: AMQPProperties(),
      body: body.span)
    var wire: [UInt8] = []
    for _ in 0..<50 where wire.count < body.count + 100 {
      wire += broker.received()
      broker.turn()
    }
    #expect(wire.suffix(9) == [3, 0, 1, 0, 0, 0, 1, 5, 0xCE])
  }

  @Test func returnedBeforeItsConfirm() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    broker.connection.publish(
      to: AMQPExchange("push.retry", isMandatory: true), channel: 1, routingKey: "k".utf8.span,
      properties: AMQPProperties(), body: [1].span)
    broker.send(
      AMQPFrames.method(
        0x003C_0032,
        AMQPFrames.big(UInt16(312)) + AMQPFrames.short("NO_ROUTE") + AMQPFrames.short("push.retry")
          + AMQPFrames.short("k")) + AMQPFrames.header(size: 1) + AMQPFrames.body([1]) + AMQPFrames.ack(1))
    #expect(
      broker.events() == [
        .returned(channel: 1, code: 312), .confirmed(channel: 1, sequence: 1, isMultiple: false),
      ])
    #expect(broker.connection.returnedExchange == "push.retry")
    #expect(broker.connection.returnedRoutingKey == "k")
  }

  @Test func theLastWordsOfABrokerAreHeard() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    broker.send(
      AMQPFrames.method(
        0x000A_0032, AMQPFrames.big(UInt16(320)) + AMQPFrames.short("CONNECTION_FORCED") + [0, 0, 0, 0], channel: 0))
    broker.hangUp()
    #expect(broker.events() == [.closed])
    #expect(broker.connection.failure == .closedByBroker(code: 320, text: "CONNECTION_FORCED"))
    #expect(broker.connection.nextEvent() == nil)
  }

  @Test func hangingUp() throws {
    let broker = try AMQPScriptedBroker()
    broker.open()
    broker.hangUp()
    #expect(broker.events() == [.closed])
    guard case .connectionLost = broker.connection.failure else {
      Issue.record("unexpected \(String(describing: broker.connection.failure))")
      return
    }
  }

  private static let faults: [([UInt8], AMQPError)] = [
    ([9, 0, 0, 0, 0, 0, 0, 0xCE], .unknownFrameKind(9)),
    ([1, 0, 0, 0, 1, 0, 0], .frameTooLarge(bytes: 65_544, maximum: 16_384)),
    (AMQPFrames.frame(1, 0, [0, 10]), .malformedMethod(id: 0)),
    (Array(AMQPFrames.start.dropLast()) + [0], .badFrameEnd),
    (Array("AMQP".utf8) + [0, 0, 9, 1], .notAMQP),
    (AMQPFrames.method(0x000A_FFFF, channel: 0), .unexpectedMethod(id: 0x000A_FFFF, channel: 0)),
    (AMQPFrames.method(0x000A_000A, [0, 9, 0xFF, 0xFF, 0xFF, 0xFF], channel: 0), .malformedMethod(id: 0x000A_000A)),
    (AMQPFrames.deliver(1), .unexpectedChannel(1)),
  ]

  @Test(arguments: faults)
  func faultsOfThePeer(bytes: [UInt8], error: AMQPError) throws {
    let broker = try AMQPScriptedBroker()
    broker.send(bytes)
    #expect(broker.events() == [.closed])
    #expect(broker.connection.failure == error)
  }

  @Test func tablesThatNestTooDeep() throws {
    var table: [UInt8] = []
    for _ in 0..<1000 { table = AMQPFrames.short("a") + [UInt8(ascii: "F")] + AMQPFrames.long(table) }
    let broker = try AMQPScriptedBroker()
    broker.send(
      AMQPFrames.method(
        0x000A_000A, [0, 9] + AMQPFrames.long(table) + AMQPFrames.long("PLAIN") + AMQPFrames.long("en"), channel: 0))
    #expect(broker.events() == [.closed])
    #expect(broker.connection.failure == .malformedMethod(id: 0x000A_000A))
  }

  @Test func silenceIsNoticed() throws {
    var options = AMQPOptions()
    options.heartbeatSeconds = 1
    let broker = try AMQPScriptedBroker(options: options)
    broker.open()
    _ = broker.received()
    let start = broker.loop.now.monotonic
    var events: [AMQPEvent] = []
    var wire: [UInt8] = []
    while events.isEmpty, broker.loop.now.monotonic.milliseconds(since: start) < 6000 {
      broker.loop.poll(maximumWaitMilliseconds: 50)
      while let event = broker.connection.nextEvent() { events.append(event) }
      wire += broker.received()
    }
    #expect(events == [.closed])
    #expect(wire.starts(with: AMQPFrames.heartbeat))
    guard case .heartbeatMissed(_, let silent) = broker.connection.failure else {
      Issue.record("unexpected \(String(describing: broker.connection.failure))")
      return
    }
    #expect(silent > 2000 && silent < 5000)
  }

  @Test func handshakeHasADeadline() throws {
    var options = AMQPOptions()
    options.handshakeTimeoutMilliseconds = 100
    let broker = try AMQPScriptedBroker(options: options)
    broker.send(AMQPFrames.start)
    let start = broker.loop.now.monotonic
    var events: [AMQPEvent] = []
    while events.isEmpty, broker.loop.now.monotonic.milliseconds(since: start) < 3000 { events += broker.events() }
    #expect(events == [.closed])
    #expect(
      broker.connection.failure == .handshakeTimedOut(to: "broker:5672", waitingFor: "connection.tune"))
  }

  @Test func aGoodbyeHasADeadline() throws {
    var options = AMQPOptions()
    options.handshakeTimeoutMilliseconds = 100
    let broker = try AMQPScriptedBroker(options: options)
    broker.open()
    broker.connection.close()
    let start = broker.loop.now.monotonic
    var events: [AMQPEvent] = []
    while events.isEmpty, broker.loop.now.monotonic.milliseconds(since: start) < 3000 { events += broker.events() }
    #expect(events == [.closed])
    #expect(
      broker.connection.failure == .handshakeTimedOut(to: "broker:5672", waitingFor: "connection.close-ok"))
  }
}
