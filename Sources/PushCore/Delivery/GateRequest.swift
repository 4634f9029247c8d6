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
  /// As `JobArrival.copy`.
  package var copy: UInt32 = 0
  /// A copy that waited in a retry queue: a newer job of the same collapse id takes its place.
  package var isReturning: Bool { copy > 0 }

  /// Names the job among those of its device: 64 bits of the `apns-id`, which is the same for every delivery of a (job, target).
  /// Never 0.
  package var jobName: UInt64 {
    // Producers' own UUIDs may hold the same low half a million times (version 1: the machine), so both halves count.
    let mixed = (apnsID.high ^ 0x9E37_79B9_7F4A_7C15) &* 0xFF51_AFD7_ED55_8CCD
    let name = (mixed ^ mixed >> 32) &+ apnsID.low
    return name == 0 ? 1 : name
  }

  package init(device: GateKey, apnsID: UUIDValue, registeredAt: Int64, isRated: Bool) {
    self.device = device
    self.apnsID = apnsID
    self.registeredAt = registeredAt
    self.isRated = isRated
  }

  /// All that an admission needs.
  package init(
    _ job: borrowing PushJob, device: GateKey, apnsID: UUIDValue, arrival: JobArrival, limits: borrowing RateLimits
  ) {
    self.init(
      device: device, apnsID: apnsID, registeredAt: max(0, job.tokenRegisteredAt ?? 0),
      isRated: job.targetKind != .channel)
    rate = limits.number(for: job)
    firstSeen = arrival.firstSeen
    copy = arrival.copy
    if !job.collapseID.isEmpty { collapse = ByteHash.hash(job.bytes.span.extracting(job.collapseID.range)) | 1 }
  }

  /// What names a (job, target) whose end is told.
  package init(device: GateKey, apnsID: UUIDValue) {
    self.init(device: device, apnsID: apnsID, registeredAt: 0, isRated: false)
  }

  /// What names a device that APNs refused for its rate.
  package init(_ job: borrowing PushJob, device: GateKey, limits: borrowing RateLimits) {
    self.init(device: device, apnsID: UUIDValue(high: 0, low: 0), registeredAt: 0, isRated: true)
    rate = limits.number(for: job)
  }
}

/// How a job came.
package struct JobArrival: Sendable {
  /// When its first copy was received, Unix milliseconds.
  package var firstSeen: Int64
  /// The number of the copy that came back: 1 for the first that waited in a retry queue, 0 for the producer's own message.
  package var copy: UInt32
  /// The number of the copy that comes after it.
  package var nextCopy: UInt32 { copy == .max ? copy : copy + 1 }

  package init(firstSeen: Int64, copy: UInt32) {
    self.firstSeen = firstSeen
    self.copy = copy
  }
}
