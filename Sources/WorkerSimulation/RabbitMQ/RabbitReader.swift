/// Reads fields of AMQP 0-9-1 from a range of bytes. Reads past the end return zero and set `hasFailed`.
struct RabbitReader {
  private let bytes: [UInt8]
  private(set) var position: Int
  private let end: Int
  private(set) var hasFailed = false
  /// The maximum nesting of tables; a deeper one is invalid.
  private static let depthMaximum = 32

  init(_ bytes: [UInt8], from start: Int, to end: Int) {
    precondition(start >= 0 && start <= end && end <= bytes.count, "a part lies within its bytes")
    self.bytes = bytes
    position = start
    self.end = end
  }

  init(_ bytes: [UInt8]) {
    self.init(bytes, from: 0, to: bytes.count)
  }

  var remainingCount: Int { end - position }

  mutating func octet() -> UInt8 {
    guard position < end else {
      hasFailed = true
      return 0
    }
    defer { position += 1 }
    return bytes[position]
  }

  mutating func short() -> UInt16 { UInt16(truncatingIfNeeded: number(2)) }
  mutating func long() -> UInt32 { UInt32(truncatingIfNeeded: number(4)) }
  mutating func longLong() -> UInt64 { number(8) }

  mutating func shortText() -> [UInt8] { part(Int(octet())) }
  mutating func longText() -> [UInt8] { part(Int(long())) }

  /// The remaining bytes.
  mutating func rest() -> [UInt8] { part(remainingCount) }

  /// The next `count` bytes; 0 is allowed.
  mutating func part(_ count: Int) -> [UInt8] {
    guard count <= end - position else {
      hasFailed = true
      position = end
      return []
    }
    defer { position += count }
    return count == 0 ? [] : Array(bytes[position..<position + count])
  }

  mutating func skip(_ count: Int) {
    guard count <= end - position else {
      hasFailed = true
      position = end
      return
    }
    position += count
  }

  private mutating func number(_ count: Int) -> UInt64 {
    guard position + count <= end else {
      hasFailed = true
      position = end
      return 0
    }
    var value: UInt64 = 0
    for index in position..<position + count { value = value << 8 | UInt64(bytes[index]) }
    position += count
    return value
  }

  // MARK: - Tables

  mutating func table() -> RabbitTable { table(depth: 0) }

  private mutating func table(depth: Int) -> RabbitTable {
    var table = RabbitTable()
    let count = Int(long())
    guard !hasFailed, count <= remainingCount, depth < RabbitReader.depthMaximum else {
      hasFailed = true
      return table
    }
    let tableEnd = position + count
    while position < tableEnd, !hasFailed {
      let name = shortText()
      table.fields.append(RabbitTable.Field(name: name, value: value(depth: depth)))
    }
    if position != tableEnd { hasFailed = true }
    return table
  }

  private mutating func value(depth: Int) -> RabbitValue {
    let kind = octet()
    switch kind {
    case UInt8(ascii: "t"): return .flag(octet() != 0)
    case UInt8(ascii: "b"): return .number(kind: kind, Int64(Int8(bitPattern: octet())))
    case UInt8(ascii: "B"): return .number(kind: kind, Int64(octet()))
    case UInt8(ascii: "s"): return .number(kind: kind, Int64(Int16(bitPattern: short())))
    case UInt8(ascii: "u"): return .number(kind: kind, Int64(short()))
    case UInt8(ascii: "I"): return .number(kind: kind, Int64(Int32(bitPattern: long())))
    case UInt8(ascii: "i"): return .number(kind: kind, Int64(long()))
    case UInt8(ascii: "l"): return .number(kind: kind, Int64(bitPattern: longLong()))
    case UInt8(ascii: "T"): return .timestamp(longLong())
    case UInt8(ascii: "S"): return .text(longText())
    case UInt8(ascii: "x"): return .bytes(longText())
    case UInt8(ascii: "f"): return .opaque(kind: kind, part(4))
    case UInt8(ascii: "d"): return .opaque(kind: kind, part(8))
    case UInt8(ascii: "D"): return .opaque(kind: kind, part(5))
    case UInt8(ascii: "V"): return .void
    case UInt8(ascii: "F"): return .table(table(depth: depth + 1))
    case UInt8(ascii: "A"): return .array(array(depth: depth + 1))
    default:
      hasFailed = true
      return .void
    }
  }

  private mutating func array(depth: Int) -> [RabbitValue] {
    var values: [RabbitValue] = []
    let count = Int(long())
    guard !hasFailed, count <= remainingCount, depth < RabbitReader.depthMaximum else {
      hasFailed = true
      return values
    }
    let arrayEnd = position + count
    while position < arrayEnd, !hasFailed { values.append(value(depth: depth)) }
    if position != arrayEnd { hasFailed = true }
    return values
  }
}
