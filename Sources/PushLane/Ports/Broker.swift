package import PushCore

/// The broker, as a lane sees it. Nothing here blocks: calls queue bytes, events are what came back.
package protocol Broker {
  /// The next event of this turn; nil once everything is reported.
  /// - Parameter takesDeliveries: false: a delivery, and what came behind it, stays where it is.
  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent?

  /// Copies out what the last delivery carries. Called at most once, before the next `nextEvent`.
  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata)

  /// Publishes an outcome. Returns the sequence number that its confirm will carry.
  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a fresh copy of a job, which comes back to the queue of its class after the delay.
  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64

  /// Publishes a copy of a job that comes back alone: of the queue of isolated jobs one message is given at a time.
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
  mutating func acknowledge(one tag: DeliveryTag)

  /// Gives a delivery back: to its queue, or (not `requeue`) to the dead letters.
  mutating func reject(_ tag: DeliveryTag, requeue: Bool)

  /// Takes no more deliveries; what is unacknowledged stays ours until it is acknowledged or given back.
  mutating func stopConsuming()

  /// Publishing works and the broker is not blocked.
  var canPublish: Bool { get }
}
