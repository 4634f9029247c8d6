package import PushIO

/// Identifies a returned publish: a broker returns the message, but not its number. Two messages may have the same exchange, routing key
/// and id, so a mandatory publish carries its number in a header.
package enum RabbitMQPublishNumber {
  private static let header: StaticString = "x-herald-publish"

  package static func add(_ number: UInt64, to properties: AMQPProperties) {
    properties.addHeader(header, Int64(number))
  }

  /// The number of the message that the connection reported as returned; nil if it carries none.
  package static func ofReturned(_ connection: AMQPConnection) -> UInt64? {
    for argument in connection.headers() where argument.name == "\(header)" {
      if case .number(let number) = argument.value { return UInt64(exactly: number) }
    }
    return nil
  }
}
