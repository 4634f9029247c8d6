package import PushCore

/// A copy of a message, for commands.
package struct AMQPMessage: Sendable {
  package var body: [UInt8]
  /// The body exceeded the limit and is not included.
  package var isOversized: Bool
  package var metadata: MessageMetadata
  /// Headers of text, numbers and flags.
  package var headers: [AMQPArgument]
  /// How it left queues before, the latest first, one for each queue and reason. A copy that somebody publishes has none.
  package var deaths: [AMQPDeath]
  var tag: UInt64

  /// The text of a header; nil if there is none with that name, or it is not a text.
  package func header(_ name: String) -> String? { headers.firstText(of: name) }

  package var messageID: String {
    String(decoding: metadata.bytes[metadata.messageID.range], as: UTF8.self)
  }
}

extension [AMQPArgument] {
  /// The text of a header; nil if there is none with that name, or it is not a text.
  package func firstText(of name: String) -> String? {
    for argument in self where argument.name == name {
      if case .text(let text) = argument.value { return text }
    }
    return nil
  }
}

/// Why the broker took a message out of a queue, to publish it to the queue's dead letter exchange.
package struct AMQPDeath: Equatable, Sendable {
  /// `rejected`, `expired`, `maxlen` or `delivery_limit`.
  package let reason: String
  package let queue: String
  /// Where it had been published to.
  package let exchange: String
  package let routingKey: String

  package init(reason: String, queue: String, exchange: String = "", routingKey: String = "") {
    self.reason = reason
    self.queue = queue
    self.exchange = exchange
    self.routingKey = routingKey
  }
}

/// What to do with a message that was read.
package enum AMQPDisposition: Sendable {
  case acknowledge
  /// Back to its queue at once.
  case requeue
  /// Nothing: it returns to its queue when the consumer ends.
  case keep
}

/// Where in a stream a consumer starts.
package enum AMQPStreamOffset: Equatable, Sendable {
  case first, last, next
  case at(unixSeconds: UInt64)
  /// The number of a message in its stream.
  case offset(Int64)

  package var argument: AMQPArgument {
    switch self {
    case .first: AMQPArgument("x-stream-offset", .text("first"))
    case .last: AMQPArgument("x-stream-offset", .text("last"))
    case .next: AMQPArgument("x-stream-offset", .text("next"))
    case .at(let seconds): AMQPArgument("x-stream-offset", .timestamp(unixSeconds: seconds))
    case .offset(let offset): AMQPArgument("x-stream-offset", .number(offset))
    }
  }
}
