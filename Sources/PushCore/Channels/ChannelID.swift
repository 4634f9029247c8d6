/// A broadcast channel's id as APNs gave it: base64, 1 to 128 bytes. APNs chooses it; a request cannot.
package struct ChannelID: Hashable, Sendable, CustomStringConvertible {
  package let text: String

  /// nil if the text is not base64, or is too long.
  package init?(text: String) {
    guard ChannelID.isRight(text.utf8.span) else { return nil }
    self.text = text
  }

  /// nil if the bytes are not base64, or are too many.
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
