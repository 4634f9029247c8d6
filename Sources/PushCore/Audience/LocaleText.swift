/// Locales in the names of sets: lower case, with hyphens.
package enum LocaleText {
  /// The length of language tags that programs must support (RFC 5646, 4.4.1).
  package static let bytesMaximum = 35
  /// The rule as a text, to be followed by the wrong value.
  package static let rule =
    "must be a locale such as en-GB: letters and digits with hyphens, 1 to \(bytesMaximum) bytes"

  /// `en-gb` for `en-GB` and `en_GB`; nil if a part is empty or has other characters than letters and digits.
  package static func canonical(_ text: String) -> String? {
    guard 1...bytesMaximum ~= text.utf8.count else { return nil }
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), ASCII.zero...ASCII.nine: bytes.append(byte)
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): bytes.append(byte | 0x20)
      case ASCII.minus, UInt8(ascii: "_"):
        guard let last = bytes.last, last != ASCII.minus else { return nil }
        bytes.append(ASCII.minus)
      default: return nil
      }
    }
    return bytes.last == ASCII.minus ? nil : String(decoding: bytes, as: UTF8.self)
  }
}
