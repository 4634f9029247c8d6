/// A message's properties, decoded: those that the server or an auditor reads.
package struct RabbitProperties: Equatable, Sendable {
  package var contentType: [UInt8]?
  package var contentEncoding: [UInt8]?
  package var headers: RabbitTable?
  package var deliveryMode: UInt8?
  package var priority: UInt8?
  package var correlationID: [UInt8]?
  package var replyTo: [UInt8]?
  /// Milliseconds, in decimal digits.
  package var expiration: [UInt8]?
  package var messageID: [UInt8]?
  /// Unix seconds.
  package var timestamp: UInt64?
  package var type: [UInt8]?
  package var userID: [UInt8]?
  package var appID: [UInt8]?
  package var clusterID: [UInt8]?

  package init() {}

  /// Decodes the flags and their properties; nil: malformed.
  package init?(_ bytes: [UInt8]) {
    var reader = RabbitReader(bytes)
    let flags = reader.short()
    // No property of this class uses a second word of flags.
    guard flags & 1 == 0 else { return nil }
    func has(_ bit: UInt16) -> Bool { flags >> bit & 1 == 1 }
    if has(15) { contentType = reader.shortText() }
    if has(14) { contentEncoding = reader.shortText() }
    if has(13) { headers = reader.table() }
    if has(12) { deliveryMode = reader.octet() }
    if has(11) { priority = reader.octet() }
    if has(10) { correlationID = reader.shortText() }
    if has(9) { replyTo = reader.shortText() }
    if has(8) { expiration = reader.shortText() }
    if has(7) { messageID = reader.shortText() }
    if has(6) { timestamp = reader.longLong() }
    if has(5) { type = reader.shortText() }
    if has(4) { userID = reader.shortText() }
    if has(3) { appID = reader.shortText() }
    if has(2) { clusterID = reader.shortText() }
    guard !reader.hasFailed, reader.remainingCount == 0 else { return nil }
  }

  /// The encoded flags and properties.
  package var bytes: [UInt8] {
    let texts = [
      (15, contentType), (14, contentEncoding), (10, correlationID), (9, replyTo), (8, expiration), (7, messageID),
      (5, type), (4, userID), (3, appID), (2, clusterID),
    ]
    var flags: UInt16 = 0
    for (bit, text) in texts where text != nil { flags |= 1 << UInt16(bit) }
    if headers != nil { flags |= 1 << 13 }
    if deliveryMode != nil { flags |= 1 << 12 }
    if priority != nil { flags |= 1 << 11 }
    if timestamp != nil { flags |= 1 << 6 }
    var writer = RabbitWriter()
    writer.short(flags)
    for text in [contentType, contentEncoding] { if let text { writer.shortText(text) } }
    if let headers { writer.table(headers) }
    if let deliveryMode { writer.octet(deliveryMode) }
    if let priority { writer.octet(priority) }
    for text in [correlationID, replyTo, expiration, messageID] { if let text { writer.shortText(text) } }
    if let timestamp { writer.longLong(timestamp) }
    for text in [type, userID, appID, clusterID] { if let text { writer.shortText(text) } }
    return writer.take()
  }

  /// Whether these encoded properties have no headers, expiration or user: the three that the server checks in a publish.
  /// Most messages have none, and need no decoding.
  static func isPlain(_ bytes: [UInt8]) -> Bool {
    guard bytes.count >= 2 else { return false }
    let flags = UInt16(bytes[0]) << 8 | UInt16(bytes[1])
    return flags & (1 << 13 | 1 << 8 | 1 << 4 | 1) == 0
  }
}
