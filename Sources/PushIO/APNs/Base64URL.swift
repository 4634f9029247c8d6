/// Base64 as JWTs write it (RFC 4648, section 5): `-` and `_`, no padding.
enum Base64URL {
  /// Appends the text of `bytes`.
  static func encode(_ bytes: [UInt8], into output: inout [UInt8]) {
    var bits: UInt32 = 0
    var bitCount: UInt32 = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      bitCount += 8
      while bitCount >= 6 {
        bitCount -= 6
        output.append(digit(UInt8(truncatingIfNeeded: bits >> bitCount & 63)))
      }
    }
    if bitCount > 0 { output.append(digit(UInt8(truncatingIfNeeded: bits << (6 - bitCount) & 63))) }
  }

  /// The bytes that `text` stands for; nil where it is not base64url, or its last digit carries bits that mean nothing.
  static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
    var output: [UInt8] = []
    output.reserveCapacity(text.count * 3 / 4)
    var bits: UInt32 = 0
    var bitCount: UInt32 = 0
    for character in text {
      guard let value = value(of: character) else { return nil }
      bits = (bits & 0xFFFF) << 6 | UInt32(value)
      bitCount += 6
      if bitCount >= 8 {
        bitCount -= 8
        output.append(UInt8(truncatingIfNeeded: bits >> bitCount))
      }
    }
    guard bitCount < 6, bits & (1 << bitCount - 1) == 0 else { return nil }
    return output
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: UInt8(ascii: "A") + value
    case 26..<52: UInt8(ascii: "a") + value - 26
    case 52..<62: UInt8(ascii: "0") + value - 52
    case 62: UInt8(ascii: "-")
    default: UInt8(ascii: "_")
    }
  }

  private static func value(of character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
  }
}
