/// A minimal client side of AMQP 0-9-1 for tests that compare servers: a method's bytes from its
/// arguments, and a line of text for each event from a server.
package enum RawAMQP {
  package enum Value: Sendable {
    case text(String)
    case number(Int64)
    case flag(Bool)
  }

  package typealias Arguments = [(name: String, value: Value)]

  // MARK: - What a client says

  package static let greeting: [UInt8] = Array("AMQP".utf8) + [0, 0, 9, 1]

  package static func frame(_ kind: UInt8, _ channel: UInt16, _ payload: [UInt8]) -> [UInt8] {
    [kind] + big(channel) + big(UInt32(payload.count)) + payload + [0xCE]
  }

  package static func method(_ id: UInt32, _ channel: UInt16, _ arguments: [UInt8] = []) -> [UInt8] {
    frame(1, channel, big(id) + arguments)
  }

  /// All methods that open a connection, without the server's own.
  package static func startOK(user: String = "guest", password: String = "guest") -> [UInt8] {
    let capabilities = table([
      ("consumer_cancel_notify", .flag(true)), ("connection.blocked", .flag(true)),
      ("authentication_failure_close", .flag(true)), ("publisher_confirms", .flag(true)), ("basic.nack", .flag(true)),
    ])
    let properties = short("capabilities") + [UInt8(ascii: "F")] + capabilities
    return method(
      0x000A_000B, 0,
      long(properties) + short("PLAIN") + long([0] + Array(user.utf8) + [0] + Array(password.utf8)) + short("en_US"))
  }

  package static func tuneOK(channels: UInt16 = 16, frame: UInt32 = 4096, heartbeat: UInt16 = 0) -> [UInt8] {
    method(0x000A_001F, 0, big(channels) + big(frame) + big(heartbeat))
  }

  package static func open(host: String = "/") -> [UInt8] { method(0x000A_0028, 0, short(host) + [0, 0]) }
  package static let close = method(0x000A_0032, 0, [0, 200, 0, 0, 0, 0, 0])
  package static let closeOK = method(0x000A_0033, 0)
  package static let heartbeat = frame(8, 0, [])
  package static func openChannel(_ channel: UInt16) -> [UInt8] { method(0x0014_000A, channel, [0]) }
  package static func closeChannel(_ channel: UInt16) -> [UInt8] {
    method(0x0014_0028, channel, [0, 200, 0, 0, 0, 0, 0])
  }
  package static func closeChannelOK(_ channel: UInt16) -> [UInt8] { method(0x0014_0029, channel) }

  package static func declareExchange(
    _ name: String, _ kind: String, _ channel: UInt16, isPassive: Bool = false, arguments: Arguments = []
  ) -> [UInt8] {
    method(
      0x0028_000A, channel, [0, 0] + short(name) + short(kind) + [isPassive ? 1 : 2] + table(arguments))
  }

  package static func declareQueue(
    _ name: String, _ channel: UInt16, isPassive: Bool = false, arguments: Arguments = []
  ) -> [UInt8] {
    method(0x0032_000A, channel, [0, 0] + short(name) + [isPassive ? 1 : 2] + table(arguments))
  }

  package static func bind(_ queue: String, to exchange: String, _ key: String, _ channel: UInt16) -> [UInt8] {
    method(0x0032_0014, channel, [0, 0] + short(queue) + short(exchange) + short(key) + [0] + table([]))
  }

  package static func purge(_ queue: String, _ channel: UInt16) -> [UInt8] {
    method(0x0032_001E, channel, [0, 0] + short(queue) + [0])
  }

  package static func deleteQueue(_ queue: String, _ channel: UInt16) -> [UInt8] {
    method(0x0032_0028, channel, [0, 0] + short(queue) + [0])
  }

  package static func deleteExchange(_ name: String, _ channel: UInt16) -> [UInt8] {
    method(0x0028_0014, channel, [0, 0] + short(name) + [0])
  }

  package static func qos(_ count: UInt16, _ channel: UInt16) -> [UInt8] {
    method(0x003C_000A, channel, [0, 0, 0, 0] + big(count) + [0])
  }

  package static func consume(
    _ queue: String, tag: String, _ channel: UInt16, needsNoAck: Bool = false
  ) -> [UInt8] {
    method(0x003C_0014, channel, [0, 0] + short(queue) + short(tag) + [needsNoAck ? 2 : 0] + table([]))
  }

  package static func cancel(tag: String, _ channel: UInt16) -> [UInt8] {
    method(0x003C_001E, channel, short(tag) + [0])
  }

  package static func selectConfirms(_ channel: UInt16) -> [UInt8] { method(0x0055_000A, channel, [0]) }

  /// `expiration`: milliseconds, of the message itself.
  package static func publish(
    _ body: [UInt8], to exchange: String, _ key: String, _ channel: UInt16, isMandatory: Bool = false,
    expiration: String? = nil, headers: Arguments? = nil, partMaximum: Int = 4088
  ) -> [UInt8] {
    var bytes = method(0x003C_0028, channel, [0, 0] + short(exchange) + short(key) + [isMandatory ? 1 : 0])
    var flags: UInt16 = 1 << 12
    var properties: [UInt8] = []
    if let headers {
      flags |= 1 << 13
      properties += table(headers)
    }
    properties.append(2)
    if let expiration {
      flags |= 1 << 8
      properties += short(expiration)
    }
    bytes += frame(2, channel, big(UInt16(60)) + [0, 0] + big(UInt64(body.count)) + big(flags) + properties)
    for start in stride(from: 0, to: body.count, by: partMaximum) {
      bytes += frame(3, channel, Array(body[start..<min(body.count, start + partMaximum)]))
    }
    return bytes
  }

  package static func acknowledge(_ tag: UInt64, _ channel: UInt16, isMultiple: Bool = false) -> [UInt8] {
    method(0x003C_0050, channel, big(tag) + [isMultiple ? 1 : 0])
  }

  package static func nack(
    _ tag: UInt64, _ channel: UInt16, isMultiple: Bool = false, requeues: Bool = true
  ) -> [UInt8] {
    method(0x003C_0078, channel, big(tag) + [(isMultiple ? 1 : 0) | (requeues ? 2 : 0)])
  }

  package static func reject(_ tag: UInt64, _ channel: UInt16, requeues: Bool) -> [UInt8] {
    method(0x003C_005A, channel, big(tag) + [requeues ? 1 : 0])
  }

  // MARK: - Fields

  package static func big<Number: FixedWidthInteger>(_ value: Number) -> [UInt8] {
    stride(from: Number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> Number($0)) }
  }

  package static func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

  package static func long(_ bytes: [UInt8]) -> [UInt8] { big(UInt32(bytes.count)) + bytes }

  package static func table(_ arguments: Arguments) -> [UInt8] {
    var bytes: [UInt8] = []
    for (name, value) in arguments {
      bytes += short(name)
      switch value {
      case .text(let text): bytes += [UInt8(ascii: "S")] + long(Array(text.utf8))
      case .number(let number): bytes += [UInt8(ascii: "l")] + big(number)
      case .flag(let flag): bytes += [UInt8(ascii: "t"), flag ? 1 : 0]
      }
    }
    return long(bytes)
  }
}
