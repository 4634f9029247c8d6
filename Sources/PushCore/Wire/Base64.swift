/// Base64 (RFC 4648).
package enum Base64 {
  package enum Alphabet: Sendable {
    /// `+` and `/`, and `=` as padding.
    case standard
    /// `-` and `_`, no padding, as in JWTs.
    case url
  }

  /// Appends the text of `bytes`.
  package static func encode(_ bytes: [UInt8], _ alphabet: Alphabet, into output: inout [UInt8]) {
    var bits: UInt32 = 0
    var bitCount: UInt32 = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      bitCount += 8
      while bitCount >= 6 {
        bitCount -= 6
        output.append(digit(UInt8(truncatingIfNeeded: bits >> bitCount & 63), alphabet))
      }
    }
    if bitCount > 0 { output.append(digit(UInt8(truncatingIfNeeded: bits << (6 - bitCount) & 63), alphabet)) }
    guard alphabet == .standard else { return }
    for _ in 0..<(3 - bytes.count % 3) % 3 { output.append(UInt8(ascii: "=")) }
  }

  /// Decodes `text`; nil if a character, the length or the padding is wrong, or (`url`) the last digit has surplus bits.
  package static func decode(_ text: some BidirectionalCollection<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
    var digits = text[...]
    if alphabet == .standard {
      guard !text.isEmpty, text.count % 4 == 0 else { return nil }
      for _ in 0..<2 where digits.last == UInt8(ascii: "=") { digits = digits.dropLast() }
    }
    var output: [UInt8] = []
    output.reserveCapacity(digits.count * 3 / 4)
    var bits: UInt32 = 0
    var bitCount: UInt32 = 0
    for character in digits {
      guard let value = value(of: character, alphabet) else { return nil }
      bits = (bits & 0xFFFF) << 6 | UInt32(value)
      bitCount += 6
      if bitCount >= 8 {
        bitCount -= 8
        output.append(UInt8(truncatingIfNeeded: bits >> bitCount))
      }
    }
    guard bitCount < 6, alphabet == .standard || bits & (1 << bitCount - 1) == 0 else { return nil }
    return output
  }

  private static func digit(_ value: UInt8, _ alphabet: Alphabet) -> UInt8 {
    switch value {
    case 0..<26: UInt8(ascii: "A") + value
    case 26..<52: UInt8(ascii: "a") + value - 26
    case 52..<62: UInt8(ascii: "0") + value - 52
    case 62: alphabet == .url ? UInt8(ascii: "-") : UInt8(ascii: "+")
    default: alphabet == .url ? UInt8(ascii: "_") : UInt8(ascii: "/")
    }
  }

  private static func value(of character: UInt8, _ alphabet: Alphabet) -> UInt8? {
    switch character {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
    case UInt8(ascii: "+") where alphabet == .standard, UInt8(ascii: "-") where alphabet == .url: 62
    case UInt8(ascii: "/") where alphabet == .standard, UInt8(ascii: "_") where alphabet == .url: 63
    default: nil
    }
  }

  /// The text of `bytes`.
  package static func text(of bytes: [UInt8], _ alphabet: Alphabet) -> String {
    var text: [UInt8] = []
    encode(bytes, alphabet, into: &text)
    return String(decoding: text, as: UTF8.self)
  }
}
