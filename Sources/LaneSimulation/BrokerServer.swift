/// What a broker keeps while workers come and go.
package final class BrokerServer {
  package var ready: [Message] = []
  package var delayed: [(dueAt: Int64, message: Message)] = []
  /// What producers publish later.
  package var coming: [(at: Int64, message: Message)] = []
  /// Deliveries that consumers have not settled.
  package var unacknowledgedCount = 0
  /// Jobs that were put aside; of them one at a time is given, to one worker.
  package var isolated: [Message] = []
  package var isIsolatedGiven = false
  /// What the queue of dead letters holds.
  package var deadLetters: [Message] = []
  /// Targets of retry copies that came twice.
  package private(set) var handedOnTwice: Set<Target> = []
  package var epoch: UInt32 = 0

  /// `x-delivery-limit` of a real broker.
  package static let deliveryLimit: UInt32 = 20

  package var isEmpty: Bool {
    ready.isEmpty && delayed.isEmpty && coming.isEmpty && isolated.isEmpty && unacknowledgedCount == 0
  }

  /// Who had it did not settle it: it is delivered again, which may repeat sends and outcomes. What came back too often is
  /// taken away, whoever gave it back, and why.
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

  /// An operator replays every dead letter: fresh copies with their ids, and with what is not known of earlier attempts.
  package func replayDeadLetters(_ world: SimulatedWorld) {
    for message in deadLetters {
      for target in message.targets { world.auditor.replayed(target) }
      var copy = message
      // Who publishes it is its producer now.
      if copy.enqueuedAt != nil { copy.enqueuedAt = world.milliseconds / 1000 * 1000 }
      ready.append(copy)
    }
    deadLetters = []
  }

  /// When something comes into a queue next.
  func nextDue() -> Int64 {
    min(delayed.reduce(.max) { min($0, $1.dueAt) }, coming.reduce(.max) { min($0, $1.at) })
  }

  /// A queue restarts now and then, and not whenever a message waits in it: each target is handed on twice once, or copies of
  /// copies would be more with every wait.
  private func mayComeTwice(_ message: Message) -> Bool { handedOnTwice.isDisjoint(with: message.targets) }

  /// Copies whose delay is over are jobs again, in any order. A retry queue that restarts, or moves, may not know any more that
  /// the queue of jobs has a copy, and hands it on once more, with nothing that tells the two apart.
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
