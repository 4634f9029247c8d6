import PushCore

/// Jobs that are too large to be passed on with their bytes, from their delivery to their acknowledgement.
///
/// Their bytes are not copied: while the delivery is the last one that came, its dead letter is published. The delivery is reported only
/// after the broker has confirmed that, or has not done so for too long. So one body at a time is held, and the lane is not involved.
package struct RabbitMQOversizedJobs {
  private enum State: Equatable {
    case none
    /// The dead letter must be published. → unconfirmed
    case due(DeliveryTag, bodyCount: Int)
    /// Its sequence number. → none, resting
    case unconfirmed(UInt64, DeliveryTag, bodyCount: Int)
    /// The broker refused it: it waits a moment. → due
    case resting(DeliveryTag, bodyCount: Int)
  }

  private var state = State.none
  /// Deliveries with a dead letter, until the lane has settled them.
  private var copied: Set<DeliveryTag> = []
  /// Deliveries whose dead letter was not confirmed in time, until the lane has settled them: the broker itself moves them.
  private var givenUp: Set<DeliveryTag> = []

  /// No delivery is reported meanwhile: the waiting one stays in place.
  var isWaiting: Bool { state != .none }

  /// The delivery whose dead letter must be published.
  var due: (tag: DeliveryTag, bodyCount: Int)? {
    if case .due(let tag, let bodyCount) = state { return (tag, bodyCount) }
    return nil
  }

  func isDecided(_ tag: DeliveryTag) -> Bool { copied.contains(tag) || givenUp.contains(tag) }

  mutating func met(_ tag: DeliveryTag, bodyCount: Int) {
    state = .due(tag, bodyCount: bodyCount)
  }

  mutating func published(_ number: UInt64) {
    guard case .due(let tag, let bodyCount) = state else { preconditionFailure("nothing was due") }
    state = .unconfirmed(number, tag, bodyCount: bodyCount)
  }

  mutating func confirmed(_ numbers: ClosedRange<UInt64>) {
    guard case .unconfirmed(let number, let tag, _) = state, numbers.contains(number) else { return }
    copied.insert(tag)
    state = .none
  }

  /// true: it is among these.
  mutating func refused(_ numbers: ClosedRange<UInt64>) -> Bool {
    guard case .unconfirmed(let number, let tag, let bodyCount) = state, numbers.contains(number) else { return false }
    state = .resting(tag, bodyCount: bodyCount)
    return true
  }

  mutating func tryAgain() {
    guard case .resting(let tag, let bodyCount) = state else { return }
    state = .due(tag, bodyCount: bodyCount)
  }

  /// It has waited too long: other jobs wait behind it. false: it no longer waits.
  mutating func giveUp(_ tag: DeliveryTag) -> Bool {
    switch state {
    case .due(tag, _), .unconfirmed(_, tag, _), .resting(tag, _): break
    case .none, .due, .unconfirmed, .resting: return false
    }
    givenUp.insert(tag)
    state = .none
    return true
  }

  mutating func publisherLost() {
    if case .unconfirmed(let number, _, _) = state { _ = refused(number...number) }
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
