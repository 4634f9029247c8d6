package import PushIO

/// Which publish came back: a broker returns a message as it was published, and never says its number. Two messages may be
/// alike in exchange, routing key and id, so that a mandatory publish carries its number in a header.
package enum RabbitMQPublishNumber {
  private static let header: StaticString = "x-herald-publish"

  package static func add(_ number: UInt64, to properties: AMQPProperties) {
    properties.addHeader(header, Int64(number))
  }

  /// Of the message that the connection reported as returned; nil where it carries none.
  package static func ofReturned(_ connection: AMQPConnection) -> UInt64? {
    for argument in connection.headers() where argument.name == "\(header)" {
      if case .number(let number) = argument.value { return UInt64(exactly: number) }
    }
    return nil
  }
}
