/// What the gate asks of shared state for one (job, target): all that is needed to ask again, or to decide alone.
package struct GateRequest: Sendable {
  package var device: GateKey
  package var apnsID: UUIDValue
  /// `token_registered_at`, Unix milliseconds; 0 where the job has none.
  package var registeredAt: Int64
  /// When the job was received first, Unix milliseconds.
  package var firstSeen: Int64 = 0
  /// A hash of the job's collapse id; 0 where it has none.
  package var collapse: UInt64 = 0
  /// A device has a rate; a broadcast channel has none.
  package var isRated: Bool
  /// Which of `RateLimits` holds.
  package var rate: UInt8 = 0
  /// A copy that waited in a retry queue: a newer job of the same collapse id takes its place.
  package var isReturning = false

  package init(device: GateKey, apnsID: UUIDValue, registeredAt: Int64, isRated: Bool) {
    self.device = device
    self.apnsID = apnsID
    self.registeredAt = registeredAt
    self.isRated = isRated
  }

  /// All that an admission needs.
  package init(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, arrival: JobArrival, limits: borrowing RateLimits
  ) {
    self.init(job, target: target, apnsID: apnsID)
    rate = limits.number(for: job)
    firstSeen = arrival.firstSeen
    isReturning = arrival.isReturning
    if !job.collapseID.isEmpty { collapse = ByteHash.hash(job.bytes.span.extracting(job.collapseID.range)) | 1 }
  }

  package init(_ job: borrowing PushJob, target: Int, apnsID: UUIDValue) {
    let bytes = job.bytes.span
    device = GateKey(
      environment: job.environment, topic: bytes.extracting(job.topic.range),
      token: bytes.extracting(job.targets[target].range))
    self.apnsID = apnsID
    registeredAt = max(0, job.tokenRegisteredAt ?? 0)
    isRated = job.targetKind != .channel
  }
}

/// How a job came.
package struct JobArrival: Sendable {
  /// When its first copy was received, Unix milliseconds.
  package var firstSeen: Int64
  /// It comes back from a retry queue.
  package var isReturning: Bool

  package init(firstSeen: Int64, isReturning: Bool) {
    self.firstSeen = firstSeen
    self.isReturning = isReturning
  }
}
