import Foundation
import PushStores
import TestSupport
import Testing

/// The queue of dead letters refuses, while one tenant sends much that ends there: others are not held up, and nothing is lost. Real servers.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct RefusedDeadLetterTests {
  private func world(_ name: String, _ options: WorkerWorld.Options = .init()) throws -> WorkerWorld {
    let world = try WorkerWorld(name, options: options)
    let dead = "\(world.prefix).dead"
    _ = try world.rabbitmq.rabbitmqctl([
      "set_policy", "--apply-to", "queues", dead, "^\(dead)$", #"{"max-length":1,"overflow":"reject-publish"}"#,
    ])
    for body in ["taken", "refused"] { try world.outside.publish(body, exchange: "", routingKey: dead) }
    return world
  }

  /// The metric says that the queue refuses this part of the worker.
  private func expectMetric(of role: String, _ world: WorkerWorld) {
    let metric = "\nherald_publish_refused{destination=\"\(world.prefix).dead\",app=\"\",role=\"\(role)\"} 1\n"
    let isTold = ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 100) {
      world.admin("/metrics")?.body.contains(metric) == true ? true : nil
    }
    #expect(isTold == true, "\(role)")
  }

  /// Waits until the queue has taken the dead letters of all.
  private func expectDeadLetters(
    _ count: Int, of role: String, _ world: WorkerWorld, _ worker: WorkerProcess
  ) throws {
    expectMetric(of: role, world)
    let dead = "\(world.prefix).dead"
    _ = try world.rabbitmq.rabbitmqctl(["clear_policy", dead])
    var letters: [OutsideClient.Message] = []
    let areThere = ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 200) { () -> Bool? in
      letters += ((try? world.outside.drain(dead)) ?? []).filter { $0.headers["x-herald-reason"] != nil }
      return letters.count >= count ? true : nil
    }
    #expect(areThere == true && letters.count == count, "\(letters.count) of \(count): \(worker.log)")
    let reasons = Dictionary(grouping: letters) { $0.headers["x-herald-reason"] ?? "" }.mapValues(\.count)
    #expect(
      (reasons["invalid"] ?? 0) + (reasons["rejected"] ?? 0) == count && reasons["rejected"] ?? 0 > 0, "\(reasons)")
  }

  @Test func invalidJobs_holdUpNoOthers() throws {
    var options = WorkerWorld.Options()
    options.prefetch = 64
    let world = try world("dead-jobs", options)
    let worker = try world.startWorker()
    let bodies = (0..<100).map { "{\"id\":\"bad-\($0)\",\"x\":1}" }
    try world.outside.publish(bodies, exchange: "\(world.prefix).jobs", routingKey: "transactional")
    try world.publishJobs(0..<20)
    try world.waitForAccepted(20)
    try world.waitForOutcomes(120)
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.count == 120 && outcomes.count { $0.outcome == "invalid" } == 100)
    try expectDeadLetters(100, of: "lane", world, worker)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
  }

  @Test func badChannelRequests_holdUpNoOthers() throws {
    let world = try world("dead-channels")
    let worker = try world.startWorker()
    let requester = ChannelRequester(port: world.rabbitmq.port)
    let queue = "\(world.prefix).channels"
    let count = Int(ChannelConsumerSettings.requestsMaximum) + 40
    let answers = try requester.ask((0..<count).map { .init("{\"id\":\"bad-\($0)\"}") }, queue: queue)
    #expect(answers.count == count, "\(worker.log)")
    let good =
      "{\"version\":1,\"id\":\"good\",\"app\":\"com.example.app\",\"action\":\"ensure\",\"name\":\"cup\",\"storage\":\"none\"}"
    #expect(try requester.ask([.init(good)], queue: queue).count == 1, "\(worker.log)")
    try expectDeadLetters(count, of: "channels", world, worker)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
  }

  /// Their segment does not exist, which their consumer finds.
  @Test func badAudiences_holdUpNoOthers() throws {
    let world = try world("dead-audiences")
    let worker = try world.startWorker()
    let count = 560
    func job(_ number: Int) -> String {
      """
      {"version":1,"id":"bad-\(number)","app":"com.example.app","push_type":"alert","to":{"segment":"NONE"},\
      "payload":{"aps":{"alert":"x"}}}
      """
    }
    let lines = (0..<count).map(job).joined(separator: "\n") + "\n"
    let result = try world.herald(["enqueue", "--class", "bulk"], input: lines)
    #expect(result.output == "\(count) of \(count) jobs confirmed\n", "\(result.errors)")
    try world.waitForOutcomes(count)
    try expectDeadLetters(count, of: "expansions", world, worker)
    #expect(try world.takeOutcomes().count == count)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
  }
  /// A registration that is none, and what RabbitMQ gave up: their consumers say that they cannot put it there.
  @Test func refusedConsumersAreInTheMetrics() throws {
    let world = try world("dead-registrations")
    let worker = try world.startWorker()
    try world.outside.publish("{}", exchange: "", routingKey: "\(world.prefix).registrations")
    // From an exchange of nobody's: none of Herald's consumers carries it out.
    try world.outside.publish("{}", exchange: "\(world.prefix).dead", routingKey: "")
    for role in ["registrations", "undelivered"] { expectMetric(of: role, world) }
    _ = try world.rabbitmq.rabbitmqctl(["clear_policy", "\(world.prefix).dead"])
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
  }
}
