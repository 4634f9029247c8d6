/// A text that is compared, hashed and sorted by its UTF-8 bytes, as Redis and JSON do.
///
/// Swift's `String` compares canonically: `é` as one scalar equals `e` with a combining accent. Ids, tags and segments
/// that others write are bytes, so they must not be compared or used as keys as a `String`.
package struct ByteText: Hashable, Comparable, Sendable {
  package let text: String

  package init(_ text: String) {
    self.text = text
  }

  package static func == (left: ByteText, right: ByteText) -> Bool {
    left.text.utf8.count == right.text.utf8.count && left.text.utf8.elementsEqual(right.text.utf8)
  }

  package static func < (left: ByteText, right: ByteText) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    for byte in text.utf8 { hasher.combine(byte) }
    // No byte of UTF-8.
    hasher.combine(UInt8(255))
  }
}

extension String {
  /// Whether both are the same bytes.
  package func hasBytes(of other: String) -> Bool { ByteText(self) == ByteText(other) }
}
