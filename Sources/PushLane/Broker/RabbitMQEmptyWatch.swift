package import PushIO

/// Whether queues are empty: one look is one operation on each, whose answer counts its messages.
///
/// On a channel that delivers, it is a declaration: an inspection closes its channel where a queue is gone, and with it every delivery of that
/// channel. On a publisher's channel it is an inspection, so that a queue that is gone gets its bindings too, with the connection that follows.
package struct RabbitMQEmptyWatch {
  private let operations: [(operation: AMQPOperation, channel: UInt16)]
  /// Unanswered operations of the look in progress.
  private var pending: Set<UInt32> = []
  /// Something was delivered or published since the previous look ended.
  package var wasDisturbed = true
  /// It waits for what is on its way; no look begins meanwhile.
  package var isFenced = false
  private var messages: UInt64 = 0
  private var wasEmptyBefore = false

  /// - Parameters:
  ///   - operations: a declaration or inspection of each queue.
  ///   - channel: on which they are asked. A queue that is consumed is asked on its consumer's.
  package init(_ operations: [AMQPOperation], channel: UInt16) {
    self.init([(operations, channel)])
  }

  package init(_ operations: [(operations: [AMQPOperation], channel: UInt16)]) {
    self.operations = operations.flatMap { operations, channel in operations.map { ($0, channel) } }
  }

  /// A new connection: the old one's answers will not come.
  package mutating func restart() {
    pending.removeAll()
    isFenced = false
    messages = 0
    wasEmptyBefore = false
  }

  /// Asks for the count of each queue, unless it does already.
  package mutating func look(on connection: AMQPConnection) {
    guard pending.isEmpty, !isFenced else { return }
    for (operation, channel) in operations { pending.insert(connection.request(operation, channel: channel)) }
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
