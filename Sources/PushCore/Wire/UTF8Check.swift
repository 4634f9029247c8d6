/// Well-formed UTF-8 (RFC 3629), one character at a time.
package enum UTF8Check {
  /// Checks the character of two to four bytes at `start`. Returns the offset after it.
  @inline(__always)
  static func character(_ bytes: Span<UInt8>, at start: Int) throws(JSONError) -> Int {
    let first = bytes[start]
    // The second byte shows overlong forms, surrogates and values over U+10FFFF.
    let second: ClosedRange<UInt8>
    let length: Int
    switch first {
    case 0xC2...0xDF: (second, length) = (0x80...0xBF, 2)
    case 0xE0: (second, length) = (0xA0...0xBF, 3)
    case 0xED: (second, length) = (0x80...0x9F, 3)
    case 0xE1...0xEF: (second, length) = (0x80...0xBF, 3)
    case 0xF0: (second, length) = (0x90...0xBF, 4)
    case 0xF1...0xF3: (second, length) = (0x80...0xBF, 4)
    case 0xF4: (second, length) = (0x80...0x8F, 4)
    default: throw JSONError(.badUTF8, at: start)
    }
    guard start &+ length <= bytes.count else { throw JSONError(.badUTF8, at: start) }
    guard second.contains(bytes[start &+ 1]) else { throw JSONError(.badUTF8, at: start) }
    if length > 2 && bytes[start &+ 2] & 0xC0 != 0x80 { throw JSONError(.badUTF8, at: start) }
    if length > 3 && bytes[start &+ 3] & 0xC0 != 0x80 { throw JSONError(.badUTF8, at: start) }
    return start &+ length
  }

  /// Whether all bytes are well-formed UTF-8.
  package static func isValid(_ bytes: Span<UInt8>) -> Bool {
    var index = 0
    while index < bytes.count {
      if bytes[index] < 0x80 {
        index &+= 1
        continue
      }
      do throws(JSONError) {
        index = try character(bytes, at: index)
      } catch {
        return false
      }
    }
    return true
  }
}
