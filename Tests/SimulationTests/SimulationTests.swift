import PushCore
import PushWorker
import Testing

/// The whole lane over a simulated world. A failing seed reproduces exactly: run its number alone.
@Suite struct SimulationTests {
  /// Nothing goes wrong: everything is sent exactly once.
  @Test(arguments: 1...20 as ClosedRange<UInt64>) func nothingGoesWrong(seed: UInt64) {
    var run = Run(seed: seed, faults: .none) { SimulatedBroker(world: $0) }
    run.play()
    #expect(run.world.auditor.violations == [], "seed \(seed)")
  }

  /// Everything goes wrong: nothing is lost, and nothing happens twice without a reason.
  @Test(arguments: 1...150 as ClosedRange<UInt64>) func everythingGoesWrong(seed: UInt64) {
    var run = Run(seed: seed, faults: .many) { SimulatedBroker(world: $0) }
    run.play()
    #expect(run.world.auditor.violations == [], "seed \(seed)")
  }

  /// The same seed gives the same run.
  @Test func aSeedIsARun() {
    var first = Run(seed: 7, faults: .many) { SimulatedBroker(world: $0) }
    var second = Run(seed: 7, faults: .many) { SimulatedBroker(world: $0) }
    first.play()
    second.play()
    #expect(first.world.milliseconds == second.world.milliseconds)
    #expect(first.world.random.next() == second.world.random.next())
  }
}

/// A world, its jobs, and workers that come and go until everything has its end.
struct Run<RunBroker: SimulatedBrokerPort> {
  typealias RunLane = Lane<RunBroker, SimulatedState, SimulatedAPNs, SimulatedClock>

  let world: SimulatedWorld
  private let makeBroker: (SimulatedWorld) -> RunBroker
  private let isolation: IsolationPolicy
  /// Workers that a job ended.
  private(set) var deaths = 0
  private let jobCount = 120
  /// Steps, not seconds: a run that does not come to rest has lost something.
  private let stepsMaximum = 400_000

  init(
    seed: UInt64, faults: Faults, poison: Set<Int> = [], isolation: IsolationPolicy = IsolationPolicy(),
    makeBroker: @escaping (SimulatedWorld) -> RunBroker
  ) {
    world = SimulatedWorld(seed: seed, faults: faults)
    world.poison = Set(poison.map { "job-\($0)" })
    self.isolation = isolation
    self.makeBroker = makeBroker
    for number in 0..<jobCount { enqueue(number) }
  }

  /// Plays until the queues are empty, then looks at what is left of every job.
  mutating func play() {
    var lane = makeLane()
    var steps = 0
    while steps < stepsMaximum, !(world.broker.isEmpty && lane.jobsInFlight == 0) {
      steps += 1
      world.milliseconds += Int64(world.pick(20))
      if world.chance(world.faults.memoryForgets) { forgetEverything() }
      if world.chance(world.faults.workerKilled) {
        excuseInFlight()
        lane.broker.die()
        lane = makeLane()
      }
      // The storm ends, so that the run does.
      if steps == 20_000 { world.faults = .none }
      lane.broker.step()
      lane.turn()
      if world.isDying {
        deaths += 1
        lane.broker.die()
        world.isDying = false
        lane = makeLane()
      }
    }
    if steps == stepsMaximum { world.auditor.misnamedDelivery("the run did not come to rest") }
    world.auditor.finish()
  }

  private func makeLane() -> RunLane {
    var settings = LaneSettings(
      workerName: "simulated/0", prefetch: 20, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
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
    world.broker.ready.append(Message(body: Array(body.utf8), state: nil, jobClass: jobClass, targets: targets))
  }

  /// Shared state lost its memory: what was answered may be sent again if it is delivered again.
  private func forgetEverything() {
    world.memory.answered = [:]
    world.memory.dead = [:]
  }

  private func excuseInFlight() {
    for messages in world.broker.unacknowledged {
      for target in messages.values.flatMap(\.targets) { world.auditor.excuse(target) }
    }
  }
}

/// What a run needs of its broker beside the port.
protocol SimulatedBrokerPort: Broker {
  mutating func step()
  mutating func die()
}

extension SimulatedBroker: SimulatedBrokerPort {}
