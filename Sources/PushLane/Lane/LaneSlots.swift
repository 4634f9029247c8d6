import PushCore
import PushCredentials
import PushSettings

/// One delivery in flight: its bytes, its parsed job, and how many of its targets are still open.
///
/// What is read of it for each push is inlined: the compiler copies a slot of a table, 700 bytes, for each call of a getter that is not.
struct JobSlot: ~Copyable {
  var job = PushJob()
  var metadata = MessageMetadata()
  var tag = DeliveryTag(epoch: 0, jobClass: .transactional, value: 0)
  var pool = PoolIndex(0)
  /// The app's number in the lane's counters.
  var app = AppLabels.other
  /// Unix milliseconds.
  var receivedAt: Int64 = 0
  var received = Instant(nanoseconds: 0)
  /// When the broker sent it at the earliest, Unix milliseconds: before it was received, where the lane stood still meanwhile.
  private var sentAt: Int64 = 0
  private var isLate: Bool { sentAt < receivedAt }
  /// Of its body, as they count in the lane's `bodyBytes`.
  var heldBytes = 0
  /// Why the job cannot be sent; nil for a good one.
  var refusal: String?
  /// The body was over the limit and not kept: the broker itself moves the message to the dead letters.
  var isOversized = false
  /// Its dead letter was refused: the same.
  var isLeftToBroker = false
  /// The message itself says that it may have been sent before.
  private(set) var tellsAmbiguous = false
  /// The decision about a delivery that was not finished before.
  var isolation = IsolationPolicy.Decision.process
  /// One copy with all its targets replaces the delivery.
  private(set) var isPutOff = false
  /// The first target that is not started.
  var nextTarget = 0
  /// Started targets that have not settled.
  var openTargets = 0
  /// The request of a target went on the wire (`Lane.jobsSent`).
  var isSent = false
  /// Of a page: a `PageEnd` letter for each ordinal of its body; of an activity's broadcast: one; else empty.
  var ends: [UInt8] = []
  /// Of a page that starts an activity: the same of `PageSettlement.Starts`; else empty.
  private(set) var starts: [UInt8] = []
  /// Of an activity's broadcast that ended: APNs' last reason.
  private(set) var reason: APNsReason?
  /// Of a page: the ends are reported.
  private(set) var isTold = false
  /// Of a page: its ends count nowhere (`PageResolution.isForeign`).
  private var isForeign = false
  /// A part of an audience: when the registry answered about it.
  private(set) var resolvedAt: Instant?
  /// Of a page that starts an activity: its time was over when it was looked up, so no device is marked as being started.
  var isForOutcomes = false
  /// Of an activity's broadcast: a newer one is in progress.
  private var isOvertaken = false
  /// A page of an audience, or an activity's broadcast: the registry is asked before it is sent.
  private(set) var isPart = false
  /// A part of an audience that was looked up: its job's index in the lane's `AudienceTable`.
  var audience: Int?

