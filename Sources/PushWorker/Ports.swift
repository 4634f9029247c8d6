package import PushCore

/// The broker, as a lane sees it. Nothing here blocks: calls queue bytes, events are what came back.
package protocol Broker {
  /// The next event of this turn; nil once everything is told.
  /// - Parameter takesDeliveries: false: a delivery, and what came behind it, stays where it is.
  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent?

  /// Copies out what the delivery told last carries. Called at most once, before the next `nextEvent`.
  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata)

  /// Publishes an outcome. Returns the sequence number that its confirm will carry.
  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a fresh copy of a job, which comes back to the queue of its class after the delay.
  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a copy of a job that comes back alone: of the queue for suspects one message is given at a time.
  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes the original bytes as a dead letter.
  /// - Parameters:
  ///   - apnsID: of one target of a batch, which cannot be made from the bytes.
  ///   - metadata: of the delivery; but `isAmbiguous` is the target's own, for a replay to carry on.
  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Acknowledges every delivery of the tag's class and epoch up to this one.
  mutating func acknowledge(upTo tag: DeliveryTag)

  /// Acknowledges this delivery alone: one before it is still on its way.
  mutating func acknowledge(alone tag: DeliveryTag)

  /// Gives a delivery back: to its queue, or (not `requeue`) to the dead letters.
  mutating func reject(_ tag: DeliveryTag, requeue: Bool)

  /// Takes no more deliveries; what is unacknowledged stays ours until it is acknowledged or given back.
  mutating func stopConsuming()

  /// Publishing works and the broker is not blocked.
  var canPublish: Bool { get }
}

/// What a retry copy carries of the attempts before it.
package struct RetryState: Sendable {
  package var attempts: UInt32
  package var firstSeen: Int64
  /// Under which claim its last attempt was admitted; 0: none was.
  package var claim: UInt32
  /// As in `MessageMetadata`.
  package var redeliveries: UInt32
  package var isAmbiguous: Bool
  /// nil: the copy has all targets of the job.
  package var apnsID: UUIDValue?
  package var reason: APNsReason?

  package init(
    attempts: UInt32, firstSeen: Int64, claim: UInt32 = 0, redeliveries: UInt32 = 0, isAmbiguous: Bool,
    apnsID: UUIDValue?, reason: APNsReason?
  ) {
    self.attempts = attempts
    self.firstSeen = firstSeen
    self.claim = claim
    self.redeliveries = redeliveries
    self.isAmbiguous = isAmbiguous
    self.apnsID = apnsID
    self.reason = reason
  }
}

/// What replicas agree on: answered jobs, dead tokens, device rates. One round trip admits a (job, target).
package protocol SharedState {
  /// Asks; the answer comes from `nextAdmission`, at the latest after the state's own deadline.
  mutating func admit(
    _ job: borrowing PushJob, device: GateKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now)

  /// The turn ends: what it asked for goes out, together.
  mutating func flush(now: Now)

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)?

  /// Remembers a final answer: answered (job, target)s, and dead tokens. Nobody waits for it.
  mutating func remember(_ outcome: RememberedOutcome, device: GateKey, apnsID: UUIDValue, now: Now)

  /// APNs refused a request as one too many for its device: the device is left alone for a while.
  mutating func tighten(_ job: borrowing PushJob, device: GateKey, now: Now)
}

/// APNs, as a lane sees it: pools of connections, one for each (credential, environment).
package protocol PushService {
  /// Which pool serves the job. Throws where none does, with what to say to the producer.
  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex

  /// Once at the start of every turn: deadlines, pings, growth, back-off, probes.
  mutating func maintain(now: Now)

  /// Hands one request to a pool, or says why not.
  /// - Parameter jobClass: the queue that it came from; what is wrong with one class's device tokens holds up no other.
  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    now: Now
  ) -> SendDecision

  /// A send that was held and can be tried again; nil: none.
  mutating func nextReleased() -> Ticket?

  /// false: what waits for the pool waits for a provider token, and not for room.
  func hasToken(for pool: PoolIndex) -> Bool

  /// The next answer of this turn; nil once everything is told.
  mutating func nextAnswer(now: Now) -> PushAnswer?

  /// Acts on a verdict about the connection or its credential (renew the token, pause, close), beside the job's own fate.
  mutating func apply(_ verdict: Verdict, pool: PoolIndex, now: Now)

  /// Says goodbye on idle connections, and opens no more.
  mutating func close()
}

extension PushService {
  /// Of a service without provider tokens.
  package func hasToken(for pool: PoolIndex) -> Bool { true }

  /// Of a service that holds nothing.
  package mutating func nextReleased() -> Ticket? { nil }
}

/// Whether a pool took a request.
package enum SendDecision: Hashable, Sendable {
  /// It did; an answer with the send's ticket follows, whatever happens.
  case sent
  /// What its channel takes is not known yet: `nextReleased` gives its ticket back.
  case held
  /// No connection has a stream or window free: try again next turn.
  case noRoom
  /// None has, nor will one soon: the pool cannot connect, or APNs asked it for less.
  case stalled
  /// The credential, topic or environment is paused: nothing is sent for about this long.
  case paused(retryAfterMilliseconds: Int64)
  /// The job is wrong, which could not be told before: its channel does not take it.
  case refused(RoutingError)
}

/// A pool of connections in a lane's table of pools.
package struct PoolIndex: Hashable, Sendable {
  package var value: UInt16

  package init(_ value: UInt16) {
    self.value = value
  }
}

/// Why no credential serves a job.
package struct RoutingError: Error, Hashable, Sendable {
  /// The field at fault: `app`, `credential` or `environment`.
  package var field: String
  /// The rule, with what to do.
  package var detail: String

  package init(field: String, detail: String) {
    self.field = field
    self.detail = detail
  }
}

/// Time, read once a turn.
package protocol LaneClock {
  var now: Now { get }
}
