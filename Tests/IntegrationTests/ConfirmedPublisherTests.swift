import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// What becomes of messages to queues that do not take them, at a real RabbitMQ.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ConfirmedPublisherTests {
  /// A publisher that is driven turn by turn.
  private final class Bench {
    let loop: EventLoop
    let publisher: ConfirmedPublisher
    let prefix = "publisher-\(UInt32.random(in: 0 ... .max))"
    private(set) var notices: [String] = []

    init(confirmMilliseconds: Int64 = ConfirmedPublisher.confirmMilliseconds) throws {
      let settings = RabbitMQSettings(
        addresses: [try AMQPAddress(RabbitMQServer.shared().url)], tls: nil,
        topology: Topology(prefix: prefix, retryDelaysSeconds: [1]), laneName: "test", prefetch: 2, randomSeed: 1)
      loop = try EventLoop()
      var tell: (String) -> Void = { _ in }
      publisher = ConfirmedPublisher(loop: loop, settings: settings, confirmMilliseconds: confirmMilliseconds) {
        tell($1)
      }
      tell = { [unowned self] in notices.append($0) }
    }

    deinit {
      publisher.close()
      _ = turn { self.publisher.isClosed }
    }

    /// The queue of dead letters refuses, after two.
    func fill(_ server: RabbitMQServer) throws {
      let name = "\(prefix).dead"
      #expect(turn { self.publisher.isReady })
      try server.rabbitmqctl([
        "set_policy", "--apply-to", "queues", name, "^\(name)$", #"{"max-length":1,"overflow":"reject-publish"}"#,
      ])
      var endings: [ConfirmedPublisher.Ending] = []
      var publishedCount = 0
      // The policy counts a moment later.
      let isFull = turn {
        if endings.last == .refused { return true }
        guard endings.count == publishedCount else { return false }
        publishedCount += 1
        self.publisher.publishOnce([0], as: self.message("dead") { endings.append($0) })
        return false
      }
      #expect(isFull)
    }

    func liftLimit(_ server: RabbitMQServer) throws { try server.rabbitmqctl(["clear_policy", "\(prefix).dead"]) }

    func turn(until isDone: () -> Bool) -> Bool {
      let end = ContinuousClock.now + .seconds(20)
      while ContinuousClock.now < end {
        if isDone() { return true }
        loop.poll(maximumWaitMilliseconds: 5)
        publisher.turn()
        loop.flush()
      }
      return isDone()
    }

    /// A message to a queue of this bench.
    func message(
      _ queue: String, describe: @escaping (Bool) -> Void = { _ in },
      then: @escaping (ConfirmedPublisher.Ending) -> Void
    ) -> ConfirmedPublisher.Message {
      ConfirmedPublisher.Message(
        exchange: AMQPExchange("", isMandatory: true), routingKey: Array("\(prefix).\(queue)".utf8),
        describe: { describe($1) }, then: then)
    }
  }

  /// The broker may have kept the first copy.
  @Test func messageThatWasRefused_isDescribedAsRepeated() throws {
    let bench = try Bench()
    let admin = try AMQPAdmin(patientURL: RabbitMQServer.shared().url)
    defer { admin.close() }
    try admin.perform(
      .declareQueue(
        name: "\(bench.prefix).full",
        arguments: [AMQPArgument("x-max-length", .number(0)), AMQPArgument("x-overflow", .text("reject-publish"))]))
    var areRepeated: [Bool] = []
    bench.publisher.publish([1], as: bench.message("full", describe: { areRepeated.append($0) }, then: { _ in }))
    #expect(bench.turn { areRepeated.count == 4 })
    #expect(areRepeated == [false, true, true, true])
  }

  /// A client's own queue says nothing: that ends its message, and nobody else's connection.
  @Test func silentQueueOfOthers_refuses() throws {
    let server = try RabbitMQServer.shared()
    let bench = try Bench(confirmMilliseconds: 700)
    let name = "\(bench.prefix).silent"
    let admin = try AMQPAdmin(patientURL: server.url)
    defer { admin.close() }
    try admin.perform(.declareQueue(name: name, arguments: []))
    let lookUp =
      "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"\(name)\">>)), amqqueue:get_pid(Q)"
    _ = try server.rabbitmqctl(["eval", "sys:suspend(begin \(lookUp) end)."])
    #expect(bench.turn { bench.publisher.isReady })
    var endings: [ConfirmedPublisher.Ending] = []
    let before = bench.notices.count
    bench.publisher.publishOnce([1], as: bench.message("silent") { endings.append($0) }, isForOthers: true)
    #expect(bench.turn { !endings.isEmpty })
    #expect(endings == [.refused] && bench.notices.count == before, "\(endings) \(bench.notices)")
    var isConfirmed = false
    bench.publisher.publish([2], as: bench.message("jobs.bulk") { isConfirmed = $0 == .confirmed })
    #expect(bench.turn { isConfirmed } && bench.notices.count == before, "\(bench.notices)")
    _ = try server.rabbitmqctl(["eval", "sys:resume(begin \(lookUp) end)."])
  }

  /// RabbitMQ goes on refusing on the channel that it once told so: whatever is published meanwhile, a probe takes a fresh one.
  @Test func publishedOnceAgainAndAgain_isTakenOnceThereIsRoom() throws {
    let server = try RabbitMQServer.shared()
    let bench = try Bench()
    try bench.fill(server)
    var endings: [ConfirmedPublisher.Ending] = []
    let start = bench.loop.now.monotonic
    var next = start
    func publish() {
      guard bench.loop.now.monotonic >= next else { return }
      next = bench.loop.now.monotonic.adding(milliseconds: 10)
      bench.publisher.publishOnce([1], as: bench.message("dead") { endings.append($0) })
    }
    _ = bench.turn {
      publish()
      return bench.loop.now.monotonic.milliseconds(since: start) > 2_500
    }
    #expect(endings.count > 100 && endings.allSatisfy { $0 == .refused }, "\(endings.count)")
    #expect(bench.publisher.refusedDestinations == [RefusedDestination(name: "\(bench.prefix).dead", app: nil)])
    try bench.liftLimit(server)
    let isTaken = bench.turn {
      publish()
      return endings.last == .confirmed
    }
    #expect(isTaken, "\(endings.count) endings; \(bench.notices)")
    let message = bench.message("dead") { _ in }
    #expect(bench.turn { bench.publisher.takes(message) })
    #expect(
      bench.turn {
        publish()
        return bench.publisher.refusedDestinations.isEmpty
      })
  }

  /// A queue of an analyst that gets them is full. Those of other apps go on.
  @Test func resultsOfOneApp_areRefusedAlone() throws {
    let bench = try Bench()
    let admin = try AMQPAdmin(patientURL: RabbitMQServer.shared().url)
    defer { admin.close() }
    #expect(bench.turn { bench.publisher.isReady })
    let (results, queue) = ("\(bench.prefix).results", "\(bench.prefix).analyst")
    try admin.perform(
      .declareQueue(
        name: queue,
        arguments: [AMQPArgument("x-max-length", .number(1)), AMQPArgument("x-overflow", .text("reject-publish"))]))
    try admin.perform(.bind(queue: queue, exchange: results, routingKey: "*.*.com.example.full"))
    var ended: [String: Int] = [:]
    var published = 0
    func publish(_ count: Int, of app: String) {
      for _ in 0..<count {
        let message = ConfirmedPublisher.Message(
          exchange: AMQPExchange(results, isMandatory: true), routingKey: Array("completed.production.\(app)".utf8),
          describe: { _, _ in if app == "com.example.full" { published += 1 } },
          then: { _ in ended[app, default: 0] += 1 })
        bench.publisher.publish([1], as: message)
      }
    }
    publish(20, of: "com.example.full")
    #expect(bench.turn { bench.notices.contains { $0.contains("results refuses messages of com.example.full") } })
    publish(20, of: "com.example.app")
    #expect(bench.turn { ended["com.example.app"] == 20 }, "\(ended)")
    #expect(ended["com.example.full", default: 0] < 20 && published < 20 + 10, "\(published) were published")
    try admin.perform(.deleteQueue(name: queue))
    #expect(bench.turn { ended["com.example.full"] == 20 }, "\(ended)")
    #expect(published <= 20 + 10 + 20)
  }

  /// Of those that hold something up, few wait for a queue that refuses for long; the others end, for their owner to put them elsewhere.
  @Test func fewWaitForAQueueThatRefuses() throws {
    let server = try RabbitMQServer.shared()
    let bench = try Bench()
    try bench.fill(server)
    var endings: [Int: ConfirmedPublisher.Ending] = [:]
    for number in 0..<20 {
      let message = bench.message("dead") { endings[number] = $0 }
      bench.publisher.publish([1], as: message, waitingMaximum: number < 10 ? 3 : nil)
    }
    #expect(bench.turn { endings.count == 7 })
    #expect(endings.allSatisfy { $0 < 10 && $1 == .refused }, "\(endings)")
    #expect(!bench.publisher.takes(bench.message("dead") { _ in }))
    try bench.liftLimit(server)
    #expect(bench.turn { endings.count == 20 })
    #expect(endings.values.count { $0 == .confirmed } == 13)
  }
}
