import PushCore
import PushCredentials

/// One delivery in flight: its bytes, its parsed job, and how many of its targets are still on their way.
struct JobSlot: ~Copyable {
  var job = PushJob()
  var metadata = MessageMetadata()
  var tag = DeliveryTag(epoch: 0, jobClass: .transactional, value: 0)
  var pool = PoolIndex(0)
  /// The app's number in the lane's counters.
  var app = AppLabels.maximum
  /// Unix milliseconds.
  var receivedAt: Int64 = 0
  var received = Instant(nanoseconds: 0)
  /// Why the job cannot be sent; nil for a good one.
  var refusal: String?
  /// The body was over the limit and not kept: the broker itself moves the message to the dead letters.
  var isOversized = false
  /// What is done about a delivery that was not finished before.
  var isolation = IsolationPolicy.Decision.process
  /// A copy with all of its targets takes its place.
  private(set) var isPutOff = false
  /// The first target that was not started.
  var nextTarget = 0
  /// Started targets that have not settled.
  var openTargets = 0
  /// Of a page: how its devices ended, a `PageEnd` letter for each ordinal of its body; of others empty.
  var ends: [UInt8] = []
  /// A page told how its devices ended, as far as they did.
  private(set) var isTold = false

  /// Targets to start; a job that cannot be sent ends as one outcome.
  private(set) var targetCount = 1
  var isSettled: Bool { openTargets == 0 && nextTarget == targetCount }
  /// Earlier copies' first receipt where there were any.
  var firstSeen: Int64 { metadata.firstSeen ?? receivedAt }
  /// When its producer published it, or where it does not say that, when it was received first: what its age counts from, and which of
  /// two jobs is the newer. The message's timestamp has whole seconds; within its second the first receipt tells.
  var enqueuedAt: Int64 { min(firstSeen, (metadata.enqueuedAt ?? firstSeen) + 999) }
  /// It waits for nobody's claim. Whoever lost a delivery mostly lives, and is answered within a second, so what is delivered again waits
  /// once; but what may end workers is to end this one here, where it is alone.
  var takesOver: Bool { tag.isIsolated || metadata.deliveryCount == 0 && metadata.redeliveries > 0 }
  /// `claim`: drawn for this one. `earlierClaim`: under which it was admitted before, it or the copy before it; 0: it was not.
  func arrival(claim: UInt32, earlierClaim: UInt32, isOver: Bool) -> JobArrival {
    JobArrival(
      enqueuedAt: enqueuedAt, claim: claim, earlierClaim: earlierClaim, isReturning: metadata.firstSeen != nil,
      takeover: isOver || !takesOver ? .none : tag.isIsolated ? .anyClaim : .oldClaims, isOver: isOver)
  }
  var times: JobTimes { JobTimes(enqueuedAt: enqueuedAt, expiration: job.expiration) }

  /// A slot whose job was larger than this gives its memory back.
  private static let retainedBytes = 16 * 1024

  mutating func begin(_ delivery: Delivery, _ now: Now) {
    tag = delivery.tag
    pool = PoolIndex(0)
    app = AppLabels.maximum
    receivedAt = now.unixMilliseconds
    received = now.monotonic
    refusal = nil
    isOversized = delivery.isOversized
    isolation = .process
    isPutOff = false
    nextTarget = 0
    openTargets = 0
    targetCount = 1
    if !ends.isEmpty { ends.removeAll(keepingCapacity: true) }
    isTold = false
  }

  mutating func copyDelivery(from broker: inout some Broker) {
    // Of a body that is not kept nothing is parsed: fields of the slot's job before it must not be taken for its own.
    if isOversized { job = PushJob() }
    broker.copyDelivery(into: &job, metadata: &metadata)
    metadata.boundTimes(now: receivedAt)
    guard isOversized else { return }
    if 1...Limits.idBytesMaximum ~= Int(metadata.messageID.count) {
      // All that is known of the job: its message id stands for its own.
      job.bytes = Array(metadata.bytes[metadata.messageID.range])
      job.id = ByteRange(start: 0, count: job.bytes.count)
    } else {
      // Nothing names it but its delivery: no two of these may have one apns-id.
      job.bytes = Array("\(receivedAt) \(tag.epoch) \(tag.jobClass) \(tag.value)".utf8)
      job.bodyCount = job.bytes.count
    }
  }

