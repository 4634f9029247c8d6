/// One question to the admission store about a (job, target), with all that it takes to ask again or to decide locally.
package struct AdmissionRequest: Sendable {
  package var device: TargetKey
  package var apnsID: UUIDValue
  /// `token_registered_at`, Unix milliseconds; 0 if the job has none.
  package var registeredAt: Int64
  /// When the job was enqueued, or first received, Unix milliseconds: decides which of two jobs is newer.
  package var enqueuedAt: Int64 = 0
  /// A hash of the job's collapse id; 0 if it has none, or is for a channel.
  package var collapse: UInt64 = 0
  /// Which of two jobs with one collapse id is newer, as their producers said it.
  package var order = JobOrder.arrival
  /// A device has a rate; a broadcast channel has none.
  package var isRated: Bool
  package var rule: RateRule
  /// As in `JobArrival`.
  package var claim: UInt32 = 0
  package var earlierClaim: UInt32 = 0
  package var isReturning = false
  package var isRedelivered = false
  package var publishedAt: Int64 = 0
  package var takeover = Takeover.none
  package var isDropped = false
  package var hasAsked = false

  /// Identifies the job among those of its device: 64 bits of the `apns-id`, which is the same for every delivery of a (job, target). Never
  /// 0.
  package var jobName: UInt64 {
    // Producers' UUIDs may share one half a million times (version 1: the machine), so both halves count.
    let mixed = (apnsID.high ^ 0x9E37_79B9_7F4A_7C15) &* 0xFF51_AFD7_ED55_8CCD
    let name = (mixed ^ mixed >> 32) &+ apnsID.low
    return name == 0 ? 1 : name
  }

  package init(device: TargetKey, apnsID: UUIDValue, registeredAt: Int64, isRated: Bool, rule: RateRule) {
    self.device = device
    self.apnsID = apnsID
    self.registeredAt = registeredAt
    self.isRated = isRated
    self.rule = rule
  }

  /// A complete admission request.
  package init(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, limits: borrowing RateLimits
  ) {
    self.init(
      device: device, apnsID: apnsID, registeredAt: max(0, job.tokenRegisteredAt ?? 0),
      isRated: job.targetKind != .channel, rule: limits.rule(for: job))
    enqueuedAt = arrival.enqueuedAt
    claim = arrival.claim
    earlierClaim = arrival.earlierClaim
    isReturning = arrival.isReturning
    isRedelivered = arrival.isRedelivered
    publishedAt = arrival.publishedAt
    takeover = arrival.takeover
    isDropped = arrival.isDropped
    hasAsked = arrival.hasAsked
    order = arrival.order
    if isRated, !job.collapseID.isEmpty {
      collapse = ByteHash.hash(job.bytes.span.extracting(job.collapseID.range)) | 1
    }
  }

  /// Identifies a (job, target) whose end is published.
  package init(device: TargetKey, apnsID: UUIDValue) {
    self.init(device: device, apnsID: apnsID, registeredAt: 0, isRated: false, rule: .none)
  }

  /// Identifies a device for which APNs answered TooManyRequests.
  package init(_ job: borrowing PushJob, device: TargetKey, limits: borrowing RateLimits) {
    self.init(
      device: device, apnsID: UUIDValue(high: 0, low: 0), registeredAt: 0, isRated: true, rule: limits.rule(for: job))
  }

  /// A job with its collapse id that its producer made later supersedes it.
  package var isOrdered: Bool { order != .arrival && isRated }

  /// It is another delivery, or a copy, of a message: where that has ended, it ends in the same way. What was published again does not.
  package var mayHaveEnded: Bool { isReturning || isRedelivered }

  /// Whether a claim is this request's own, or its previous attempt's.
  package func owns(_ number: UInt32) -> Bool { number == claim || number == earlierClaim }
}

/// How a job arrived.
///
/// Each admitted job leaves a claim with a unique number. A copy that returns from a retry queue carries the previous attempt's number, and
/// succeeds it if no other copy claimed the job meanwhile. So of two copies of a job, only one is sent at a time, however they came to
/// exist.
package struct JobArrival: Sendable {
  /// When it was enqueued, or its first copy was received, Unix milliseconds.
  package var enqueuedAt: Int64
  /// Among the jobs with its collapse id.
  package var order: JobOrder
  /// The number of the claim that it makes if it is admitted; unique. The number of a claim that it already has renews that claim, without
  /// a charge to the device. 0: it makes no claim, because its time is over: the device is not charged, and the request only looks up whether
  /// it was answered, or superseded.
  package var claim: UInt32
  /// The claim under which it, or its previous attempt, was admitted (`x-herald-claim`); 0: none.
  package var earlierClaim: UInt32
  /// It waited in a retry queue: a newer job with its collapse id supersedes it.
  package var isReturning: Bool
  /// The broker delivered it before, to a worker that did not finish it; or gave it to others meanwhile, perhaps.
  package var isRedelivered: Bool
  /// When this message was published at the earliest, Unix milliseconds; 0: not known. What ended before was another one with its id.
  package var publishedAt: Int64
  /// Which claims of others it ignores. It is marked ambiguous already, because it may have been sent.
  package var takeover: Takeover
  /// Over its device's rate it is dropped, and does not wait: then it supersedes no other job.
  package var isDropped: Bool
  /// Its lane asked about it before: of two jobs that are as new as each other, the one that came last is.
  package var hasAsked: Bool

  package init(
    enqueuedAt: Int64, order: JobOrder = .arrival, claim: UInt32, earlierClaim: UInt32 = 0, isReturning: Bool = false,
    isRedelivered: Bool = false, publishedAt: Int64 = 0, takeover: Takeover = .none, isDropped: Bool = false,
    hasAsked: Bool = false
  ) {
    self.enqueuedAt = enqueuedAt
    self.order = order
    self.claim = claim
    self.earlierClaim = earlierClaim
    self.isReturning = isReturning
    self.isRedelivered = isRedelivered
    self.publishedAt = publishedAt
    self.takeover = takeover
    self.isDropped = isDropped
    self.hasAsked = hasAsked
  }
}

/// Which live claims of others do not prevent sending.
package enum Takeover: UInt8, Sendable {
  /// None: every claim prevents it.
  case none
  /// Claims older than two seconds. The broker delivered the job before to a worker that did not finish it, and its answer did not come
  /// while the job waited. A younger claim is not the one that it waited for.
  case oldClaims
  /// All: the job is isolated, and the worker that had it before is gone.
  case anyClaim

  /// The age at which a claim is old, in whole seconds.
  package static let oldClaimSeconds: Int64 = 2
}
