import PushCore
import PushCredentials
import PushLane
import PushSettings

/// A pool of APNs as a lane sees it, on a simulated clock.
enum ScriptedPool {
  /// Answers after so long; takes so many at once.
  case answering(afterMilliseconds: Int64, streams: Int)
  /// Answers every so often all that it has; takes so many at once.
  case answeringTogether(everyMilliseconds: Int64, streams: Int)
  /// Takes requests and answers none; each times out.
  case silent
  /// 503 after 20 ms.
  case refusing
  /// No connection opens.
  case unreachable
  /// Each connection answers so many requests after 20 ms, and then no more: what comes then has no room, or hangs. Another connection opens
  /// a second later, while there are fewer than eight; each lives for ten seconds.
  case stalling(afterAnswers: Int, hangs: Bool)

  static let timeoutMilliseconds: Int64 = 10_000
}

/// A lane's pools by app: `com.example.0` has pool 0, and so on.
final class ScriptedPools {
  let world: ScriptedTime
  let queues: ScriptedQueues
  var pools: [ScriptedPool]
  /// By job id: when it was published, and when APNs accepted it.
  var publishedAt: [String: Int64] = [:]
  var acceptedAt: [String: Int64] = [:]
  /// Requests taken, by pool.
  var taken: [Int]
  /// By job id: its requests.
  var requests: [String: Int] = [:]
  /// The most on the wire at once, by pool.
  var peak: [Int]
  private var published = 0

  init(_ world: ScriptedTime, _ pools: [ScriptedPool]) {
    self.world = world
    self.pools = pools
    queues = ScriptedQueues(world)
    taken = pools.map { _ in 0 }
    peak = pools.map { _ in 0 }
  }

  /// Puts a job for the pool's app into the queue of its class. Returns its id.
  @discardableResult
  func publish(
    pool: Int, _ jobClass: JobClass = .transactional, targets: Int = 1, id: String? = nil, endsInSeconds: Int64? = nil
  ) -> String {
    published += 1
    let id = id ?? "job-\(published)"
    let tokens = (0..<targets).map { "\"\(Hex.text(published, count: 16))\(Hex.text($0, count: 16))\"" }
    let to = targets == 1 ? "\"token\":\(tokens[0])" : "\"tokens\":[\(tokens.joined(separator: ","))]"
    let end = endsInSeconds.map { "\"expiration\":\(world.milliseconds / 1000 + $0)," } ?? ""
    let body = """
      {"version":1,"id":"\(id)","app":"com.example.\(pool)",\(end)"push_type":"alert","to":{\(to)},\
      "payload":{"aps":{"alert":"hello"}}}
      """
    queues.append(ScriptedQueues.Message(body: Array(body.utf8), state: nil), jobClass)
    publishedAt[id] = world.milliseconds
    return id
  }

  /// From its publishing to APNs' answer; nil: not accepted.
  func waited(_ id: String) -> Int64? {
    guard let published = publishedAt[id], let accepted = acceptedAt[id] else { return nil }
    return accepted - published
  }
}

/// One lane's connections to them.
struct ScriptedPush: PushService {
  let pools: ScriptedPools
  private var answers: [[(at: Int64, id: String, answer: PushAnswer)]]
  private var heads: [Int]
  /// Of a stalling pool: its connections, and the requests that each took.
  private var connections: [[(openedAt: Int64, taken: Int)]]

  init(_ pools: ScriptedPools) {
    self.pools = pools
    answers = pools.pools.map { _ in [] }
    heads = pools.pools.map { _ in 0 }
    connections = pools.pools.map { _ in [] }
  }

