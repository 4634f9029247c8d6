/// A producer's name for a channel, such as `match-4711`. Unique in one app and environment.
package struct ChannelName: Hashable, Sendable, CustomStringConvertible {
  package let text: String

  /// Bytes of a name.
  package static let bytesMaximum = 128
  /// The rule for names, for messages.
  package static let rule = "must be 1 to \(bytesMaximum) bytes of UTF-8 without control characters"

  /// nil if the text breaks `rule`.
  package init?(_ text: String) {
    // Tabs separate the fields of an entry in Redis, and control characters spoil logs and tables.
    guard NameText.fault(text, bytesMaximum: ChannelName.bytesMaximum) == nil else { return nil }
    self.text = text
  }

  /// The name for a channel that a request creates without a name. It contains the request's id, so repeated deliveries give one channel.
  package init?(ofRequest id: String) {
    self.init("request:" + id)
  }

  /// The name for the channel that an activity's updates come on.
  package init(ofActivity id: ActivityID) {
    if let name = ChannelName("activity:" + id.text) {
      self = name
      return
    }
    // Too long.
    text = "activity:" + Hex.text(ActivityJobs.word(of: id.text.utf8.span), count: 16)
  }

  /// An activity may have its channel. Or a producer chose such a name.
  package var isOfActivity: Bool { text.utf8.starts(with: "activity:".utf8) }

  package var description: String { text }

  /// By bytes.
  package static func == (left: ChannelName, right: ChannelName) -> Bool { left.text.hasBytes(of: right.text) }

  package func hash(into hasher: inout Hasher) { hasher.combine(ByteText(text)) }
}
