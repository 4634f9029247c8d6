import PushCore
import PushCredentials
import PushLane
import PushSettings

extension LaneSettings {
  /// For tests of other rules: no pool is stuck, and its window is open at once.
  mutating func leavesPoolsAlone() {
    share.stuckLooks = .max
    share.start = share.maximum
    jobsSentMaximum = jobsMaximum
  }
}

/// A lane with three scripted peers, turn by turn, on a clock of its own.
final class LaneBench {
  typealias BenchLane = Lane<LaneBenchBroker, LaneBenchState, LaneBenchPush, LaneBenchClock>

  let world = LaneBenchWorld()
  var lane: BenchLane

  init(prefetch: Int = 20, retry: RetryPolicy = RetryPolicy(), _ adjust: (inout LaneSettings) -> Void = { _ in }) {
    var settings = LaneSettings(
      workerName: "bench/0", prefetch: prefetch, retry: retry, onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: 1)
    settings.leavesPoolsAlone()
    adjust(&settings)
    lane = Lane(
      broker: LaneBenchBroker(world: world), state: LaneBenchState(world: world), push: LaneBenchPush(world: world),
      directory: LaneBenchDirectory(world: world), clock: LaneBenchClock(world: world), settings: settings)
  }

  // `#expect` cannot read a value that cannot be copied.
  var jobsInFlight: Int { lane.jobsInFlight }
  var unconfirmedCount: Int { lane.unconfirmedCount }
  var isDrained: Bool { lane.isDrained }
  var contradiction: String? { lane.contradiction }
  var bodyBytesInFlight: Int { lane.bodyBytesInFlight }
  var idleMilliseconds: Int { lane.idleMilliseconds }

  /// Some turns, 5 ms apart.
  func turn(_ count: Int = 4) {
    for _ in 0..<count {
      world.milliseconds += 5
      lane.turn()
    }
  }

  /// Opens a new consumer connection with these jobs.
  func consume(_ numbers: Range<Int>, _ describe: (inout MessageMetadata) -> Void = { _ in }) {
    world.epoch += 1
    world.nextTags = [0, 0]
    world.events.append(.consuming(epoch: world.epoch))
    for number in numbers { world.deliver(number, describe) }
  }
}

