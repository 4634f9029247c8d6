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
}
