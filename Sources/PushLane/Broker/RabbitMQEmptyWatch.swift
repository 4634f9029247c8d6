package import PushIO

/// Whether the work queues are empty: one look is one passive declaration of each.
package struct RabbitMQEmptyWatch {
  private let queues: [String]
  /// Unanswered declarations of the look in progress.
  private var pending: Set<UInt32> = []
  /// Something was delivered or published since the previous look began.
  package var wasDisturbed = true
  private var messages: UInt64 = 0
  private var wasEmptyBefore = false

  package init(queues: [String]) {
    self.queues = queues
  }

  /// A new connection: the old one's answers will not come.
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

  /// The answer to an operation. At the end of a look: whether this one and the previous one found nothing, and nothing happened between
  /// them. nil: the look continues, or the operation is not part of it.
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