  private func onWire(_ pool: Int) -> Int { answers[pool].count - heads[pool] }

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    PoolIndex(UInt16(String(decoding: job.bytes[job.app.range], as: UTF8.self).dropFirst("com.example.".count)) ?? 0)
  }

  mutating func maintain(now: Now) {
    for (pool, kind) in pools.pools.enumerated() {
      guard case .stalling(let answers, _) = kind else { continue }
      let time = pools.world.milliseconds
      connections[pool].removeAll { time - $0.openedAt >= ScriptedPool.timeoutMilliseconds }
      let last = connections[pool].last
      if last == nil || last.map({ $0.taken >= answers && time - $0.openedAt >= 1_000 }) == true,
        connections[pool].count < 8
      {
        connections[pool].append((time, 0))
      }
    }
  }

  private func streams(_ pool: Int) -> Int {
    switch pools.pools[pool] {
    case .answering(_, let streams), .answeringTogether(_, let streams): streams
    case .silent, .refusing: 4_000
    case .unreachable: 0
    case .stalling(_, true): 1_000 * connections[pool].count
    case .stalling(let answers, false):
      onWire(pool) + connections[pool].reduce(0) { $0 + max(0, answers - $1.taken) }
    }
  }

  func room(for pool: PoolIndex) -> Int { max(0, streams(Int(pool.value)) - onWire(Int(pool.value))) }

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    let index = Int(pool.value)
    let spare = transactionalInFlight.map { ShareState.spare(of: streams(index)) - $0 } ?? 0
    guard room(for: pool) > max(0, spare) else { return .noRoom }
    var answer = PushAnswer(ticket: ticket, kind: .response)
    var after: Int64 = 20
    switch pools.pools[index] {
    case .answering(let milliseconds, _):
      after = milliseconds
      answer.status = 200
    case .answeringTogether(let milliseconds, _):
      after = milliseconds - pools.world.milliseconds % milliseconds
      answer.status = 200
    case .silent:
      after = ScriptedPool.timeoutMilliseconds
      answer = PushAnswer(ticket: ticket, kind: .timedOut)
    case .refusing:
      answer.status = 503
      answer.reason = .serviceUnavailable
    case .unreachable:
      break
    case .stalling(let answers, _):
      answer.status = 200
      if let open = connections[index].firstIndex(where: { $0.taken < answers }) {
        connections[index][open].taken += 1
      } else {
        after = ScriptedPool.timeoutMilliseconds
        answer = PushAnswer(ticket: ticket, kind: .timedOut)
      }
    }
    let id = String(decoding: job.bytes[job.id.range], as: UTF8.self)
    let at = pools.world.milliseconds + after
    var place = answers[index].count
    while place > heads[index], answers[index][place - 1].at > at { place -= 1 }
    answers[index].insert((at, id, answer), at: place)
    pools.requests[id, default: 0] += 1
    pools.taken[index] += 1
    pools.peak[index] = max(pools.peak[index], onWire(index))
    return .sent
  }

  mutating func nextAnswer(now: Now) -> PushAnswer? {
    for pool in answers.indices where heads[pool] < answers[pool].count {
      let first = answers[pool][heads[pool]]
      guard first.at <= pools.world.milliseconds else { continue }
      heads[pool] += 1
      if heads[pool] == answers[pool].count {
        answers[pool].removeAll(keepingCapacity: true)
        heads[pool] = 0
      }
      if first.answer.status == 200 { pools.acceptedAt[first.id] = pools.world.milliseconds }
      return first.answer
    }
    return nil
  }

  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {}
  mutating func close() {}
}

/// The clock of a test.
final class ScriptedTime: LaneClock {
  var milliseconds: Int64 = 1_800_000_000_000

  var now: Now {
    Now(monotonic: Instant(nanoseconds: milliseconds * 1_000_000), unixMilliseconds: milliseconds)
  }
}

/// The queues of both classes and their retry queues. All lanes share them.
final class ScriptedQueues {
  struct Message {
    var body: [UInt8]
    var state: RetryState?
  }

  private let time: ScriptedTime
  var outcomes: [[UInt8]] = []
  /// By class.
  private var ready: [RingBuffer<Message>] = [RingBuffer(growingFrom: 1024), RingBuffer(growingFrom: 1024)]
  /// By due time.
  private var delayed: [Int64: [(jobClass: JobClass, message: Message)]] = [:]
  private var released: Int64

  init(_ time: ScriptedTime) {
    self.time = time
    released = time.milliseconds / 5 * 5
  }

  func append(_ message: Message, _ jobClass: JobClass) { ready[Int(jobClass.rawValue)].append(message) }

  func delay(_ message: Message, _ jobClass: JobClass, seconds: Int) {
    delayed[time.milliseconds / 5 * 5 + Int64(seconds) * 1000, default: []].append((jobClass, message))
  }

  func take(_ jobClass: JobClass) -> Message? {
    while released < time.milliseconds {
      released += 5
      for (jobClass, message) in delayed.removeValue(forKey: released) ?? [] { append(message, jobClass) }
    }
    return ready[Int(jobClass.rawValue)].popFirst()
  }
}