/// The state of the peers: what they have, what they got, and their answers.
final class LaneBenchWorld {
  /// Of the answers that may pause something.
  var pausedTopics: [String] = []
  var milliseconds: Int64 = 1_800_000_000_000
  /// The error of the worker's wall clock.
  var clockAheadMilliseconds: Int64 = 0
  /// Redis has told the time.
  var hasRedisTime = true
  var events: [BrokerEvent] = [.publishing]
  /// Deliveries that the lane has not taken yet.
  var ready: [(job: Int, tag: UInt64, metadata: MessageMetadata, isIsolated: Bool, jobClass: JobClass)] = []
  /// Of each job, at most ten.
  var targetCount = 1
  /// Bodies of other jobs.
  var bodies: [Int: String] = [:]
  var epoch: UInt32 = 0
  /// By job class.
  var nextTags: [UInt64] = [0, 0]
  private(set) var delivered: [(job: Int, metadata: MessageMetadata)] = []
  var rejected: [DeliveryTag] = []
  /// The broker makes their dead letters.
  var leftToBroker: [DeliveryTag] = []
  private(set) var acknowledged: [UInt64] = []
  /// Copies whose audience becomes pages, and the ends that pages reported.
  var expansions: [String] = []
  var settlements: [String] = []
  /// The classes to whose queues they go.
  var audienceClasses: Set<JobClass> = []
  var deadLetters: [String] = []
  /// Lookups in the directory: the page and its ordinals.
  var pagesAsked: [(ticket: Ticket, ordinals: [UInt32])] = []
  /// For each page that was looked up.
  var pagesOver: [Bool] = []
  var pagesThatMayPause: [Bool] = []
  /// Whether it has a registry.
  var knowsDevices = true
  /// By ordinal: the token's bytes; a device without one is skipped. nil: nobody can say who devices are.
  var tokens: [UInt32: [UInt8]]? = [:]
  /// No credential serves the jobs.
  var routingError: RoutingError?
  /// That of jobs that are read from now on.
  var pool = PoolIndex(0)
  /// Where there are no `tokens`.
  var directoryFailure = DirectoryFailure.silent
  /// Ordinals that get nothing any more.
  var toldElsewhere: Set<UInt32> = []
  var superseded: Set<UInt32> = []
  /// Whether its job was paused or cancelled.
  var standing = AudienceStanding.running
  /// Questions about that from a lane that has its pages.
  var standingsAsked: [(index: Int, job: AudienceID)] = []
  private(set) var standingsAnswered = 0
  /// Redis has other pages of the same numbers.
  var areForeign = false
  /// An earlier delivery of the page may have been sent: it has targets even if its job was cancelled.
  var mayBeSent = false
  /// It answers nothing for now.
  var namesNobody = false
  var tokensGone: [(ordinal: UInt32, since: Int64)] = []
  /// Tokens and registration times that requests were sent with.
  var sentTokens: [String] = []
  var admittedRegistrations: [Int64?] = []
  var outcomes: [String] = []
  var retries: [RetryState] = []
  /// Of the messages that retry copies and isolated ones replaced.
  var replaced: [MessageMetadata] = []
  /// When they were last put off because their job is paused.
  var retriesPausedAt: [Int64?] = []
  var retryDelays: [Int] = []
  var retryBodies: [String] = []
  /// Isolated jobs.
  var isolatedCount = 0
  var sequence: UInt64 = 0
  /// Publishes are confirmed in the next turn.
  var confirmsPublishes = true
  /// RabbitMQ takes publishes.
  var canPublish = true
  /// Publishes are refused in the next turn.
  var refuses: Set<PublishDestination> = []
  /// The outcomes of these apps are refused likewise.
  var refusedApps: Set<String> = []
  /// What began to refuse, or takes messages again.
  var notes: [String] = []
  var renewals = 0
  var remembered: [RememberedOutcome] = []
  var fates: [(outcome: Outcome, claim: UInt32)] = []
  /// What the admission store was asked about, and what it says.
  var arrivals: [JobArrival] = []
  var admission = Admission.proceed
  /// It answers nothing for now.
  var admitsNothing = false
  var requests: [Ticket] = []
  var released: [Ticket] = []
  var answers: [PushAnswer] = []
  /// What the pool says to each request.
  var decision = SendDecision.sent
  /// How many it says that it would take, where it takes any.
  var room = 1000

  var now: Now {
    Now(
      monotonic: Instant(nanoseconds: milliseconds * 1_000_000),
      unixMilliseconds: milliseconds + clockAheadMilliseconds)
  }

  func deliver(
    _ number: Int, isIsolated: Bool = false, jobClass: JobClass = .transactional,
    _ describe: (inout MessageMetadata) -> Void = { _ in }
  ) {
    nextTags[Int(jobClass.rawValue)] += 1
    var metadata = MessageMetadata()
    describe(&metadata)
    ready.append((number, nextTags[Int(jobClass.rawValue)], metadata, isIsolated, jobClass))
  }

  func answeredStanding() { standingsAnswered += 1 }

  func takeDelivery() -> BrokerEvent? {
    guard !ready.isEmpty else { return nil }
    let next = ready.removeFirst()
    delivered.append((next.job, next.metadata))
    let tag = DeliveryTag(
      epoch: epoch, jobClass: next.jobClass, value: next.tag, isIsolated: next.isIsolated)
    return .delivery(Delivery(tag: tag, bodyCount: 200, isOversized: false))
  }

  /// The consumer's connection is lost, with all that was not taken.
  func loseConsumer() {
    ready = []
    events.append(.consumingStopped)
  }

