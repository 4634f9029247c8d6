package import PushIO

/// Whether the queues with work are empty: one look is one passive declaration of each.
package struct RabbitMQEmptyWatch {
  package let queues: [String]
  /// Declarations of the look in progress that were not answered.
  package var pending: Set<UInt32> = []
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

  /// One queue's count. At the end of a look: whether this and the one before found nothing and nothing happened
  /// between.
  package mutating func answered(_ reply: AMQPReply) -> Bool? {
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
