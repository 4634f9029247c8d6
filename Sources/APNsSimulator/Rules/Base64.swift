/// Base64 in the two forms that APNs uses: channel ids (standard, padded) and provider tokens (URL, not padded).
package enum Base64 {
  package enum Alphabet { case standard, url }

  /// nil where a character, the length or the padding is wrong.
  package static func decode(_ text: some Collection<UInt8>, alphabet: Alphabet) -> [UInt8]? {
    var digits = Array(text)
    if alphabet == .standard {
      guard digits.count % 4 == 0 else { return nil }
      for _ in 0..<2 where digits.last == UInt8(ascii: "=") { digits.removeLast() }
    }
    guard !digits.isEmpty, digits.count % 4 != 1 else { return nil }
    var result: [UInt8] = []
    result.reserveCapacity(digits.count * 3 / 4)
    var collected: UInt32 = 0
    var bitCount = 0
    for digit in digits {
      guard let value = value(of: digit, alphabet) else { return nil }
      collected = collected << 6 | value
      bitCount += 6
      if bitCount >= 8 {
        bitCount -= 8
        result.append(UInt8(truncatingIfNeeded: collected >> UInt32(bitCount)))
      }
    }
    return result
  }

  package static func encode(_ bytes: [UInt8], alphabet: Alphabet) -> String {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    let characters = Array((letters + (alphabet == .url ? "-_" : "+/")).utf8)
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      var bits: UInt32 = 0
      for byte in group { bits = bits << 8 | UInt32(byte) }
      bits <<= UInt32(8 * (3 - group.count))
      for index in 0..<4 {
        if index <= group.count {
          text.append(characters[Int(bits >> UInt32(18 - 6 * index) & 63)])
        } else if alphabet == .standard {
          text.append(UInt8(ascii: "="))
        }
      }
    }
    return String(decoding: text, as: UTF8.self)
  }

  private static func value(of digit: UInt8, _ alphabet: Alphabet) -> UInt32? {
    switch digit {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a")) + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0")) + 52
    case UInt8(ascii: "+") where alphabet == .standard, UInt8(ascii: "-") where alphabet == .url: 62
    case UInt8(ascii: "/") where alphabet == .standard, UInt8(ascii: "_") where alphabet == .url: 63
    default: nil
    }
  }
}
