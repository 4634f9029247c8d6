/// The events of one connection as lines of text, from a server's bytes in any pieces.
///
/// It leaves out what may differ between two servers: product names, times, and which confirms came together.
package struct RawAMQPListener {
  /// The fields of a delivery that a client needs.
  package struct Delivery: Equatable, Sendable {
    package let channel: UInt16
    package let consumer: String
    package let tag: UInt64
  }

  package struct Line: Equatable, Sendable {
    /// 0: of the connection.
    package let channel: UInt16
    package let text: String
  }

  private var bytes: [UInt8] = []
  private var content: (channel: UInt16, text: String, remaining: Int, body: [UInt8])?
  private var nextConfirm: [UInt16: UInt64] = [:]
  /// Numbers that were confirmed before one below them.
  private var settledEarly: [UInt16: Set<UInt64>] = [:]
  package private(set) var lines: [Line] = []
  package private(set) var deliveries: [Delivery] = []
  package private(set) var methods: [UInt32] = []

  package init() {}

  package mutating func takeLines() -> [Line] {
    defer { lines = [] }
    return lines
  }

  package mutating func take(_ more: [UInt8]) {
    bytes += more
    while bytes.count >= 7 {
      if bytes.starts(with: "AMQP".utf8) {
        guard bytes.count >= 8 else { return }
        lines.append(Line(channel: 0, text: "protocol header"))
        bytes.removeFirst(8)
        continue
      }
      var reader = Reader(bytes: bytes)
      let (kind, channel, size) = (reader.octet(), reader.short(), Int(reader.long()))
      guard bytes.count >= size + 8 else { return }
      let payload = Array(bytes[7..<7 + size])
      precondition(bytes[7 + size] == 0xCE, "a frame ends with its mark")
      bytes.removeFirst(size + 8)
      take(kind, channel, Reader(bytes: payload))
    }
  }

  private mutating func take(_ kind: UInt8, _ channel: UInt16, _ payload: Reader) {
    var reader = payload
    switch kind {
    case 1:
      let id = reader.long()
      methods.append(id)
      method(id, channel, &reader)
    case 2:
      reader.skip(4)
      let count = Int(reader.longLong())
      content?.remaining = count
      content?.text += " \(reader.properties())"
      if count == 0 { contentEnded() }
    case 3:
      content?.body += payload.bytes
      content?.remaining -= payload.bytes.count
      if content?.remaining == 0 { contentEnded() }
    case 8: lines.append(Line(channel: channel, text: "heartbeat"))
    default: lines.append(Line(channel: channel, text: "frame of kind \(kind)"))
    }
  }

  private mutating func contentEnded() {
    guard let content else { return }
    let body = content.body.count > 40 ? "\(content.body.count) bytes" : String(decoding: content.body, as: UTF8.self)
    lines.append(Line(channel: content.channel, text: "\(content.text) '\(body)'"))
    self.content = nil
  }

  private mutating func method(_ id: UInt32, _ channel: UInt16, _ reader: inout Reader) {
    let text: String
    switch id {
    case 0x000A_000A: text = "connection.start"
    case 0x000A_001E: text = "connection.tune \(reader.short()) \(reader.long()) \(reader.short())"
    case 0x000A_0029: text = "connection.open-ok"
    case 0x000A_0032, 0x0014_0028:
      let (code, reason, method) = (reader.short(), reader.text(), reader.long())
      text = "\(id == 0x000A_0032 ? "connection" : "channel").close \(code) \(reason) by \(method)"
    case 0x000A_0033: text = "connection.close-ok"
    case 0x000A_003C: text = "connection.blocked \(reader.text())"
    case 0x000A_003D: text = "connection.unblocked"
    case 0x0014_000B: text = "channel.open-ok"
    case 0x0014_0029: text = "channel.close-ok"
    case 0x0032_000B: text = "queue.declare-ok \(reader.text()) \(reader.long()) \(reader.long())"
    case 0x0032_001F: text = "queue.purge-ok \(reader.long())"
    case 0x0032_0029: text = "queue.delete-ok \(reader.long())"
    case 0x003C_0015: text = "basic.consume-ok \(reader.text())"
    case 0x003C_001E: text = "basic.cancel \(reader.text())"
    case 0x003C_001F: text = "basic.cancel-ok \(reader.text())"
    case 0x003C_0032:
      content = (
        channel, "basic.return \(reader.short()) \(reader.text()) \(reader.text()) \(reader.text())", 0, []
      )
      return
    case 0x003C_003C:
      let (consumer, tag, redelivered) = (reader.text(), reader.longLong(), reader.octet())
      deliveries.append(Delivery(channel: channel, consumer: consumer, tag: tag))
      content = (
        channel,
        "basic.deliver \(consumer) \(tag)\(redelivered == 0 ? "" : " again") \(reader.text()) \(reader.text())", 0, []
      )
      return
    case 0x003C_0050, 0x003C_0078:
      confirmed(reader.longLong(), isMultiple: reader.octet() & 1 != 0, id == 0x003C_0050 ? "ack" : "nack", channel)
      return
    default: text = "method \(id >> 16).\(id & 0xFFFF)"
    }
    lines.append(Line(channel: channel, text: text))
  }

  /// A line for each number.
  private mutating func confirmed(_ number: UInt64, isMultiple: Bool, _ word: String, _ channel: UInt16) {
    let next = nextConfirm[channel] ?? 1
    var early = settledEarly[channel] ?? []
    let numbers = isMultiple ? (next...max(next, number)).filter { $0 <= number && !early.contains($0) } : [number]
    for number in numbers {
      early.insert(number)
      lines.append(Line(channel: channel, text: "\(word) of \(number)"))
    }
    var first = next
    while early.remove(first) != nil { first += 1 }
    nextConfirm[channel] = first
    settledEarly[channel] = early
  }

  /// A channel is reopened: its publishes count from 1.
  package mutating func forget(channel: UInt16) {
    nextConfirm[channel] = nil
    settledEarly[channel] = nil
  }
}

