import Foundation
import Glibc
import TestSupport
import Testing

/// RabbitMQ, Redis or APNs is away at the start or goes away later: the worker says so once, waits,
/// and goes on by itself.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerOutageTests {
  /// Few log lines, each once: the worker reports an outage when it begins and when it ends.
  private func expectNoFlood(_ worker: WorkerProcess, _ location: SourceLocation = #_sourceLocation) {
    #expect(worker.lines.count <= 40, "\(worker.lines.count) lines:\n\(worker.log)", sourceLocation: location)
  }

  @Test func theBrokerComesLateAndRestarts() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try WorkerWorld("broker", rabbitmq: rabbitmq)
    try world.publishJobs(0..<300)
    rabbitmq.stop()
    let worker = try world.startWorker()
    #expect(worker.waitForLine("127.0.0.1:\(rabbitmq.port)", "refused"), "\(worker.log)")
    #expect(world.admin("/livez")?.status == 200)
    #expect(world.admin("/readyz")?.status == 503)
    try rabbitmq.start()
    try world.waitForAccepted(300)

    try world.simulator.setFaults("latency=100-300")
    try world.publishJobs(300..<2_000)
    try world.waitForAccepted(500)
    rabbitmq.kill()
    try rabbitmq.start()
    try world.simulator.clearFaults()
    try world.waitForAccepted(2_000)
    #expect(world.waitUntilReady())
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    let surplus = try world.expectAccepted(0..<2_000)
    #expect(surplus <= world.options.prefetch, "\(surplus) outcomes too many")
    expectNoFlood(worker)
  }

  @Test func redisComesLateAndGoesAway() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("redis", redisURL: redis.url)
    redis.stop()
    try world.publishJobs(0..<200)
    let worker = try world.startWorker()
    try world.waitForAccepted(200)
    #expect(worker.waitForLine("127.0.0.1:\(redis.port)"), "\(worker.log)")
    #expect(world.admin("/metrics")?.body.contains("herald_redis_up 0\n") == true)
    #expect(world.admin("/readyz")?.status == 200)
    try redis.start()
    #expect(isRedisUp(world, 1))

    try world.simulator.setFaults("latency=50-150")
    try world.publishJobs(200..<2_000)
    try world.waitForAccepted(500)
    redis.kill()
    try world.waitForAccepted(2_000)
    #expect(isRedisUp(world, 0))
    try redis.start()
    #expect(isRedisUp(world, 1))
    try world.publishJobs(2_000..<2_100)
    try world.waitForAccepted(2_100)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<2_100) == 0)
    #expect(try world.simulator.counters().duplicateIDs == 0)
    expectNoFlood(worker)
  }

  private func isRedisUp(_ world: WorkerWorld, _ value: Int) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 100) {
      world.admin("/metrics")?.body.contains("herald_redis_up \(value)\n") == true ? true : nil
    } ?? false
  }

  @Test func apnsComesLateAndGoesAway() throws {
    let world = try WorkerWorld("apns")
    world.simulator.stop()
    try world.publishJobs(0..<200)
    let worker = try world.startWorker()
    #expect(worker.waitForLine("127.0.0.1:\(world.simulator.port)", "refused"), "\(worker.log)")
    try world.simulator.start()
    try world.waitForAccepted(200)

    try world.simulator.setFaults("latency=100-300")
    try world.publishJobs(200..<1_500)
    try world.waitForAccepted(600)
    world.simulator.stop()
    usleep(1_500_000)
    // A new simulator has an empty ledger.
    try world.simulator.start()
    let isDone = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 500) { () -> Bool? in
      guard let outcomes = try? world.takeOutcomes() else { return nil }
      return Set(outcomes.compactMap(\.jobID)).count >= 1_500 ? true : nil
    }
    #expect(isDone == true)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<1_500) == 0)
    expectNoFlood(worker)
  }
}