  /// Targets to start; a job that cannot be sent ends as one outcome.
  private(set) var targetCount = 1
  var isSettled: Bool { openTargets == 0 && nextTarget == targetCount }
  /// The first receipt, of this copy or an earlier one.
  var firstSeen: Int64 { metadata.firstSeen ?? sentAt }
  /// When its producer published it, else when it was first received. Its age counts from here, and this decides which of
  /// two jobs is newer. The message's timestamp has whole seconds; within that second, the first receipt decides.
  @inline(__always)
  var enqueuedAt: Int64 {
    if isPart, let pausedAt = metadata.pausedAt { return pausedAt }
    return min(firstSeen, (metadata.enqueuedAt ?? firstSeen) + 999)
  }
  /// When this message was published at the earliest, Unix milliseconds; 0: not known. A timestamp that is ahead says nothing.
  @inline(__always)
  private var publishedAt: Int64 {
    let seconds = metadata.timestamp ?? 0
    return max(metadata.isSeenLate ? 0 : metadata.firstSeen ?? 0, seconds > receivedAt / 1_000 ? 0 : seconds * 1_000)
  }
  /// It takes over claims and does not wait for them. A worker that lost a delivery usually lives and gets its answer within a second, so a
  /// redelivered job waits once. But a possible poison job should crash this worker here, where it is isolated.
  @inline(__always)
  var takesOver: Bool { tag.isIsolated || metadata.deliveryCount == 0 && metadata.redeliveries > 0 }
  @inline(__always)
  func arrival(
    of send: borrowing SendSlot, _ settings: borrowing LaneSettings, isOver: Bool, now: Instant
  ) -> JobArrival {
    // Other lanes may have sent newer jobs meanwhile.
    let hasWaited =
      send.hasAsked || isLate || now.milliseconds(since: received) >= settings.orderAgeMaximumMilliseconds
    return JobArrival(
      enqueuedAt: enqueuedAt, order: order(hasWaited: hasWaited), claim: send.askedClaim, earlierClaim: send.claim,
      isReturning: metadata.firstSeen != nil,
      isRedelivered: metadata.deliveryCount > 0 || metadata.isSeenLate || isLate || send.hasAsked,
      publishedAt: publishedAt,
      takeover: isOver || !takesOver ? .none : tag.isIsolated ? .anyClaim : .oldClaims,
      isDropped: settings.onLimit == .drop && metadata.attempts == 0 && !metadata.isAmbiguous,
      hasAsked: send.hasAsked)
  }
  /// A newer job of its collapse id supersedes it, whichever comes first (`AdmissionRequest.isOrdered`).
  @inline(__always)
  var isOrdered: Bool { order(hasWaited: true) != .arrival }
  /// Among those with its collapse id. Revisions order an activity's.
  @inline(__always)
  private func order(hasWaited: Bool) -> JobOrder {
    guard !job.collapseID.isEmpty, job.activity.isEmpty else { return .arrival }
    return JobOrder(
      sequence: job.sequence, timestamp: metadata.timestamp, point: metadata.order ?? 0,
      way: hasWaited ? .returning : way)
  }
  /// It brought its point with it: a page, a copy or a replay.
  private var hasBroughtPoint = false
  @inline(__always)
  private var way: JobOrder.Way {
    guard metadata.isReturning else { return .first }
    // A copy without its point has got another one.
    return !hasBroughtPoint || isPart && metadata.firstSeen == nil && !metadata.isReplay ? .made : .returning
  }
  @inline(__always)
  var times: JobTimes { JobTimes(enqueuedAt: enqueuedAt, expiration: job.expiration) }

  /// A slot frees its memory if its job, or its headers, were larger than this.
  private static let retainedBytes = 16 * 1024

  mutating func begin(_ delivery: Delivery, sentAt: Int64, _ now: Now) {
    tag = delivery.tag
    self.sentAt = sentAt
    pool = PoolIndex(0)
    app = AppLabels.other
    receivedAt = now.unixMilliseconds
    received = now.monotonic
    refusal = nil
    isOversized = delivery.isOversized
    isLeftToBroker = false
    isolation = .process
    isPutOff = false
    nextTarget = 0
    openTargets = 0
    isSent = false
    targetCount = 1
    if !ends.isEmpty { ends.removeAll(keepingCapacity: true) }
    if !starts.isEmpty { starts.removeAll(keepingCapacity: true) }
    reason = nil
    isTold = false
    isForeign = false
    resolvedAt = nil
    isForOutcomes = false
    isOvertaken = false
    audience = nil
    isPart = false
  }

