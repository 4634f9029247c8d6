/// A message as it was published, or made of one that was dead-lettered: what several queues may share, and nobody changes.
package final class RabbitMessage {
  /// Counts the messages of a broker, from 1.
  package let number: Int
  /// The one that it was made of when that was dead-lettered; 0: it was published.
  package let origin: Int
  package let exchange: [UInt8]
  package let routingKey: [UInt8]
  /// Encoded, from the flags on.
  package let properties: [UInt8]
  package let body: [UInt8]
  /// `expiration`, nanoseconds.
  let lifetime: Int64?
  /// Until then a crash may take it: nobody was told that it is kept.
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
  /// How often it came back from a consumer.
  package var deliveryCount = 0
  /// It was given to a consumer before.
  package var isRedelivered = false
  var expiresAt: Int64?
  /// The order in which the queue got it.
  let position: Int

  /// The properties with what the queue says of earlier deliveries.
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
