import TestSupport
import Testing
import WorkerSimulation

/// Faults of the simulated RabbitMQ, on command or from the seed.
struct SimulatedRabbitMQFaultTests {
  private func opened(
    _ trace: RabbitMQTrace, _ arguments: RawAMQP.Arguments = [], channels: UInt16 = 1
  ) -> SimulatedConnectionID {
    let client = trace.open(channels: channels)
    _ = trace.send(RawAMQP.declareQueue("q", 1, arguments: RabbitMQTrace.quorum + arguments), on: client)
    return client
  }

  private func publishes(_ count: Int) -> [UInt8] {
    (0..<count).flatMap { RawAMQP.publish(Array("m\($0)".utf8), to: "", "q", 1) }
  }

  // MARK: - Confirms

  @Test func confirmsAreLateOutOfOrderAndRefusedAsTheSeedSays() {
    var faults = SimulatedRabbitMQ.Faults()
    faults.confirmSpreadNanoseconds = 2_000_000_000
    faults.publishRefused = 200
    faults.refusedKept = 500
    func lines(_ seed: UInt64) -> [String] {
      let trace = RabbitMQTrace(seed: seed, faults: faults)
      let client = opened(trace)
      _ = trace.send(publishes(50), on: client)
      trace.pass(3)
      return trace.heard(client)
    }
    let first = lines(1)
    #expect(first == lines(1))
    #expect(first != lines(2))
    #expect(first.count == 50)
    #expect(first.contains { $0.hasPrefix("1 nack") } && first.contains { $0.hasPrefix("1 ack") })
    let numbers = first.compactMap { Int($0.split(separator: " ").last ?? "") }
    #expect(numbers.sorted() == Array(1...50))
    #expect(numbers != numbers.sorted())
  }

  @Test func aConfirmMayNeverCome() {
    let trace = RabbitMQTrace()
    let client = opened(trace)
    trace.server.dropNextConfirms(1)
    #expect(trace.send(publishes(3), on: client) == ["1 ack of 2", "1 ack of 3"])
    trace.server.refuseNextPublishes(1)
    #expect(trace.send(publishes(1), on: client) == ["1 nack of 4"])
    #expect(trace.ready("q") == ["m0", "m1", "m2"])
  }

  // MARK: - Alarms

