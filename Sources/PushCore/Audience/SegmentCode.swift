/// A segment's name in its app and environment: 1 to 64 letters, digits, `-`, `_`, `.` and `:`.
package struct SegmentCode: Hashable, Comparable, Sendable, CustomStringConvertible {
  package static let bytesMaximum = 64
  /// The rule as a text, to follow the place of the wrong value.
  package static let rule = "must be 1 to \(bytesMaximum) letters, digits, hyphens, underscores, dots and colons"

  package let text: String

  /// nil: the text breaks the rule.
  package init?(_ text: String) {
    guard 1...SegmentCode.bytesMaximum ~= text.utf8.count, text.utf8.allSatisfy(SegmentCode.isTaken) else { return nil }
    self.text = text
  }

  package var description: String { text }

  package static func < (left: SegmentCode, right: SegmentCode) -> Bool { left.text < right.text }

  private static func isTaken(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), ASCII.zero...ASCII.nine,
      ASCII.minus, UInt8(ascii: "_"), ASCII.dot, ASCII.colon:
      true
    default: false
    }
  }
}
