import APNsSimulator
import PushCore
import PushIO
import TestSupport
import Testing

/// Simulated devices that register through a real RabbitMQ.
@Suite(.timeLimit(.minutes(3)))
struct SimulatorQueueTests {
  private static let arguments = [
    AMQPArgument("x-queue-type", .text("quorum")), AMQPArgument("x-overflow", .text("reject-publish")),
  ]

  private func simulator(_ url: String, queue: String) throws -> Simulator {
    var options = SimulatorOptions()
    options.registerAfterMilliseconds = 0
    options.registrations = try .queue(url, name: queue)
    return try Simulator(options)
  }

  /// A start of an activity, without HTTP.
  private func start(_ simulator: Simulator, _ index: Int) throws {
    let now = try EventLoop().now
    let payload =
      #"{"aps":{"timestamp":1795266000,"event":"start","content-state":{},"attributes-type":"R","#
      + #""attributes":{"activityId":"a-\#(index)"},"alert":{"title":"A","body":"B"}}}"#
    simulator.configure { service in
      service.activities.receive(Array(payload.utf8), token: "80aa", app: "com.example.app", now: now)
    }
  }

  private func bodies(_ admin: AMQPAdmin, _ queue: String, _ limit: Int) throws -> [JSONValue?] {
    var bodies: [JSONValue?] = []
    _ = try admin.consume(queue: queue, limit: limit, idleMilliseconds: 10_000) { message in
      bodies.append(JSONValue(message.body))
      return .acknowledge
    }
    return bodies
  }

  @Test func registrationsArePublishedOnceTheQueueIsThere() throws {
    let server = try RabbitMQServer.shared()
    let queue = "simulator.registrations"
    let simulator = try simulator(server.url, queue: queue)
    _ = try simulator.start()
    defer { simulator.stop() }
    try start(simulator, 0)
    #expect(simulator.wait(timeoutMilliseconds: 10_000) { $0.activities.repeated > 0 })
    #expect(simulator.ledger.activities.lastFailure == "there is no queue \(queue)")
    let admin = try AMQPAdmin(patientURL: server.url)
    defer { admin.close() }
    try admin.perform(.declareQueue(name: queue, arguments: Self.arguments))
    for index in 1..<1500 { try start(simulator, index) }
    #expect(simulator.wait(timeoutMilliseconds: 30_000) { $0.activities.delivered == 1500 })
    let seen = try bodies(admin, queue, 1500)
    #expect(Set(seen.compactMap { $0?["activity"]?.string }).count == 1500)
    #expect(Set(seen.compactMap { $0?["token"]?.string }).count == 1500)
    let counts = simulator.ledger.activities
    #expect(counts.waiting == 0 && counts.failed == 0)
  }

  @Test func aFullQueueIsTriedAgain() throws {
    let server = try RabbitMQServer.shared()
    let queue = "simulator.full"
    let admin = try AMQPAdmin(patientURL: server.url)
    defer { admin.close() }
    try admin.perform(
      .declareQueue(
        name: queue,
        arguments: [AMQPArgument("x-max-length", .number(1)), AMQPArgument("x-overflow", .text("reject-publish"))]))
    let simulator = try simulator(server.url, queue: queue)
    _ = try simulator.start()
    defer { simulator.stop() }
    for index in 0..<3 { try start(simulator, index) }
    #expect(simulator.wait(timeoutMilliseconds: 10_000) { $0.activities.repeated > 0 })
    let seen = try bodies(admin, queue, 3)
    #expect(Set(seen.compactMap { $0?["activity"]?.string }) == ["a-0", "a-1", "a-2"])
    #expect(simulator.wait(timeoutMilliseconds: 10_000) { $0.activities.delivered == 3 && $0.activities.waiting == 0 })
  }

  @Test func aBrokerThatGoesAndComesBack() throws {
    let server = try RabbitMQServer()
    defer { server.kill() }
    let queue = "simulator.restart"
    var admin = try AMQPAdmin(patientURL: server.url)
    try admin.perform(.declareQueue(name: queue, arguments: Self.arguments))
    admin.close()
    let simulator = try simulator(server.url, queue: queue)
    _ = try simulator.start()
    defer { simulator.stop() }
    try start(simulator, 0)
    #expect(simulator.wait(timeoutMilliseconds: 10_000) { $0.activities.delivered == 1 })
    server.stop()
    try start(simulator, 1)
    #expect(simulator.wait(timeoutMilliseconds: 10_000) { $0.activities.waiting == 1 })
    try server.start()
    #expect(simulator.wait(timeoutMilliseconds: 60_000) { $0.activities.delivered == 2 && $0.activities.waiting == 0 })
    #expect(simulator.ledger.activities.lastFailure?.contains("RabbitMQ") == true)
    admin = try AMQPAdmin(patientURL: server.url)
    defer { admin.close() }
    #expect(Set(try bodies(admin, queue, 2).compactMap { $0?["activity"]?.string }) == ["a-0", "a-1"])
  }
}
