import PushCore

/// Reads an AMQP table field by field, without recursion and allocation: tables come from producers, and a deeply nested one must not reach
/// a recursive decoder.
///
/// Integers of every width are read as `Int64`; nested tables and arrays are skipped by their length. `tables` finds those in an array.
struct AMQPTableReader {
  enum Value: Equatable {
    case number(Int64)
    case flag(Bool)
    /// The range of a text or byte string.
    case bytes(ByteRange)
    /// The range of an array's elements.
    case list(ByteRange)
    /// A table, void, or a number that is not an integer.
    case other
  }

  /// The next field starts here.
  private var offset: Int
  private let end: Int

  /// A reader of the table whose length is at `offset`; nil if it does not fit.
  init?(_ bytes: Span<UInt8>, at offset: Int) {
    guard let count = AMQPTableReader.unsigned(bytes, at: offset, size: 4),
      count <= UInt64(bytes.count - offset - 4)
    else { return nil }
    self.offset = offset + 4
    end = offset + 4 + Int(count)
  }

  /// The offset after the table's last byte.
  var endOffset: Int { end }

  /// The next field; nil at the end, and if the rest cannot be read.
  mutating func next(_ bytes: Span<UInt8>) -> (name: ByteRange, value: Value)? {
    guard offset < end else { return nil }
    let nameCount = Int(bytes[offset])
    let kindOffset = offset + 1 + nameCount
    guard kindOffset < end else { return fail() }
    let name = ByteRange(start: offset + 1, count: nameCount)
    guard let (value, valueEnd) = AMQPTableReader.value(bytes, kindAt: kindOffset), valueEnd <= end else {
      return fail()
    }
    offset = valueEnd
    return (name, value)
  }

  /// The tables among an array's elements, up to one that cannot be read.
  static func tables(in elements: ByteRange, _ bytes: Span<UInt8>) -> [AMQPTableReader] {
    var tables: [AMQPTableReader] = []
    var offset = elements.range.lowerBound
    let end = elements.range.upperBound
    while offset < end, let (_, next) = value(bytes, kindAt: offset), next <= end {
      if bytes[offset] == UInt8(ascii: "F"), let table = AMQPTableReader(bytes, at: offset + 1) { tables.append(table) }
      offset = next
    }
    return tables
  }

  /// The texts of a list.
  static func texts(in elements: ByteRange, _ bytes: Span<UInt8>) -> [ByteRange] {
    var texts: [ByteRange] = []
    var offset = elements.range.lowerBound
    let end = elements.range.upperBound
    while offset < end, let (value, next) = value(bytes, kindAt: offset), next <= end {
      if case .bytes(let range) = value { texts.append(range) }
      offset = next
    }
    return texts
  }

  private mutating func fail() -> (name: ByteRange, value: Value)? {
    offset = end
    return nil
  }

  /// Whether the table at `offset` nests at most `depthMaximum` tables and arrays, and every length fits.
  static func isShallow(_ bytes: Span<UInt8>, at offset: Int, depthMaximum: Int) -> Bool {
    guard let count = unsigned(bytes, at: offset, size: 4), count <= UInt64(bytes.count - offset - 4) else {
      return false
    }
    // Ends of the enclosing containers, and whether their elements have names.
    var containers = [(end: offset + 4 + Int(count), isTable: true)]
    var position = offset + 4
    while let container = containers.last {
      if position == container.end {
        containers.removeLast()
        continue
      }
      var kindAt = position
      if container.isTable { kindAt += 1 + Int(bytes[position]) }
      guard kindAt < container.end, let (_, valueEnd) = value(bytes, kindAt: kindAt), valueEnd <= container.end else {
        return false
      }
      let kind = bytes[kindAt]
      if kind == UInt8(ascii: "F") || kind == UInt8(ascii: "A") {
        guard containers.count < depthMaximum else { return false }
        containers.append((end: valueEnd, isTable: kind == UInt8(ascii: "F")))
        position = kindAt + 5
      } else {
        position = valueEnd
      }
    }
    return true
  }

  /// The value whose kind is at `kindAt`, and where it ends.
  private static func value(_ bytes: Span<UInt8>, kindAt: Int) -> (Value, end: Int)? {
    let start = kindAt + 1
    switch bytes[kindAt] {
    case UInt8(ascii: "t"):
      return unsigned(bytes, at: start, size: 1).map { (.flag($0 != 0), start + 1) }
    case UInt8(ascii: "b"):
      return unsigned(bytes, at: start, size: 1).map {
        (.number(Int64(Int8(truncatingIfNeeded: $0))), start + 1)
      }
    case UInt8(ascii: "B"):
      return unsigned(bytes, at: start, size: 1).map { (.number(Int64($0)), start + 1) }
    case UInt8(ascii: "s"):
      return unsigned(bytes, at: start, size: 2).map {
        (.number(Int64(Int16(truncatingIfNeeded: $0))), start + 2)
      }
    case UInt8(ascii: "u"):
      return unsigned(bytes, at: start, size: 2).map { (.number(Int64($0)), start + 2) }
    case UInt8(ascii: "I"):
      return unsigned(bytes, at: start, size: 4).map {
        (.number(Int64(Int32(truncatingIfNeeded: $0))), start + 4)
      }
    case UInt8(ascii: "i"):
      return unsigned(bytes, at: start, size: 4).map { (.number(Int64($0)), start + 4) }
    case UInt8(ascii: "l"):
      return unsigned(bytes, at: start, size: 8).map { (.number(Int64(bitPattern: $0)), start + 8) }
    case UInt8(ascii: "L"), UInt8(ascii: "T"):
      return unsigned(bytes, at: start, size: 8).map { (.number(Int64(clamping: $0)), start + 8) }
    case UInt8(ascii: "f"):
      return unsigned(bytes, at: start, size: 4).map {
        (number(Double(Float(bitPattern: UInt32($0)))), start + 4)
      }
    case UInt8(ascii: "d"):
      return unsigned(bytes, at: start, size: 8).map { (number(Double(bitPattern: $0)), start + 8) }
    case UInt8(ascii: "D"):
      guard start + 5 <= bytes.count else { return nil }
      return (.other, start + 5)
    case UInt8(ascii: "V"):
      return (.other, start)
    case UInt8(ascii: "S"), UInt8(ascii: "x"):
      guard let count = unsigned(bytes, at: start, size: 4), count <= UInt64(bytes.count - start - 4) else {
        return nil
      }
      return (.bytes(ByteRange(start: start + 4, count: Int(count))), start + 4 + Int(count))
    case UInt8(ascii: "A"), UInt8(ascii: "F"):
      guard let count = unsigned(bytes, at: start, size: 4), count <= UInt64(bytes.count - start - 4) else {
        return nil
      }
      let elements = ByteRange(start: start + 4, count: Int(count))
      return (bytes[kindAt] == UInt8(ascii: "A") ? .list(elements) : .other, start + 4 + Int(count))
    default:
      return nil
    }
  }

  private static func number(_ value: Double) -> Value {
    Int64(exactly: value.rounded(.towardZero)).map { .number($0) } ?? .other
  }

  /// A big-endian number; nil if it does not fit.
  static func unsigned(_ bytes: Span<UInt8>, at offset: Int, size: Int) -> UInt64? {
    guard offset >= 0, bytes.count - offset >= size else { return nil }
    var value: UInt64 = 0
    for index in 0..<size { value = value << 8 | UInt64(bytes[offset + index]) }
    return value
  }
}
