import Foundation
import Glibc
import TestSupport
import Testing

/// A worker that ends in the middle of its work, by SIGKILL or by a drain: the next one finishes the work.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerStopTests {
  @Test func afterAKillTheNextWorkerFinishesTheRest() throws {
    let world = try WorkerWorld("kill")
    let jobs = 0..<5_000
    try world.publishJobs(jobs)
    try world.simulator.setFaults("latency=20-60")
    let killed = try world.startWorker()
    try world.waitForAccepted(1_500)
    killed.child.kill()
    let before = try world.simulator.counters().acceptedIDs
    #expect(before < jobs.count, "killed too late to show anything")
    try world.simulator.clearFaults()
    try world.runUntilEmpty()

    let surplus = try world.expectAccepted(jobs)
    #expect(surplus <= world.options.prefetch, "\(surplus) outcomes too many")
    let counters = try world.simulator.counters()
    #expect(counters.acceptedIDs == jobs.count)
    #expect(counters.duplicateIDs <= world.options.prefetch, "\(counters.duplicateIDs) sent twice")
    #expect(try world.simulator.duplicates().values.allSatisfy { $0 == 2 })
  }

  @Test func atSIGTERMItFinishesWhatItHas() throws {
    let world = try WorkerWorld("drain")
    let jobs = 0..<4_000
    try world.publishJobs(jobs)
    try world.simulator.setFaults("latency=50-300")
    let first = try world.startWorker()
    try world.waitForAccepted(500)
    #expect(first.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(first.log)")
    let sent = try world.simulator.counters().acceptedIDs
    #expect(sent < jobs.count, "drained too late to show anything")
    // Every job that it sent has its outcome already.
    #expect(try world.takeOutcomes().count == sent)
    try world.simulator.clearFaults()
    try world.runUntilEmpty()
    #expect(try world.expectAccepted(jobs) == 0)
    let counters = try world.simulator.counters()
    #expect(counters.accepted == jobs.count)
    #expect(counters.duplicateIDs == 0)
    #expect(first.lines.count < 20, "\(first.log)")
  }

  /// No server answers during the shutdown: neither confirms nor closes come.
  @Test func frozenServersHoldNoStopUp() throws {
    let rabbitmq = try RabbitMQServer()
    let redis = try RedisServer()
    var options = WorkerWorld.Options()
    options.drainTimeoutSeconds = 5
    let world = try WorkerWorld("frozen", rabbitmq: rabbitmq, redisURL: redis.url, options: options)
    let first = try world.startWorker()
    try world.publishJobs(0..<1)
    try world.waitForAccepted(1)
    try world.simulator.setFaults("latency=1000")
    try world.publishJobs(1..<100)
    let isBusy = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 20) { () -> Bool? in
      (try? world.simulator.counters().requests) == 100 ? true : nil
    }
    #expect(isBusy == true)
    rabbitmq.pause()
    redis.pause()
    #expect(first.drain(seconds: 30) == 0, "\(first.log)")
    rabbitmq.resume()
    redis.resume()
    try world.simulator.clearFaults()
    try world.runUntilEmpty()
    _ = try world.expectAccepted(0..<100)
    #expect(try world.simulator.counters().acceptedIDs == 100)
    rabbitmq.stop()
    redis.stop()
  }

  @Test func aSecondSIGTERMEndsItAtOnce() throws {
    var options = WorkerWorld.Options()
    options.drainTimeoutSeconds = 120
    let world = try WorkerWorld("twice", options: options)
    let first = try world.startWorker()
    try world.publishJobs(0..<1)
    try world.waitForAccepted(1)
    try world.simulator.setFaults("silence")
    try world.publishJobs(1..<20)
    let isBusy = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 20) { () -> Bool? in
      (try? world.simulator.counters().requests) == 20 ? true : nil
    }
    #expect(isBusy == true)
    first.child.signalLeader(SIGTERM)
    #expect(first.waitForLine("draining"), "\(first.log)")
    #expect(first.child.isRunning)
    first.child.signalLeader(SIGTERM)
    // Long before the drain deadline, and with another status.
    #expect(first.waitForExit(seconds: 30) == 128 + SIGTERM, "\(first.log)")
    // The worker told the broker nothing, so the broker redelivers everything to the next one.
    try world.simulator.clearFaults()
    try world.runUntilEmpty()
    #expect(try world.expectAccepted(0..<20) == 0)
  }

  @Test func itGivesBackWhatDoesNotEndInTime() throws {
    var options = WorkerWorld.Options()
    options.drainTimeoutSeconds = 5
    // A pool begins with an eighth of it on the wire: all jobs.
    options.prefetch = 400
    let world = try WorkerWorld("handback", options: options)
    let jobs = 0..<50
    let first = try world.startWorker()
    // A connection has one stream until its first request was answered.
    try world.publishJobs(0..<1)
    try world.waitForAccepted(1)
    try world.simulator.setFaults("silence")
    try world.publishJobs(1..<50)
    let received = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { () -> Bool? in
      (try? world.simulator.counters().requests) == jobs.count ? true : nil
    }
    #expect(received == true)
    #expect(first.drain(seconds: 8) == 0, "\(first.log)")
    #expect(try world.takeOutcomes().count == 1)
    try world.simulator.clearFaults()
    try world.runUntilEmpty()
    // Requests time out at the same moment: a job may have gone to a retry queue and back.
    #expect(try world.expectAccepted(jobs) < jobs.count)
  }
}
