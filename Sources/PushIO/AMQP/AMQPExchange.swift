/// An exchange to publish to, with the constant part of every publish encoded once.
package struct AMQPExchange: Sendable {
  package let name: String
  /// What no queue takes comes back as `AMQPEvent.returned`.
  package let isMandatory: Bool
  /// Method number, reserved word and exchange name.
  let prefix: [UInt8]

  package init(_ name: String, isMandatory: Bool) {
    self.name = name
    self.isMandatory = isMandatory
    prefix = AMQPMethodCodec().publishPrefix(exchange: name)
  }
}