private struct Reader {
  let bytes: [UInt8]
  var offset = 0

  init(bytes: [UInt8]) { self.bytes = bytes }

  mutating func number(_ count: Int) -> UInt64 {
    defer { offset += count }
    return bytes[offset..<offset + count].reduce(0) { $0 << 8 | UInt64($1) }
  }
  mutating func octet() -> UInt8 { UInt8(number(1)) }
  mutating func short() -> UInt16 { UInt16(number(2)) }
  mutating func long() -> UInt32 { UInt32(number(4)) }
  mutating func longLong() -> UInt64 { number(8) }
  mutating func skip(_ count: Int) { offset += count }

  mutating func text(_ count: Int) -> String {
    defer { offset += count }
    return String(decoding: bytes[offset..<offset + count], as: UTF8.self)
  }
  mutating func text() -> String { text(Int(octet())) }

  /// Headers and the properties that tests set; sorted if their order has no meaning.
  mutating func properties() -> String {
    let flags = short()
    var parts: [String] = []
    for bit in stride(from: 15, through: 2, by: -1) where flags >> UInt16(bit) & 1 == 1 {
      switch bit {
      case 13: parts.append("headers \(table())")
      case 12, 11: parts.append("\(bit):\(octet())")
      case 6: parts.append("\(bit):\(longLong())")
      default: parts.append("\(bit):\(text())")
      }
    }
    return parts.joined(separator: " ")
  }

  mutating func table() -> String {
    let end = Int(long()) + offset
    var fields: [String] = []
    while offset < end {
      let name = text()
      let shown = value()
      fields.append(name == "time" ? "time" : "\(name)=\(shown)")
    }
    return "{\(fields.sorted().joined(separator: ", "))}"
  }

  mutating func value() -> String {
    switch octet() {
    case UInt8(ascii: "t"): return octet() == 0 ? "false" : "true"
    case UInt8(ascii: "S"): return text(Int(long()))
    case UInt8(ascii: "l"): return "\(Int64(bitPattern: longLong()))l"
    case UInt8(ascii: "I"): return "\(Int32(bitPattern: long()))I"
    case UInt8(ascii: "T"): return "@\(longLong())"
    case UInt8(ascii: "F"): return table()
    case UInt8(ascii: "A"):
      let end = Int(long()) + offset
      var values: [String] = []
      while offset < end { values.append(value()) }
      return "[\(values.joined(separator: ", "))]"
    case let kind: preconditionFailure("a value of kind \(kind)")
    }
  }
}
