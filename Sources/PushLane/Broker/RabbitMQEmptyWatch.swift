package import PushIO

/// Whether queues are empty: one look is one declaration of each, whose answer counts its messages.
///
/// Not a passive declaration: that closes its channel where a queue is gone, and with it every delivery of that channel.
package struct RabbitMQEmptyWatch {
  private let declarations: [AMQPOperation]
  /// Unanswered declarations of the look in progress.
  private var pending: Set<UInt32> = []
  /// Something was delivered or published since the previous look ended.
  package var wasDisturbed = true
  /// It waits for what is on its way; no look begins meanwhile.
  package var isFenced = false
  private var messages: UInt64 = 0
  private var wasEmptyBefore = false

  /// - Parameter declarations: of the queues.
  package init(_ declarations: [AMQPOperation]) {
    self.declarations = declarations
  }

  /// A new connection: the old one's answers will not come.
  package mutating func restart() {
    pending.removeAll()
    isFenced = false
    messages = 0
    wasEmptyBefore = false
  }

  /// Asks for the count of each queue, unless it does already.
  package mutating func look(on connection: AMQPConnection, channel: UInt16) {
    guard pending.isEmpty, !isFenced else { return }
    for declaration in declarations { pending.insert(connection.request(declaration, channel: channel)) }
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
