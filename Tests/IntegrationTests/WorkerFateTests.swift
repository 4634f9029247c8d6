import Foundation
import PushIO
import TestSupport
import Testing

/// A worker that is killed between the confirm of a job's end and the job's acknowledgement: the worker that gets the job next tells the same
/// end, though it could send the job.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerFateTests {
  /// What two outcomes of one end have in common.
  private struct End: Equatable {
    let outcome: String
    let status: Int?
    let reason: String?
    let attempts: Int
    let sentAt: Int64?
    let completedAt: Int64?

    init(_ outcome: WorkerWorld.Outcome) {
      self.outcome = outcome.outcome
      (status, reason, attempts) = (outcome.status, outcome.reason, outcome.attempts)
      (sentAt, completedAt) = (outcome.sentAt, outcome.completedAt)
    }
  }

  @Test func anEndThatWasToldAndNotAcknowledged_isToldAgain() throws {
    // Its own: other tests close all connections of the shared one.
    let rabbitmq = try RabbitMQServer()
    defer { rabbitmq.stop() }
    let world = try WorkerWorld("fate", rabbitmq: rabbitmq)
    let holder = try AcknowledgementHolder(port: rabbitmq.port)
    let admin = try AMQPAdmin(patientURL: rabbitmq.url)
    defer { admin.close() }
    func configuration(_ rabbitmqURL: String) -> String {
      world.configuration(rabbitmqURL: rabbitmqURL)
        .replacing("per_device_burst: 0", with: "per_device_burst: 1, per_device_per_second: 0.5, on_limit: drop")
        .replacing("delays_s: [1, 2], attempts_max: 10", with: "delays_s: [5], attempts_max: 2")
    }
    try world.simulator.setFaults("prefix=fa,status=503,reason=ServiceUnavailable")
    let killed = try world.startWorker(configuration: configuration(holder.url))
    #expect(world.waitUntilReady(), "\(killed.log)")
    // Its retry would come too late.
    let expiration = Int64(Date().timeIntervalSince1970) + 4
    let jobs = [
      world.job("failed", token: "fa01"),
      String(world.job("expired", token: "fa02").dropLast()) + ",\"expiration\":\(expiration)}",
      world.job("accepted", token: "0001"),
      // For the same device, over its rate.
      world.job("throttled", token: "0001"),
    ]
    let enqueued = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
    #expect(enqueued.status == 0, "\(enqueued.errors)")
    try world.waitForOutcomes(jobs.count)
    // The failed job and its retry, and one delivery of each of the others. A job is acknowledged only after its confirms.
    let isAcknowledged = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 20) { () -> Bool? in
      holder.heldCount == 5 ? true : nil
    }
    #expect(isAcknowledged == true, "\(holder.heldCount) acknowledgements; \(killed.log)")
    let ends = Dictionary(grouping: try world.takeOutcomes()) { $0.jobID ?? "" }
    #expect(ends.values.allSatisfy { $0.count == 1 && !$0[0].ambiguous }, "\(ends)")
    #expect(ends.allSatisfy { $0.key == $0.value[0].outcome }, "\(ends)")
    #expect(
      ends.mapValues { $0[0].attempts } == ["failed": 2, "expired": 1, "accepted": 1, "throttled": 0], "\(ends)")

    killed.child.kill()
    let queue = "\(world.prefix).jobs.transactional"
    let isReturned = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { () -> Bool? in
      (try? admin.messageCount(queue: queue)) == 5 ? true : nil
    }
    #expect(isReturned == true)
    // APNs accepts all of it now, and the device's rate has room again.
    try world.simulator.clearFaults()
    let requests = try world.simulator.counters().requests
    let next = try world.startWorker(["--until-empty"], configuration: configuration(rabbitmq.url))
    #expect(next.waitForExit(seconds: 60) == 0, "\(next.log)")

    let told = Dictionary(grouping: try world.takeOutcomes()) { $0.jobID ?? "" }
    #expect(told.mapValues(\.count) == ["failed": 3, "expired": 2, "accepted": 2, "throttled": 2])
    for (id, outcomes) in told {
      let all = outcomes.map(End.init)
      #expect(all.allSatisfy { $0 == all[0] }, "\(id): \(all)")
    }
    #expect(try world.simulator.counters().requests == requests, "what has its end was sent again")
    // Each time with its dead letter: the next worker does not know whether it was published.
    #expect(try admin.messageCount(queue: "\(world.prefix).dead") == 3)
  }
}
