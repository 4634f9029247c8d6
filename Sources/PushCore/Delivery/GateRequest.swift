/// What the gate asks of shared state for one (job, target): all that is needed to ask again, or to decide alone.
package struct GateRequest: Sendable {
  package var device: GateKey
  package var apnsID: UUIDValue
  /// `token_registered_at`, Unix milliseconds; 0 where the job has none.
  package var registeredAt: Int64
  /// A device has a rate; a broadcast channel has none.
  package var isRated: Bool

  package init(device: GateKey, apnsID: UUIDValue, registeredAt: Int64, isRated: Bool) {
    self.device = device
    self.apnsID = apnsID
    self.registeredAt = registeredAt
    self.isRated = isRated
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
