import PushCore

/// A JSON document as a tree, read strictly (RFC 8259). The simulator judges payloads with a reader of its own, so that
/// a mistake in the sender's reader cannot hide.
package enum JSONValue: Hashable, Sendable {
  case null
  case bool(Bool)
  /// `isInteger`: written without fraction and exponent.
  case number(Double, isInteger: Bool)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  /// Deeper nesting is refused.
  package static let depthMaximum = 64

  /// nil if the bytes are not exactly one JSON document in UTF-8, or an object repeats a key.
  package init?(_ bytes: [UInt8]) {
    guard String(validating: bytes, as: UTF8.self) != nil else { return nil }
    var reader = Reader(bytes: bytes)
    guard let value = reader.value(depth: 0) else { return nil }
    reader.skipSpace()
    guard reader.position == bytes.count else { return nil }
    self = value
  }

  package subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { return members[key] }
    return nil
  }

  package var string: String? {
    if case .string(let text) = self { return text }
    return nil
  }

  package var number: Double? {
    if case .number(let number, _) = self { return number }
    return nil
  }

  package var integer: Int64? {
    if case .number(let number, isInteger: true) = self { return Int64(exactly: number) }
    return nil
  }

  package var array: [JSONValue]? {
    if case .array(let values) = self { return values }
    return nil
  }

  package var object: [String: JSONValue]? {
    if case .object(let members) = self { return members }
    return nil
  }

  /// The value at a path of keys, as written; nil: there is none, or the bytes up to there are no JSON.
  package static func text(at path: [String], in bytes: [UInt8]) -> String? {
    var reader = Reader(bytes: bytes)
    for key in path where !reader.enter(key) { return nil }
    reader.skipSpace()
    let start = reader.position
    guard reader.value(depth: 0) != nil else { return nil }
    return String(validating: bytes[start..<reader.position], as: UTF8.self)
  }

  private struct Reader {
    let bytes: [UInt8]
    var position = 0

    var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func skipSpace() {
      while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
      guard next == UInt8(ascii: character) else { return false }
      position += 1
      return true
    }

    mutating func take(word: String) -> Bool {
      guard bytes[position...].starts(with: word.utf8) else { return false }
      position += word.utf8.count
      return true
    }

    /// Goes to the value of a key of the object that begins here.
    mutating func enter(_ key: String) -> Bool {
      skipSpace()
      guard take("{") else { return false }
      while true {
        skipSpace()
        guard let name = string() else { return false }
        skipSpace()
        guard take(":") else { return false }
        if name == key { return true }
        guard value(depth: 0) != nil else { return false }
        skipSpace()
        guard take(",") else { return false }
      }
    }

    mutating func value(depth: Int) -> JSONValue? {
      guard depth < JSONValue.depthMaximum else { return nil }
      skipSpace()
      switch next {
      case UInt8(ascii: "{"): return object(depth: depth)
      case UInt8(ascii: "["): return array(depth: depth)
      case UInt8(ascii: "\""): return string().map { .string($0) }
      case UInt8(ascii: "t"): return take(word: "true") ? .bool(true) : nil
      case UInt8(ascii: "f"): return take(word: "false") ? .bool(false) : nil
      case UInt8(ascii: "n"): return take(word: "null") ? .null : nil
      case nil: return nil
      case .some: return number()
      }
    }

    mutating func object(depth: Int) -> JSONValue? {
      position += 1
      var members: [String: JSONValue] = [:]
      skipSpace()
      if take("}") { return .object(members) }
      while true {
        skipSpace()
        guard let key = string() else { return nil }
        skipSpace()
        guard take(":"), let value = value(depth: depth + 1), members.updateValue(value, forKey: key) == nil else {
          return nil
        }
        skipSpace()
        if take("}") { return .object(members) }
        guard take(",") else { return nil }
      }
    }

    mutating func array(depth: Int) -> JSONValue? {
      position += 1
      var values: [JSONValue] = []
      skipSpace()
      if take("]") { return .array(values) }
      while true {
        guard let value = value(depth: depth + 1) else { return nil }
        values.append(value)
        skipSpace()
        if take("]") { return .array(values) }
        guard take(",") else { return nil }
      }
    }

    mutating func string() -> String? {
      guard take("\"") else { return nil }
      var text: [UInt8] = []
      while let byte = next {
        position += 1
        switch byte {
        case UInt8(ascii: "\""):
          return String(decoding: text, as: UTF8.self)
        case UInt8(ascii: "\\"):
          guard let scalar = escape() else { return nil }
          text.append(contentsOf: String(scalar).utf8)
        case 0..<0x20:
          return nil
        default:
          text.append(byte)
        }
      }
      return nil
    }

    mutating func escape() -> Unicode.Scalar? {
      guard let byte = next else { return nil }
      position += 1
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
      case UInt8(ascii: "b"): return "\u{8}"
      case UInt8(ascii: "f"): return "\u{C}"
      case UInt8(ascii: "n"): return "\n"
      case UInt8(ascii: "r"): return "\r"
      case UInt8(ascii: "t"): return "\t"
      case UInt8(ascii: "u"):
        guard let unit = hexUnit() else { return nil }
        guard unit >= 0xD800, unit < 0xE000 else { return Unicode.Scalar(unit) }
        guard unit < 0xDC00, take("\\"), take("u"), let low = hexUnit(), low >= 0xDC00, low < 0xE000 else { return nil }
        return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00))
      default: return nil
      }
    }

    mutating func hexUnit() -> UInt32? {
      guard bytes.count - position >= 4 else { return nil }
      var unit: UInt32 = 0
      for _ in 0..<4 {
        guard let digit = Hex.value(bytes[position]) else { return nil }
        unit = unit << 4 | UInt32(digit)
        position += 1
      }
      return unit
    }

    mutating func number() -> JSONValue? {
      let start = position
      var isInteger = true
      _ = take("-")
      if !take("0"), !digits() { return nil }
      if take(".") {
        isInteger = false
        guard digits() else { return nil }
      }
      if take("e") || take("E") {
        isInteger = false
        if !take("+") { _ = take("-") }
        guard digits() else { return nil }
      }
      guard let number = Double(String(decoding: bytes[start..<position], as: UTF8.self)) else { return nil }
      return .number(number, isInteger: isInteger)
    }

    mutating func digits() -> Bool {
      let start = position
      while let byte = next, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") { position += 1 }
      return position > start
    }
  }
}