  /// Decides about a delivery that was not finished before.
  mutating func judge(_ policy: IsolationPolicy) {
    if tag.isIsolated { tag.jobClass = metadata.jobClass ?? tag.jobClass }
    guard !isOversized else { return }
    let (count, carried) = (metadata.deliveryCount, metadata.carriedDeliveries)
    if count == 0, carried == 0, metadata.redeliveries == 0 { return }
    // Whoever had it before may have sent it; nobody can ask.
    if count > 0 { metadata.isAmbiguous = true }
    let origin: IsolationPolicy.Origin = tag.isIsolated ? .isolated : .shared
    let redeliveries = metadata.redeliveries.addingReportingOverflow(count)
    // Of one that is alone, only what happens there counts from here on.
    metadata.redeliveries = tag.isIsolated ? 0 : redeliveries.overflow ? .max : redeliveries.partialValue
    isolation = policy.decide(
      origin, deliveryCount: tag.isIsolated ? count : metadata.redeliveries, carriedCount: carried)
    // From here on, what a copy of it carries.
    metadata.carriedDeliveries = policy.isolatedCount(origin, deliveryCount: count, carriedCount: carried)
    if isolation == .isolate {
      // It is not parsed, so the fields of the slot's job before it must not be taken for its own.
      var bytes: [UInt8] = []
      swap(&bytes, &job.bytes)
      job = PushJob()
      job.bodyCount = bytes.count
      swap(&bytes, &job.bytes)
    }
  }

  /// Why it ended without an answer; nil for most.
  var detail: String? {
    if let refusal { return refusal }
    guard isolation == .fail else { return nil }
    return "given up: \(metadata.carriedDeliveries) deliveries were not finished, with no other isolated job beside it"
  }

  mutating func parse(with parser: inout JobParser) throws(JobError) {
    // A second reference, not a copy: a span of the slot's own field would hold the whole slot.
    let bytes = metadata.bytes
    try parser.parse(into: &job, fallbackID: bytes.span.extracting(metadata.messageID.range))
  }

  /// The job was parsed, and can be sent.
  mutating func accept(pool: PoolIndex, app: Int) {
    self.pool = pool
    self.app = app
    targetCount = job.targetKind.isAudience ? 1 : job.targets.count
  }

  /// An audience's, or a page of one, that was read without a fault.
  var isForAudience: Bool { refusal == nil && (job.targetKind.isAudience || !job.page.isEmpty) }

  /// A page whose tokens are known.
  var isResolved: Bool { !job.page.devices.isEmpty }

  /// Nobody knows devices here.
  mutating func refuseAudience(app: Int) {
    self.app = app
    refusal =
      "to.\(job.targetKind): needs the registry of devices, which is in Redis: publish it to RabbitMQ, for a worker"
  }

  /// It says that Herald has taken it already.
  mutating func refuseRevision(app: Int) {
    self.app = app
    refusal = "revision: is Herald's own number of an activity's update, which it gives itself"
  }

  /// Its time was over before its audience became pages: it ends as a whole.
  mutating func endWhole() {
    refusal = "to.\(job.targetKind): its time was over before its devices were looked for"
  }

  /// Of a page: tokens take the ordinals' place, and the others of its devices have their end.
  mutating func resolve(_ resolution: borrowing PageResolution) {
    openEnds()
    for index in job.resolve(resolution) { ends[index] = PageEnd.skipped.letter }
    targetCount = job.targets.count
  }

  /// Of a page: none of its devices has an end.
  mutating func openEnds() {
    if !job.page.isEmpty { ends = Array(repeating: PageEnd.open, count: job.page.count) }
  }

  /// Of a page: a target has its end, in an outcome that the broker confirmed; of a page that cannot be sent, all of them.
  mutating func noteEnd(_ outcome: Outcome, target: Int) {
    let letter = PageEnd.outcome(outcome).letter
    if refusal != nil {
      ends = Array(repeating: letter, count: ends.count)
    } else {
      ends[Int(job.page.positions[target]) - job.page.position] = letter
    }
  }

  /// Of a page: there are ends, and nobody was told of them.
  var hasEndsToTell: Bool { !isTold && ends.contains { $0 != PageEnd.open } }

  mutating func tellEnds() { isTold = true }

  /// One copy, later, takes the place of all targets.
  mutating func putOff() {
    isPutOff = true
    targetCount = 1
  }

  mutating func finish() {
    if job.bytes.capacity > JobSlot.retainedBytes { job = PushJob() }
  }
}

