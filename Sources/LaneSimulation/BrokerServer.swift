/// The broker's data, which outlives workers.
package final class BrokerServer {
  package var ready: [Message] = []
  package var delayed: [(dueAt: Int64, message: Message)] = []
  /// Messages that producers publish later.
  package var coming: [(at: Int64, message: Message)] = []
  /// Deliveries that consumers have not settled.
  package var unacknowledgedCount = 0
  /// Isolated jobs, of which one at a time is delivered, to one worker.
  package var isolated: [Message] = []
  package var isIsolatedGiven = false
  /// Copies that came into that queue.
  package internal(set) var isolatedCopies = 0
  /// The contents of the queue of dead letters.
  package var deadLetters: [Message] = []
  /// Targets of retry copies that were delivered twice.
  package private(set) var handedOnTwice: Set<Target> = []
  package var epoch: UInt32 = 0

  /// `x-delivery-limit` of a real broker.
  package static let deliveryLimit: UInt32 = 20

  package var isEmpty: Bool {
    ready.isEmpty && delayed.isEmpty && coming.isEmpty && isolated.isEmpty && unacknowledgedCount == 0
  }

  /// Its consumer did not settle it: it is delivered again, which may repeat sends and outcomes. A message that came back too often is
  /// removed, whoever returned it.
  func takeBack(_ message: Message, _ auditor: Auditor) {
    unacknowledgedCount -= 1
    for target in message.targets { auditor.excuse(target) }
    var message = message
    message.deliveryCount += 1
    if message.deliveryCount > BrokerServer.deliveryLimit {
      auditor.brokerGaveUp(message.targets)
    } else if message.isIsolated {
      isolated.insert(message, at: 0)
    } else {
      ready.insert(message, at: 0)
    }
  }

  /// An operator replays every dead letter: new copies with their ids, and with what is unknown about earlier attempts.
  package func replayDeadLetters(_ world: SimulatedWorld) {
    for message in deadLetters {
      for target in message.targets { world.auditor.replayed(target) }
      var copy = message
      // The operator is its producer now.
      if copy.enqueuedAt != nil { copy.enqueuedAt = world.milliseconds / 1000 * 1000 }
      ready.append(copy)
    }
    deadLetters = []
  }

  /// When the next message enters a queue.
  func nextDue() -> Int64 {
    min(delayed.reduce(.max) { min($0, $1.dueAt) }, coming.reduce(.max) { min($0, $1.at) })
  }

  /// A queue restarts sometimes, not whenever a message waits in it: each target is delivered twice only once, otherwise copies of copies
  /// would multiply.
  private func mayComeTwice(_ message: Message) -> Bool { handedOnTwice.isDisjoint(with: message.targets) }

  /// Copies whose delay is over become jobs again, in any order. A retry queue that restarts or moves may have forgotten that it delivered
  /// a copy, and delivers it once more, indistinguishable from the first.
  package func release(_ world: SimulatedWorld) {
    let now = world.milliseconds
    guard nextDue() <= now else { return }
    for (at, message) in coming where at <= now { ready.append(message) }
    coming.removeAll { $0.at <= now }
    for (dueAt, message) in delayed where dueAt <= now {
      ready.insert(message, at: ready.count - world.pick(min(ready.count, 3) + 1))
      guard world.chance(world.faults.handedOnTwice), mayComeTwice(message) else { continue }
      for target in message.targets {
        world.auditor.excuse(target)
        world.auditor.handedOnTwice(target)
      }
      handedOnTwice.formUnion(message.targets)
      if world.chance(500) {
        ready.insert(message, at: world.pick(ready.count))
      } else {
        coming.append((now + Int64(world.pick(5000)), message))
      }
    }
    delayed.removeAll { $0.dueAt <= now }
  }
}
