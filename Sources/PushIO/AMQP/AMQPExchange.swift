/// An exchange to publish to; the constant part of every publish is encoded once.
package struct AMQPExchange: Sendable {
  package let name: String
  /// A publish that no queue takes is reported as `AMQPEvent.returned`.
  package let isMandatory: Bool
  /// Method number, reserved word and exchange name.
  let prefix: [UInt8]

  package init(_ name: String, isMandatory: Bool) {
    self.name = name
    self.isMandatory = isMandatory
    prefix = AMQPMethodCodec().publishPrefix(exchange: name)
  }
}
