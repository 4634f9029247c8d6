import APNsSimulator
import Foundation
import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings
import TestSupport

/// A lane with real connections to a strict simulator, and with queues in memory. While nothing is in flight, its clock jumps
/// to the next retry, so an hour in the retry queues takes no time.
final class LaneWorld {
  typealias WorldLane = Lane<WorldBroker, MemoryAdmissionStore, APNsPushService, WorldClock>

  static let apps = ["com.example.one", "com.example.two"]

  let simulator: Simulator
  let clock: WorldClock
  var lane: WorldLane
  private(set) var notices: [String] = []
  private let folder: TemporaryFolder
  private let loop: EventLoop

  /// - Parameters:
  ///   - prefetch: of each class.
  ///   - acceptances: what lanes of one worker share.
  init(prefetch: Int, retry: RetryPolicy = RetryPolicy(), acceptances: AcceptanceTimes = AcceptanceTimes()) throws {
    folder = try TemporaryFolder("lane-world")
    loop = try EventLoop()
    clock = WorldClock(loop: loop)
    let key = try SimulatorCredential(key: "SIMKEY0001")
    var options = SimulatorOptions()
    options.managePort = nil
    options.keys = [try key.registration()]
    simulator = try Simulator(options)
    let ports = try simulator.start()
    guard let host = APNsHost(url: "http://127.0.0.1:\(ports.port)") else { throw APNsTestFailure("no host") }
    var configuration = APNsPushServiceConfiguration(
      production: host, sandbox: host, broadcastProduction: host, broadcastSandbox: host)
    configuration.acceptances = acceptances
    // Time jumps: no connection is silent, or does not open, for that.
    configuration.timing.silenceMilliseconds = .max / 4_000_000
    configuration.timing.idleMilliseconds = .max / 4_000_000
    configuration.timing.openMilliseconds = .max / 4_000_000
    let credentials = try Credentials([
      CredentialConfiguration(
        name: "main",
        kind: .token(teamID: key.team, keyID: key.key, keyFile: try key.write(to: folder.path("key"))),
        environments: [.production], apps: LaneWorld.apps)
    ])
    lane = WorldLane(
      broker: WorldBroker(prefetch: prefetch, clock: clock),
      state: MemoryAdmissionStore(settings: AdmissionMemory.Settings()),
      push: APNsPushService(loop: loop, credentials: credentials, configuration: configuration, seed: 1), clock: clock,
      settings: LaneSettings(
        workerName: "world/0", prefetch: prefetch * 2, retry: retry, onLimit: .delay, drainTimeoutMilliseconds: 1_000,
        randomSeed: 1))
  }

  deinit { simulator.stop() }

