/// Hexadecimal digits, eight at a time.
package enum Hex {
  package enum Digits {
    case lowerCase
    /// Digits all, but some are upper-case.
    case mixedCase
    case invalid
  }

  /// The value of one digit of either case.
  @inline(__always)
  package static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case ASCII.zero...ASCII.nine: digit &- ASCII.zero
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit &- 87
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit &- 55
    default: nil
    }
  }

  /// The lower-case digit of a value below 16.
  @inline(__always)
  package static func digit(_ value: UInt8) -> UInt8 {
    value < 10 ? ASCII.zero &+ value : 87 &+ value
  }

  /// The eight lower-case digits of a value, the first in the highest byte.
  @inline(__always)
  package static func digits(_ value: UInt32) -> UInt64 {
    var word = UInt64(value)
    word = (word << 16 | word) & 0x0000_FFFF_0000_FFFF
    word = (word << 8 | word) & 0x00FF_00FF_00FF_00FF
    word = (word << 4 | word) & 0x0F0F_0F0F_0F0F_0F0F
    let letters = (word &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
    return word | 0x3030_3030_3030_3030 &+ letters &* 0x27
  }

  /// What kind of digits all these bytes are.
  package static func classify(_ bytes: Span<UInt8>) -> Digits {
    var hasUpperCase = false
    var index = 0
    while index < bytes.count {
      let count = min(8, bytes.count &- index)
      // Places behind the last byte count as the digit 0.
      let padding: UInt64 = count == 8 ? 0 : 0x3030_3030_3030_3030 << UInt64(count &* 8)
      let word = bytes.word(at: index, count: count) | padding
      guard word & 0x8080_8080_8080_8080 == 0 else { return .invalid }
      // With all bytes below 0x80, adding 0x80 - x sets the high bit of the bytes that are x or more, without a carry.
      let digits = (word &+ 0x5050_5050_5050_5050) & ~(word &+ 0x4646_4646_4646_4646)
      let lowered = word | 0x2020_2020_2020_2020
      let letters = (lowered &+ 0x1F1F_1F1F_1F1F_1F1F) & ~(lowered &+ 0x1919_1919_1919_1919)
      guard (digits | letters) & 0x8080_8080_8080_8080 == 0x8080_8080_8080_8080 else { return .invalid }
      if letters & ~(word << 2) & 0x8080_8080_8080_8080 != 0 { hasUpperCase = true }
      index &+= 8
    }
    return hasUpperCase ? .mixedCase : .lowerCase
  }
}
