/// A text that cannot be printed by accident, such as a passphrase. Descriptions, dumps and crash reports of any type that contains it show
/// `***`.
package struct Secret: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible,
  CustomDebugStringConvertible, CustomReflectable
{
  /// The text itself.
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
