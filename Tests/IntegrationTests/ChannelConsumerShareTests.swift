import Foundation
import TestSupport
import Testing

/// Many channel requests of one tenant in front of another's: real processes.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct ChannelConsumerShareTests {
  /// The time itself belongs to the machine. Without the rule: half a minute and more.
  private static let patience = Duration.seconds(6)

  private func ensure(_ id: String, name: String, environment: String = "production") -> String {
    "{\"version\":1,\"id\":\"\(id)\",\"app\":\"com.example.app\",\"environment\":\"\(environment)\","
      + "\"action\":\"ensure\",\"name\":\"\(name)\",\"storage\":\"none\"}"
  }

  /// Asks once, and returns how long the answer took.
  private func ask(_ id: String, _ world: WorkerWorld, _ worker: WorkerProcess) throws -> Duration {
    let start = ContinuousClock.now
    let answers = try ChannelRequester(port: world.rabbitmq.port).ask(
      [.init(ensure(id, name: id))], queue: "\(world.prefix).channels", seconds: 60)
    #expect(answers.count == 1 && answers.first?.body.contains("\"ok\":true") == true, "\(answers)\n\(worker.log)")
    return ContinuousClock.now - start
  }

  private func publish(_ bodies: [String], replyTo queue: String, _ world: WorkerWorld) throws {
    _ = try ChannelRequester(port: world.rabbitmq.port).ask(
      bodies.map { .init($0, replyTo: queue) }, queue: "\(world.prefix).channels")
  }

  /// The ids of requests that these answers say were carried out.
  private func ids(in answers: [OutsideClient.Message]) -> [String] {
    answers.map { String(decoding: $0.body, as: UTF8.self) }.filter { $0.contains("\"ok\":true") }.compactMap {
      $0.firstMatch(of: /"id":"([^"]+)"/).map { String($0.1) }
    }
  }

  @Test(arguments: WorkerShareTests.Trouble.stuck)
  func requestsForAStuckPoolHoldUpNoOther(trouble: WorkerShareTests.Trouble) throws {
    let world = try WorkerWorld("channel-share")
    let (sandbox, configuration) = try trouble.sandbox(beside: world)
    let worker = try world.startWorker(configuration: configuration)
    #expect(world.waitUntilReady(), "\(worker.log)")
    let alone = try ask("alone", world, worker)
    let answers = "\(world.prefix).answers"
    try world.outside.bind(queue: answers, to: "amq.fanout")
    let count = 1_000
    try publish(
      (0..<count).map { ensure("stuck-\($0)", name: "stuck-\($0)", environment: "sandbox") }, replyTo: answers, world)
    // What was put off comes back meanwhile.
    let taken = try (0..<6).map { try ask("other-\($0)", world, worker) }
    print("\(count) requests of an APNs that is \(trouble): others \(taken), alone \(alone)")
    #expect(taken.allSatisfy { $0 < Self.patience }, "\(taken)")
    guard trouble == .silent else { return worker.child.kill() }
    // And none of them is lost.
    try sandbox.clearFaults()
    var answered: Set<String> = []
    _ = try ChildProcess.poll(timeoutMilliseconds: 120_000, everyMilliseconds: 200) { () throws -> Bool? in
      answered.formUnion(ids(in: try world.outside.drain(answers)))
      return answered.count >= count ? true : nil
    }
    #expect(answered.count == count, "\(worker.log.suffix(2_000))")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }

  @Test func repliesThatAreRefusedHoldUpNoOther() throws {
    let world = try WorkerWorld("channel-refused")
    let answers = try world.makeFullQueue()
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let alone = try ask("cup", world, worker)
    let count = 1_000
    worker.child.signalLeader(SIGSTOP)
    try publish((0..<count).map { ensure("full-\($0)", name: "cup") }, replyTo: answers, world)
    worker.child.signalLeader(SIGCONT)
    let taken = try (0..<2).map { try ask("other-\($0)", world, worker) }
    print("\(count) requests with a full reply queue: others \(taken), alone \(alone)")
    #expect(taken.allSatisfy { $0 < Self.patience }, "\(taken)")
    // Their answers go to the results.
    var answered: Set<String> = []
    _ = try ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 200) { () throws -> Bool? in
      answered.formUnion(
        ids(in: try world.outside.drain(world.outcomesQueue)).filter { $0.hasPrefix("full-") })
      return answered.count >= count ? true : nil
    }
    #expect(answered.count == count, "\(worker.log.suffix(2_000))")
    #expect(worker.drain(seconds: 60) == 0, "\(worker.log)")
  }
}
