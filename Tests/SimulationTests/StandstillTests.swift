import LaneSimulation
import PushCore
import PushCredentials
import PushLane
import PushSettings
import PushWorker
import Testing

/// A lane whose jobs make no progress, in simulated time: probes, metrics, log, and the restart.
@Suite struct StandstillTests {
  private typealias StandingLane = Lane<SimulatedBroker, MutableState, OnePool, SimulatedClock>

  private final class Bench {
    let world = SimulatedWorld(seed: 1, faults: Faults())
    let switches = Switches()
    var lane: StandingLane
    var standstill = LaneStandstill()
    /// The log lines with their seconds.
    var notices: [(second: Int64, notice: LaneNotice)] = []
    var restarts: [(second: Int64, step: DeliveryStep)] = []
    private let start: Int64

    init(jobs: Int, deliveryCount: UInt32 = 0, isReadable: Bool = true) {
      start = world.milliseconds
      for number in 0..<jobs {
        let target = Target(job: "job-\(number)", token: String(repeating: "0", count: 15) + "\(number % 10)")
        let type = isReadable ? "alert" : "no type"
        let body = """
          {"version":1,"id":"\(target.job)","app":"com.example.app","push_type":"\(type)",\
          "to":{"token":"\(target.token)"},"payload":{"aps":{"alert":"hello"}}}
          """
        world.auditor.enqueued(target)
        var message = Message(body: Array(body.utf8), state: nil, jobClass: .transactional, targets: [target])
        message.deliveryCount = deliveryCount
        world.broker.ready.append(message)
      }
      let settings = LaneSettings(
        workerName: "simulated/0", prefetch: 20, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
        randomSeed: 1)
      lane = StandingLane(
        broker: SimulatedBroker(world: world), state: MutableState(switches: switches),
        push: OnePool(world: world, switches: switches), clock: SimulatedClock(world: world), settings: settings)
    }

    var second: Int64 { (world.milliseconds - start) / 1000 }

    func play(untilSecond end: Int64) {
      while second < end {
        world.milliseconds += 100
        lane.broker.step()
        lane.turn()
        guard world.milliseconds % 1000 == 0 else { continue }
        let (notice, step) = standstill.turn(lane.look(), now: world.now.monotonic)
        if let notice { notices.append((second, notice)) }
        if let step { restarts.append((second, step)) }
      }
    }

    var report: LaneReport {
      var report = LaneReport(
        counters: lane.counters, jobsInFlight: lane.jobsInFlight, unconfirmed: lane.unconfirmedCount,
        isConsuming: lane.isConsuming, isExhausted: lane.isExhausted)
      standstill.describe(lane.look(), world.now.monotonic, &report)
      return report
    }

    var levels: [String] { notices.map { "\($0.notice.level)" } }
    var problems: [String] { WorkerHealth.problems([WorkerHealth.Lane(name: "0", report: report)]) }
    var metrics: String { MetricsText.make([report], tokens: [], certificates: []) }
  }

  @Test func admissionsThatAreNeverAnsweredAreAnAlarmAndThenARestart() {
    let bench = Bench(jobs: 5)
    bench.switches.admits = false
    bench.play(untilSecond: 14)
    #expect(bench.problems == [] && bench.notices.isEmpty)
    bench.play(untilSecond: 16)
    #expect(bench.levels == ["error"])
    #expect(bench.notices[0].notice.text.contains("the oldest job is at \"admitting\""))
    #expect(bench.problems.count == 1)
    #expect(bench.problems[0].hasPrefix("lane 0 stands still: nothing was settled for 1"))
    #expect(bench.problems[0].hasSuffix("and the oldest of 5 jobs is at \"admitting\""))
    #expect(bench.metrics.contains("herald_lanes_standing_still{step=\"admitting\"} 1\n"))
    #expect(bench.metrics.contains("herald_oldest_in_flight_seconds{step=\"admitting\"} 1"))
    #expect(bench.metrics.contains("herald_oldest_in_flight_seconds{step=\"sent\"} 0.0\n"))
    bench.play(untilSecond: 59)
    #expect(bench.notices.count == 1 && bench.restarts.isEmpty, "reported once")
    bench.play(untilSecond: 62)
    #expect(bench.restarts.map(\.step) == [.admitting])
    #expect(bench.metrics.contains("herald_lane_restarts_total{step=\"admitting\"} 1\n"))
    // The restart helped.
    bench.switches.admits = true
    bench.play(untilSecond: 65)
    #expect(bench.problems == [] && bench.lane.jobsInFlight == 0 && bench.world.broker.isEmpty)
    #expect(bench.levels == ["error", "error", "notice"])
    #expect(bench.metrics.contains("herald_lanes_standing_still{step=\"admitting\"} 0\n"))
  }

  @Test func requestsThatAreNeverAnsweredNameTheirStep() {
    let bench = Bench(jobs: 1)
    bench.switches.latencyMilliseconds = nil
    bench.play(untilSecond: 16)
    #expect(bench.problems.first?.hasSuffix("is at \"sent\"") == true, "\(bench.problems)")
    bench.play(untilSecond: 62)
    #expect(bench.restarts.map(\.step) == [.sent])
  }

