package import PushCore

/// The broker, as a lane sees it. Nothing here blocks: calls queue bytes, and events report what came.
package protocol Broker {
  /// The next event of this turn; nil once everything is reported.
  /// - Parameter takesDeliveries: false: a delivery, and everything after it, is left for later.
  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent?

  /// Copies the last delivery. Called at most once, before the next `nextEvent`.
  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata)

  /// Publishes an outcome. Returns the sequence number of its confirm.
  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a copy of a job, which returns to the queue of its class after the delay.
  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a copy of a job to the queue of isolated jobs, which delivers one message at a time.
  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a copy of a job to where its audience becomes pages.
  mutating func publishExpansion(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes how devices of a page ended, to whoever keeps its audience's progress.
  mutating func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64

  /// Publishes the original bytes as a dead letter.
  /// - Parameters:
  ///   - apnsID: for one target of a batch, because it cannot be derived from the bytes.
  ///   - metadata: from the delivery, except `isAmbiguous`, which is the target's, for a replay to keep.
  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Acknowledges every delivery of the tag's class and epoch up to this one.
  mutating func acknowledge(upTo tag: DeliveryTag)

  /// Acknowledges only this delivery: an earlier one is still in progress.
  mutating func acknowledge(one tag: DeliveryTag)

  /// Returns a delivery: to its queue, or (not `requeue`) to the dead letters.
  mutating func reject(_ tag: DeliveryTag, requeue: Bool)

  /// Takes no more deliveries; unacknowledged ones stay ours until they are acknowledged or returned.
  mutating func stopConsuming()

  /// Publishing works and the broker is not blocked.
  var canPublish: Bool { get }

  /// Publishes on a fresh channel as soon as there is one: the present one may be what refuses.
  mutating func renewChannel()

  /// The same with the connection, preferably to another node.
  mutating func renewConnection()

  /// A destination began to refuse messages, or (after so long) takes them again. For output.
  /// - Parameter app: only this one's; nil: any.
  mutating func note(_ destination: PublishDestination, app: String?, refusedForMilliseconds: Int64?)
}

extension Broker {
  package mutating func renewChannel() {}
  package mutating func renewConnection() {}
  package mutating func note(_ destination: PublishDestination, app: String?, refusedForMilliseconds: Int64?) {}

  /// Of a broker whose lanes have no directory of devices.
  package mutating func publishExpansion(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    preconditionFailure("a job for an audience is refused where nobody knows devices")
  }

  package mutating func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64 {
    preconditionFailure("a page is refused where nobody knows devices")
  }
}
