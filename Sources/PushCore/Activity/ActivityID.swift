/// The producer's name for a Live Activity: 1 to 128 bytes. It identifies one activity in an app and environment.
package struct ActivityID: Hashable, Sendable, CustomStringConvertible {
  package let text: String

  /// nil: empty or too long.
  package init?(_ text: String) {
    guard (1...Limits.idBytesMaximum).contains(text.utf8.count) else { return nil }
    self.text = text
  }

  package var description: String { text }
}
