import Foundation
import TestSupport
import Testing

/// Two workers and one device that takes so many pushes a second, in sum.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerRateTests {
  @Test func twoWorkersShareADevicesRate() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("rate", redisURL: redis.url)
    let limit = "limits: {per_device_burst: 1, per_device_per_second: 5}"
    let text = world.configuration().replacing("limits: {per_device_burst: 0}", with: limit)
      .replacing("admin: {port: \(world.adminPort)}", with: "admin: {port: 0}")
    #expect(text.contains(limit))
    let jobs = (0..<15).map { world.job("job-\($0)", number: 1) }
    let result = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
    #expect(result.status == 0, "\(result.errors)")
    let workers = try (0..<2).map { _ in try world.startWorker(configuration: text) }
    try world.waitForAccepted(15)
    for worker in workers { #expect(worker.drain(seconds: 20) == 0, "\(worker.log)") }
    #expect(try world.expectAccepted(0..<15) == 0)
    #expect(try world.simulator.counters().duplicateIDs == 0)
    let times = try world.takeOutcomes().compactMap(\.sentAt).sorted()
    #expect(times.count == 15)
    // In any second, 5 and one more; a send waits some milliseconds behind its admission.
    for first in times.indices {
      let inWindow = times[first...].prefix { $0 < times[first] + 1000 - 60 }.count
      #expect(inWindow <= 6, "\(inWindow) in one second")
    }
    redis.stop()
  }
}
