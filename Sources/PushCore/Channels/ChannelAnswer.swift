/// What APNs answered to a channel request that it carried out.
package struct ChannelAnswer: Hashable, Sendable {
  package enum Content: Hashable, Sendable {
    case created(ChannelID)
    case read(StoragePolicy)
    /// The channel is gone. Messages that it stored may still be delivered.
    case deleted
    /// Every channel of the scope, in APNs' order.
    case listed([ChannelID])
  }

  package let content: Content
  /// `apns-request-id` from the answer; if the answer has none, the one that was sent.
  package let requestID: UUIDValue

  package init(_ content: Content, requestID: UUIDValue) {
    self.content = content
    self.requestID = requestID
  }

  /// The longest body of a list: 10,000 ids of 128 bytes with quotes and commas, doubled.
  package static let bodyBytesMaximum = 4 * 1024 * 1024

  /// Why a successful answer cannot be used.
  package struct Fault: Error, Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
      self.text = text
    }
  }

  /// Reads the answer to an operation that APNs says succeeded.
  /// - Parameters:
  ///   - channelID: the value of `apns-channel-id`; empty if there is none.
  ///   - requestID: the value for `ChannelAnswer.requestID`.
  package init(
    to operation: ChannelRequest.Operation, channelID: Span<UInt8>, body: Span<UInt8>, requestID: UUIDValue
  ) throws(Fault) {
    switch operation {
    case .create:
      guard let id = ChannelID(bytes: channelID) else {
        throw Fault(channelID.isEmpty ? "it has no apns-channel-id" : "its apns-channel-id is no base64")
      }
      content = .created(id)
    case .read:
      content = .read(try ChannelAnswer.storage(body))
    case .delete:
      content = .deleted
    case .list:
      content = .listed(try ChannelAnswer.channels(body))
    }
    self.requestID = requestID
  }

  /// Parses an `apns-request-id` in upper or lower case; nil if it is not a UUID.
  package static func requestID(_ text: Span<UInt8>) -> UUIDValue? {
    guard text.count == UUIDValue.textCount else { return nil }
    var lower: [UInt8] = []
    for index in text.indices {
      let byte = text[index]
      lower.append(byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "F") ? byte | 0x20 : byte)
    }
    return UUIDValue(lower.span)
  }

  // MARK: - Bodies

  private static func storage(_ body: Span<UInt8>) throws(Fault) -> StoragePolicy {
    var number: Int64?
    try read(body, member: "message-storage-policy") { (scanner, body) throws(JSONError) in
      number = try scanner.number(body).integer
    }
    guard let number else { throw Fault("its body has no message-storage-policy") }
    guard let policy = UInt8(exactly: number).flatMap(StoragePolicy.init(rawValue:)) else {
      throw Fault("its message-storage-policy is \(number), and only 0 and 1 are known")
    }
    return policy
  }

  private static func channels(_ body: Span<UInt8>) throws(Fault) -> [ChannelID] {
    var ids: [ChannelID]?
    try read(body, member: "channels") { (scanner, body) throws(JSONError) in
      guard scanner.peek(body) == ASCII.openBracket else { throw JSONError(.expectedValue, at: scanner.position) }
      var found: [ChannelID] = []
      var hasElement = scanner.beginArray(body)
      while hasElement {
        let start = scanner.position
        guard scanner.peek(body) == ASCII.quote else { throw JSONError(.expectedValue, at: start) }
        let text = try scanner.string(body)
        // Base64 may contain a slash, which many encoders escape with a backslash.
        let bytes = text.hasEscapes ? JSONEscape.unescaped(text.range, of: body) : []
        guard let id = ChannelID(bytes: text.hasEscapes ? bytes.span : body.extracting(text.range.range)) else {
          throw JSONError(.expectedValue, at: start)
        }
        found.append(id)
        hasElement = try scanner.nextElement(body)
      }
      ids = found
    }
    guard let ids else { throw Fault("its body has no list of channels") }
    return ids
  }

  /// Walks an object and passes on where the value of each member begins.
  private static func read(
    _ body: Span<UInt8>, member: String,
    _ take: (inout JSONScanner, Span<UInt8>) throws(JSONError) -> Void
  ) throws(Fault) {
    do throws(JSONError) {
      var scanner = JSONScanner()
      var hasMember = try scanner.beginObject(body)
      while hasMember {
        let key = try scanner.key(body)
        if !key.hasEscapes, body.extracting(key.range.range).equals(member) {
          _ = scanner.peek(body)
          try take(&scanner, body)
        } else {
          try scanner.skipValue(body)
        }
        hasMember = try scanner.nextMember(body)
      }
    } catch {
      throw Fault("its body cannot be read at byte \(error.offset): \(error.text)")
    }
  }
}
