/// The value of an `Idempotency-Key` field: a string in quotes (draft-ietf-httpapi-idempotency-key-header-07), or the same without quotes.
package struct IdempotencyKey: Hashable, Sendable {
  package static let bytesMaximum = 128
  package static let rule = "must be 1 to \(bytesMaximum) visible ASCII characters, in quotes or without"

  package let text: String

  /// nil: malformed.
  package init?(field: String) {
    var bytes = Array(field.utf8)[...]
    if bytes.first == ASCII.quote {
      guard bytes.count >= 2, bytes.last == ASCII.quote else { return nil }
      bytes = bytes.dropFirst().dropLast()
    }
    guard 1...IdempotencyKey.bytesMaximum ~= bytes.count,
      bytes.allSatisfy({ (0x21...0x7E).contains($0) && $0 != ASCII.quote && $0 != ASCII.backslash })
    else { return nil }
    text = String(decoding: bytes, as: UTF8.self)
  }
}
