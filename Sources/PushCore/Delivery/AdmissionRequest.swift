/// What is asked of the admission store for one (job, target): all that is needed to ask again, or to decide alone.
package struct AdmissionRequest: Sendable {
  package var device: TargetKey
  package var apnsID: UUIDValue
  /// `token_registered_at`, Unix milliseconds; 0 where the job has none.
  package var registeredAt: Int64
  /// When the job was enqueued, or received first, Unix milliseconds: "newer" is by this.
  package var enqueuedAt: Int64 = 0
  /// A hash of the job's collapse id; 0 where it has none.
  package var collapse: UInt64 = 0
  /// A device has a rate; a broadcast channel has none.
  package var isRated: Bool
  package var rule: RateRule
  /// As in `JobArrival`.
  package var claim: UInt32 = 0
  package var earlierClaim: UInt32 = 0
  package var isReturning = false
  package var takeover = Takeover.none

  /// Names the job among those of its device: 64 bits of the `apns-id`, which is the same for every delivery of a (job, target).
  /// Never 0.
  package var jobName: UInt64 {
    // Producers' own UUIDs may hold the same low half a million times (version 1: the machine), so both halves count.
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

  /// All that an admission needs.
  package init(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, limits: borrowing RateLimits
  ) {
    self.init(
      device: device, apnsID: apnsID, registeredAt: max(0, job.tokenRegisteredAt ?? 0),
      isRated: job.targetKind != .channel && !arrival.isOver, rule: limits.rule(for: job))
    enqueuedAt = arrival.enqueuedAt
    claim = arrival.claim
    earlierClaim = arrival.earlierClaim
    isReturning = arrival.isReturning
    takeover = arrival.takeover
    if !job.collapseID.isEmpty { collapse = ByteHash.hash(job.bytes.span.extracting(job.collapseID.range)) | 1 }
  }

  /// What names a (job, target) whose end is published.
  package init(device: TargetKey, apnsID: UUIDValue) {
    self.init(device: device, apnsID: apnsID, registeredAt: 0, isRated: false, rule: .none)
  }

  /// What names a device that APNs refused for its rate.
  package init(_ job: borrowing PushJob, device: TargetKey, limits: borrowing RateLimits) {
    self.init(
      device: device, apnsID: UUIDValue(high: 0, low: 0), registeredAt: 0, isRated: true, rule: limits.rule(for: job))
  }

  /// Whether a claim that is there is this one's own, or that of the attempt before it.
  package func owns(_ number: UInt32) -> Bool { number == claim || number == earlierClaim }
}

/// How a job came.
///
/// Whoever is admitted leaves a claim: a number of its own. A copy that comes back tells the one of the attempt before it, and is
/// its successor where nobody else claimed the job meanwhile. So of two copies of one job, however they came to be two, only one
/// is on its way at a time.
package struct JobArrival: Sendable {
  /// When it was enqueued, or its first copy was received, Unix milliseconds.
  package var enqueuedAt: Int64
  /// What this one claims the job with, if it is admitted: drawn for it alone. The number of a claim that it has already makes that one
  /// anew, and costs its device nothing. 0: it leaves no claim, for it is over and only asked
  /// about, and no copy is to wait for it.
  package var claim: UInt32
  /// The claim under which it was admitted before, it or the attempt before it (`x-herald-claim`); 0: there was none.
  package var earlierClaim: UInt32
  /// It waited in a retry queue: a newer job of the same collapse id takes its place.
  package var isReturning: Bool
  /// Whose claims it waits for no more. It is marked already, for it may have been sent.
  package var takeover: Takeover
  /// Its time is over: it is only asked whether it was answered, and costs its device nothing.
  package var isOver: Bool

  package init(
    enqueuedAt: Int64, claim: UInt32, earlierClaim: UInt32 = 0, isReturning: Bool = false, takeover: Takeover = .none,
    isOver: Bool = false
  ) {
    self.enqueuedAt = enqueuedAt
    self.claim = claim
    self.earlierClaim = earlierClaim
    self.isReturning = isReturning
    self.takeover = takeover
    self.isOver = isOver
  }
}

/// Which live claims of others do not keep a job from being sent.
package enum Takeover: UInt8, Sendable {
  /// Each of them does.
  case none
  /// Those that are older than two seconds: the broker gave the job to somebody before who did not finish it, and who did not tell its
  /// answer in the time that the job waited for that. A younger claim is another one than it waited for.
  case oldClaims
  /// None does: the job is isolated, and whoever had it before is gone.
  case anyClaim

  /// The age at which a claim is old, in whole seconds.
  package static let oldClaimSeconds: Int64 = 2
}