  func acknowledge(_ tag: DeliveryTag) { acknowledged.append(tag.value) }

  func answer(_ ticket: Ticket, status: UInt16 = 200, reason: APNsReason? = nil) {
    var answer = PushAnswer(ticket: ticket, kind: .response)
    answer.status = status
    answer.reason = reason
    answers.append(answer)
  }
}

struct LaneBenchBroker: Broker {
  let world: LaneBenchWorld

  var canPublish: Bool { world.canPublish }

  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !world.events.isEmpty { return world.events.removeFirst() }
    return takesDeliveries ? world.takeDelivery() : nil
  }

  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    guard let last = world.delivered.last else { preconditionFailure("nothing was delivered") }
    metadata = last.metadata
    if let body = world.bodies[last.job] {
      job.bytes = Array(body.utf8)
      job.bodyCount = job.bytes.count
      return
    }
    let tokens = (0..<world.targetCount).map { "\"\($0 % 10)\(Hex.text(last.job, count: 15))\"" }
    let to = world.targetCount == 1 ? tokens[0] : "[\(tokens.joined(separator: ","))]"
    job.bytes = Array(
      """
      {"version":1,"id":"job-\(last.job)","app":"com.example.app","push_type":"alert",\
      "to":{"\(world.targetCount == 1 ? "token" : "tokens")":\(to)},"payload":{"aps":{"alert":"hello"}}}
      """.utf8)
    job.bodyCount = job.bytes.count
  }

  private func published(_ destination: PublishDestination, isRefused: Bool = false) -> UInt64 {
    world.sequence += 1
    if isRefused || world.refuses.contains(destination) {
      world.events.append(.refused(world.sequence...world.sequence))
      return world.sequence
    }
    if world.confirmsPublishes { world.events.append(.confirmed(world.sequence...world.sequence)) }
    return world.sequence
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    world.outcomes.append(String(decoding: body, as: UTF8.self))
    let key = String(decoding: routingKey, as: UTF8.self)
    return published(.results, isRefused: world.refusedApps.contains { key.hasSuffix(".\($0)") })
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    world.retries.append(state)
    world.replaced.append(copy metadata)
    world.retriesPausedAt.append(metadata.pausedAt)
    world.retryDelays.append(delaySeconds)
    world.retryBodies.append(String(decoding: body, as: UTF8.self))
    return published(.retries)
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    world.isolatedCount += 1
    world.replaced.append(copy metadata)
    return published(.isolated)
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    world.deadLetters.append(String(decoding: body, as: UTF8.self))
    return published(.deadLetters)
  }

  mutating func publishExpansion(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    world.expansions.append(String(decoding: body, as: UTF8.self))
    world.audienceClasses.insert(jobClass)
    return published(.expansions)
  }

  mutating func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64 {
    world.settlements.append(String(decoding: body, as: UTF8.self))
    world.audienceClasses.insert(jobClass)
    return published(.expansions)
  }

  mutating func acknowledge(upTo tag: DeliveryTag) { world.acknowledge(tag) }
  mutating func acknowledge(one tag: DeliveryTag) { world.acknowledge(tag) }
  mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
    if requeue { world.rejected.append(tag) } else { world.leftToBroker.append(tag) }
  }
  mutating func stopConsuming() {}
  mutating func renewChannel() { world.renewals += 1 }
  mutating func note(_ destination: PublishDestination, app: String?, refusedForMilliseconds: Int64?) {
    world.notes.append("\(destination) \(app ?? "of all") \(refusedForMilliseconds == nil ? "refuses" : "takes")")
  }
}

struct LaneBenchState: AdmissionStore {
  let world: LaneBenchWorld
  private var asked: [Ticket] = []

  init(world: LaneBenchWorld) { self.world = world }