  mutating func copyDelivery(from broker: inout some Broker, _ points: inout OrderPoints, hasRedisTime: Bool) {
    // A body that is not kept is not parsed: clears the fields of the slot's previous job.
    if isOversized { job = PushJob() }
    broker.copyDelivery(into: &job, metadata: &metadata)
    tellsAmbiguous = metadata.isAmbiguous
    metadata.boundTimes(now: receivedAt)
    sentAt = max(sentAt, metadata.enqueuedAt ?? 0)
    if metadata.firstSeen == nil, metadata.deliveryCount > 0 { metadata.isSeenLate = true }
    metadata.isReturning = metadata.order != nil || metadata.firstSeen != nil || metadata.isReplay
    hasBroughtPoint = metadata.order.map { $0 > 0 } ?? false
    if !hasBroughtPoint {
      // Whoever did not know its point did not know the time of the first receipt.
      let received = metadata.order == nil ? firstSeen : receivedAt
      metadata.order = points.next(timestamp: metadata.timestamp, receivedAt: hasRedisTime ? received : nil)
    }
    guard isOversized else { return }
    let bytes = metadata.bytes
    if JobParser.isID(bytes.span.extracting(metadata.messageID.range)) {
      // Only the message id is known; it replaces the job's own id.
      job.bytes = Array(metadata.bytes[metadata.messageID.range])
      job.id = ByteRange(start: 0, count: job.bytes.count)
    } else {
      // Only its delivery identifies it: no two of these jobs may have the same apns-id.
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
    // An earlier worker may have sent it; there is no way to know.
    if count > 0 { metadata.isAmbiguous = true }
    let origin: IsolationPolicy.Origin = tag.isIsolated ? .isolated : .shared
    let redeliveries = metadata.redeliveries.addingReportingOverflow(count)
    // For an isolated job, only its own isolated deliveries count from here on.
    metadata.redeliveries = tag.isIsolated ? 0 : redeliveries.overflow ? .max : redeliveries.partialValue
    isolation = policy.decide(
      origin, deliveryCount: tag.isIsolated ? count : metadata.redeliveries, carriedCount: carried)
    // The count that copies carry from here on.
    metadata.carriedDeliveries = policy.isolatedCount(origin, deliveryCount: count, carriedCount: carried)
    if isolation == .isolate {
      // It is not parsed: clears the fields of the slot's previous job.
      var bytes: [UInt8] = []
      swap(&bytes, &job.bytes)
      job = PushJob()
      job.bodyCount = bytes.count
      swap(&bytes, &job.bytes)
    }
  }

  /// It is not sent any more: how it ends.
  @inline(__always)
  var givenUp: Outcome? { metadata.undelivered == .expired ? .expired : isolation == .fail ? .failed : nil }

  /// Why one of its targets ended so; nil for most.
  func detail(of outcome: RememberedOutcome) -> String? {
    if let refusal { return refusal }
    if metadata.undelivered == .expired, outcome.outcome == .expired {
      return "given up by RabbitMQ: its time in a queue was over"
    }
    guard outcome.outcome == .failed else { return nil }
    if isolation == .fail {
      return
        "given up: \(metadata.carriedDeliveries) deliveries were not finished, with no other isolated job beside it"
    }
    let answer = [outcome.status.map { "\($0)" }, outcome.reason?.name].compactMap { $0 }.joined(separator: " ")
    return "\(outcome.attempts) attempts; the last answer: \(answer.isEmpty ? "none" : answer)"
  }

  mutating func parse(with parser: inout JobParser) throws(JobError) {
    // A second reference, not a copy: a span of the slot's own field would borrow the whole slot.
    let bytes = metadata.bytes
    defer { isPart = !job.page.isEmpty || job.targetKind == .channel && !job.parentID.isEmpty }
    try parser.parse(into: &job, fallbackID: bytes.span.extracting(metadata.messageID.range))
  }

  /// The job was parsed, and can be sent.
  mutating func accept(pool: PoolIndex, app: Int) {
    self.pool = pool
    self.app = app
    targetCount = job.targetKind.isAudience ? 1 : job.targets.count
  }

  /// A valid job for an audience, or a valid part of one.
  @inline(__always)
  var isForAudience: Bool { refusal == nil && (job.targetKind.isAudience || isPart) }

  var settledDevices: SettledDevices { metadata.isReplay ? .found : metadata.isAmbiguous ? .asked : .leftOut }

  /// Refuses what no worker could ever have sent: it is wrong as its producer wrote it.
  mutating func refuse(_ text: String) {
    refusal = text
    metadata.isAmbiguous = false
  }

  /// Refuses a job of which RabbitMQ knew no class.
  mutating func refuseRoutingKey() {
    let key = String(decoding: metadata.bytes[metadata.routingKey.range], as: UTF8.self)
    refuse("no queue takes jobs with the routing key '\(key)': use 'transactional' or 'bulk'")
  }

  /// Refuses the job: there is no registry here.
  mutating func refuseAudience(app: Int) {
    self.app = app
    refusal =
      "to.\(job.targetKind): needs the registry of devices in Redis: publish the job to RabbitMQ, for a worker"
  }

  /// Refuses a job with a revision, which only Herald assigns.
  mutating func refuseRevision(app: Int) {
    self.app = app
    refuse(JobParser.revisionFault.detail)
  }

  /// Ends the whole job: it expired before its audience became pages.
  mutating func endWhole() {
    refusal = "to.\(job.targetKind): the job expired before its devices were looked up"
  }

  /// Ends a whole page, or an activity's broadcast: it expired, and who gets it could never be read.
  mutating func endUnread(_ text: String) {
    refusal = "the page expired while its devices could not be read: \(text)"
    openEnds()
    targetCount = 1
  }

  /// Of a page: replaces the ordinals by tokens; devices without a token are skipped. Returns how many.
  mutating func resolve(_ resolution: borrowing PageResolution, _ now: Now) -> Int {
    resolvedAt = now.monotonic
    openEnds()
    guard !job.page.isEmpty else {
      isOvertaken = resolution.isOvertaken
      return 0
    }
    isForeign = resolution.isForeign
    let unsent = job.resolve(resolution, isRepeated: metadata.isAmbiguous)
    for (index, end) in unsent where !isForeign {
      ends[index] = PageEnd(end).letter
      // Another start may have the device, unless an earlier copy may have been sent.
      if !starts.isEmpty {
        starts[index] = metadata.isAmbiguous ? PageSettlement.Starts.reached : PageSettlement.Starts.unreached
      }
    }
    targetCount = job.targets.count
    return unsent.count
  }

  /// Of a part of an audience: it is not sent there any more, for example because a newer revision of its activity was.
  @inline(__always)
  func isOvertaken(target: Int) -> Bool { isOvertaken || job.page.superseded.contains(target) }

  /// Of a part of an audience: all of it is open.
  mutating func openEnds() {
    guard isPart else { return }
    ends = Array(repeating: PageEnd.open, count: max(1, job.page.count))
    if job.isStartPage { starts = ends }
  }

  /// Of a page: notes the end of a target; if the page cannot be sent, of all targets.
  /// - Parameters:
  ///   - hasReached: APNs accepted its push, or may have.
  ///   - reason: of APNs' last answer.
  mutating func noteEnd(_ end: PageEnd, hasReached: Bool, reason: APNsReason? = nil, target: Int) {
    if isForeign { return }
    let letter = end.letter
    let start = hasReached ? PageSettlement.Starts.reached : PageSettlement.Starts.unreached
    guard refusal == nil else {
      ends = Array(repeating: letter, count: ends.count)
      starts = Array(repeating: start, count: starts.count)
      return
    }
    guard !job.page.isEmpty else {
      ends = [letter]
      self.reason = reason
      return
    }
    let place = Int(job.page.positions[target]) - job.page.position
    ends[place] = letter
    if !starts.isEmpty { starts[place] = start }
  }

  /// Of a page: there are ends that are not reported.
  var hasEndsToTell: Bool { !isTold && ends.contains { $0 != PageEnd.open } }

  mutating func tellEnds() { isTold = true }

  /// One copy will replace all targets, later.
  mutating func putOff() {
    isPutOff = true
    targetCount = 1
    // It has no end before its copy comes.
    if !ends.isEmpty { ends.removeAll(keepingCapacity: true) }
    if !starts.isEmpty { starts.removeAll(keepingCapacity: true) }
  }

  /// Begins a send of the job. Mutating, since a call with a borrowed slot would copy it.
  mutating func begin(_ send: inout SendSlot, _ ticket: Ticket, target: Int) {
    send.job = ticket
    send.target = target
    send.pool = pool
    send.jobClass = tag.jobClass
    send.tokenRegisteredAt =
      job.page.registeredAt.isEmpty ? job.tokenRegisteredAt : job.page.registeredAt[target]
    send.nextWaiting = nil
    let isParsed = refusal == nil && isolation != .isolate && !isTold
    send.apnsID = metadata.apnsID ?? UUIDValue.apnsID(for: job, target: isParsed ? target : nil)
    send.delivery = DeliveryState(
      attempts: metadata.attempts, isAmbiguous: metadata.isAmbiguous, redeliveries: metadata.redeliveries,
      givenUp: givenUp)
    send.claim = metadata.claim
    send.uniqueID = nil
    send.hasAsked = false
    send.isAskedAgain = false
    send.isHeld = false
    send.refusals = 0
    send.isCounted = false
  }

  mutating func finish() {
    if job.bytes.capacity > JobSlot.retainedBytes { job = PushJob() }
    if metadata.bytes.capacity > JobSlot.retainedBytes { metadata = MessageMetadata() }
  }
}

/// One (job, target) in flight.
struct SendSlot: ~Copyable {
  /// nil: an orphan: its delivery is gone, and its request is on the wire.
  var job: Ticket? = Ticket(index: 0, generation: 0)
  var target = 0
  var pool = PoolIndex(0)
  var jobClass = JobClass.transactional
  var tokenRegisteredAt: Int64?
  /// The next send of the same list: of those that wait for room in a pool, or to be published.
  var nextWaiting: Ticket?
  var apnsID = UUIDValue(high: 0, low: 0)
  /// Its key in the admission store, once it asked.
  var device = TargetKey(high: 0, low: 0)
  var delivery = DeliveryState()
  /// The claim in its last question.
  var askedClaim: UInt32 = 0
  /// The claim of the last admitted attempt, of this copy or the one before; 0: none.
  var claim: UInt32 = 0
  /// `apns-unique-id` of the sandbox.
  var uniqueID: UUIDValue?
  /// When it began to wait for room.
  var waitingSince = Instant(nanoseconds: 0)
  /// When it last asked the admission store.
  var askedAt = Instant(nanoseconds: 0)
  /// The admission store was asked about it.
  var hasAsked = false
  /// It asked again when its turn came: it leaves before the others.
  var isAskedAgain = false
  /// It counts in its pool's share (`PoolQueue.held`).
  var isHeld = false
  /// The number of the last look at the shares when it was sent.
  var sentLook: UInt32 = 0
  /// How often the broker refused its publishes.
  var refusals = 0
  /// Its outcome was counted; publishing it again does not count.
  var isCounted = false
}
