/// A message's properties and headers. Ranges point into `bytes`.
///
/// Like `PushJob`, one value is filled again and again.
package struct MessageMetadata: Sendable {
  package var bytes: [UInt8] = []
  package var messageID = ByteRange.empty
  package var correlationID = ByteRange.empty
  /// The queue for the reply.
  package var replyTo = ByteRange.empty
  package var traceparent = ByteRange.empty
  package var tracestate = ByteRange.empty
  /// The AMQP timestamp, Unix seconds, as the producer wrote it: what decides an activity's order must not depend on a worker's clock.
  package var timestamp: Int64?
  /// `x-herald-order`: the job's point in the order (`JobOrder`), where another message has brought it before, Unix microseconds; 0: nobody knew
  /// the time.
  package var order: Int64?
  /// `timestamp` in Unix milliseconds, never later than the first receipt: when the producer enqueued it. nil if the producer set none.
  package var enqueuedAt: Int64?
  /// `x-delivery-count`: how often the queue delivered this message before; 0 at the first delivery, whatever the header says.
  package var deliveryCount: UInt32 = 0
  /// `x-herald-attempts`: requests that were written to APNs for earlier copies.
  package var attempts: UInt32 = 0
  /// `x-herald-first-seen`: when the first copy was received, Unix milliseconds.
  package var firstSeen: Int64?
  /// `x-herald-seen-late`: it was delivered before `firstSeen`, or may have been: it may have ended before that.
  package var isSeenLate = false
  /// `x-herald-claim`: as `JobArrival.earlierClaim`.
  package var claim: UInt32 = 0
  /// `x-herald-ambiguous`: an earlier attempt may have reached APNs.
  package var isAmbiguous = false
  /// `x-herald-apns-id` of a retried target of a batch.
  package var apnsID: UUIDValue?
  /// `x-herald-deliveries`: unfinished deliveries of the messages that this one is a copy of; of jobs and channel requests, those in
  /// isolation.
  package var carriedDeliveries: UInt32 = 0
  /// `x-herald-redeliveries`: unfinished deliveries beside others of the messages that this one is a copy of.
  package var redeliveries: UInt32 = 0
  /// `x-herald-class` of an isolated job: the class that it came from.
  package var jobClass: JobClass?
  /// `x-herald-waits`: how often an activity's job has waited for its start.
  package var startWaits: UInt32 = 0
  /// `x-herald-returning`: an audience's message waited in a retry queue.
  package var isReturning = false
  /// `x-herald-paused-at`: when a page was last put off because its job is paused, Unix milliseconds: its age counts from then.
  package var pausedAt: Int64?
  /// `x-herald-replay`: an operator replayed a dead letter: what has its end is sent again.
  package var isReplay = false
  /// `x-herald-undelivered`: RabbitMQ gave up a message that this one is a copy of.
  package var undelivered: Undelivered?
  /// `x-herald-routing-key` of what no queue took.
  package var routingKey = ByteRange.empty

  package init() {}

  /// Removes impossible times (before 1970 or after now, Unix milliseconds). Anybody can write headers and properties.
  package mutating func boundTimes(now: Int64) {
    if let time = firstSeen { firstSeen = time > 0 ? min(time, now) : now }
    if let time = pausedAt { pausedAt = time > 0 ? min(time, now) : nil }
    if let time = enqueuedAt { enqueuedAt = time > 0 ? min(time, firstSeen ?? now) : nil }
  }

  /// Clears everything but the buffer's capacity.
  package mutating func reset() {
    bytes.removeAll(keepingCapacity: true)
    messageID = .empty
    correlationID = .empty
    replyTo = .empty
    traceparent = .empty
    tracestate = .empty
    timestamp = nil
    order = nil
    isReturning = false
    enqueuedAt = nil
    deliveryCount = 0
    attempts = 0
    firstSeen = nil
    isSeenLate = false
    claim = 0
    isAmbiguous = false
    apnsID = nil
    carriedDeliveries = 0
    redeliveries = 0
    jobClass = nil
    startWaits = 0
    pausedAt = nil
    isReplay = false
    undelivered = nil
    routingKey = .empty
  }
}

/// Why RabbitMQ gave up a job that no worker had taken: it is not sent, and its outcome says so.
package enum Undelivered: Sendable {
  /// Its time in a queue was over: the message had an AMQP `expiration`, or a policy has a `message-ttl`.
  case expired
  /// No queue took it.
  case unroutable

  /// In the header.
  package var word: StaticString {
    switch self {
    case .expired: "expired"
    case .unroutable: "unroutable"
    }
  }
}

/// Where a delivery came from, and how to acknowledge it. A tag is valid only within its epoch.
package struct DeliveryTag: Hashable, Sendable {
  /// Counts the consumer connections: a tag of an older epoch is never acknowledged.
  package var epoch: UInt32
  package var jobClass: JobClass
  package var value: UInt64
  /// From the queue of isolated jobs, which delivers one at a time: the tag counts on a channel of its own.
  package var isIsolated: Bool

  package init(epoch: UInt32, jobClass: JobClass, value: UInt64, isIsolated: Bool = false) {
    self.epoch = epoch
    self.jobClass = jobClass
    self.value = value
    self.isIsolated = isIsolated
  }
}
