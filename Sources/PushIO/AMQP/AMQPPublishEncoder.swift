import PushCore

/// Appends a publish: method, content header and body frames.
enum AMQPPublishEncoder {
  /// A longer routing key is cut: the protocol's maximum.
  static let routingKeyMaximum = 255

  static func append(
    to out: inout ByteQueue, exchange: AMQPExchange, channel: UInt16, routingKey: Span<UInt8>,
    properties: AMQPProperties, body: Span<UInt8>, frameMax: Int
  ) {
    let keyCount = min(routingKey.count, routingKeyMaximum)
    out.reserve(exchange.prefix.count + keyCount + body.count + 1024)
    out.append(AMQPFrame.Kind.method.rawValue)
    out.appendBigEndian(channel)
    out.appendBigEndian(UInt32(exchange.prefix.count + 1 + keyCount + 1))
    out.append(exchange.prefix.span)
    out.append(UInt8(keyCount))
    out.append(routingKey.extracting(0..<keyCount))
    out.append(exchange.isMandatory ? 1 : 0)
    out.append(AMQPFrame.endMark)
    properties.appendFrame(channel: channel, bodyCount: body.count, to: &out)
    let partMaximum = frameMax - AMQPFrame.overhead
    var offset = 0
    while offset < body.count {
      let count = min(partMaximum, body.count - offset)
      out.append(AMQPFrame.Kind.body.rawValue)
      out.appendBigEndian(channel)
      out.appendBigEndian(UInt32(count))
      out.append(body.extracting(offset..<offset + count))
      out.append(AMQPFrame.endMark)
      offset += count
    }
  }
}
