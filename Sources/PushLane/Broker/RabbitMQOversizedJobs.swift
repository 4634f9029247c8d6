import PushCore

/// Jobs that are too large to be handed over with their bytes, between their receipt and their acknowledgement.
///
/// Their bytes are held nowhere: while a delivery is the last one that came, a dead letter is published of it, and only
/// once the broker has confirmed that, or has not for too long, is the delivery reported. So one body at a time is held, and the lane knows
/// nothing of it.
package struct RabbitMQOversizedJobs {
  private enum State: Equatable {
    case none
    /// The dead letter is to be published. → unconfirmed
    case due(DeliveryTag, bodyCount: Int)
    /// Its number on its channel. → none, resting
    case unconfirmed(UInt64, DeliveryTag, bodyCount: Int)
    /// The broker did not take it: a moment passes first. → due
    case resting(DeliveryTag, bodyCount: Int)
  }

  private var state = State.none
  /// Deliveries that have a dead letter, until the lane is done with them.
  private var copied: Set<DeliveryTag> = []
  /// Deliveries whose dead letter was not confirmed in time, until the lane is done with them: the broker itself moves them.
  private var givenUp: Set<DeliveryTag> = []

  /// No delivery is reported meanwhile: the one that waits is kept where it lies.
  var isWaiting: Bool { state != .none }

  /// What a dead letter is to be published of.
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

  /// One is unconfirmed at a time, so that a confirm of many is one of it too.
  mutating func confirmed(_ number: UInt64) {
    guard case .unconfirmed(number, let tag, _) = state else { return }
    copied.insert(tag)
    state = .none
  }

  mutating func refused(_ number: UInt64) {
    guard case .unconfirmed(number, _, _) = state else { return }
    cameBack()
  }

  /// No queue takes it. The confirm that follows says nothing.
  mutating func cameBack() {
    guard case .unconfirmed(_, let tag, let bodyCount) = state else { return }
    state = .resting(tag, bodyCount: bodyCount)
  }

  mutating func tryAgain() {
    guard case .resting(let tag, let bodyCount) = state else { return }
    state = .due(tag, bodyCount: bodyCount)
  }

  /// It has waited for too long: other jobs are behind it. false: it does not wait any more.
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
    cameBack()
    tryAgain()
  }

  /// Deliveries come again, and are copied again.
  mutating func consumerLost() {
    state = .none
    copied.removeAll()
    givenUp.removeAll()
  }

  /// What comes now is given back.
  mutating func stopped() {
    state = .none
  }

  /// The lane is done with a delivery. true: it has its dead letter.
  mutating func settled(_ tag: DeliveryTag) -> Bool {
    givenUp.remove(tag)
    return copied.remove(tag) != nil
  }
}
