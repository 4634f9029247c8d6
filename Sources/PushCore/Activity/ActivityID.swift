/// The producer's name for a Live Activity. It identifies one activity in an app and environment.
package struct ActivityID: Hashable, Sendable, CustomStringConvertible {
  package let text: String

  /// nil: the text breaks the rule of `NameText`.
  package init?(_ text: String) {
    guard NameText.fault(text) == nil else { return nil }
    self.text = text
  }

  package var description: String { text }

  /// By bytes.
  package static func == (left: ActivityID, right: ActivityID) -> Bool { left.text.hasBytes(of: right.text) }

  package func hash(into hasher: inout Hasher) { hasher.combine(ByteText(text)) }
}
