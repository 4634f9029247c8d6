package import PushCore
package import PushLane

/// Identifies a target: a job's id and one of its targets.
package struct Target: Hashable {
  package var job: String
  package var token: String

  package init(job: String, token: String) {
    self.job = job
    self.token = token
  }
}

/// A message in the broker.
package struct Message {
  package var body: [UInt8]
  package var state: RetryState?
  package var jobClass: JobClass
  /// The targets that must have an end before it may be acknowledged; read from the body by the world, not by the lane.
  package var targets: [Target]
  /// The AMQP timestamp, Unix milliseconds: when its producer published it. nil if the producer set none.
  package var enqueuedAt: Int64?
  /// When its first copy was received; for a copy that carries no other state.
  package var firstSeen: Int64?
  /// As in `MessageMetadata`.
  package var isSeenLate = false
  /// How often it was delivered without being settled.
  package var deliveryCount: UInt32 = 0
  /// The state of the earlier message that a copy in the queue of isolated jobs carries.
  package var carriedDeliveries: UInt32 = 0
  /// It belongs to the queue of isolated jobs.
  package var isIsolated = false
  /// What a copy without other state carries about earlier attempts.
  package var isAmbiguous = false
  /// For a dead letter of one target of a batch.
  package var apnsID: UUIDValue?
  /// For a dead letter: the claim under which its last attempt was admitted.
  package var claim: UInt32 = 0

  /// The broker moved it to the dead letters itself, with all its headers.
  var asDeadLetter: Message {
    var letter = Message(
      body: body, state: nil, jobClass: jobClass, targets: targets, enqueuedAt: enqueuedAt,
      isAmbiguous: state?.isAmbiguous ?? isAmbiguous)
    letter.apnsID = state?.apnsID ?? apnsID
    letter.claim = state?.claim ?? claim
    return letter
  }

  package init(
    body: [UInt8], state: RetryState?, jobClass: JobClass, targets: [Target], enqueuedAt: Int64? = nil,
    firstSeen: Int64? = nil, carriedDeliveries: UInt32 = 0, isIsolated: Bool = false, isAmbiguous: Bool = false
  ) {
    self.body = body
    self.state = state
    self.jobClass = jobClass
    self.targets = targets
    self.enqueuedAt = enqueuedAt
    self.firstSeen = firstSeen
    self.carriedDeliveries = carriedDeliveries
    self.isIsolated = isIsolated
    self.isAmbiguous = isAmbiguous
  }
}