  /// Puts a job into the queue of its class.
  func enqueue(
    _ id: String, app: String, topic: String? = nil, _ jobClass: JobClass, token: String, expiresInSeconds: Int64? = nil
  ) {
    let topic = topic.map { #""topic":"\#($0)","# } ?? ""
    let expiration = expiresInSeconds.map { #""expiration":\#(clock.now.unixSeconds + $0),"# } ?? ""
    let body = """
      {"version":1,"id":"\(id)","app":"\(app)","push_type":"alert","to":{"token":"\(token)"},\(topic)\(expiration)\
      "payload":{"aps":{"alert":"hello"}}}
      """
    lane.broker.ready[Int(jobClass.rawValue)].append(WorldBroker.Message(body: Array(body.utf8), state: nil))
  }

  /// Turns until the condition holds; false after this long by the machine's clock.
  func run(seconds: Int64 = 60, until isDone: (LaneWorld) -> Bool) -> Bool {
    let start = ContinuousClock.now
    while !isDone(self) {
      if ContinuousClock.now - start > .seconds(seconds) { return false }
      loop.poll(maximumWaitMilliseconds: 2)
      lane.turn()
      loop.flush()
      while let notice = lane.push.takeNotice() { notices.append(notice.text) }
      if lane.jobsInFlight == 0, let wait = lane.broker.idleMilliseconds { clock.aheadMilliseconds += wait }
    }
    return true
  }

  /// Every job has its outcome.
  func finish(_ count: Int) -> Bool { run { $0.lane.broker.outcomes.count == count && $0.lane.jobsInFlight == 0 } }
}

/// The loop's time plus all jumps.
final class WorldClock: LaneClock {
  private let loop: EventLoop
  var aheadMilliseconds: Int64 = 0

  init(loop: EventLoop) { self.loop = loop }

  var now: Now {
    let now = loop.now
    return Now(
      monotonic: now.monotonic.adding(milliseconds: aheadMilliseconds),
      unixMilliseconds: now.unixMilliseconds + aheadMilliseconds)
  }
}

/// Queues of both classes and their retry queues; confirms everything in the next turn.
struct WorldBroker: Broker {
  struct Message {
    var body: [UInt8]
    var state: RetryState?
  }

  /// The fields of an outcome that the tests use.
  struct Outcome: Decodable {
    let jobID: String
    let outcome: String
    let reason: String?
    let attempts: Int

    private enum CodingKeys: String, CodingKey {
      case jobID = "job_id"
      case outcome, reason, attempts
    }
  }

  private struct Identity: Decodable { let id: String }

  /// By class.
  var ready: [[Message]] = [[], []]
  /// By job: the delays of its retries, in their order.
  private(set) var retries: [String: [Int]] = [:]
  private(set) var outcomes: [String: Outcome] = [:]
  private(set) var reportedTwice: [String] = []
  private let prefetch: Int
  private let clock: WorldClock
  private var delayed: [(dueAt: Int64, jobClass: JobClass, message: Message)] = []
  private var unacknowledged: [Set<UInt64>] = [[], []]
  private var tags: [UInt64] = [0, 0]
  private var current = Message(body: [], state: nil)
  private var begun = 0
  private var sequence: UInt64 = 0
  private var confirmed: UInt64 = 0

  init(prefetch: Int, clock: WorldClock) {
    self.prefetch = prefetch
    self.clock = clock
  }

  /// The time until the next message; nil: one is there, or none will come.
  var idleMilliseconds: Int64? {
    guard ready.allSatisfy(\.isEmpty), confirmed == sequence, let next = delayed.map(\.dueAt).min() else { return nil }
    let wait = next - clock.now.unixMilliseconds
    return wait > 0 ? wait : nil
  }

  var canPublish: Bool { true }

  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    begun += 1
    if begun == 1 { return .consuming(epoch: 1) }
    if begun == 2 { return .publishing }
    if confirmed < sequence {
      confirmed = sequence
      return .confirmed(1...sequence)
    }
    let now = clock.now.unixMilliseconds
    while let index = delayed.firstIndex(where: { $0.dueAt <= now }) {
      let back = delayed.remove(at: index)
      ready[Int(back.jobClass.rawValue)].append(back.message)
    }
    for jobClass in JobClass.allCases where takesDeliveries {
      let index = Int(jobClass.rawValue)
      guard !ready[index].isEmpty, unacknowledged[index].count < prefetch else { continue }
      current = ready[index].removeFirst()
      tags[index] += 1
      unacknowledged[index].insert(tags[index])
      return .delivery(
        Delivery(
          tag: DeliveryTag(epoch: 1, jobClass: jobClass, value: tags[index]), bodyCount: current.body.count,
          isOversized: false))
    }
    return nil
  }

  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    metadata.reset()
    job.bytes = current.body
    job.bodyCount = current.body.count
    guard let state = current.state else { return }
    metadata.attempts = state.attempts
    metadata.firstSeen = state.firstSeen
    metadata.claim = state.claim
    metadata.isAmbiguous = state.isAmbiguous
    metadata.apnsID = state.apnsID
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    if let outcome = try? JSONDecoder().decode(Outcome.self, from: Data(body)) {
      if outcomes[outcome.jobID] != nil { reportedTwice.append(outcome.jobID) }
      outcomes[outcome.jobID] = outcome
    }
    sequence += 1
    return sequence
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    if let identity = try? JSONDecoder().decode(Identity.self, from: Data(body)) {
      retries[identity.id, default: []].append(delaySeconds)
    }
    let dueAt = clock.now.unixMilliseconds + Int64(delaySeconds) * 1000
    delayed.append((dueAt, jobClass, Message(body: body, state: state)))
    sequence += 1
    return sequence
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    preconditionFailure("no delivery of this world is given twice")
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    sequence += 1
    return sequence
  }

  mutating func acknowledge(upTo tag: DeliveryTag) {
    let index = Int(tag.jobClass.rawValue)
    unacknowledged[index] = unacknowledged[index].filter { $0 > tag.value }
  }

  mutating func acknowledge(one tag: DeliveryTag) { unacknowledged[Int(tag.jobClass.rawValue)].remove(tag.value) }

  mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
    preconditionFailure("nothing of this world is given back")
  }

  mutating func stopConsuming() {}
}
