/// Locales as sets of devices name them: lower case, with hyphens.
package enum LocaleText {
  /// As long as language tags that programs must take (RFC 5646, 4.4.1).
  package static let bytesMaximum = 35
  /// What a text must be, in words that stand before what it is.
  package static let rule =
    "must be a locale such as en-GB: letters and digits with hyphens, 1 to \(bytesMaximum) bytes"

  /// `en-gb` of `en-GB` and `en_GB`; nil where a part is empty or holds something else than letters and digits.
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
