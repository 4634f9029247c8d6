/// Writes frames and fields of AMQP 0-9-1 into one buffer.
struct RabbitWriter {
  private(set) var bytes: [UInt8] = []
  private var frameStart = -1

  var isEmpty: Bool { bytes.isEmpty }
  var count: Int { bytes.count }

  /// Removes and returns the written bytes.
  mutating func take() -> [UInt8] {
    precondition(frameStart < 0, "a frame was not ended")
    let written = bytes
    bytes = []
    return written
  }

  // MARK: - Frames

  mutating func beginFrame(_ kind: UInt8, channel: UInt16) {
    precondition(frameStart < 0, "frames do not nest")
    bytes.append(kind)
    short(channel)
    frameStart = bytes.count
    long(0)
  }

  mutating func beginMethod(_ method: UInt32, channel: UInt16) {
    beginFrame(RabbitFrame.method, channel: channel)
    long(method)
  }

  mutating func endFrame() {
    precondition(frameStart >= 0, "no frame was begun")
    patch(UInt32(bytes.count - frameStart - 4), at: frameStart)
    bytes.append(RabbitFrame.endMark)
    frameStart = -1
  }

  /// A method without arguments.
  mutating func method(_ method: UInt32, channel: UInt16) {
    beginMethod(method, channel: channel)
    endFrame()
  }

  /// The header and body of a message, in frames of at most `frameMaximum` bytes.
  mutating func content(_ properties: [UInt8], _ body: [UInt8], channel: UInt16, frameMaximum: Int) {
    beginFrame(RabbitFrame.header, channel: channel)
    short(RabbitMethod.basicClass)
    short(0)
    longLong(UInt64(body.count))
    bytes.append(contentsOf: properties)
    endFrame()
    let partMaximum = frameMaximum - RabbitFrame.overhead
    var start = 0
    while start < body.count {
      let end = min(body.count, start + partMaximum)
      beginFrame(RabbitFrame.body, channel: channel)
      bytes.append(contentsOf: body[start..<end])
      endFrame()
      start = end
    }
  }

  // MARK: - Fields

  mutating func octet(_ value: UInt8) { bytes.append(value) }

  mutating func short(_ value: UInt16) {
    bytes.append(UInt8(truncatingIfNeeded: value >> 8))
    bytes.append(UInt8(truncatingIfNeeded: value))
  }

  mutating func long(_ value: UInt32) {
    short(UInt16(truncatingIfNeeded: value >> 16))
    short(UInt16(truncatingIfNeeded: value))
  }

  mutating func longLong(_ value: UInt64) {
    long(UInt32(truncatingIfNeeded: value >> 32))
    long(UInt32(truncatingIfNeeded: value))
  }

  mutating func raw(_ value: [UInt8]) { bytes.append(contentsOf: value) }

  mutating func shortText(_ text: [UInt8]) {
    precondition(text.count <= 255, "a short text has at most 255 bytes")
    bytes.append(UInt8(text.count))
    bytes.append(contentsOf: text)
  }

  mutating func longText(_ text: [UInt8]) {
    long(UInt32(text.count))
    bytes.append(contentsOf: text)
  }

  mutating func table(_ table: RabbitTable) {
    let start = bytes.count
    long(0)
    for field in table.fields {
      shortText(field.name)
      value(field.value)
    }
    patch(UInt32(bytes.count - start - 4), at: start)
  }

  private mutating func value(_ value: RabbitValue) {
    switch value {
    case .flag(let flag):
      octet(UInt8(ascii: "t"))
      octet(flag ? 1 : 0)
    case .number(let kind, let number):
      octet(kind)
      switch kind {
      case UInt8(ascii: "b"), UInt8(ascii: "B"): octet(UInt8(truncatingIfNeeded: number))
      case UInt8(ascii: "s"), UInt8(ascii: "u"): short(UInt16(truncatingIfNeeded: number))
      case UInt8(ascii: "I"), UInt8(ascii: "i"): long(UInt32(truncatingIfNeeded: number))
      default: longLong(UInt64(bitPattern: number))
      }
    case .timestamp(let seconds):
      octet(UInt8(ascii: "T"))
      longLong(seconds)
    case .text(let text):
      octet(UInt8(ascii: "S"))
      longText(text)
    case .bytes(let bytes):
      octet(UInt8(ascii: "x"))
      longText(bytes)
    case .table(let table):
      octet(UInt8(ascii: "F"))
      self.table(table)
    case .array(let values):
      octet(UInt8(ascii: "A"))
      let start = bytes.count
      long(0)
      for element in values { self.value(element) }
      patch(UInt32(bytes.count - start - 4), at: start)
    case .opaque(let kind, let bytes):
      octet(kind)
      raw(bytes)
    case .void:
      octet(UInt8(ascii: "V"))
    }
  }

  private mutating func patch(_ value: UInt32, at offset: Int) {
    for index in 0..<4 { bytes[offset + index] = UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * index)) }
  }
}