/// One lane's connection to them; confirms everything in the next turn.
struct ScriptedBroker: Broker {
  private let queues: ScriptedQueues
  /// Of each class.
  private let prefetch: Int
  private var unacknowledged: [Set<UInt64>] = [[], []]
  private var oldest: [UInt64] = [1, 1]
  private var tags: [UInt64] = [0, 0]
  private var current = ScriptedQueues.Message(body: [], state: nil)
  private var begun = 0
  private var sequence: UInt64 = 0
  private var confirmed: UInt64 = 0

  init(_ queues: ScriptedQueues, prefetch: Int) {
    self.queues = queues
    self.prefetch = prefetch
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
    guard takesDeliveries else { return nil }
    for jobClass in JobClass.allCases {
      let index = Int(jobClass.rawValue)
      guard unacknowledged[index].count < prefetch, let message = queues.take(jobClass) else { continue }
      current = message
      tags[index] += 1
      unacknowledged[index].insert(tags[index])
      return .delivery(
        Delivery(
          tag: DeliveryTag(epoch: 1, jobClass: jobClass, value: tags[index]), bodyCount: message.body.count,
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

  private mutating func published() -> UInt64 {
    sequence += 1
    return sequence
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    queues.outcomes.append(body)
    return published()
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    queues.delay(ScriptedQueues.Message(body: body, state: state), jobClass, seconds: delaySeconds)
    return published()
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 { preconditionFailure("no delivery of this world is given twice") }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 { published() }

  mutating func acknowledge(upTo tag: DeliveryTag) {
    let index = Int(tag.jobClass.rawValue)
    while oldest[index] <= tag.value {
      unacknowledged[index].remove(oldest[index])
      oldest[index] += 1
    }
  }

  mutating func acknowledge(one tag: DeliveryTag) { unacknowledged[Int(tag.jobClass.rawValue)].remove(tag.value) }
  mutating func reject(_ tag: DeliveryTag, requeue: Bool) { preconditionFailure("nothing is given back") }
  mutating func stopConsuming() {}
}

/// Lanes with these pools on one broker.
final class ScriptedLanes {
  /// An object, because an array keeps no lanes.
  private final class Holder {
    var lane: Lane<ScriptedBroker, MemoryAdmissionStore, ScriptedPush, ScriptedTime>

    init(
      _ number: Int, _ time: ScriptedTime, _ pools: ScriptedPools, _ prefetch: Int,
      _ adjust: (inout LaneSettings) -> Void
    ) {
      var settings = LaneSettings(
        workerName: "simulated/\(number)", prefetch: prefetch, retry: RetryPolicy(), onLimit: .delay,
        drainTimeoutMilliseconds: 1000, randomSeed: UInt64(number + 1))
      adjust(&settings)
      lane = Lane(
        broker: ScriptedBroker(pools.queues, prefetch: LaneSettings.deliveriesMaximum(ofPrefetch: prefetch)),
        state: MemoryAdmissionStore(settings: AdmissionMemory.Settings()), push: ScriptedPush(pools), clock: time,
        settings: settings)
    }
  }

  let pools: ScriptedPools
  private let time = ScriptedTime()
  private let lanes: [Holder]

  /// - Parameter prefetch: half of it for each class, at least two.
  init(
    _ count: Int, prefetch: Int = 2_000, _ pools: [ScriptedPool], _ adjust: (inout LaneSettings) -> Void = { _ in }
  ) {
    let scripted = ScriptedPools(time, pools)
    self.pools = scripted
    var lanes: [Holder] = []
    for number in 0..<count { lanes.append(Holder(number, time, scripted, prefetch, adjust)) }
    self.lanes = lanes
  }

  /// See `Lane.contradiction`.
  var contradiction: String? { lanes.lazy.compactMap { $0.lane.contradiction }.first }
  /// Retry copies.
  var retries: UInt64 { lanes.reduce(0) { $0 + $1.lane.counters.retries.values.reduce(0, +) } }

  /// Outcomes of this kind.
  func outcomes(_ outcome: Outcome) -> UInt64 {
    lanes.reduce(0) { sum, holder in
      holder.lane.counters.outcomeCounts.reduce(sum) { $1.outcome == outcome ? $0 + $1.count : $0 }
    }
  }

  /// Turns, 5 ms apart.
  func play(milliseconds: Int64, every step: Int64 = 5, _ publish: () -> Void = {}) {
    let end = time.milliseconds + milliseconds
    while time.milliseconds < end {
      time.milliseconds += step
      publish()
      for holder in lanes { holder.lane.turn() }
    }
  }
}
