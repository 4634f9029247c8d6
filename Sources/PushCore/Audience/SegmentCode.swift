/// A segment's name in its app and environment: 1 to 64 letters, digits, `-`, `_`, `.` and `:`.
package struct SegmentCode: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The rule as a text, to follow the place of the wrong value.
  package static let rule = NameText.codeRule

  package let text: String

  /// nil: the text breaks the rule.
  package init?(_ text: String) {
    guard NameText.codeFault(text.utf8.span) == nil else { return nil }
    self.text = text
  }

  package var description: String { text }

  package static func < (left: SegmentCode, right: SegmentCode) -> Bool { ByteText(left.text) < ByteText(right.text) }
}