  mutating func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    asked.append(ticket)
    world.arrivals.append(arrival)
    world.admittedRegistrations.append(job.tokenRegisteredAt)
  }

  mutating func flush(now: Now) {}

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    asked.isEmpty || world.admitsNothing ? nil : (asked.removeFirst(), world.admission)
  }

  mutating func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    world.remembered.append(outcome)
  }

  mutating func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {
    world.fates.append((outcome.outcome, claim))
  }

  mutating func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {}
}

struct LaneBenchPush: PushService {
  let world: LaneBenchWorld

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    if let error = world.routingError { throw error }
    return world.pool
  }

  mutating func maintain(now: Now) {}
  func room(for pool: PoolIndex) -> Int { world.decision == .sent ? world.room : 0 }

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    if world.decision == .sent || world.decision == .held {
      world.requests.append(ticket)
      world.sentTokens.append(String(decoding: job.bytes[job.targets[target].range], as: UTF8.self))
    }
    return world.decision
  }

  mutating func nextReleased() -> Ticket? { world.released.popLast() }
  mutating func nextAnswer(now: Now) -> PushAnswer? { world.answers.isEmpty ? nil : world.answers.removeFirst() }
  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {
    if verdict.pause != .none { world.pausedTopics.append(topic) }
  }
  mutating func close() {}
}

struct LaneBenchClock: LaneClock {
  let world: LaneBenchWorld
  var now: Now { world.now }
  var hasRedisTime: Bool { world.hasRedisTime }
}

final class LaneBenchDirectory: AudienceDirectory {
  private let world: LaneBenchWorld

  init(world: LaneBenchWorld) { self.world = world }

  var knowsDevices: Bool { world.knowsDevices }
  func maintain(now: Now) {}

  func find(
    _ job: borrowing PushJob, isOver: Bool, mayPause: Bool, settled: SettledDevices, apnsID: UUIDValue?, ticket: Ticket,
    now: Now
  ) {
    let bytes = job.bytes
    var ordinals: [UInt32] = []
    for index in 0..<job.page.count { ordinals.append(job.page.ordinal(index, in: bytes.span)) }
    world.pagesAsked.append((ticket, ordinals))
    world.pagesOver.append(isOver)
    world.pagesThatMayPause.append(mayPause)
  }

  func nextAnswer(now: Now) -> DirectoryAnswer? {
    guard !world.namesNobody, let (ticket, ordinals) = world.pagesAsked.popLast() else { return nil }
    guard let tokens = world.tokens else { return (ticket, .failure(world.directoryFailure)) }
    var resolution = PageResolution()
    resolution.standing = world.standing
    if world.standing == .paused { return (ticket, .success(resolution)) }
    for ordinal in ordinals {
      if world.standing == .cancelled, !world.mayBeSent {
        resolution.cancel()
        continue
      }
      guard let token = tokens[ordinal] else {
        resolution.skip()
        continue
      }
      let device = Array("device-\(ordinal)".utf8)
      if world.toldElsewhere.contains(ordinal) {
        resolution.waitForAnother()
      } else if world.superseded.contains(ordinal) {
        resolution.supersede(token.span, device: device.span, registeredAt: Int64(ordinal) * 1000)
      } else {
        resolution.send(to: token.span, device: device.span, registeredAt: Int64(ordinal) * 1000)
      }
    }
    resolution.isForeign = world.areForeign
    return (ticket, .success(resolution))
  }

  func ask(about job: AudienceID, index: Int) { world.standingsAsked.append((index, job)) }

  func nextStanding() -> (index: Int, job: AudienceID, standing: AudienceStanding?)? {
    guard !world.namesNobody, let (index, job) = world.standingsAsked.popLast() else { return nil }
    world.answeredStanding()
    return (index, job, world.standing)
  }

  func tokenGone(_ job: borrowing PushJob, target: Int, since: Int64) {
    let bytes = job.bytes
    world.tokensGone.append((job.page.ordinal(target, in: bytes.span), since))
  }

  func close() {}
}
