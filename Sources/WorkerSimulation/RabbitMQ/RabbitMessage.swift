/// A message as it was published or dead-lettered. Queues share it; only `atRiskUntil` changes.
package final class RabbitMessage {
  /// Numbers the messages of a broker, from 1.
  package let number: Int
  /// The message that was dead-lettered into this one; 0: it was published.
  package let origin: Int
  package let exchange: [UInt8]
  package let routingKey: [UInt8]
  /// Encoded, from the flags on.
  package let properties: [UInt8]
  package let body: [UInt8]
  /// `expiration`, nanoseconds.
  let lifetime: Int64?
  /// Before this time a crash may lose the message: its publisher has no confirm.
  var atRiskUntil: Int64

  init(
    number: Int, origin: Int, exchange: [UInt8], routingKey: [UInt8], properties: [UInt8], body: [UInt8],
    lifetime: Int64?, atRiskUntil: Int64
  ) {
    self.number = number
    self.origin = origin
    self.exchange = exchange
    self.routingKey = routingKey
    self.properties = properties
    self.body = body
    self.lifetime = lifetime
    self.atRiskUntil = atRiskUntil
  }
}

/// A message's place in a queue.
package struct RabbitEntry {
  package let message: RabbitMessage
  /// How often it was requeued.
  package var deliveryCount = 0
  /// It was delivered before.
  package var isRedelivered = false
  var expiresAt: Int64?
  /// Its place in the order in which the queue received messages.
  let position: Int

  /// The properties, with the queue's delivery count.
  func deliveredProperties(countsDeliveries: Bool) -> [UInt8] {
    guard countsDeliveries, deliveryCount > 0, var decoded = RabbitProperties(message.properties) else {
      return message.properties
    }
    var headers = decoded.headers ?? RabbitTable()
    headers["x-delivery-count"] = .number(Int64(deliveryCount))
    decoded.headers = headers
    return decoded.bytes
  }
}
