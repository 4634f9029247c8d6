/// Reads, decodes and writes escapes in JSON strings.
package enum JSONEscape {
  /// The UTF-16 unit of the `\uXXXX` at `start`.
  static func unit(_ bytes: Span<UInt8>, at start: Int) throws(JSONError) -> UInt32 {
    var unit: UInt32 = 0
    for index in (start &+ 2)..<(start &+ 6) {
      guard index < bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
      guard let digit = Hex.value(bytes[index]) else { throw JSONError(.badEscape, at: start) }
      unit = unit << 4 | UInt32(digit)
    }
    return unit
  }

  /// Appends the text of an escaped string that the scanner checked to the buffer that holds it.
  /// - Returns: the range of the text.
  static func appendUnescaped(_ range: ByteRange, in bytes: inout [UInt8]) -> ByteRange {
    let start = bytes.count
    var index = range.range.lowerBound
    while index < range.range.upperBound {
      let (scalar, next) = step(bytes.span, at: index)
      if let scalar {
        bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
      } else {
        bytes.append(bytes[index])
      }
      index = next
    }
    return ByteRange(start: start, count: bytes.count - start)
  }

  /// A copy of a string's text, for strings that hardly ever have escapes.
  package static func unescaped(_ range: ByteRange, of bytes: Span<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    var index = range.range.lowerBound
    while index < range.range.upperBound {
      let (scalar, next) = step(bytes, at: index)
      if let scalar {
        text.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
      } else {
        text.append(bytes[index])
      }
      index = next
    }
    return text
  }

  /// One step through a string that the scanner checked: an escape's scalar, or nil for a plain byte, and the offset after it.
  private static func step(_ bytes: Span<UInt8>, at index: Int) -> (scalar: Unicode.Scalar?, next: Int) {
    guard bytes[index] == ASCII.backslash else { return (nil, index + 1) }
    switch bytes[index + 1] {
    case UInt8(ascii: "b"): return ("\u{08}", index + 2)
    case UInt8(ascii: "f"): return ("\u{0C}", index + 2)
    case UInt8(ascii: "n"): return ("\n", index + 2)
    case UInt8(ascii: "r"): return ("\r", index + 2)
    case UInt8(ascii: "t"): return ("\t", index + 2)
    case UInt8(ascii: "u"):
      guard let unit = try? unit(bytes, at: index) else { return ("\u{FFFD}", index + 2) }
      guard unit & 0xF800 == 0xD800 else { return (Unicode.Scalar(unit) ?? "\u{FFFD}", index + 6) }
      guard let low = try? self.unit(bytes, at: index + 6) else { return ("\u{FFFD}", index + 6) }
      return (Unicode.Scalar(0x10000 + (unit & 0x3FF) << 10 + (low & 0x3FF)) ?? "\u{FFFD}", index + 12)
    case let itself: return (Unicode.Scalar(itself), index + 2)
    }
  }
}
