/// An operation on a channel; each is answered in order by one `AMQPEvent.completed`.
///
/// Queues and exchanges are always durable, never exclusive or auto-deleted.
package enum AMQPOperation: Equatable, Sendable {
  case openChannel
  case closeChannel
  case declareExchange(name: String, kind: AMQPExchangeKind, arguments: [AMQPArgument])
  case declareQueue(name: String, arguments: [AMQPArgument])
  /// Passive declaration: returns the number of ready messages and of consumers; closes the channel if there is no such queue.
  case inspectQueue(name: String)
  /// Passive declaration; closes the channel if there is no such exchange.
  case inspectExchange(name: String)
  case bind(queue: String, exchange: String, routingKey: String)
  /// Nothing happens if there is no such binding.
  case unbind(queue: String, exchange: String, routingKey: String)
  case purge(queue: String)
  case deleteQueue(name: String)
  case deleteExchange(name: String)
  /// How many unacknowledged deliveries each later consumer may hold; at least 1.
  case prefetch(UInt16)
  case consume(queue: String, consumerTag: String, arguments: [AMQPArgument])
  case cancel(consumerTag: String)
  /// From now on every publish on this channel is confirmed.
  case selectConfirms
}

package enum AMQPExchangeKind: String, Sendable {
  case direct, fanout, topic
}

/// A named argument of a declaration or a consumer.
package struct AMQPArgument: Equatable, Sendable {
  package enum Value: Equatable, Sendable {
    case text(String)
    case number(Int64)
    case flag(Bool)
    case timestamp(unixSeconds: UInt64)
  }

  package var name: String
  package var value: Value

  package init(_ name: String, _ value: Value) {
    self.name = name
    self.value = value
  }
}

extension AMQPArgument: CustomStringConvertible {
  package var description: String {
    switch value {
    case .text(let text): "\(name)=\(text)"
    case .number(let number): "\(name)=\(number)"
    case .flag(let flag): "\(name)=\(flag)"
    case .timestamp(let seconds): "\(name)=@\(seconds)"
    }
  }
}

extension AMQPOperation: CustomStringConvertible {
  package var description: String {
    switch self {
    case .openChannel: "channel.open"
    case .closeChannel: "channel.close"
    case .declareExchange(let name, let kind, _): "exchange.declare \(name) (\(kind.rawValue))"
    case .declareQueue(let name, _): "queue.declare \(name)"
    case .inspectQueue(let name): "queue.declare (passive) \(name)"
    case .inspectExchange(let name): "exchange.declare (passive) \(name)"
    case .bind(let queue, let exchange, let key): "queue.bind \(queue) to \(exchange) with '\(key)'"
    case .unbind(let queue, let exchange, let key): "queue.unbind \(queue) from \(exchange) with '\(key)'"
    case .purge(let queue): "queue.purge \(queue)"
    case .deleteQueue(let name): "queue.delete \(name)"
    case .deleteExchange(let name): "exchange.delete \(name)"
    case .prefetch(let count): "basic.qos \(count)"
    case .consume(let queue, _, _): "basic.consume \(queue)"
    case .cancel: "basic.cancel"
    case .selectConfirms: "confirm.select"
    }
  }
}
