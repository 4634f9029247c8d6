import Foundation
import TestSupport
import Testing

/// Two workers share the rate of one device.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerRateTests {
  /// Jobs over the limit are dropped: each job has its outcome, and no window exceeds the limit.
  @Test func tenThousandJobsForOneDevice() throws {
    let redis = try RedisServer()
    var options = WorkerWorld.Options()
    // If a reply is late on a busy machine, each worker decides alone, with half of the limit.
    options.redisTimeoutMilliseconds = 2000
    let world = try WorkerWorld("flood", redisURL: redis.url, options: options)
    let limit = "limits: {per_device_burst: 1, per_device_per_second: 5, on_limit: drop}"
    let text = world.configuration().replacing("limits: {per_device_burst: 0}", with: limit)
      .replacing("admin: {port: \(world.adminPort)}", with: "admin: {port: 0}")
    #expect(text.contains(limit))
    let workers = try (0..<2).map { _ in try world.startWorker(configuration: text) }
    let count = 10_000
    let jobs = (0..<count).map { world.job("job-\($0)", number: 1) }
    let result = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
    #expect(result.status == 0, "\(result.errors)")
    var outcomes: [WorkerWorld.Outcome] = []
    let isDone: Bool? = ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 200) {
      outcomes = (try? world.takeOutcomes()) ?? outcomes
      return outcomes.count >= count ? true : nil
    }
    #expect(isDone != nil, "\(outcomes.count) outcomes")
    for worker in workers { #expect(worker.drain(seconds: 20) == 0, "\(worker.log)") }
    #expect(Set(outcomes.compactMap(\.jobID)).count == count && outcomes.count == count)
    #expect(Set(outcomes.map(\.outcome)) == ["accepted", "throttled"])
    let sent = outcomes.filter { $0.outcome == "accepted" }.sorted { ($0.sentAt ?? 0) < ($1.sentAt ?? 0) }
    #expect(try world.simulator.counters().requests == sent.count && sent.count >= 2)
    // Each was admitted between its receipt and its sending.
    for first in sent.indices {
      for last in first..<sent.count {
        let received = try #require(sent[first...last].compactMap(\.receivedAt).min())
        let seconds = Double(try #require(sent[last].sentAt) - received) / 1000
        #expect(Double(last - first + 1) <= 5 * seconds + 2, "\(last - first + 1) in \(seconds) s")
      }
    }
    redis.stop()
  }

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
    // 5 in any second, and one more: a send comes some milliseconds after its admission.
    for first in times.indices {
      let inWindow = times[first...].prefix { $0 < times[first] + 1000 - 60 }.count
      #expect(inWindow <= 6, "\(inWindow) in one second")
    }
    redis.stop()
  }
}
