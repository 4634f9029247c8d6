/// What a producer calls a channel: its own word for an event, `match-4711`. One app and environment has each name once.
package struct ChannelName: Hashable, Sendable, CustomStringConvertible {
  package let text: String

  /// Bytes of a name.
  package static let bytesMaximum = 128
  /// What a name must be, for people.
  package static let rule = "must be 1 to \(bytesMaximum) bytes of UTF-8 without control characters"

  /// nil: `rule` is not kept.
  package init?(_ text: String) {
    guard !text.isEmpty, text.utf8.count <= ChannelName.bytesMaximum else { return nil }
    // Tabs part the fields of an entry in Redis, and a control character in a log or a table helps nobody.
    for byte in text.utf8 where byte < 0x20 || byte == 0x7F { return nil }
    self.text = text
  }

  /// The name of a channel that a request asked for without naming it: the request's id makes it one channel, however
  /// often the request is delivered.
  package init?(ofRequest id: String) {
    self.init("request:" + id)
  }

  package var description: String { text }
}