  /// Every job waits 10 s and goes to the retry queues; that settles the delivery.
  @Test func apnsAwayIsNoStandstill() {
    let bench = Bench(jobs: 40)
    bench.switches.hasRoom = false
    bench.play(untilSecond: 5)
    #expect(bench.metrics.contains("herald_oldest_in_flight_seconds{step=\"room\"} 4"))
    bench.switches.hasToken = false
    #expect(bench.metrics.contains("herald_oldest_in_flight_seconds{step=\"token\"} 4"))
    bench.play(untilSecond: 300)
    #expect(bench.notices.isEmpty && bench.restarts.isEmpty)
    #expect(bench.lane.counters.retries.values.reduce(0, +) > 40)
  }

  @Test func aSlowAPNsIsNoStandstill() {
    let bench = Bench(jobs: 200)
    bench.switches.latencyMilliseconds = 7_000
    // So slow, it has 8 at a time: 175 s for all, if it always has them.
    bench.play(untilSecond: 600)
    #expect(bench.notices.isEmpty && bench.restarts.isEmpty)
    #expect(bench.world.broker.isEmpty)
  }

  /// A full queue: a restart would not help, and would cost the jobs a delivery.
  @Test func aBrokerThatRefusesIsAnAlarmWithoutARestart() {
    let bench = Bench(jobs: 5)
    bench.world.faults.publishRefused = 1000
    bench.play(untilSecond: 600)
    #expect(bench.levels == ["error"])
    #expect(bench.restarts.isEmpty)
    #expect(bench.problems.first?.hasSuffix("; the broker refuses what is published") == true, "\(bench.problems)")
    bench.world.faults.publishRefused = 0
    bench.play(untilSecond: 602)
    #expect(bench.problems == [] && bench.world.broker.isEmpty)
  }

  @Test func aDrainIsNoStandstill() {
    let bench = Bench(jobs: 5)
    bench.switches.admits = false
    bench.play(untilSecond: 2)
    bench.lane.beginDrain()
    bench.play(untilSecond: 100)
    #expect(bench.notices.isEmpty && bench.lane.isDrained)
  }

  // MARK: - Counters

  @Test func aDeadLetterCountsOnceHoweverOftenItIsPublished() {
    let bench = Bench(jobs: 20, isReadable: false)
    bench.world.faults.publishRefused = 500
    bench.play(untilSecond: 120)
    #expect(bench.world.broker.isEmpty && bench.lane.jobsInFlight == 0)
    #expect(bench.world.broker.deadLetters.count > 20, "published again")
    #expect(bench.lane.counters.deadLetters == ["invalid": 20])
  }

  @Test func ambiguousOutcomesAreCounted() {
    let bench = Bench(jobs: 10, deliveryCount: 1)
    bench.play(untilSecond: 5)
    #expect(bench.metrics.contains("herald_outcomes_ambiguous_total{outcome=\"accepted\"} 10\n"))
    #expect(bench.metrics.contains("herald_outcomes_ambiguous_total{outcome=\"failed\"} 0\n"))
    let others = Bench(jobs: 10)
    others.play(untilSecond: 5)
    #expect(others.metrics.contains("herald_outcomes_ambiguous_total{outcome=\"accepted\"} 0\n"))
  }
}

/// Changes the behaviour of the test doubles.
private final class Switches {
  var admits = true
  var hasRoom = true
  var hasToken = true
  /// nil: no request is answered.
  var latencyMilliseconds: Int64? = 50
}

/// An admission store that admits everything, or does not answer.
private struct MutableState: AdmissionStore {
  let switches: Switches
  private var asked: [Ticket] = []

  init(switches: Switches) {
    self.switches = switches
  }

  mutating func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    asked.append(ticket)
  }

  mutating func flush(now: Now) {}

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard switches.admits, !asked.isEmpty else { return nil }
    return (asked.removeFirst(), .proceed)
  }

  mutating func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {}
  mutating func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {}

  mutating func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {}
}

/// One pool that accepts everything after a while, never answers, or has no room.
private struct OnePool: PushService {
  let world: SimulatedWorld
  let switches: Switches
  private var sent: [(at: Int64, ticket: Ticket)] = []

  init(world: SimulatedWorld, switches: Switches) {
    self.world = world
    self.switches = switches
  }

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex { PoolIndex(0) }
  func hasToken(for pool: PoolIndex) -> Bool { switches.hasToken }
  func room(for pool: PoolIndex) -> Int { switches.hasRoom ? 1000 : 0 }
  mutating func maintain(now: Now) {}

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    guard switches.hasRoom else { return .noRoom }
    sent.append((world.milliseconds, ticket))
    return .sent
  }

  mutating func nextAnswer(now: Now) -> PushAnswer? {
    guard let latency = switches.latencyMilliseconds,
      let index = sent.firstIndex(where: { $0.at + latency <= world.milliseconds })
    else { return nil }
    var answer = PushAnswer(ticket: sent.remove(at: index).ticket, kind: .response)
    answer.status = 200
    return answer
  }

  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {}
  mutating func close() {}
}
