/// Reading bytes eight at a time, and comparing them with constant text: no allocation, every access bounds-checked.
extension Span<UInt8> {
  /// Eight bytes as a little-endian word: the first byte is the lowest. Compiles to one load behind its bounds check.
  @inline(__always)
  package func word(at offset: Int) -> UInt64 {
    let part = extracting(offset..<(offset &+ 8))
    return UInt64(part[0]) | UInt64(part[1]) << 8 | UInt64(part[2]) << 16 | UInt64(part[3]) << 24
      | UInt64(part[4]) << 32 | UInt64(part[5]) << 40 | UInt64(part[6]) << 48 | UInt64(part[7]) << 56
  }

  /// Up to eight bytes as a little-endian word, zeros above them.
  @inline(__always)
  package func word(at offset: Int, count wanted: Int) -> UInt64 {
    if wanted >= 8 { return word(at: offset) }
    if wanted <= 0 { return 0 }
    if offset &+ 8 <= count {
      return word(at: offset) & (UInt64.max >> UInt64(64 &- wanted &* 8))
    }
    var result: UInt64 = 0
    for index in 0..<wanted { result |= UInt64(self[offset &+ index]) << UInt64(index &* 8) }
    return result
  }

  /// Whether these bytes are exactly the text's. A literal's UTF-8 is constant data.
  @inline(__always)
  package func equals(_ text: String) -> Bool {
    let other = text.utf8.span
    guard count == other.count else { return false }
    for index in 0..<other.count where self[index] != other[index] { return false }
    return true
  }
}

extension Span<UInt8> {
  /// Whether two spans hold the same bytes.
  func isSame(as other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    var offset = 0
    while offset < count {
      let left = count &- offset
      guard word(at: offset, count: left) == other.word(at: offset, count: left) else { return false }
      offset &+= 8
    }
    return true
  }
}

extension [UInt8] {
  /// Appends a part of itself byte by byte, because a slice of itself would make the array copy itself.
  package mutating func appendOwn(_ range: Range<Int>) {
    for index in range { append(self[index]) }
  }
}

/// The bytes that JSON and headers use.
enum ASCII {
  static let quote = UInt8(ascii: "\"")
  static let backslash = UInt8(ascii: "\\")
  static let openBrace = UInt8(ascii: "{")
  static let closeBrace = UInt8(ascii: "}")
  static let openBracket = UInt8(ascii: "[")
  static let closeBracket = UInt8(ascii: "]")
  static let comma = UInt8(ascii: ",")
  static let colon = UInt8(ascii: ":")
  static let minus = UInt8(ascii: "-")
  static let plus = UInt8(ascii: "+")
  static let dot = UInt8(ascii: ".")
  static let zero = UInt8(ascii: "0")
  static let nine = UInt8(ascii: "9")
  static let space = UInt8(ascii: " ")
}
