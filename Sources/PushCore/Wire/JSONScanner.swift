/// Where a string's content lies, between its quotes.
package struct JSONString: Hashable, Sendable {
  package var range: ByteRange
  /// The content contains escapes and must be decoded.
  package var hasEscapes: Bool

  package init(range: ByteRange, hasEscapes: Bool) {
    self.range = range
    self.hasEscapes = hasEscapes
  }

  /// A copy of its text, decoded; it was scanned in these bytes.
  func text(of bytes: Span<UInt8>) -> String {
    if hasEscapes { return String(decoding: JSONEscape.unescaped(range, of: bytes), as: UTF8.self) }
    var copy: [UInt8] = []
    copy.reserveCapacity(Int(range.count))
    for index in range.range { copy.append(bytes[index]) }
    return String(decoding: copy, as: UTF8.self)
  }
}

/// A number as written.
package struct JSONNumber: Hashable, Sendable {
  package var range: ByteRange
  /// The value of a number without fraction and exponent; nil for others and beyond 64 bits.
  package var integer: Int64?

  /// The value of a whole number, however it is written: `5`, `5.0`, `1e2`; nil for others and beyond 64 bits.
  /// - Parameter bytes: that it was read from.
  package func whole(in bytes: Span<UInt8>) -> Int64? {
    if let integer { return integer }
    let digits = range.range
    let isNegative = bytes[digits.lowerBound] == ASCII.minus
    var magnitude: UInt64 = 0
    // Of the digits so far: zeros at their end, and digits behind the point.
    var (zeros, places, hasPoint) = (0, 0, false)
    var index = digits.lowerBound + (isNegative ? 1 : 0)
    while index < digits.upperBound, bytes[index] | 0x20 != UInt8(ascii: "e") {
      defer { index += 1 }
      guard bytes[index] != ASCII.dot else {
        hasPoint = true
        continue
      }
      places += hasPoint ? 1 : 0
      let digit = bytes[index] - ASCII.zero
      guard digit > 0 else {
        zeros += 1
        continue
      }
      guard let shifted = JSONNumber.shifted(magnitude, by: zeros + 1) else { return nil }
      let (sum, hasOverflow) = shifted.addingReportingOverflow(UInt64(digit))
      guard !hasOverflow else { return nil }
      (magnitude, zeros) = (sum, 0)
    }
    let exponent = index == digits.upperBound ? 0 : JSONNumber.exponent(bytes, index + 1..<digits.upperBound)
    guard let value = JSONNumber.shifted(magnitude, by: zeros - places + exponent) else { return nil }
    return isNegative ? Int64(exactly: value).map { -$0 } : Int64(exactly: value)
  }

  /// Times a power of ten; nil: more than 64 bits, or a fraction: the number ends with no zero.
  private static func shifted(_ magnitude: UInt64, by places: Int) -> UInt64? {
    guard magnitude > 0 else { return 0 }
    guard 0...19 ~= places else { return nil }
    var value = magnitude
    for _ in 0..<places {
      let (product, hasOverflow) = value.multipliedReportingOverflow(by: 10)
      guard !hasOverflow else { return nil }
      value = product
    }
    return value
  }

  private static func exponent(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int {
    let isNegative = bytes[range.lowerBound] == ASCII.minus
    var exponent = 0
    for index in range where bytes[index] != ASCII.minus && bytes[index] != ASCII.plus {
      // Far beyond what the digits of a job could make up for.
      exponent = min(exponent * 10 + Int(bytes[index] - ASCII.zero), 1 << 40)
    }
    return isNegative ? -exponent : exponent
  }
}

/// Reads JSON (RFC 8259, strictly) from bytes, forward only. It holds a position; its methods get the bytes as an argument.
///
/// Strings are checked completely: UTF-8, escapes, surrogate pairs. Nothing is allocated or copied. The caller reads the members that it
/// knows (`beginObject`, `key`, `nextMember`) and skips the rest with `skipValue`, which checks it too.
package struct JSONScanner: Sendable {
  /// Offset of the next byte to read.
  package var position: Int

  package init(position: Int = 0) {
    self.position = position
  }

  /// The next byte that is not white space; 0, which is never legal in JSON, at the end.
  @inline(__always)
  package mutating func peek(_ bytes: Span<UInt8>) -> UInt8 {
    while position < bytes.count {
      let byte = bytes[position]
      if byte > ASCII.space { return byte }
      guard byte == ASCII.space || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
      position &+= 1
    }
    return 0
  }

  // MARK: Objects and arrays

  /// Enters an object. Returns whether a key follows (false: the object is empty and was passed).
  @inline(__always)
  package mutating func beginObject(_ bytes: Span<UInt8>) throws(JSONError) -> Bool {
    guard peek(bytes) == ASCII.openBrace else { throw failure(.expectedObject, bytes) }
    position &+= 1
    guard peek(bytes) == ASCII.closeBrace else { return true }
    position &+= 1
    return false
  }

  /// Reads a key and its colon; the value follows.
  @inline(__always)
  package mutating func key(_ bytes: Span<UInt8>) throws(JSONError) -> JSONString {
    guard peek(bytes) == ASCII.quote else { throw failure(.expectedKey, bytes) }
    let key = try string(bytes)
    guard peek(bytes) == ASCII.colon else { throw failure(.expectedColon, bytes) }
    position &+= 1
    return key
  }

  /// After a member's value: whether another key follows (false: the object was passed).
  @inline(__always)
  package mutating func nextMember(_ bytes: Span<UInt8>) throws(JSONError) -> Bool {
    let byte = peek(bytes)
    if byte == ASCII.comma {
      position &+= 1
      return true
    }
    guard byte == ASCII.closeBrace else { throw failure(.expectedCommaOrBrace, bytes) }
    position &+= 1
    return false
  }

  /// Enters an array whose bracket was seen. Returns whether an element follows.
  package mutating func beginArray(_ bytes: Span<UInt8>) -> Bool {
    position &+= 1
    guard peek(bytes) == ASCII.closeBracket else { return true }
    position &+= 1
    return false
  }

  /// After an element: whether another follows (false: the array was passed).
  package mutating func nextElement(_ bytes: Span<UInt8>) throws(JSONError) -> Bool {
    let byte = peek(bytes)
    if byte == ASCII.comma {
      position &+= 1
      return true
    }
    guard byte == ASCII.closeBracket else { throw failure(.expectedCommaOrBracket, bytes) }
    position &+= 1
    return false
  }

  /// After the outermost value: only white space may follow.
  package mutating func end(_ bytes: Span<UInt8>) throws(JSONError) {
    _ = peek(bytes)
    guard position == bytes.count else { throw JSONError(.trailingBytes, at: position) }
  }

  // MARK: Values

  /// Skips one value of any kind, checking it.
  package mutating func skipValue(_ bytes: Span<UInt8>) throws(JSONError) {
    // One bit for each level that is open, the innermost lowest: 1 = object, 0 = array.
    var levels: UInt64 = 0
    var depth = 0
    values: while true {
      let byte = peek(bytes)
      switch byte {
      case ASCII.quote:
        _ = try string(bytes)
      case ASCII.openBrace, ASCII.openBracket:
        let isObject = byte == ASCII.openBrace
        let start = position
        position &+= 1
        if peek(bytes) == (isObject ? ASCII.closeBrace : ASCII.closeBracket) {
          position &+= 1
        } else {
          guard depth < Limits.jsonDepthMaximum else { throw JSONError(.tooDeep, at: start) }
          depth &+= 1
          levels = levels << 1 | (isObject ? 1 : 0)
          if isObject { _ = try key(bytes) }
          continue values
        }
      case ASCII.minus, ASCII.zero...ASCII.nine:
        _ = try number(bytes)
      default:
        try literal(bytes)
      }
      // A value ended, and perhaps the levels around it.
      while true {
        if depth == 0 { return }
        let isObject = levels & 1 == 1
        if try isObject ? nextMember(bytes) : nextElement(bytes) {
          if isObject { _ = try key(bytes) }
          continue values
        }
        depth &-= 1
        levels >>= 1
      }
    }
  }

  /// Reads `true`, `false` or `null`.
  package mutating func literal(_ bytes: Span<UInt8>) throws(JSONError) {
    let left = bytes.count &- position
    let text = bytes.word(at: position, count: Swift.min(left, 5))
    switch text & 0xFF {
    case 0x74 where text & 0xFFFF_FFFF == 0x6575_7274: position &+= 4
    case 0x6E where text & 0xFFFF_FFFF == 0x6C6C_756E: position &+= 4
    case 0x66 where text == 0x65_736C_6166: position &+= 5
    case 0x74, 0x6E, 0x66: throw JSONError(.badLiteral, at: position)
    default: throw failure(.expectedValue, bytes)
    }
  }

  /// Reads a number at the position, strictly: no leading zero, no bare point, no plus sign.
  package mutating func number(_ bytes: Span<UInt8>) throws(JSONError) -> JSONNumber {
    let start = position
    var index = position
    let isNegative = bytes[index] == ASCII.minus
    if isNegative { index &+= 1 }
    let firstDigit = index
    var magnitude: UInt64 = 0
    var hasOverflow = false
    while index < bytes.count, case let digit = bytes[index] &- ASCII.zero, digit < 10 {
      let (product, overflow) = magnitude.multipliedReportingOverflow(by: 10)
      let (sum, carry) = product.addingReportingOverflow(UInt64(digit))
      hasOverflow = hasOverflow || overflow || carry
      magnitude = sum
      index &+= 1
    }
    let digitCount = index &- firstDigit
    guard digitCount > 0, digitCount == 1 || bytes[firstDigit] != ASCII.zero else {
      throw JSONError(digitCount == 0 && index == bytes.count ? .unexpectedEnd : .badNumber, at: index)
    }
    var isInteger = true
    if index < bytes.count, bytes[index] == ASCII.dot {
      isInteger = false
      index = try digits(bytes, from: index &+ 1)
    }
    if index < bytes.count, bytes[index] | 0x20 == UInt8(ascii: "e") {
      isInteger = false
      index &+= 1
      if index < bytes.count, bytes[index] == ASCII.plus || bytes[index] == ASCII.minus { index &+= 1 }
      index = try digits(bytes, from: index)
    }
    position = index
    var integer: Int64?
    if isInteger && !hasOverflow {
      integer = isNegative ? Int64(exactly: magnitude).map { -$0 } : Int64(exactly: magnitude)
    }
    return JSONNumber(range: ByteRange(start: start, count: index &- start), integer: integer)
  }

  /// At least one digit. Returns the offset after the last.
  private func digits(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
    var index = start
    while index < bytes.count, bytes[index] &- ASCII.zero < 10 { index &+= 1 }
    guard index > start else { throw JSONError(index < bytes.count ? .badNumber : .unexpectedEnd, at: index) }
    return index
  }

  // MARK: Strings

  /// Reads a string whose opening quote is at the position.
  package mutating func string(_ bytes: Span<UInt8>) throws(JSONError) -> JSONString {
    let start = position &+ 1
    var index = start
    var hasEscapes = false
    while true {
      // Eight bytes at a time to the first byte that needs a closer look: a quote, a backslash, a control character, not ASCII.
      while index &+ 8 <= bytes.count {
        let special = JSONScanner.specialBytes(bytes.word(at: index))
        if special != 0 {
          index &+= special.trailingZeroBitCount &>> 3
          break
        }
        index &+= 8
      }
      guard index < bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
      let byte = bytes[index]
      if byte == ASCII.quote {
        position = index &+ 1
        return JSONString(range: ByteRange(start: start, count: index &- start), hasEscapes: hasEscapes)
      }
      if byte == ASCII.backslash {
        hasEscapes = true
        index = try JSONScanner.escape(bytes, at: index)
      } else if byte >= 0x80 {
        // After one character that is not ASCII, more usually follow.
        repeat { index = try UTF8Check.character(bytes, at: index) } while index < bytes.count && bytes[index] >= 0x80
      } else if byte < 0x20 {
        throw JSONError(.controlCharacter, at: index)
      } else {
        index &+= 1
      }
    }
  }

  /// The high bit of each byte that is a quote, a backslash, below 0x20 or above 0x7F. Bits above the lowest one set
  /// may be wrong (a borrow runs upwards); the lowest never is.
  @inline(__always)
  static func specialBytes(_ word: UInt64) -> UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let quotes = word ^ (ones &* UInt64(ASCII.quote))
    let backslashes = word ^ (ones &* UInt64(ASCII.backslash))
    let found = (word &- ones &* 0x20) | (quotes &- ones) | (backslashes &- ones) | word
    // A byte above 0x7F is in `word` itself; for the others the subtraction's high bit is what counts.
    return found & 0x8080_8080_8080_8080
  }

  /// Checks an escape. Returns the offset after it; a surrogate pair counts as one.
  private static func escape(_ bytes: Span<UInt8>, at start: Int) throws(JSONError) -> Int {
    guard start &+ 1 < bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
    switch bytes[start &+ 1] {
    case ASCII.quote, ASCII.backslash, UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
      UInt8(ascii: "r"), UInt8(ascii: "t"):
      return start &+ 2
    case UInt8(ascii: "u"):
      let unit = try JSONEscape.unit(bytes, at: start)
      switch unit {
      case 0xD800..<0xDC00:
        let second = start &+ 6
        guard second < bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
        guard bytes[second] == ASCII.backslash else { throw JSONError(.loneSurrogate, at: start) }
        guard second &+ 1 < bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
        guard bytes[second &+ 1] == UInt8(ascii: "u"),
          case 0xDC00..<0xE000 = try JSONEscape.unit(bytes, at: second)
        else { throw JSONError(.loneSurrogate, at: start) }
        return start &+ 12
      case 0xDC00..<0xE000:
        throw JSONError(.loneSurrogate, at: start)
      default:
        return start &+ 6
      }
    default:
      throw JSONError(.badEscape, at: start)
    }
  }

  /// The error at the position, or `unexpectedEnd` if the bytes end there.
  private func failure(_ kind: JSONError.Kind, _ bytes: Span<UInt8>) -> JSONError {
    JSONError(position < bytes.count ? kind : .unexpectedEnd, at: position)
  }
}
