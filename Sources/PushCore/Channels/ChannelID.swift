/// A broadcast channel's id as APNs gave it: base64, 1 to 128 bytes. APNs draws it; nobody can ask for one.
package struct ChannelID: Hashable, Sendable, CustomStringConvertible {
  package let text: String

  /// nil: the text is no base64, or too long.
  package init?(text: String) {
    guard ChannelID.isRight(text.utf8.span) else { return nil }
    self.text = text
  }

  /// nil: the bytes are no base64, or too many.
  package init?(bytes: Span<UInt8>) {
    guard ChannelID.isRight(bytes) else { return nil }
    var copy: [UInt8] = []
    copy.reserveCapacity(bytes.count)
    for index in bytes.indices { copy.append(bytes[index]) }
    text = String(decoding: copy, as: UTF8.self)
  }

  package var description: String { text }

  private static func isRight(_ bytes: Span<UInt8>) -> Bool {
    bytes.count <= Limits.channelBytesMaximum && HeaderText.isBase64(bytes)
  }
}
