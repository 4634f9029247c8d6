import Foundation
import PushIO
import TestSupport
import Testing

/// A backlog of bulk jobs, and concurrent transactional jobs.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerClassTests {
  private struct Measured {
    /// Milliseconds from a job's publish to its outcome, sorted.
    var waits: [Int64] = []
    /// Outcomes of bulk jobs in the meantime.
    var bulkCount = 0
  }

  /// Transactional jobs, 50 a second, until all have their outcome.
  private func transactional(_ world: WorkerWorld, _ numbers: Range<Int>) throws -> Measured {
    let admin = try admin(world)
    defer { admin.close() }
    var published: [String: Int64] = [:]
    let exchange = AMQPExchange("\(world.prefix).jobs", isMandatory: true)
    for number in numbers {
      let id = "urgent-\(number)"
      published[id] = Int64(Date.now.timeIntervalSince1970 * 1000)
      try admin.publish(
        to: exchange, routingKey: "transactional", properties: AMQPProperties(),
        body: Array(world.job(id, token: "0abc", number: number).utf8))
      try admin.wait(milliseconds: 20)
    }
    try admin.waitForConfirms()
    var measured = Measured()
    try admin.consume(queue: world.outcomesQueue, prefetch: 1000, idleMilliseconds: 10_000) { message in
      guard let outcome = try? JSONDecoder().decode(WorkerWorld.Outcome.self, from: Data(message.body)) else {
        return .acknowledge
      }
      if let id = outcome.jobID, let start = published.removeValue(forKey: id) {
        measured.waits.append((outcome.completedAt ?? .max) - start)
      } else {
        measured.bulkCount += 1
      }
      // Messages after the last one are requeued.
      return published.isEmpty ? nil : .acknowledge
    }
    #expect(published.isEmpty, "\(published.count) of \(numbers.count) without outcome")
    measured.waits.sort()
    return measured
  }

  private func admin(_ world: WorkerWorld) throws -> AMQPAdmin {
    try AMQPAdmin(patientURL: world.rabbitmq.url)
  }

  @Test func aBulkBacklogDoesNotDelayTransactionalJobs() throws {
    let world = try WorkerWorld("classes")
    // 100 of 200 in flight may be bulk: about 400 a second, so the backlog lasts.
    try world.simulator.setFaults("latency=200-300")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let unloaded = try transactional(world, 0..<100)

    let bulkCount = 20_000
    let lines = (0..<bulkCount).map { world.job("bulk-\($0)", number: $0) }.joined(separator: "\n") + "\n"
    let enqueued = try world.herald(["enqueue", "--class", "bulk"], input: lines)
    #expect(enqueued.status == 0, "\(enqueued.errors)")
    let loaded = try transactional(world, 100..<200)
    let admin = try admin(world)
    defer { admin.close() }
    let left = try admin.messageCount(queue: "\(world.prefix).jobs.bulk") ?? 0
    // Without reserved capacity, the last of them would have waited for the whole backlog.
    #expect(left > bulkCount / 2, "\(left) of \(bulkCount) bulk jobs left: they went first")
    try #require(unloaded.waits.count == 100 && loaded.waits.count == 100)
    let (calm, busy) = (unloaded.waits[98], loaded.waits[98])
    // Bulk goes on meanwhile.
    #expect(loaded.bulkCount > 200, "\(loaded.bulkCount) bulk jobs beside 100 transactional ones")
    worker.child.kill()
    let middle = (unloaded.waits[50], loaded.waits[50])
    print("transactional, publish to outcome, p50/p99 ms: \(middle.0)/\(calm) alone, \(middle.1)/\(busy) beside bulk")
  }
}
