import PushCore
import PushCredentials
import PushLane
import PushSettings

/// The shared admission store.
final class ReadmissionRedis {
  var memory = AdmissionMemory(settings: AdmissionMemory.Settings())
  /// No lane reaches it.
  var isAway = false
}

/// One lane's peers.
final class ReadmissionWorld {
  let peers = LaneBenchWorld()
  let redis: ReadmissionRedis
  /// The lane's seed: two lanes draw different numbers.
  let seed: Int
  /// Requests that the pool takes in each turn; nil: as many as `room` says.
  var roomPerTurn: Int? = 0
  var room = 0
  /// APNs' immediate answer.
  var status: UInt16 = 200
  /// All jobs are for one device.
  var hasOneDevice = false
  /// All jobs have one collapse id.
  var hasCollapseID = false
  /// All jobs have their numbers.
  var isNumbered = false
  var asks = 0
  /// Ids of jobs, in the order of their requests.
  var sent: [String] = []
  var sentCount = 0
  /// Whether `sent` is recorded.
  var isRemembering = true

  init(_ redis: ReadmissionRedis = ReadmissionRedis(), seed: Int = 1) {
    self.redis = redis
    self.seed = seed
  }
}

final class ReadmissionBench<Store: AdmissionStore> {
  let world: ReadmissionWorld
  var lane: Lane<ReadmissionBroker, Store, ReadmissionPush, LaneBenchClock>

  init(
    _ world: ReadmissionWorld, _ store: Store, prefetch: Int = 20, _ adjust: (inout LaneSettings) -> Void = { _ in }
  ) {
    self.world = world
    var settings = LaneSettings(
      workerName: "bench/0", prefetch: prefetch, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: UInt64(world.seed))
    settings.leavesPoolsAlone()
    adjust(&settings)
    lane = Lane(
      broker: ReadmissionBroker(world: world), state: store, push: ReadmissionPush(world: world),
      clock: LaneBenchClock(world: world.peers), settings: settings)
    world.peers.epoch += 1
    world.peers.events.append(.consuming(epoch: world.peers.epoch))
  }

  func turn(_ count: Int, milliseconds: Int64 = 5) {
    for _ in 0..<count {
      world.peers.milliseconds += milliseconds
      lane.turn()
    }
  }
}

/// Decides as `RedisAdmissionStore` does: from local memory, else from Redis, else alone and marked.
final class ReadmissionStore: AdmissionStore {
  private let world: ReadmissionWorld
  private let latencyMilliseconds: Int64
  private var local = AdmissionMemory(settings: AdmissionMemory.Settings())
  private var answers: [(at: Int64, ticket: Ticket, admission: Admission)] = []

  init(_ world: ReadmissionWorld, latencyMilliseconds: Int64 = 0) {
    self.world = world
    self.latencyMilliseconds = latencyMilliseconds
  }

  func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    world.asks += 1
    let request = AdmissionRequest(job, device: device, apnsID: apnsID, arrival: arrival, limits: .none)
    let admission =
      if local.mayRecall(now: now), let known = local.recall(request, now: now) {
        known
      } else if world.redis.isAway {
        local.admit(request, now: now).asRepeated
      } else {
        world.redis.memory.admit(request, now: now)
      }
    answers.append((now.unixMilliseconds + latencyMilliseconds, ticket, admission))
  }

  func flush(now: Now) {}

  func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard let first = answers.first, first.at <= now.unixMilliseconds else { return nil }
    answers.removeFirst()
    return (first.ticket, first.admission)
  }

  func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    _ = local.takeClaim(of: request)
    world.redis.memory.remember(outcome, of: request, now: now)
  }

  func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {
    world.redis.memory.rememberFate(
      outcome, claim: claim, of: AdmissionRequest(device: device, apnsID: apnsID), now: now)
  }

  func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {}
}

struct ReadmissionPush: PushService {
  let world: ReadmissionWorld

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex { PoolIndex(0) }
  mutating func maintain(now: Now) { if let room = world.roomPerTurn { world.room = room } }
  func room(for pool: PoolIndex) -> Int { world.room }

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    guard world.room > 0 else { return .noRoom }
    world.room -= 1
    world.sentCount += 1
    if world.isRemembering { world.sent.append(String(decoding: job.bytes[job.id.range], as: UTF8.self)) }
    world.peers.answer(ticket, status: world.status)
    return .sent
  }

  mutating func nextAnswer(now: Now) -> PushAnswer? { world.peers.answers.popLast() }
  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {}
  mutating func close() {}
}

struct ReadmissionBroker: Broker {
  let world: ReadmissionWorld
  private var bench: LaneBenchBroker

  init(world: ReadmissionWorld) {
    self.world = world
    bench = LaneBenchBroker(world: world.peers)
  }

  var canPublish: Bool { true }
  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? { bench.nextEvent(takesDeliveries: takesDeliveries) }

  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    bench.copyDelivery(into: &job, metadata: &metadata)
    guard world.hasOneDevice, let number = world.peers.delivered.last?.job else { return }
    let order =
      (world.hasCollapseID ? #""collapse_id":"match","# : "") + (world.isNumbered ? #""sequence":\#(number),"# : "")
    job.bytes = Array(
      """
      {"version":1,"id":"job-\(number)","app":"com.example.app","push_type":"alert",\(order)\
      "to":{"token":"00000000000000aa"},"payload":{"aps":{"alert":"hello"}}}
      """.utf8)
    job.bodyCount = job.bytes.count
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishRetry(body, jobClass: jobClass, delaySeconds: delaySeconds, state: state, metadata: metadata)
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishIsolated(body, jobClass: jobClass, firstSeen: firstSeen, metadata: metadata)
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    bench.publishDeadLetter(
      body, jobClass: jobClass, reason: reason, detail: detail, apnsID: apnsID, metadata: metadata)
  }

  mutating func acknowledge(upTo tag: DeliveryTag) {}
  mutating func acknowledge(one tag: DeliveryTag) {}
  mutating func reject(_ tag: DeliveryTag, requeue: Bool) {}
  mutating func stopConsuming() {}
}
