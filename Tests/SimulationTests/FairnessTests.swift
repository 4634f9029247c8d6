import LaneSimulation
import PushCore
import PushCredentials
import PushLane
import PushSettings
import Testing

/// Two apps with a pool each; one pool accepts nothing. The other app's jobs go on. Surplus jobs of the blocked app go to the
/// retry queues and come back once its pool accepts them.
@Suite struct FairnessTests {
  private typealias FairLane = Lane<SimulatedBroker, MemoryAdmissionStore, TwoPools, SimulatedClock>

  /// More than the broker delivers at once (20), so that one app's jobs alone could take all slots.
  private let jobsOfEach = 100

  private func makeLane(
    _ world: SimulatedWorld, slow: SendDecision, waitersMaximum: Int, busyJobsMinimum: Int = 512
  ) -> FairLane {
    var settings = LaneSettings(
      workerName: "simulated/0", prefetch: 20, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: 1)
    settings.slowWaitersMaximum = waitersMaximum
    if waitersMaximum >= 1_000 {
      settings.share.stuckLooks = .max
      settings.lateWaitersMaximum = waitersMaximum
    }
    settings.busyJobsMinimum = busyJobsMinimum
    return Lane(
      broker: SimulatedBroker(world: world), state: MemoryAdmissionStore(settings: AdmissionMemory.Settings()),
      push: TwoPools(world: world, slow: slow), clock: SimulatedClock(world: world), settings: settings)
  }

  /// Jobs of both apps in turn, the fast one's first.
  private func enqueue(_ world: SimulatedWorld) {
    for number in 0..<jobsOfEach * 2 {
      let app = number % 2 == 0 ? "fast" : "slow"
      let target = Target(job: "job-\(number)", token: Hex.text(number, count: 16))
      let body = """
        {"version":1,"id":"\(target.job)","app":"com.example.\(app)","push_type":"alert",\
        "to":{"token":"\(target.token)"},"payload":{"aps":{"alert":"hello"}}}
        """
      world.auditor.enqueued(target)
      world.broker.ready.append(
        Message(body: Array(body.utf8), state: nil, jobClass: .transactional, targets: [target]))
    }
  }

  private func play(_ lane: inout FairLane, _ world: SimulatedWorld, milliseconds: Int64) {
    let end = world.milliseconds + milliseconds
    while world.milliseconds < end {
      world.milliseconds += 5
      lane.broker.step()
      lane.turn()
    }
  }

  /// - Parameter after: the time until the lane notices that the pool is stuck.
  @Test(arguments: [(SendDecision.stalled, 0), (.noRoom, 2_000)] as [(SendDecision, Int64)])
  func theFastOneGoesOnBesideTheSlow(slow: SendDecision, after: Int64) {
    let world = SimulatedWorld(seed: 1, faults: Faults())
    enqueue(world)
    let waitersMaximum = 3
    var lane = makeLane(world, slow: slow, waitersMaximum: waitersMaximum)
    play(&lane, world, milliseconds: after + 2_000)
    #expect(lane.push.accepted == jobsOfEach + TwoPools.slowAfter, "all jobs of the fast app are sent")
    #expect(lane.jobsInFlight >= 1 && lane.jobsInFlight < 10, "some jobs of the slow app go on waiting")
    #expect(world.broker.delayed.count > jobsOfEach - 20, "the others are in the retry queues")
    #expect(lane.counters.retries.values.reduce(0, +) >= UInt64(jobsOfEach - 10))

    lane.push.slow = nil
    play(&lane, world, milliseconds: 60_000)
    #expect(lane.push.accepted == jobsOfEach * 2)
    #expect(world.broker.isEmpty)
    world.auditor.finish()
    #expect(world.auditor.violations == [])
  }

  /// Without the rules, the fast app's jobs stop.
  @Test func withoutTheRuleTheSlowOneTakesAllThereIs() {
    let world = SimulatedWorld(seed: 1, faults: Faults())
    enqueue(world)
    var lane = makeLane(world, slow: .stalled, waitersMaximum: 1_000)
    play(&lane, world, milliseconds: 5_000)
    #expect(lane.push.accepted < 60)
    #expect(lane.jobsInFlight > 15)
    #expect(world.broker.delayed.isEmpty)
  }

  @Test func onlyABusyLaneSpacesItsTurns() {
    let world = SimulatedWorld(seed: 1, faults: Faults())
    enqueue(world)
    var lane = makeLane(world, slow: .stalled, waitersMaximum: 1_000, busyJobsMinimum: 15)
    #expect(lane.spacingMicroseconds == 0)
    play(&lane, world, milliseconds: 5_000)
    #expect(lane.jobsInFlight > 15)
    #expect(lane.spacingMicroseconds == 2_000)
    lane.push.slow = nil
    play(&lane, world, milliseconds: 60_000)
    #expect(lane.jobsInFlight == 0)
    #expect(lane.spacingMicroseconds == 0)
  }

  /// Also alone: a lane does not see whose jobs are behind them.
  @Test func whereNobodyElseSendsTheSlowOnesKeepTheirShare() {
    let world = SimulatedWorld(seed: 1, faults: Faults())
    enqueue(world)
    world.broker.ready.removeAll { String(decoding: $0.body, as: UTF8.self).contains("com.example.fast") }
    var lane = makeLane(world, slow: .stalled, waitersMaximum: 3)
    play(&lane, world, milliseconds: 900)
    #expect(world.broker.delayed.isEmpty)
    #expect(lane.jobsInFlight > 15)
    play(&lane, world, milliseconds: 1_100)
    #expect(world.broker.delayed.count + world.broker.ready.count > 80)
    #expect(lane.jobsInFlight < 15)
  }
}

/// Two pools: 0 takes a few requests and then gives a scripted decision, or works like 1; 1 takes everything and accepts it after 20 ms.
private struct TwoPools: PushService {
  let world: SimulatedWorld
  static let slowAfter = 5
  /// The decision of the slow pool; nil: it is not slow.
  var slow: SendDecision?
  private var answers: [(at: Int64, ticket: Ticket)] = []
  private(set) var accepted = 0
  private var takenBySlow = 0

  init(world: SimulatedWorld, slow: SendDecision) {
    self.world = world
    self.slow = slow
  }

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    PoolIndex(String(decoding: job.bytes[job.app.range], as: UTF8.self) == "com.example.slow" ? 0 : 1)
  }

  mutating func maintain(now: Now) {}

  func room(for pool: PoolIndex) -> Int {
    pool.value != 0 || slow == nil ? 1000 : TwoPools.slowAfter - takenBySlow
  }

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    if pool.value == 0, let slow {
      if takenBySlow == TwoPools.slowAfter { return slow }
      takenBySlow += 1
    }
    let bytes = job.bytes
    let device = job.targets[target].range
    world.auditor.apnsAccepted(
      Target(
        job: String(decoding: bytes[job.id.range], as: UTF8.self),
        token: String(decoding: bytes[device], as: UTF8.self)))
    answers.append((now.unixMilliseconds + 20, ticket))
    return .sent
  }

  mutating func nextAnswer(now: Now) -> PushAnswer? {
    guard let first = answers.first, first.at <= now.unixMilliseconds else { return nil }
    answers.removeFirst()
    accepted += 1
    var answer = PushAnswer(ticket: first.ticket, kind: .response)
    answer.status = 200
    return answer
  }

  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {}

  mutating func close() {}
}
