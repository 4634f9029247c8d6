/// What to do with a delivery whose earlier deliveries no worker finished: it may be what ended them.
///
/// RabbitMQ counts for each message how often it was delivered without being settled. A worker's death counts for everything that it held,
/// so the count alone does not separate the culprit from its neighbours. So a job that may be poison moves, as a copy, from the queue of
/// its class to a queue of which all workers together hold one message at a time. A job that ends a worker there was alone, and is counted
/// alone. Neighbours may get there too and are processed there; none reaches the limit because of another job.
package struct IsolationPolicy: Equatable, Sendable {
  /// Where a delivery came from.
  package enum Origin: Sendable {
    /// The queue of its class: many are in flight with it.
    case shared
    /// The queue of isolated jobs: no other job of that queue is in flight.
    case isolated
  }

  package enum Decision: Equatable, Sendable {
    /// Process it as usual.
    case process
    /// Put a copy into the queue of isolated jobs before anything else, even before parsing.
    case isolate
    /// Do not send it any more: it ends as `failed`, with a dead letter.
    case fail
  }

  /// After this many unfinished deliveries, a job is isolated.
  package var isolationCount: UInt32
  /// After this many unfinished deliveries alone, it is not processed any more. The broker's own limit for one message must be far above
  /// `isolationCount`, because a message that reaches it is moved without an outcome.
  package var aloneLimit: UInt32

  package init(isolationCount: UInt32 = 3, aloneLimit: UInt32 = 17) {
    precondition(isolationCount > 0 && aloneLimit > 0, "a job is isolated before it is given up")
    self.isolationCount = isolationCount
    self.aloneLimit = aloneLimit
  }

  /// - Parameters:
  ///   - deliveryCount: the broker's count for this message, 0 at its first delivery. On a shared queue it includes the counts of the
  ///     messages that it is a copy of, as long as none of them was answered.
  ///   - carriedCount: unfinished deliveries in isolation of the messages that this one is a copy of. Shared deliveries are not included:
  ///     they prove nothing about a job that was isolated since.
  package func decide(_ origin: Origin, deliveryCount: UInt32, carriedCount: UInt32) -> Decision {
    switch origin {
    case .shared:
      deliveryCount >= isolationCount || carriedCount > 0 ? .isolate : .process
    case .isolated where deliveryCount >= isolationCount:
      // The broker counts the next copy from 0; the total continues here.
      .isolate
    case .isolated:
      isolatedCount(origin, deliveryCount: deliveryCount, carriedCount: carriedCount) >= aloneLimit ? .fail : .process
    }
  }

  /// The count that a copy of this message carries. Never overflows: both counts come from headers.
  package func isolatedCount(_ origin: Origin, deliveryCount: UInt32, carriedCount: UInt32) -> UInt32 {
    switch origin {
    case .shared: return carriedCount
    case .isolated:
      let (sum, isTooMany) = deliveryCount.addingReportingOverflow(carriedCount)
      return isTooMany ? .max : sum
    }
  }
}