  @Test func anAlarmBlocksWhoPublishes() {
    let trace = RabbitMQTrace()
    let (client, other) = (opened(trace), trace.open())
    trace.server.setAlarm("memory", isOn: true, now: trace.now)
    #expect(trace.heard(client) == [])
    #expect(trace.send(publishes(2), on: client) == ["0 connection.blocked low on memory"])
    #expect(trace.send(RawAMQP.qos(1, 1), on: client) == [], "a blocked connection is not read")
    #expect(trace.send(RawAMQP.qos(1, 1), on: other) == ["1 method 60.11"])
    #expect(trace.ready("q") == [])
    trace.server.setAlarm("memory", isOn: false, now: trace.now)
    #expect(
      trace.heard(client) == ["0 connection.unblocked", "1 method 60.11", "1 ack of 1", "1 ack of 2"])
  }

  @Test func aBlockedClientIsNotGivenUp() {
    let trace = RabbitMQTrace()
    let client = trace.open(heartbeat: 5)
    trace.server.setAlarm("disk", isOn: true, now: trace.now)
    _ = trace.send(publishes(1), on: client)
    trace.pass(60)
    #expect(trace.ends.isEmpty)
    trace.server.setAlarm("disk", isOn: false, now: trace.now)
    trace.pass(60)
    #expect(trace.ends[client] != nil)
  }

  // MARK: - Consumers

  @Test func aConsumerThatSettlesNothingLosesItsChannel() {
    var settings = SimulatedRabbitMQ.Settings()
    settings.consumerTimeoutNanoseconds = 90_000_000_000
    let trace = RabbitMQTrace(settings: settings)
    let client = opened(trace)
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.pass(30)
    trace.put("a", in: "q")
    _ = trace.heard(client)
    trace.pass(140)
    #expect(trace.heard(client) == [])
    trace.pass(11)
    #expect(
      trace.heard(client) == [
        "1 channel.close 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: "
          + "90000 ms. This timeout value can be configured, see consumers doc guide to learn more by 0"
      ])
  }

  @Test func consumersMayBeCancelledByTheServer() {
    let trace = RabbitMQTrace()
    let client = opened(trace)
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", in: "q")
    _ = trace.heard(client)
    trace.server.cancelConsumers(of: "q", now: trace.now)
    #expect(trace.heard(client) == ["1 basic.cancel c"])
    #expect(trace.ready("q") == ["a+1"])
    #expect(trace.send(RawAMQP.acknowledge(1, 1), on: client) == [], "a late acknowledgement is no error")
    #expect(trace.ready("q") == ["a+1"])
  }

  @Test func aLeaderThatMovesKeepsPublishesBackAndGivesAgain() {
    let trace = RabbitMQTrace()
    let client = opened(trace, channels: 2)
    _ = trace.send(RawAMQP.consume("q", tag: "c", 2), on: client)
    trace.put("a", in: "q")
    _ = trace.heard(client)
    trace.server.moveLeader(of: "q", unavailableNanoseconds: 2_000_000_000, now: trace.now)
    #expect(trace.send(publishes(2) + RawAMQP.acknowledge(1, 2), on: client) == [])
    trace.pass(3)
    #expect(
      trace.heard(client).sorted() == [
        "1 ack of 1", "1 ack of 2", "2 basic.deliver c 2 again  q headers {x-delivery-count=1l} 'a'",
        "2 basic.deliver c 3  q 12:2 'm0'", "2 basic.deliver c 4  q 12:2 'm1'",
      ])
  }

  // MARK: - Connections and restarts

  @Test func aForcedCloseIsAnswered() {
    let trace = RabbitMQTrace()
    let client = opened(trace)
    trace.server.closeConnection(client, now: trace.now)
    #expect(
      trace.heard(client) == ["0 connection.close 320 CONNECTION_FORCED - Closed via management plugin by 0"])
    _ = trace.send(RawAMQP.closeOK, on: client)
    #expect(trace.ends[client] == "closed at 0")
  }

  @Test func aRestartKeepsWhatWasConfirmed() {
    var faults = SimulatedRabbitMQ.Faults()
    faults.unconfirmedLost = 500
    var settings = SimulatedRabbitMQ.Settings()
    settings.confirmNanoseconds = 1_000_000_000
    let trace = RabbitMQTrace(seed: 3, settings: settings, faults: faults)
    let client = opened(trace)
    _ = trace.send(publishes(10), on: client)
    trace.pass(1)
    #expect(trace.heard(client).count == 10)
    _ = trace.send(publishes(40), on: client)
    trace.server.restart(now: trace.now)
    trace.settle()
    #expect(trace.ends[client] == "reset at 1")
    let count = trace.ready("q").count
    #expect(count > 10 && count < 50, "\(count)")
    #expect(Array(trace.ready("q").prefix(10)) == (0..<10).map { "m\($0)" })
  }

  @Test func aRestartGivesBackWhatWasHeldAndMayForgetWhatWasSettled() {
    var faults = SimulatedRabbitMQ.Faults()
    faults.acknowledgementLost = 1000
    let trace = RabbitMQTrace(faults: faults)
    let client = opened(trace)
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", "b", "c", in: "q")
    _ = trace.send(RawAMQP.acknowledge(1, 1), on: client)
    trace.pass(1)
    _ = trace.send(RawAMQP.acknowledge(2, 1), on: client)
    trace.server.stop(now: trace.now)
    let late = trace.connect()
    #expect(trace.ends[late] == "reset at 1")
    trace.server.start(now: trace.now)
    #expect(trace.ready("q") == ["b+1", "c+1"])
  }

  @Test func aRestartMayHandOnTwiceOrLate() {
    for (twice, late, atOnce, afterwards) in [
      (0, 0, ["a", "b"], ["a", "b"]), (1000, 0, ["a", "a", "b"], ["a", "a", "b"]), (0, 1000, ["a"], ["a", "b"]),
      (1000, 1000, ["a"], ["a", "a", "b"]),
    ] {
      var faults = SimulatedRabbitMQ.Faults()
      faults.handedOnTwice = twice
      faults.handedOnLate = late
      let trace = RabbitMQTrace(faults: faults)
      let client = opened(
        trace,
        [
          ("x-dead-letter-strategy", .text("at-least-once")), ("x-overflow", .text("reject-publish")),
          ("x-dead-letter-exchange", .text("")), ("x-dead-letter-routing-key", .text("next")),
          ("x-message-ttl", .number(1000)),
        ])
      _ = trace.send(RawAMQP.declareQueue("next", 1, arguments: RabbitMQTrace.quorum), on: client)
      trace.pass(0.03)
      trace.put("a", in: "q")
      trace.pass(2)
      trace.put("b", in: "q")
      trace.server.restart(now: trace.now)
      trace.pass(3)
      #expect(trace.ready("next").sorted() == atOnce)
      trace.pass(200)
      #expect(trace.ready("next").sorted() == afterwards)
    }
  }

  @Test func theSameSeedGivesTheSameEvents() {
    var faults = SimulatedRabbitMQ.Faults()
    faults.confirmSpreadNanoseconds = 100_000_000
    faults.confirmLate = 50
    faults.confirmsSingle = 300
    faults.publishRefused = 50
    faults.confirmDropped = 20
    faults.unconfirmedLost = 300
    func events(_ seed: UInt64) -> [String] {
      let trace = RabbitMQTrace(seed: seed, faults: faults)
      for _ in 0..<5 {
        let client = opened(trace)
        _ = trace.send(RawAMQP.qos(4, 1) + RawAMQP.consume("q", tag: "c", 1) + publishes(30), on: client)
        trace.pass(0.05)
        _ = trace.send(RawAMQP.acknowledge(2, 1, isMultiple: true), on: client)
        trace.server.restart(now: trace.now)
        trace.settle()
      }
      return trace.events
    }
    #expect(events(7) == events(7))
    #expect(events(7) != events(8))
  }
}