/// One (job, target) in flight.
struct SendSlot: ~Copyable {
  /// nil: its delivery is gone, and what is left is a request on the wire.
  var job: Ticket? = Ticket(index: 0, generation: 0)
  var target = 0
  var pool = PoolIndex(0)
  var tokenRegisteredAt: Int64?
  /// The next one that waits for room in the same pool.
  var nextWaiting: Ticket?
  var apnsID = UUIDValue(high: 0, low: 0)
  /// Its name in the admission store, once it was asked about.
  var device = TargetKey(high: 0, low: 0)
  var delivery = DeliveryState()
  /// What it asked to be admitted with.
  var askedClaim: UInt32 = 0
  /// Under which claim the last attempt was admitted, this one's or that of the copy before; 0: none was.
  var claim: UInt32 = 0
  /// `apns-unique-id` of the sandbox.
  var uniqueID: UUIDValue?
  /// Since when it waits for room, where it was admitted.
  var waitingSince = Instant(nanoseconds: 0)
  /// When the admission store was asked about it last.
  var askedAt = Instant(nanoseconds: 0)
  /// It was its turn to leave, and the admission store was asked about it again: it leaves before the others.
  var isAskedAgain = false
  /// How often the broker refused what was published of it.
  var refusals = 0
  /// Its outcome was counted; telling it again counts no more.
  var isCounted = false

  mutating func begin(job ticket: Ticket, target index: Int, of slot: borrowing JobSlot) {
    job = ticket
    target = index
    pool = slot.pool
    tokenRegisteredAt =
      slot.job.page.registeredAt.isEmpty ? slot.job.tokenRegisteredAt : slot.job.page.registeredAt[index]
    nextWaiting = nil
    let isParsed = slot.refusal == nil && slot.isolation != .isolate && !slot.isTold
    apnsID = slot.metadata.apnsID ?? UUIDValue.apnsID(for: slot.job, target: isParsed ? index : nil)
    delivery = DeliveryState(
      attempts: slot.metadata.attempts, isAmbiguous: slot.metadata.isAmbiguous && slot.refusal == nil,
      redeliveries: slot.metadata.redeliveries, isGivenUp: slot.isolation == .fail)
    claim = slot.metadata.claim
    uniqueID = nil
    isAskedAgain = false
    refusals = 0
    isCounted = false
  }
}

/// The sends that wait for room in one pool, first come, first served: a pool costs nothing while nobody waits for it.
struct PoolQueue {
  /// Those that were admitted again, and leave before the others.
  private var admittedAgain = SendList()
  private var waiting = SendList()
  /// Those that the admission store is being asked about again.
  var asking = 0
  /// When the pool took a request last.
  var lastSent: Instant?

  var first: Ticket? { admittedAgain.first ?? waiting.first }
  var count: Int { admittedAgain.count + waiting.count }

  mutating func append(_ ticket: Ticket, to sends: inout SlotTable<SendSlot>) {
    if sends[ticket].isAskedAgain {
      admittedAgain.append(ticket, to: &sends)
    } else {
      waiting.append(ticket, to: &sends)
    }
  }

  mutating func popFirst(of sends: borrowing SlotTable<SendSlot>) {
    if admittedAgain.first != nil { admittedAgain.popFirst(of: sends) } else { waiting.popFirst(of: sends) }
  }

  /// Its first one is asked about anew: those that were asked about before wait for their turn, so that it leaves before them. Else,
  /// where their answers get old while each of them is asked about anew, none ever leaves.
  mutating func waitAgain(_ sends: inout SlotTable<SendSlot>) {
    waiting.prepend(&admittedAgain, of: &sends)
  }

  mutating func removeAll() {
    admittedAgain = SendList()
    waiting = SendList()
    asking = 0
  }
}

/// A list through the slots of its sends, in the order in which they came.
struct SendList {
  private(set) var first: Ticket?
  private var last = Ticket(index: 0, generation: 0)
  private(set) var count = 0

  mutating func append(_ ticket: Ticket, to sends: inout SlotTable<SendSlot>) {
    sends[ticket].nextWaiting = nil
    if first == nil { first = ticket } else { sends[last].nextWaiting = ticket }
    last = ticket
    count += 1
  }

  /// Takes those of another list, before its own.
  mutating func prepend(_ other: inout SendList, of sends: inout SlotTable<SendSlot>) {
    guard let start = other.first else { return }
    if first == nil { last = other.last } else { sends[other.last].nextWaiting = first }
    first = start
    count += other.count
    other = SendList()
  }

  mutating func popFirst(of sends: borrowing SlotTable<SendSlot>) {
    guard let ticket = first else { preconditionFailure("nobody waits for the pool") }
    first = sends[ticket].nextWaiting
    count -= 1
  }
}
