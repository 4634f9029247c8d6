import PushCore

/// Jobs that are too large to be passed on with their bytes, from their delivery to their acknowledgement.
///
/// Their bytes are not copied: while the delivery is the last one that came, its dead letter is published. The delivery is reported only
/// after the broker has confirmed that, or has not done so for too long. So one body at a time is held, and the lane is not involved.
///
/// All other deliveries wait behind it. So after one was given up, the next ones are at once, and one in a while shows whether dead letters are
/// taken again.
package struct RabbitMQOversizedJobs {
  private enum State: Equatable {
    case none
    /// The dead letter must be published. → unconfirmed
    case due(DeliveryTag, bodyCount: Int)
    /// Its sequence number. → none, resting; none only, if the last one was given up
    case unconfirmed(UInt64, DeliveryTag, bodyCount: Int)
    /// The broker refused it: it waits a moment. → due
    case resting(DeliveryTag, bodyCount: Int)
  }

  private var state = State.none
  /// Deliveries with a dead letter, until the lane has settled them.
  private var copied: Set<DeliveryTag> = []
  /// Deliveries whose dead letter was not confirmed in time, until the lane has settled them: the broker itself moves them.
  private var givenUp: Set<DeliveryTag> = []
  /// The last one was given up: the next ones are at once, until then. nil: its dead letter was taken, or none was tried.
  private var nextTry: Instant?

  /// How long to wait at most for a dead letter.
  private static let waitMilliseconds: Int64 = 5_000
  /// The same where the last one was given up, and how long none is tried then.
  private static let probeMilliseconds: Int64 = 1_000
  private static let tryMilliseconds: Int64 = 10_000

  /// No delivery is reported meanwhile: the waiting one stays in place.
  var isWaiting: Bool { state != .none }

  /// The delivery whose dead letter must be published.
  var due: (tag: DeliveryTag, bodyCount: Int)? {
    if case .due(let tag, let bodyCount) = state { return (tag, bodyCount) }
    return nil
  }

  func isDecided(_ tag: DeliveryTag) -> Bool { copied.contains(tag) || givenUp.contains(tag) }

  /// It came. nil: it is given up already; else how long to wait for its dead letter.
  mutating func met(_ tag: DeliveryTag, bodyCount: Int, now: Instant) -> Int64? {
    if let nextTry, now < nextTry {
      givenUp.insert(tag)
      return nil
    }
    state = .due(tag, bodyCount: bodyCount)
    return nextTry == nil ? RabbitMQOversizedJobs.waitMilliseconds : RabbitMQOversizedJobs.probeMilliseconds
  }

  mutating func published(_ number: UInt64) {
    guard case .due(let tag, let bodyCount) = state else { preconditionFailure("nothing was due") }
    state = .unconfirmed(number, tag, bodyCount: bodyCount)
  }

  mutating func confirmed(_ numbers: ClosedRange<UInt64>) {
    guard case .unconfirmed(let number, let tag, _) = state, numbers.contains(number) else { return }
    copied.insert(tag)
    state = .none
    nextTry = nil
  }

  /// Whether it shall be tried again; nil: it is not among these.
  mutating func refused(_ numbers: ClosedRange<UInt64>, now: Instant) -> Bool? {
    guard case .unconfirmed(let number, let tag, let bodyCount) = state, numbers.contains(number) else { return nil }
    guard nextTry == nil else {
      _ = giveUp(tag, now: now)
      return false
    }
    state = .resting(tag, bodyCount: bodyCount)
    return true
  }

  mutating func tryAgain() {
    guard case .resting(let tag, let bodyCount) = state else { return }
    state = .due(tag, bodyCount: bodyCount)
  }

  /// It has waited too long: other jobs wait behind it. false: it no longer waits.
  mutating func giveUp(_ tag: DeliveryTag, now: Instant) -> Bool {
    switch state {
    case .due(tag, _), .unconfirmed(_, tag, _), .resting(tag, _): break
    case .none, .due, .unconfirmed, .resting: return false
    }
    givenUp.insert(tag)
    state = .none
    nextTry = now.adding(milliseconds: RabbitMQOversizedJobs.tryMilliseconds)
    return true
  }

  mutating func publisherLost() {
    if case .unconfirmed(_, let tag, let bodyCount) = state { state = .due(tag, bodyCount: bodyCount) }
    tryAgain()
  }

  /// Deliveries come again, and are copied again.
  mutating func consumerLost() {
    state = .none
    copied.removeAll()
    givenUp.removeAll()
  }

  /// New deliveries are returned.
  mutating func stopped() {
    state = .none
  }

  /// The lane has settled a delivery. true: it has a dead letter.
  mutating func settled(_ tag: DeliveryTag) -> Bool {
    givenUp.remove(tag)
    return copied.remove(tag) != nil
  }
}
