/// A text that nobody prints by accident: a passphrase. Descriptions, dumps and crash reports of whatever holds it show
/// `***`.
package struct Secret: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible,
  CustomDebugStringConvertible, CustomReflectable
{
  /// The text itself, for the one who needs it.
  package let revealed: String

  package init(_ text: String) {
    revealed = text
  }

  package init(stringLiteral text: String) {
    revealed = text
  }

  package var description: String { "***" }
  package var debugDescription: String { "***" }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
