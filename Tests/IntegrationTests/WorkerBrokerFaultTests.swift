import Foundation
import PushIO
import TestSupport
import Testing

/// A broker that blocks publishers, or whose queues are deleted, under a running worker.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerBrokerFaultTests {
  @Test func aMemoryAlarmStopsNewSends() throws {
    let rabbitmq = try RabbitMQServer()
    defer { rabbitmq.stop() }
    let world = try WorkerWorld("alarm", rabbitmq: rabbitmq)
    let jobs = 0..<6_000
    // 200 in flight, and so about 300 a second: the backlog outlasts the alarm.
    try world.simulator.setFaults("latency=500-700")
    try world.publishJobs(jobs)
    let worker = try world.startWorker()
    try world.waitForAccepted(200)
    try rabbitmq.rabbitmqctl(["set_vm_memory_high_watermark", "absolute", "1MB"])
    // The broker tells a connection of the alarm when it publishes; with a flow of outcomes, that is at once.
    #expect(worker.waitForLine("blocked by the broker", seconds: 5), "\(worker.log)")
    let isReported = ChildProcess.poll(timeoutMilliseconds: 1_000, everyMilliseconds: 20) {
      world.admin("/metrics")?.body.contains("\nherald_rabbitmq_blocked 1\n") == true ? true : nil
    }
    #expect(isReported == true)
    usleep(500_000)
    let requests = try world.simulator.counters().requests
    usleep(2_000_000)
    #expect(try world.simulator.counters().requests == requests, "sends under the alarm")
    #expect(requests < jobs.count, "everything was sent before the alarm")
    #expect(world.admin("/livez")?.status == 200)
    // A lane that cannot publish cannot settle: if it loses its consumer now, it takes nothing until the alarm ends.
    try rabbitmq.rabbitmqctl([
      "eval",
      """
      [rabbit_networking:close_connection(P, "closed by a test") || P <- rabbit_networking:connections(),
        binary:match(term_to_binary(rabbit_reader:info(P, [client_properties])), <<" consumer">>) =/= nomatch].
      """,
    ])
    #expect(worker.waitForLine("closed by a test", seconds: 5), "\(worker.log)")
    usleep(1_500_000)
    let admin = try AMQPAdmin(patientURL: rabbitmq.url)
    defer { admin.close() }
    let queue = "\(world.prefix).jobs.transactional"
    #expect(try admin.perform(.inspectQueue(name: queue)).consumerCount == 0, "\(worker.log)")

    try rabbitmq.rabbitmqctl(["set_vm_memory_high_watermark", "0.6"])
    try world.simulator.clearFaults()
    try world.waitForOutcomes(jobs.count)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    _ = try world.expectAccepted(jobs)
    #expect(try world.simulator.counters().duplicateIDs == 0)
  }

  /// Who starts under an alarm and publishes nothing is told of it, too; so are those who check, and those who enqueue.
  @Test func anAlarmIsKnownWithoutAPublish() throws {
    let rabbitmq = try RabbitMQServer()
    defer { rabbitmq.stop() }
    let world = try WorkerWorld("idle-alarm", rabbitmq: rabbitmq)
    #expect(try world.herald(["check"]).output.contains("ok   rabbitmq"))
    try rabbitmq.rabbitmqctl(["set_vm_memory_high_watermark", "absolute", "1MB"])
    let worker = try world.startWorker()
    #expect(worker.waitForLine("blocked by the broker", seconds: 10), "\(worker.log)")
    let isReported = ChildProcess.poll(timeoutMilliseconds: 5_000, everyMilliseconds: 20) {
      world.admin("/metrics")?.body.contains("\nherald_rabbitmq_blocked 1\n") == true ? true : nil
    }
    #expect(isReported == true)
    let start = ContinuousClock.now
    let check = try world.herald(["check"])
    #expect(check.status == 1 && check.output.contains("\nFAIL rabbitmq: "), "\(check.output)")
    #expect(check.output.contains("RabbitMQ is blocked by an alarm (low on memory)"), "\(check.output)")
    #expect(ContinuousClock.now - start < .seconds(10), "it does not wait for the alarm's end")

    let log = world.folder.path("enqueue.log")
    let enqueue = try ChildProcess(
      [
        try BuiltProgram.path("herald"), "enqueue", "--config", world.configurationFile,
        world.folder.write(world.job("a"), to: "job"),
      ],
      environment: WorkerWorld.environment, output: log, errors: log)
    let isTold = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 50) {
      (try? String(contentsOfFile: log, encoding: .utf8))?.contains("blocked by an alarm (low on memory)") == true
        ? true : nil
    }
    #expect(isTold == true)
    try rabbitmq.rabbitmqctl(["set_vm_memory_high_watermark", "0.6"])
    #expect(enqueue.wait(timeoutMilliseconds: 20_000) == 0)
    try world.waitForOutcomes(1)
    #expect(try String(contentsOfFile: log, encoding: .utf8).contains("1 of 1 jobs confirmed"))
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
  }

  /// Requests at a slow APNs take no slots of redelivered jobs after a lost connection: none is
  /// returned for lack of room again and again, until the broker's delivery limit removes it.
  @Test func connectionsThatAreClosedInARowUnderASlowAPNsLoseNothing() throws {
    let world = try WorkerWorld("closed")
    let jobs = 0..<600
    try world.simulator.setFaults("latency=4500-4500")
    // Of both classes: each has half of the prefetch.
    try world.publishJobs(0..<300)
    try world.publishJobs(300..<600, jobClass: "bulk")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.rabbitmq.rabbitmqctl([
      "eval",
      """
      lists:foreach(fun(_) -> timer:sleep(900),
        [rabbit_networking:close_connection(P, "closed by a test") || P <- rabbit_networking:connections()] end,
        lists:seq(1, 4)).
      """,
    ])
    // So slow, a pool keeps a small share of the lane.
    try world.simulator.clearFaults()
    try world.waitForOutcomes(jobs.count)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    _ = try world.expectAccepted(jobs)
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    #expect(try admin.messageCount(queue: "\(world.prefix).dead") == 0, "the broker gave up jobs without an outcome")
  }

  /// The worker lives and gets the answers of its requests: no job is sent again by the worker that gets it next.
  @Test func aLostConnectionRepeatsNothing() throws {
    var options = WorkerWorld.Options()
    options.lanes = 2
    let world = try WorkerWorld("lost-connection", options: options)
    let jobs = 0..<400
    try world.simulator.setFaults("latency=600-700")
    try world.publishJobs(jobs)
    let worker = try world.startWorker()
    try world.waitForAccepted(50)
    try world.rabbitmq.rabbitmqctl([
      "eval", "[rabbit_networking:close_connection(P, \"closed by a test\") || P <- rabbit_networking:connections()].",
    ])
    try world.waitForOutcomes(jobs.count)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    _ = try world.expectAccepted(jobs)
    #expect(try world.simulator.counters().duplicateIDs == 0)
  }

  /// A producer that got no confirm publishes again, or a retry queue that restarts delivers a message again that the job queue already
  /// has. Here the second copy comes while APNs is slow to answer the first: it waits for the first one's answer.
  @Test func aJobThatComesTwiceIsSentOnce() throws {
    var options = WorkerWorld.Options()
    options.lanes = 2
    let world = try WorkerWorld("twice", options: options)
    try world.simulator.setFaults("latency=1500-1500")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    let copies = AMQPProperties()
    copies.addHeader("x-herald-attempts", 1)
    copies.addHeader("x-herald-first-seen", Int64(Date().timeIntervalSince1970 * 1000))
    copies.addHeader("x-herald-ambiguous", false)
    for _ in 0..<2 {
      for number in 0..<50 {
        try admin.publish(
          to: AMQPExchange("\(world.prefix).jobs", isMandatory: true), routingKey: "transactional",
          properties: number < 25 ? copies : AMQPProperties(), body: Array(world.job("job-\(number)").utf8))
      }
    }
    try admin.waitForConfirms()
    let isReported = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) {
      (try? world.takeOutcomes().count) == 100 ? true : nil
    }
    #expect(isReported == true, "\(worker.log)")
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    let counters = try world.simulator.counters()
    #expect(counters.accepted == 50 && counters.requests == 50 && counters.duplicateIDs == 0)
    #expect(try world.expectAccepted(0..<50) == 50)
    #expect(try world.takeOutcomes().allSatisfy { $0.outcome == "accepted" && !$0.ambiguous })
  }

  /// The wait for a too large job's dead letter delays all other deliveries, but it has a limit, and the next ones are not waited for.
  @Test func aFullQueueOfDeadLettersStopsNobody() throws {
    let world = try WorkerWorld("dead-full")
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    let full = "\(world.prefix).dead"
    _ = try world.rabbitmq.rabbitmqctl([
      "set_policy", "--apply-to", "queues", full, "^\(full)$", #"{"max-length":1,"overflow":"reject-publish"}"#,
    ])
    for body in ["taken", "refused"] { try world.outside.publish(body, exchange: "", routingKey: full) }
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let count = 8
    for number in 0..<count {
      let large = world.job("large-\(number)").dropLast() + ",\"meta\":\"\(String(repeating: "x", count: 600_000))\"}"
      try world.publish(String(large))
    }
    try world.publishJobs(0..<20)
    try world.waitForAccepted(20, seconds: 15)
    #expect(worker.waitForLine("did not take the dead letter of a job of"), "\(worker.log)")
    // Refused messages are published once there is room.
    _ = try world.rabbitmq.rabbitmqctl(["clear_policy", full])
    let isReported = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) {
      (try? world.takeOutcomes().count { $0.outcome == "invalid" }) == count ? true : nil
    }
    #expect(isReported == true, "\(worker.log)")
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.takeOutcomes().count { $0.outcome == "accepted" } == 20)
  }

  /// An analyst's queue of outcomes is full and rejects; the operator lifts its limit. Other queues get few outcomes more than once, nothing is
  /// lost, and it recovers by itself: RabbitMQ goes on refusing on a channel that it once told so.
  @Test func aFullQueueOfOutcomes_isTriedWithOne_untilItsLimitIsLifted() throws {
    let world = try WorkerWorld("results-full")
    let queue = "\(world.prefix).analyst"
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    try admin.perform(.declareQueue(name: queue, arguments: []))
    try admin.perform(.bind(queue: queue, exchange: "\(world.prefix).results", routingKey: "#"))
    _ = try world.rabbitmq.rabbitmqctl([
      "set_policy", "--apply-to", "queues", queue, "^\(queue)$", #"{"max-length":1,"overflow":"reject-publish"}"#,
    ])
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<100)
    #expect(worker.waitForLine("results refuses messages", seconds: 20), "\(worker.log)")
    let metric =
      "\nherald_publish_refused{destination=\"\(world.prefix).results\",app=\"com.example.app\",role=\"lane\"} 1\n"
    let isTold = ChildProcess.poll(timeoutMilliseconds: 5_000, everyMilliseconds: 100) {
      world.admin("/metrics")?.body.contains(metric) == true ? true : nil
    }
    #expect(isTold == true)
    #expect(world.admin("/readyz")?.body.contains("results refuses what is published to it") == true)
    // Each try reaches the other queue. The second one from here on has a fresh channel: it refused for a second.
    var outcomes: [String: Int] = [:]
    var untriedCount: Int?
    let isTried = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) { () -> Bool? in
      guard let taken = try? world.takeOutcomes() else { return nil }
      outcomes = taken.reduce(into: [:]) { $0[$1.jobID ?? "", default: 0] += 1 }
      untriedCount = untriedCount ?? taken.count
      return taken.count >= (untriedCount ?? 0) + 2 ? true : nil
    }
    #expect(isTried == true, "\(outcomes); \(worker.log)")
    _ = try world.rabbitmq.rabbitmqctl(["clear_policy", queue])
    let isComplete = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) { () -> Bool? in
      outcomes = ((try? world.takeOutcomes()) ?? []).reduce(into: [:]) { $0[$1.jobID ?? "", default: 0] += 1 }
      let kept = try? admin.messageCount(queue: queue)
      return outcomes.count == 100 && kept ?? 0 >= 100 ? true : nil
    }
    #expect(isComplete == true, "\(outcomes.count) outcomes; \(worker.log)")
    #expect(outcomes.values.reduce(0, +) <= 220, "\(outcomes.values.reduce(0, +)) outcomes of 100 jobs")
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.simulator.counters().duplicateIDs == 0)
  }

  /// Gets the outcomes of com.example.full alone, of which it takes one.
  private func bindFullQueue(_ world: WorkerWorld, _ admin: AMQPAdmin) throws -> String {
    let queue = "\(world.prefix).analyst"
    try admin.perform(
      .declareQueue(
        name: queue,
        arguments: [AMQPArgument("x-max-length", .number(1)), AMQPArgument("x-overflow", .text("reject-publish"))]))
    try admin.perform(.bind(queue: queue, exchange: "\(world.prefix).results", routingKey: "*.*.com.example.full"))
    return queue
  }

  private func startWorkerOfBoth(_ world: WorkerWorld) throws -> WorkerProcess {
    let credential = """
      \u{20} - name: other
          team_id: \(world.simulator.teamID)
          key_id: \(world.simulator.keyID)
          key_file: "\(world.simulator.keyFile)"
          environments: [production]
          apps: [com.example.full]
      limits:
      """
    let worker = try world.startWorker(
      configuration: world.configuration().replacing("limits:", with: credential))
    #expect(world.waitUntilReady(), "\(worker.log)")
    return worker
  }

  /// More jobs for audiences than an expansion consumer takes at once end with an outcome that is refused.
  @Test func aFullQueueOfOneAppsOutcomes_holdsUpNoOthersAudiences() throws {
    let world = try WorkerWorld("app-full-audiences")
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    let queue = try bindFullQueue(world, admin)
    let worker = try startWorkerOfBoth(world)
    func publish(_ numbers: Range<Int>, of app: String) throws {
      let jobs = numbers.map {
        """
        {"version":1,"id":"\(app)-\($0)","app":"\(app)","push_type":"alert","to":{"segment":"NONE"},\
        "payload":{"aps":{"alert":"x"}}}
        """
      }
      let enqueued = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
      #expect(enqueued.status == 0, "\(enqueued.errors)")
    }
    try publish(0..<560, of: "com.example.full")
    #expect(worker.waitForLine("results refuses messages of com.example.full", seconds: 20), "\(worker.log)")
    try publish(0..<3, of: "com.example.app")
    let isTold = ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 20) { () -> Bool? in
      let others = (try? world.takeOutcomes().filter { $0.jobID?.hasPrefix("com.example.app-") == true }) ?? []
      return others.count >= 3 ? true : nil
    }
    #expect(isTold == true, "\(worker.log)")
    try admin.perform(.deleteQueue(name: queue))
    let areTold = ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 100) { () -> Bool? in
      let ids = Set(((try? world.takeOutcomes()) ?? []).compactMap(\.jobID))
      return ids.count == 563 ? true : nil
    }
    #expect(areTold == true, "\(worker.log)")
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.outside.drain("\(world.prefix).dead").count == 563, "a dead letter each")
  }

  /// It gets one app's outcomes alone. That app's jobs do not take the prefetch, and another one's outcomes come at once.
  @Test func aFullQueueOfOneAppsOutcomes_holdsUpNoOtherApp() throws {
    let world = try WorkerWorld("app-full")
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    let queue = try bindFullQueue(world, admin)
    let worker = try startWorkerOfBoth(world)
    func publish(_ numbers: Range<Int>) throws {
      let jobs = numbers.map {
        world.job("full-\($0)", number: 1_000 + $0).replacing("com.example.app", with: "com.example.full")
      }
      let enqueued = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
      #expect(enqueued.status == 0, "\(enqueued.errors)")
    }
    try publish(0..<200)
    #expect(worker.waitForLine("results refuses messages of com.example.full", seconds: 20), "\(worker.log)")
    // That app's later jobs come between the others'.
    for round in 0..<5 {
      let start = ContinuousClock.now
      try publish(200 + round * 20..<220 + round * 20)
      try world.publishJobs(round * 20..<round * 20 + 20)
      let isTold = ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 20) { () -> Bool? in
        let others = (try? world.takeOutcomes().filter { $0.jobID?.hasPrefix("job-") == true }) ?? []
        return others.count >= round * 20 + 20 ? true : nil
      }
      #expect(isTold == true, "round \(round): \(worker.log)")
      print("round \(round): the others' outcomes after \(ContinuousClock.now - start)")
    }
    let metric =
      "\nherald_publish_refused{destination=\"\(world.prefix).results\",app=\"com.example.full\",role=\"lane\"} 1\n"
    #expect(world.admin("/metrics")?.body.contains(metric) == true)
    // Of that app only what was on its way, and few of those again.
    let refused = try world.takeOutcomes().filter { $0.jobID?.hasPrefix("full-") == true }
    #expect(refused.count < 200, "\(refused.count) outcomes were published")
    try admin.perform(.deleteQueue(name: queue))
    try world.waitForOutcomes(400, seconds: 90)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    let counters = try world.simulator.counters()
    #expect(counters.acceptedIDs == 400 && counters.duplicateIDs == 0)
    #expect(try world.takeOutcomes().allSatisfy { !$0.ambiguous })
  }

  @Test func deletedQueuesAreSeenAndDeclaredAgain() throws {
    let world = try WorkerWorld("deleted-queues")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let admin = try AMQPAdmin(patientURL: world.rabbitmq.url)
    defer { admin.close() }
    for (number, queue) in ["jobs.transactional", "jobs.bulk", "jobs.isolated"].enumerated() {
      let name = "\(world.prefix).\(queue)"
      try admin.perform(.deleteQueue(name: name))
      // The broker shows that the queues are declared and consumed again.
      let isBack = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        (try? admin.perform(.inspectQueue(name: name)))?.consumerCount == 1 ? true : nil
      }
      #expect(isBack == true, "\(queue): \(worker.log)")
      #expect(world.waitUntilReady(), "\(queue): \(worker.log)")
      try world.publishJobs(number..<(number + 1))
      try world.waitForAccepted(number + 1)
    }
    #expect(worker.waitForLine("ended the consumer"), "\(worker.log)")
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<3) == 0)
  }
}
