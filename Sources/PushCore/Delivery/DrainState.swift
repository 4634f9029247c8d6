/// A lane's way from running to drained: take no more jobs, finish those in flight, return the rest at the deadline.
package struct DrainState: Sendable {
  private enum Phase {
    /// Takes jobs. May become `draining`.
    case running
    /// Takes no more jobs; those in flight finish. May become `handingBack` or `drained`.
    case draining(deadline: Instant)
    /// Past the deadline: unfinished deliveries were returned to their queues. Becomes `drained` once acknowledgements are written.
    case handingBack
    /// Nothing is in flight, and everything is acknowledged. Final.
    case drained
  }

  package enum Action: Equatable, Sendable {
    case none
    /// Cancel the consumers.
    case stopConsuming
    /// Past the deadline: return every unfinished delivery to its queue.
    case handBack
    /// Flush acknowledgements and close.
    case finish
  }

  private var phase = Phase.running

  package init() {}

  package var isRunning: Bool {
    if case .running = phase { return true }
    return false
  }

  package var isDrained: Bool {
    if case .drained = phase { return true }
    return false
  }

  /// A stop was requested. Later calls change nothing: the first deadline counts.
  package mutating func begin(now: Instant, timeoutMilliseconds: Int64) -> Action {
    switch phase {
    case .running:
      phase = .draining(deadline: now.adding(milliseconds: timeoutMilliseconds))
      return .stopConsuming
    case .draining, .handingBack, .drained:
      return .none
    }
  }

  /// Call once a turn with the deliveries in flight; returns what is due.
  package mutating func turn(now: Instant, inFlight: Int) -> Action {
    switch phase {
    case .running, .drained:
      return .none
    case .draining(let deadline):
      if inFlight == 0 {
        phase = .drained
        return .finish
      }
      if now >= deadline {
        phase = .handingBack
        return .handBack
      }
      return .none
    case .handingBack:
      phase = .drained
      return .finish
    }
  }
}
