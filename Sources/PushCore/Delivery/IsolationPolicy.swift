/// What becomes of a delivery whose earlier deliveries no worker finished: it may be what ended them.
///
/// RabbitMQ counts, for each message, how often it gave it to somebody who did not settle it. A worker's death counts for
/// everything that it held, so the count alone does not tell the culprit from its neighbours. So a job that may be poison leaves the
/// queue of its class, as a copy, for a queue of which all workers together hold one message at a time: what dies there,
/// dies alone, and is counted alone. Neighbours get there too, and are processed there; none can reach the limit for
/// what another did.
package struct IsolationPolicy: Equatable, Sendable {
  /// Where a delivery came from.
  package enum Origin: Sendable {
    /// The queue of its class: many are in flight with it.
    case shared
    /// The queue of isolated jobs: it is the only one in flight of that queue.
    case isolated
  }

  package enum Decision: Equatable, Sendable {
    /// Go its usual way.
    case process
    /// Put a copy into the queue of isolated jobs before anything else is done with it, even parsing.
    case isolate
    /// Do not send it any more: it ends as `failed`, and as a dead letter.
    case fail
  }

  /// From so many unfinished deliveries on, a job is processed alone.
  package var isolationCount: UInt32
  /// After so many, those before it was alone included, it is not processed any more. What the broker allows for one message is
  /// far above `isolationCount`, for a message that reaches it is taken away without an outcome.
  package var limit: UInt32

  package init(isolationCount: UInt32 = 3, limit: UInt32 = 20) {
    precondition(isolationCount > 0 && limit > isolationCount, "a job is isolated before it is given up")
    self.isolationCount = isolationCount
    self.limit = limit
  }

  /// - Parameters:
  ///   - deliveryCount: the broker's count for this message, 0 at its first delivery; where it is shared, those of the messages
  ///     that it is a copy of included, as long as none of them was answered.
  ///   - carriedCount: unfinished deliveries, alone, of the messages that this one is a copy of. What was shared is not
  ///     in it: it is no evidence against anybody once it was alone.
  package func decide(_ origin: Origin, deliveryCount: UInt32, carriedCount: UInt32) -> Decision {
    switch origin {
    case .shared:
      deliveryCount >= isolationCount || carriedCount > 0 ? .isolate : .process
    case .isolated where deliveryCount >= isolationCount:
      // Its next copy counts from 0 for the broker, and goes on counting here.
      .isolate
    case .isolated:
      isolatedCount(origin, deliveryCount: deliveryCount, carriedCount: carriedCount) >= limit - isolationCount
        ? .fail : .process
    }
  }

  /// What a copy of this message carries. Never overflows: both counts come from headers.
  package func isolatedCount(_ origin: Origin, deliveryCount: UInt32, carriedCount: UInt32) -> UInt32 {
    switch origin {
    case .shared: return carriedCount
    case .isolated:
      let (sum, isTooMany) = deliveryCount.addingReportingOverflow(carriedCount)
      return isTooMany ? .max : sum
    }
  }
}
