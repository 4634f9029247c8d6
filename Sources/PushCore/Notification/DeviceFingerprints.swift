/// The fingerprints of a page's devices as text: six digits for each, six bits a digit, the highest first. So a part of a page has a part
/// of its text.
package enum DeviceFingerprints {
  /// Digits of one fingerprint.
  package static let digitCount = 6

  package static func text(of fingerprints: some Sequence<UInt32>) -> [UInt8] {
    var text: [UInt8] = []
    for fingerprint in fingerprints { append(fingerprint, to: &text) }
    return text
  }

  private static func append(_ fingerprint: UInt32, to text: inout [UInt8]) {
    for shift in stride(from: UInt64(6 * (digitCount - 1)), through: 0, by: -6) {
      text.append(digit(UInt8(truncatingIfNeeded: UInt64(fingerprint) >> shift & 63)))
    }
  }

  /// The fingerprints in a text; nil: it is none of `count` fingerprints.
  package static func all(_ text: [UInt8], count: Int) -> [UInt32]? {
    guard text.count == count * digitCount else { return nil }
    var found: [UInt32] = []
    for start in stride(from: 0, to: text.count, by: digitCount) {
      guard let fingerprint = read(text.span.extracting(start..<start + digitCount)) else { return nil }
      found.append(fingerprint)
    }
    return found
  }

  /// One fingerprint; nil: it is none.
  package static func read(_ text: Span<UInt8>) -> UInt32? {
    guard text.count == digitCount else { return nil }
    var bits: UInt64 = 0
    for index in 0..<text.count {
      guard let value = value(of: text[index]) else { return nil }
      bits = bits << 6 | UInt64(value)
    }
    return UInt32(exactly: bits)
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: UInt8(ascii: "A") + value
    case 26..<52: UInt8(ascii: "a") + (value - 26)
    case 52..<62: UInt8(ascii: "0") + (value - 52)
    case 62: UInt8(ascii: "-")
    default: UInt8(ascii: "_")
    }
  }

  private static func value(of digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): digit - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0") + 52
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
  }
}
