package import PushCore
package import PushWorker

/// A world, its jobs, and workers that come and go until everything has its end.
package struct SimulatedRun<RunBroker: SimulatedBrokerPort> {
  package typealias RunLane = Lane<RunBroker, SimulatedState, SimulatedAPNs, SimulatedClock>

  package let world: SimulatedWorld
  private let makeBroker: (SimulatedWorld) -> RunBroker
  private let isolation: IsolationPolicy
  private let retry: RetryPolicy
  package private(set) var steps = 0
  /// Workers that a job ended.
  package private(set) var deaths = 0
  private let jobCount: Int
  /// The worker is killed at this step, whatever else happens.
  private let killedAt: Int?
  /// Steps, not seconds: a run that does not come to rest has lost something.
  private let stepsMaximum = 400_000

  package init(
    seed: UInt64, faults: Faults, jobs: Int = 120, killedAt: Int? = nil, poison: Set<Int> = [],
    isolation: IsolationPolicy = IsolationPolicy(), retry: RetryPolicy = RetryPolicy(),
    makeBroker: @escaping (SimulatedWorld) -> RunBroker
  ) {
    jobCount = jobs
    self.killedAt = killedAt
    world = SimulatedWorld(seed: seed, faults: faults)
    world.poison = Set(poison.map { "job-\($0)" })
    self.isolation = isolation
    self.retry = retry
    self.makeBroker = makeBroker
    for number in 0..<jobCount { enqueue(number) }
  }

  /// Plays until the queues are empty, then looks at what is left of every job.
  /// - Parameter replaysDeadLetters: once the queues are empty an operator replays what became a dead letter, and the
  ///   world, which is whole again, plays on.
  package mutating func play(replaysDeadLetters: Bool = false) {
    var lane = makeLane()
    steps = 0
    playUntilEmpty(&lane)
    if replaysDeadLetters {
      world.faults = Faults()
      world.poison = []
      forgetEverything()
      world.broker.replayDeadLetters(world.auditor)
      playUntilEmpty(&lane)
    }
    if steps == stepsMaximum { world.auditor.misnamedDelivery("the run did not come to rest") }
    world.auditor.finish()
  }

  private mutating func playUntilEmpty(_ lane: inout RunLane) {
    while steps < stepsMaximum, !(world.broker.isEmpty && lane.jobsInFlight == 0) {
      steps += 1
      world.milliseconds += Int64(world.pick(20))
      if world.chance(world.faults.memoryForgets) { forgetEverything() }
      if world.chance(world.faults.clockJumps) { world.skewMilliseconds = Int64(world.pick(120_000)) - 60_000 }
      if steps == killedAt || world.chance(world.faults.workerKilled) {
        excuseInFlight()
        lane.broker.die()
        lane = makeLane()
      }
      // The storm ends, so that the run does.
      if steps == 20_000 { world.faults = Faults() }
      lane.broker.step()
      lane.turn()
      if world.isDying {
        deaths += 1
        lane.broker.die()
        world.isDying = false
        lane = makeLane()
      }
    }
  }

  private func makeLane() -> RunLane {
    var settings = LaneSettings(
      workerName: "simulated/0", prefetch: 20, retry: retry, onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: world.random.next())
    settings.isolation = isolation
    return RunLane(
      broker: makeBroker(world), state: SimulatedState(world: world), push: SimulatedAPNs(world: world),
      clock: SimulatedClock(world: world), settings: settings)
  }

  /// Some jobs share devices, some are batches, some cannot be parsed.
  private func enqueue(_ number: Int) {
    let jobClass: JobClass = world.chance(300) ? .bulk : .transactional
    let job = "job-\(number)"
    let tokens = (0..<(world.chance(100) ? 2 + world.pick(40) : 1)).map { index in
      let digits = String(world.pick(40) * 100 + index, radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }
    let targets = Set(tokens).sorted().map { Target(job: job, token: $0) }
    let to =
      targets.count == 1
      ? "{\"token\":\"\(targets[0].token)\"}"
      : "{\"tokens\":[\(targets.map { "\"\($0.token)\"" }.joined(separator: ","))]}"
    let body = """
      {"version":1,"id":"\(job)","app":"com.example.app","push_type":"alert","to":\(to),\
      "payload":{"aps":{"alert":"hello"}}}
      """
    for target in targets { world.auditor.enqueued(target) }
    let message = Message(body: Array(body.utf8), state: nil, jobClass: jobClass, targets: targets)
    world.broker.ready.append(message)
    if world.chance(world.faults.publishedTwice) {
      // Its producer did not hear of the confirm. Both have an outcome, and both may be in flight at once.
      for target in targets { world.auditor.publishedTwice(target) }
      world.broker.ready.insert(message, at: world.pick(world.broker.ready.count))
    }
  }

  /// Shared state lost its memory: what was answered may be sent again if it is delivered again, and nobody can tell any more
  /// that a copy came before.
  private func forgetEverything() {
    world.memory.answered = [:]
    world.memory.dead = [:]
    world.memory.claimed = [:]
    for target in world.broker.handedOnTwice { world.auditor.forgive(target) }
  }

  private func excuseInFlight() {
    for messages in world.broker.unacknowledged {
      for target in messages.values.flatMap(\.targets) { world.auditor.excuse(target) }
    }
  }
}

/// What a run needs of its broker beside the port.
package protocol SimulatedBrokerPort: Broker {
  mutating func step()
  mutating func die()
}

extension SimulatedBroker: SimulatedBrokerPort {}
