/// The decision about a delivery of a channel request whose earlier deliveries were not finished: the request may crash workers.
///
/// As for jobs (`IsolationPolicy`), with one difference. An isolated request that was not finished waits in a retry queue before it is
/// processed again, longer each time. No worker holds it meanwhile, so no lost connection counts against it, and the jobs of a worker that
/// it may crash are sent or isolated before.
package struct ChannelIsolation: Equatable, Sendable {
  package enum Decision: Equatable, Sendable {
    /// Carry it out.
    case process
    /// Put a copy into the queue of isolated requests before anything else is done with it, even parsing.
    case isolate
    /// Put a copy into a retry queue that gives it back after about so long, unparsed.
    case postpone(seconds: Int64)
    /// Do not carry it out any more: it is answered `unavailable`, and becomes a dead letter.
    case fail
  }

  /// Of all isolated copies of a request.
  package static let triesMaximum = Int64(IsolationPolicy().aloneLimit)

  package let decision: Decision
  /// Unfinished deliveries, alone, of this message and those that it is a copy of: what a copy carries.
  package let carriedCount: UInt32

  /// - Parameters:
  ///   - origin: `.isolated`: no other isolated request was in flight with it.
  ///   - deliveryCount: the broker's count for this message, 0 at its first delivery.
  ///   - carriedCount: unfinished deliveries, alone, of the messages that this one is a copy of.
  package init(
    _ origin: IsolationPolicy.Origin, deliveryCount: UInt32, carriedCount: UInt32,
    policy: IsolationPolicy = IsolationPolicy()
  ) {
    let count = policy.isolatedCount(origin, deliveryCount: deliveryCount, carriedCount: carriedCount)
    self.carriedCount = count
    switch (origin, policy.decide(origin, deliveryCount: deliveryCount, carriedCount: carriedCount)) {
    case (_, .fail): decision = .fail
    case (.shared, .isolate): decision = .isolate
    case (.shared, .process): decision = .process
    case (.isolated, .isolate), (.isolated, .process):
      decision =
        count >= policy.aloneLimit
        ? .fail : deliveryCount > 0 ? .postpone(seconds: Int64(count)) : .process
    }
  }
}
