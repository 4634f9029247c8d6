/// The value of an `Idempotency-Key` field: a string in quotes (draft-ietf-httpapi-idempotency-key-header-07), or the same without quotes.
/// Parameters behind the quotes are ignored.
package struct IdempotencyKey: Hashable, Sendable {
  package static let bytesMaximum = 128
  package static let rule = "must be 1 to \(bytesMaximum) visible ASCII characters, in quotes or without"

  package let text: String

  /// nil: malformed.
  package init?(field: String) {
    var bytes = Array(field.utf8)[...]
    if bytes.first == ASCII.quote {
      bytes = bytes.dropFirst()
      guard let end = bytes.firstIndex(of: ASCII.quote) else { return nil }
      guard IdempotencyKey.areParameters(bytes[bytes.index(after: end)...]) else { return nil }
      bytes = bytes[..<end]
    }
    guard 1...IdempotencyKey.bytesMaximum ~= bytes.count,
      bytes.allSatisfy({ (0x21...0x7E).contains($0) && $0 != ASCII.quote && $0 != ASCII.backslash })
    else { return nil }
    text = String(decoding: bytes, as: UTF8.self)
  }

  /// Parameters of a structured field (RFC 8941, 4.2.3.2), to the end.
  private static func areParameters(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    while rest.popFirst(where: { $0 == UInt8(ascii: ";") }) {
      rest = rest.drop { $0 == ASCII.space }
      guard rest.popFirst(where: { isLower($0) || $0 == UInt8(ascii: "*") }) else { return false }
      rest = rest.drop { isLower($0) || isDigit($0) || "_-.*".utf8.contains($0) }
      guard rest.popFirst(where: { $0 == UInt8(ascii: "=") }) else { continue }
      guard dropValue(&rest) else { return false }
    }
    return rest.isEmpty
  }

  /// A bare item: a string, bytes, or what has no spaces. Its type does not matter.
  private static func dropValue(_ rest: inout ArraySlice<UInt8>) -> Bool {
    if rest.popFirst(where: { $0 == ASCII.quote }) {
      while let byte = rest.popFirst() {
        if byte == ASCII.quote { return true }
        guard (0x20...0x7E).contains(byte) else { return false }
        if byte == ASCII.backslash, !rest.popFirst(where: { $0 == ASCII.quote || $0 == ASCII.backslash }) {
          return false
        }
      }
      return false
    }
    if rest.popFirst(where: { $0 == UInt8(ascii: ":") }) {
      rest = rest.drop { isLetter($0) || isDigit($0) || "+/=".utf8.contains($0) }
      return rest.popFirst { $0 == UInt8(ascii: ":") }
    }
    let count = rest.count
    rest = rest.drop { isLetter($0) || isDigit($0) || "!#$%&'*+-.^_`|~:/?@".utf8.contains($0) }
    return rest.count < count
  }

  private static func isLower(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "a") < 26 }
  private static func isLetter(_ byte: UInt8) -> Bool { isLower(byte | 0x20) }
  private static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }
}

extension ArraySlice<UInt8> {
  /// Removes the first byte if it is such a one.
  fileprivate mutating func popFirst(where isWanted: (UInt8) -> Bool) -> Bool {
    guard let first, isWanted(first) else { return false }
    removeFirst()
    return true
  }
}
