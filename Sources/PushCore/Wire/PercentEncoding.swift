/// Percent-encoded text, as in URLs (RFC 3986, section 2.1).
package enum PercentEncoding {
  package enum Failure: Error {
    /// A `%` is not followed by two hex digits.
    case escape
    /// The bytes are not UTF-8.
    case notUTF8
  }

  /// Decodes the text.
  package static func decode(_ text: Substring) throws(Failure) -> String {
    var bytes: [UInt8] = []
    var iterator = text.utf8.makeIterator()
    while let byte = iterator.next() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = iterator.next().flatMap(Hex.value), let low = iterator.next().flatMap(Hex.value) else {
        throw .escape
      }
      bytes.append(high << 4 | low)
    }
    guard let decoded = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
    return decoded
  }

  /// Escapes all but letters, digits and `-._~` (RFC 3986, 2.3).
  package static func encode(_ text: String) -> String {
    if text.utf8.allSatisfy(isUnreserved) { return text }
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      if isUnreserved(byte) {
        bytes.append(byte)
      } else {
        bytes += [UInt8(ascii: "%"), upperDigit(byte >> 4), upperDigit(byte & 15)]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
      true
    default: false
    }
  }

  private static func upperDigit(_ value: UInt8) -> UInt8 {
    let digit = Hex.digit(value)
    return digit >= UInt8(ascii: "a") ? digit & ~0x20 : digit
  }
}
