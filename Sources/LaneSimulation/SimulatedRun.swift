package import PushCore
package import PushLane
import PushSettings

/// A world, its jobs, and workers that come and go until every target has its end.
package struct SimulatedRun<RunBroker: SimulatedBrokerPort> {
  package typealias RunLane = Lane<RunBroker, SimulatedAdmissionStore, SimulatedAPNs, SimulatedClock>

  private final class Worker {
    var lane: RunLane
    let directory: SimulatedDirectory

    init(_ lane: consuming RunLane, _ directory: SimulatedDirectory) {
      self.lane = lane
      self.directory = directory
    }
  }

  package let world: SimulatedWorld
  private let makeBroker: (SimulatedWorld) -> RunBroker
  private var workers: [Worker] = []
  package private(set) var steps = 0
  /// How many workers a job ended.
  package private(set) var deaths = 0
  /// The worker is killed at this step, besides all other faults.
  private let killedAt: Int?
  private let startedAt: Int64
  /// When the last fault ended.
  private var calmAt: Int64?
  /// Steps, not seconds: a run that does not come to rest has lost something.
  private let stepsMaximum = 400_000
  /// After this step there are no more faults, so that the run ends.
  private let stormSteps = 20_000

  package init(
    seed: UInt64, faults: Faults, settings: WorldSettings = WorldSettings(), killedAt: Int? = nil,
    poison: Set<Int> = [], makeBroker: @escaping (SimulatedWorld) -> RunBroker
  ) {
    self.killedAt = killedAt
    world = SimulatedWorld(seed: seed, faults: faults, settings: settings)
    world.poison = Set(poison.map { "job-\($0)" })
    if faults.clockJumps > 0 { world.auditor.clockGraceMilliseconds = 120_000 }
    self.makeBroker = makeBroker
    startedAt = world.milliseconds
    let producer = SimulatedProducer(world: world)
    for number in 0..<settings.jobs { producer.enqueue(number) }
  }

  /// Plays until the queues are empty, then checks every job.
  /// - Parameter replaysDeadLetters: once the queues are empty, an operator replays the dead letters, and the run goes on
  ///   without faults.
  package mutating func play(replaysDeadLetters: Bool = false) {
    steps = 0
    workers = (0..<world.settings.workers).map { _ in makeWorker() }
    playUntilEmpty()
    if replaysDeadLetters {
      calm()
      world.poison = []
      forgetEverything()
      world.broker.replayDeadLetters(world)
      playUntilEmpty()
    }
    world.auditor.finish()
  }

  private var isAtRest: Bool { world.broker.isEmpty && workers.allSatisfy { $0.lane.jobsInFlight == 0 } }

  private mutating func playUntilEmpty() {
    while !isAtRest {
      if let why = whyItTakesTooLong {
        let open = world.auditor.open
        world.auditor.didNotRest("\(why): \(open.count) open targets, of them \(open.prefix(3))")
        return
      }
      steps += 1
      world.milliseconds += nextStep()
      strike()
      for index in workers.indices {
        if index == 0, steps == killedAt || world.chance(world.faults.workerKilled) { kill(index) }
        workers[index].lane.broker.step()
        workers[index].lane.turn()
        if world.isDying {
          deaths += 1
          world.isDying = false
          kill(index)
        }
      }
    }
  }

  private var whyItTakesTooLong: String? {
    if steps == stepsMaximum { return "the run did not come to rest in \(steps) steps" }
    guard let calmAt else { return nil }
    let retry = world.settings.retry
    let longest = retry.ageMaximumSeconds + Int64(retry.delaysSeconds.last ?? 0) + 300
    let passed = (world.milliseconds - calmAt) / 1000
    return passed > longest ? "not all had an end \(passed) s after the last fault" : nil
  }

  /// Time until the next event; with nothing to do in any lane, until something comes.
  private func nextStep() -> Int64 {
    let step = Int64(world.pick(20))
    var due = Int64.max
    for worker in workers {
      due = min(
        due, worker.lane.broker.nextDue, worker.lane.state.nextDue, worker.lane.push.nextDue,
        worker.directory.nextDue)
    }
    guard due < .max, due - world.milliseconds > step else { return step }
    let isIdle = workers.allSatisfy { $0.lane.jobsInFlight == 0 }
    return isIdle ? due - world.milliseconds : min(due - world.milliseconds, world.settings.stepMilliseconds)
  }

  /// Faults, and an operator's actions, at any step.
  private mutating func strike() {
    let now = world.milliseconds
    let faults = world.faults
    if world.chance(faults.memoryForgets) { forgetEverything() }
    if world.chance(faults.memoryAway) { world.memory.awayUntil = now + Int64(world.pick(8000)) }
    if world.chance(faults.memoryFrozen) { world.memory.frozenUntil = now + Int64(world.pick(2000)) }
    if world.chance(faults.clockJumps) { world.skewMilliseconds = Int64(world.pick(120_000)) - 60_000 }
    if world.chance(faults.apnsSlow) { world.apns.slowUntil = now + Int64(world.pick(15_000)) }
    if world.chance(faults.apnsRefuses) { world.apns.refusesUntil = now + Int64(world.pick(1000)) }
    if world.chance(faults.limitsReloaded) { reloadLimits() }
    if world.chance(faults.registryAway) { world.registry.awayUntil = now + Int64(world.pick(8000)) }
    if world.chance(faults.deviceForgotten) { world.registry.forget(world) }
    if world.chance(faults.credentialsReloaded) {
      for worker in workers { worker.lane.push.reloadCredentials() }
    }
    // The faults end, so that the run does.
    if calmAt == nil, steps >= stormSteps || now - startedAt >= world.settings.stormMilliseconds { calm() }
  }

  private mutating func calm() {
    world.faults = Faults()
    world.memory.awayUntil = 0
    world.memory.frozenUntil = 0
    world.registry.awayUntil = 0
    calmAt = world.milliseconds
  }

  /// SIGHUP: fewer or other overrides, or another policy.
  private func reloadLimits() {
    world.limits = SimulatedLimits.choices[world.pick(SimulatedLimits.choices.count)]
    let policy: RateLimitPolicy = world.chance(200) ? .drop : .delay
    for worker in workers {
      worker.lane.state.update(limits: world.limits)
      worker.lane.update(onLimit: policy)
    }
  }

  private mutating func kill(_ index: Int) {
    workers[index].lane.broker.die()
    workers[index].lane.state.die()
    workers[index] = makeWorker()
  }

  private func makeWorker() -> Worker {
    let directory = SimulatedDirectory(world: world)
    return Worker(makeLane(directory), directory)
  }

  private func makeLane(_ directory: SimulatedDirectory) -> RunLane {
    var settings = LaneSettings(
      workerName: "simulated/0", prefetch: world.settings.prefetch, retry: world.settings.retry, onLimit: .delay,
      drainTimeoutMilliseconds: 1000, randomSeed: world.random.next())
    settings.isolation = world.settings.isolation
    return RunLane(
      broker: makeBroker(world), state: SimulatedAdmissionStore(world: world), push: SimulatedAPNs(world: world),
      directory: directory, clock: SimulatedClock(world: world), settings: settings)
  }

  private func forgetEverything() {
    world.memory.forgetEverything()
    world.auditor.emptied(at: world.milliseconds)
  }
}

/// The rates that an operator switches between.
package enum SimulatedLimits {
  package static let choices: [RateLimits] = {
    let common = RateLimit(burst: 5, perSecond: 1)
    let other = RateLimits.Override(app: Array("com.example.other".utf8), pushType: nil, limit: nil)
    let campaign = RateLimits.Override(
      app: Array("com.example.campaign".utf8), pushType: .alert, limit: RateLimit(burst: 2, perSecond: 0.5))
    return [
      .none, RateLimits(common), RateLimits(common, overrides: [campaign]),
      RateLimits(common, overrides: [campaign, other]), RateLimits(nil, overrides: [other, campaign]),
    ]
  }()
}

/// What a run needs of its broker besides the port.
package protocol SimulatedBrokerPort: Broker {
  var nextDue: Int64 { get }
  mutating func step()
  mutating func die()
}

extension SimulatedBroker: SimulatedBrokerPort {}
