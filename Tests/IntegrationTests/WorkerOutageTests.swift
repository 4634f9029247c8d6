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

  private func sum(of metric: String, _ world: WorkerWorld) -> Int? {
    let lines = world.admin("/metrics")?.body.split(separator: "\n").filter { $0.hasPrefix("\(metric){") }
    return lines.map { $0.reduce(0) { $0 + (Int($1.split(separator: " ").last ?? "") ?? 0) } }
  }

  /// A worker that gets no processor for longer than `redis.timeout_ms` waited in vain, and Redis was well.
  @Test func aWorkerThatStandsStillBlamesNoRedis() throws {
    let redis = try RedisServer()
    var options = WorkerWorld.Options()
    (options.prefetch, options.redisTimeoutMilliseconds) = (500, 200)
    let world = try WorkerWorld("busy", redisURL: redis.url, options: options)
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<200)
    try world.waitForAccepted(200)
    try world.publishJobs(200..<6_000)
    var pauses = 0
    while try world.simulator.counters().acceptedIDs < 6_000, pauses < 60 {
      worker.child.pause()
      usleep(400_000)
      worker.child.resume()
      pauses += 1
      usleep(50_000)
    }
    #expect(pauses >= 3, "it was busy for so many of them")
    try world.waitForAccepted(6_000)
    #expect(sum(of: "herald_redis_silences_total", world) == 0)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<6_000) == 0)
    #expect(try world.takeOutcomes().count { $0.ambiguous } == 0)
    #expect(!worker.log.contains("redis: silent"), "\(worker.log)")
  }

  /// What was decided without Redis is told at the end of each silence, once, with its number.
  @Test func aSilenceOfRedisIsLoggedOnceWithItsCount() throws {
    let redis = try RedisServer()
    var options = WorkerWorld.Options()
    options.redisTimeoutMilliseconds = 200
    let world = try WorkerWorld("silence", redisURL: redis.url, options: options)
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<50)
    try world.waitForAccepted(50)
    for round in 1...2 {
      redis.pause()
      try world.publishJobs(round * 50..<round * 50 + 50)
      try world.waitForAccepted(round * 50 + 50)
      redis.resume()
      #expect(
        ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 50) {
          sum(of: "herald_redis_silences_total", world) ?? 0 >= round ? true : nil
        } == true)
    }
    let silences = sum(of: "herald_redis_silences_total", world)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    let lines = worker.lines.filter { $0.contains("redis: silent for ") }
    #expect(lines.count == silences, "\(worker.log)")
    let ambiguous = try world.takeOutcomes().count { $0.ambiguous }
    let counts = lines.compactMap { line in
      line.firstRange(of: "own memory decided ").flatMap { Int(line[$0.upperBound...].prefix { $0.isNumber }) }
    }
    #expect(counts.reduce(0, +) == ambiguous && ambiguous > 50, "\(counts), \(ambiguous) ambiguous")
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
