import LaneSimulation
import PushCore
import PushLane
import PushSettings
import Testing

/// A job for many devices: one delivery, one acknowledgement, and after a redelivery only open targets are sent.
@Suite struct BatchTests {
  private typealias BatchLane = Lane<SimulatedBroker, SimulatedAdmissionStore, SimulatedAPNs, SimulatedClock>

  private func makeLane(_ world: SimulatedWorld) -> BatchLane {
    Lane(
      broker: SimulatedBroker(world: world), state: SimulatedAdmissionStore(world: world),
      push: SimulatedAPNs(world: world),
      clock: SimulatedClock(world: world),
      settings: LaneSettings(
        workerName: "simulated/0", prefetch: 20, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
        randomSeed: world.random.next()))
  }

  private func step(_ lane: inout BatchLane, _ world: SimulatedWorld) {
    world.milliseconds += Int64(world.pick(20))
    lane.broker.step()
    lane.turn()
  }

  /// The batch's `apns-id`s, by its targets.
  private func identifiers(_ body: [UInt8]) throws -> [String: UUIDValue] {
    var parser = JobParser()
    var job = PushJob()
    job.bytes = body
    job.bodyCount = body.count
    let none: [UInt8] = []
    try parser.parse(into: &job, fallbackID: none.span)
    var identifiers: [String: UUIDValue] = [:]
    for index in job.targets.indices {
      let token = String(decoding: job.bytes[job.targets[index].range], as: UTF8.self)
      identifiers[token] = UUIDValue.apnsID(for: job, target: index)
    }
    return identifiers
  }

  @Test(arguments: [1, 2, 3, 4, 5] as [UInt64]) func aRedeliveredBatchSendsOnlyWhatIsOpen(seed: UInt64) throws {
    let world = SimulatedWorld(seed: seed, faults: Faults())
    let tokens = (0..<1000).map { Hex.text($0, count: 16) }
    let body = Array(
      """
      {"id":"batch","app":"com.example.app","push_type":"alert","payload":{"aps":{"alert":"hello"}},\
      "to":{"tokens":[\(tokens.map { "\"\($0)\"" }.joined(separator: ","))]}}
      """.utf8)
    let targets = tokens.map { Target(job: "batch", token: $0) }
    for target in targets { world.auditor.enqueued(target) }
    world.broker.ready.append(Message(body: body, state: nil, jobClass: .bulk, targets: targets))
    let identifiers = try identifiers(body)
    #expect(identifiers.count == 1000)

    var lane = makeLane(world)
    var steps = 0
    while world.memory.answered.count < 300, steps < 100_000 {
      step(&lane, world)
      steps += 1
    }
    // The worker dies. Targets that APNs answered are remembered, and must not be sent again.
    let answered = world.memory.answered
    #expect(answered.count < 1000 && !world.broker.isEmpty)
    for target in targets where identifiers[target.token].map({ answered[$0] == nil }) ?? true {
      world.auditor.excuse(target)
    }
    lane.broker.die()
    lane = makeLane(world)
    while !(world.broker.isEmpty && lane.jobsInFlight == 0), steps < 400_000 {
      step(&lane, world)
      steps += 1
    }
    #expect(world.broker.isEmpty, "the batch is acknowledged")
    world.auditor.finish()
    let wrong = world.auditor.violations.filter { !$0.contains("outcomes, ") }
    #expect(wrong == [], "seed \(seed)")
    #expect(lane.counters.duplicatesSuppressed >= UInt64(answered.count))
  }
}
