/// Which bytes are allowed in names and headers that come from a job's fields.
enum HeaderText {
  /// Letters, digits, dots, hyphens and underscores, at least one: a bundle id, a push type.
  static func isName(_ bytes: Span<UInt8>) -> Bool {
    for index in 0..<bytes.count {
      let byte = bytes[index]
      let isRight =
        (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- ASCII.zero < 10 || byte == ASCII.dot || byte == ASCII.minus
        || byte == UInt8(ascii: "_")
      guard isRight else { return false }
    }
    return !bytes.isEmpty
  }

  /// A name without an empty part before, between or behind its dots.
  static func isTopic(_ bytes: Span<UInt8>) -> Bool {
    guard isName(bytes), bytes[0] != ASCII.dot, bytes[bytes.count - 1] != ASCII.dot else { return false }
    for index in 1..<bytes.count where bytes[index] == ASCII.dot && bytes[index - 1] == ASCII.dot { return false }
    return true
  }

  /// A header's value (RFC 9113, 8.2.1): no control characters, no space at either end.
  static func isValue(_ bytes: Span<UInt8>) -> Bool {
    for index in 0..<bytes.count where bytes[index] < ASCII.space || bytes[index] == 0x7F { return false }
    return bytes.isEmpty || bytes[0] != ASCII.space && bytes[bytes.count - 1] != ASCII.space
  }

  /// Base64 of either alphabet, at least one byte.
  static func isBase64(_ bytes: Span<UInt8>) -> Bool {
    for index in 0..<bytes.count {
      let byte = bytes[index]
      let isRight =
        (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- ASCII.zero < 10 || byte == ASCII.plus || byte == ASCII.minus
        || byte == UInt8(ascii: "/") || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "=")
      guard isRight else { return false }
    }
    return !bytes.isEmpty
  }

  /// Base64 with `+` and `/` and its padding (RFC 4648, section 4), at least one byte.
  static func isPaddedBase64(_ text: Span<UInt8>) -> Bool {
    guard !text.isEmpty, text.count & 3 == 0 else { return false }
    var end = text.count
    while end > text.count - 2, text[end - 1] == UInt8(ascii: "=") { end -= 1 }
    for index in 0..<end {
      let byte = text[index]
      let isRight =
        (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- ASCII.zero < 10 || byte == ASCII.plus
        || byte == UInt8(ascii: "/")
      guard isRight else { return false }
    }
    return true
  }

  static func hasSuffix(_ bytes: Span<UInt8>, _ suffix: String) -> Bool {
    let count = suffix.utf8.count
    return bytes.count >= count && bytes.extracting((bytes.count - count)..<bytes.count).equals(suffix)
  }

  static func hasPrefix(_ bytes: Span<UInt8>, _ prefix: String) -> Bool {
    let count = prefix.utf8.count
    return bytes.count >= count && bytes.extracting(0..<count).equals(prefix)
  }
}
