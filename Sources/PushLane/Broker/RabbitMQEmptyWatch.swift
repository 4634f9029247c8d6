package import PushIO

/// Whether the queues with work are empty: one look is one passive declaration of each.
package struct RabbitMQEmptyWatch {
  private let queues: [String]
  /// Declarations of the look in progress that were not answered.
  private var pending: Set<UInt32> = []
  /// Something was delivered or published since the look before began.
  package var wasDisturbed = true
  private var messages: UInt64 = 0
  private var wasEmptyBefore = false

  package init(queues: [String]) {
    self.queues = queues
  }

  /// A new connection: answers of the old one will not come.
  package mutating func restart() {
    pending.removeAll()
    messages = 0
    wasEmptyBefore = false
  }

  /// Asks for the count of each queue, unless a look is in progress.
  package mutating func look(on connection: AMQPConnection, channel: UInt16) {
    guard pending.isEmpty else { return }
    for queue in queues { pending.insert(connection.request(.inspectQueue(name: queue), channel: channel)) }
  }

  /// The answer to an operation. At the end of a look: whether this and the one before found nothing and nothing happened between. nil:
  /// the look goes on, or the operation was none of it.
  package mutating func answered(_ operation: UInt32, _ reply: AMQPReply) -> Bool? {
    guard pending.remove(operation) != nil else { return nil }
    messages += UInt64(reply.messageCount)
    guard pending.isEmpty else { return nil }
    let isEmpty = messages == 0
    defer {
      messages = 0
      wasEmptyBefore = isEmpty
      wasDisturbed = false
    }
    return isEmpty && wasEmptyBefore && !wasDisturbed
  }
}
