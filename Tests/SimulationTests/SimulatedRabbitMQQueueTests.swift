import TestSupport
import Testing
import WorkerSimulation

/// The queues of the simulated RabbitMQ.
struct SimulatedRabbitMQQueueTests {
  private let trace = RabbitMQTrace()

  private func declare(_ queue: String, _ arguments: RawAMQP.Arguments = []) {
    let client = trace.open()
    let answer = trace.send(
      RawAMQP.declareQueue(queue, 1, arguments: RabbitMQTrace.quorum + arguments), on: client)
    #expect(answer == ["1 queue.declare-ok \(queue) 0 0"])
    trace.disconnect(client)
    trace.pass(0.03)
  }

  private let safely: RawAMQP.Arguments = [
    ("x-dead-letter-strategy", .text("at-least-once")), ("x-overflow", .text("reject-publish")),
  ]

  // MARK: - Deliveries

  @Test func prefetchCountsPerConsumerAndConsumersTakeTurns() {
    declare("q")
    let (one, two) = (trace.open(), trace.open())
    _ = trace.send(RawAMQP.qos(2, 1) + RawAMQP.consume("q", tag: "one", 1), on: one)
    _ = trace.send(RawAMQP.qos(1, 1) + RawAMQP.consume("q", tag: "two", 1), on: two)
    trace.put("a", "b", "c", "d", in: "q")
    #expect(
      trace.heard(one) == ["1 basic.deliver one 1  q  'a'", "1 basic.deliver one 2  q  'c'"])
    #expect(trace.heard(two) == ["1 basic.deliver two 1  q  'b'"])
    #expect(trace.ready("q") == ["d"])
    #expect(trace.send(RawAMQP.acknowledge(1, 1), on: two) == ["1 basic.deliver two 2  q  'd'"])
  }

  @Test func acknowledgementsAreOneOrAllBefore() {
    declare("q")
    let client = trace.open()
    _ = trace.send(RawAMQP.qos(5, 1) + RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", "b", "c", "d", "e", in: "q")
    _ = trace.send(RawAMQP.acknowledge(2, 1), on: client)
    #expect(trace.held("q") == ["a", "c", "d", "e"])
    _ = trace.send(RawAMQP.acknowledge(4, 1, isMultiple: true), on: client)
    #expect(trace.held("q") == ["e"])
    _ = trace.send(RawAMQP.acknowledge(0, 1, isMultiple: true), on: client)
    #expect(trace.held("q") == [])
  }

  @Test func whatComesBackIsFirstAndCounted() {
    declare("q", [("x-delivery-limit", .number(20))])
    let client = trace.open()
    _ = trace.send(RawAMQP.qos(3, 1) + RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", "b", "c", "d", in: "q")
    _ = trace.heard(client)
    #expect(
      trace.send(RawAMQP.nack(2, 1, isMultiple: true), on: client) == [
        "1 basic.deliver c 4 again  q headers {x-delivery-count=1l} 'a'",
        "1 basic.deliver c 5 again  q headers {x-delivery-count=1l} 'b'",
      ])
    trace.disconnect(client)
    #expect(trace.ready("q") == ["c+1", "a+2", "b+2", "d"])
  }

  @Test func withoutALimitWhatIsGivenBackGoesBehind() {
    declare("q")
    let client = trace.open()
    _ = trace.send(RawAMQP.qos(1, 1) + RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", "b", in: "q")
    _ = trace.heard(client)
    #expect(trace.send(RawAMQP.reject(1, 1, requeues: true), on: client) == ["1 basic.deliver c 2  q  'b'"])
    #expect(trace.ready("q") == ["a+1"])
    trace.disconnect(client)
    #expect(trace.ready("q") == ["b+1", "a+1"], "messages of a lost consumer are still first")
  }

  @Test func cancelledConsumersMaySettleWhatTheyHold() {
    declare("q")
    let client = trace.open()
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", in: "q")
    _ = trace.heard(client)
    #expect(trace.send(RawAMQP.cancel(tag: "c", 1), on: client) == ["1 basic.cancel-ok c"])
    trace.put("b", in: "q")
    #expect(trace.heard(client) == [])
    _ = trace.send(RawAMQP.acknowledge(1, 1), on: client)
    #expect(trace.held("q") == [])
    #expect(trace.server.consumerCount(of: "q") == 0)
  }

  @Test func oneOfSeveralIsActiveWhereThatIsWanted() {
    declare("q", [("x-single-active-consumer", .flag(true))])
    let (one, two) = (trace.open(), trace.open())
    _ = trace.send(RawAMQP.qos(1, 1) + RawAMQP.consume("q", tag: "one", 1), on: one)
    _ = trace.send(RawAMQP.qos(1, 1) + RawAMQP.consume("q", tag: "two", 1), on: two)
    trace.put("a", "b", in: "q")
    #expect(trace.heard(one) == ["1 basic.deliver one 1  q  'a'"])
    #expect(trace.heard(two) == [])
    trace.disconnect(one)
    #expect(trace.heard(two) == ["1 basic.deliver two 1 again  q headers {x-delivery-count=1l} 'a'"])
  }

  @Test func aChannelThatTheServerClosedKeepsWhatItHoldsUntilItIsAnswered() {
    declare("q")
    let client = trace.open()
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.put("a", in: "q")
    trace.server.closeChannel(client, channel: 1, now: trace.now)
    #expect(trace.held("q") == ["a"])
    _ = trace.send(RawAMQP.closeChannelOK(1), on: client)
    #expect(trace.ready("q") == ["a+1"])
  }

  // MARK: - Dead letters

  private let rest: RawAMQP.Arguments = [
    ("x-dead-letter-exchange", .text("")), ("x-dead-letter-routing-key", .text("dead")),
  ]

  @Test func tooManyDeliveriesMakeADeadLetter() {
    declare("dead")
    declare("q", safely + rest + [("x-delivery-limit", .number(1))])
    let client = trace.open(channels: 2)
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1) + RawAMQP.consume("dead", tag: "d", 2), on: client)
    trace.put("a", in: "q")
    _ = trace.heard(client)
    _ = trace.send(RawAMQP.nack(1, 1), on: client)
    #expect(
      trace.send(RawAMQP.nack(2, 1), on: client) == [
        "2 basic.deliver d 1  dead headers {x-death=[{count=1l, exchange=, queue=q, reason=delivery_limit, "
          + "routing-keys=[q], time}], x-first-death-exchange=, x-first-death-queue=q, "
          + "x-first-death-reason=delivery_limit} 'a'"
      ])
  }

  @Test func rejectedOnesAreDeadOrGone() {
    declare("dead")
    declare("q", rest)
    declare("other")
    let client = trace.open()
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1) + RawAMQP.consume("other", tag: "d", 1), on: client)
    trace.put("a", in: "q")
    trace.put("b", in: "other")
    _ = trace.send(RawAMQP.nack(2, 1, isMultiple: true, requeues: false), on: client)
    #expect(trace.ready("dead") == ["a"])
    #expect(trace.events.contains("died 2 of other rejected for good"))
  }

  @Test func timeMakesADeadLetterAtTheHeadOnly() {
    declare("dead")
    declare("q", safely + rest + [("x-message-ttl", .number(1000))])
    trace.put("a", in: "q")
    trace.pass(0.5)
    trace.put("b", in: "q")
    trace.pass(0.49)
    #expect(trace.ready("q") == ["a", "b"])
    trace.pass(0.02)
    #expect(trace.ready("q") == ["b"])
    #expect(trace.ready("dead") == ["a"])
    // A delivered message does not expire; once returned, it expires at once.
    let client = trace.open()
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    trace.pass(5)
    #expect(trace.held("q") == ["b"])
    _ = trace.send(RawAMQP.nack(1, 1), on: client)
    trace.pass(0.1)
    #expect(trace.ready("dead") == ["a", "b"])
  }

  /// Another connection may publish to a queue that is being declared: without a lifetime of its own, its message never leaves the head.
  @Test func whatComesBeforeAQueueKnowsItsLifetime_staysUnlessItHasItsOwn() {
    declare("dead")
    for expiration in [nil, "1000"] {
      let client = trace.open()
      _ = trace.send(
        RawAMQP.declareQueue(
          "q", 1, arguments: RabbitMQTrace.quorum + safely + rest + [("x-message-ttl", .number(1000))]), on: client)
      var properties = RabbitProperties()
      properties.expiration = expiration.map { Array($0.utf8) }
      trace.server.publish(
        exchange: "", routingKey: "q", properties: properties, body: Array("first".utf8), now: trace.now)
      trace.pass(0.03)
      trace.put("second", in: "q")
      trace.pass(10)
      #expect(trace.ready("q") == (expiration == nil ? ["first", "second"] : []))
      _ = trace.send(RawAMQP.deleteQueue("q", 1), on: client)
      trace.disconnect(client)
    }
    #expect(trace.ready("dead") == ["first", "second"])
  }

  @Test func aDeadLetterWithoutAQueueIsTriedAgain() {
    declare("q", safely + rest + [("x-message-ttl", .number(1000))])
    trace.put("a", in: "q")
    trace.pass(10)
    #expect(trace.server.waitingMessages(in: "q").count == 1)
    declare("dead")
    trace.pass(160)
    #expect(trace.ready("dead") == [])
    trace.pass(20)
    #expect(trace.ready("dead") == ["a"])
    #expect(trace.server.messageCount(in: "q") == 0)
  }

  // MARK: - Limits

  @Test func aFullQueueRefusesUntilItIsFarFromFull() {
    declare("q", [("x-max-length", .number(5)), ("x-overflow", .text("reject-publish"))])
    let client = trace.open(channels: 2)
    var bytes: [UInt8] = []
    for index in 0..<8 { bytes += RawAMQP.publish([UInt8(65 + index)], to: "", "q", 1) }
    #expect(
      trace.send(bytes, on: client).sorted() == [
        "1 ack of 1", "1 ack of 2", "1 ack of 3", "1 ack of 4", "1 ack of 5", "1 ack of 6", "1 nack of 7",
        "1 nack of 8",
      ])
    #expect(trace.ready("q").count == 6)
    _ = trace.send(RawAMQP.qos(1, 2) + RawAMQP.consume("q", tag: "c", 2), on: client)
    #expect(trace.send(RawAMQP.publish([1], to: "", "q", 1), on: client) == ["1 nack of 9"])
    _ = trace.send(RawAMQP.acknowledge(1, 2), on: client)
    #expect(trace.send(RawAMQP.publish([1], to: "", "q", 1), on: client) == ["1 ack of 10"])
  }

  @Test func aQueueThatDropsItsHeadMakesDeadLetters() {
    declare("dead")
    declare("q", rest + [("x-max-length", .number(2))])
    trace.put("a", "b", "c", in: "q")
    #expect(trace.ready("q") == ["b", "c"])
    #expect(trace.ready("dead") == ["a"])
  }

  @Test func purgedAndDeleted() {
    declare("q")
    let client = trace.open()
    trace.put("a", "b", in: "q")
    #expect(trace.send(RawAMQP.purge("q", 1), on: client) == ["1 queue.purge-ok 2"])
    _ = trace.send(RawAMQP.consume("q", tag: "c", 1), on: client)
    #expect(trace.send(RawAMQP.deleteQueue("q", 1), on: client) == ["1 basic.cancel c", "1 queue.delete-ok 0"])
    #expect(trace.send(RawAMQP.deleteQueue("q", 1), on: client) == ["1 queue.delete-ok 0"])
  }
}
