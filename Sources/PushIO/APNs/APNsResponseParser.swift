package import PushCore

/// The body of an error answer: `{"reason": "…", "timestamp": …}`; the reason is decoded.
///
/// It is read as far as possible. If there is no body, or it is truncated or not JSON (a proxy's page), it has what was read so far,
/// usually nothing; then the status decides.
package struct APNsResponseBody: Sendable {
  package private(set) var reason: APNsReason?
  /// Unix milliseconds; only on 410.
  package private(set) var timestamp: Int64?

  package init(_ body: Span<UInt8>) {
    guard !body.isEmpty else { return }
    // What was read before the error counts.
    try? read(body)
  }

  private mutating func read(_ body: Span<UInt8>) throws(JSONError) {
    var scanner = JSONScanner()
    var hasMember = try scanner.beginObject(body)
    while hasMember {
      let key = try scanner.key(body)
      let first = scanner.peek(body)
      if first == UInt8(ascii: "\""), APNsResponseBody.withText(key, body, { $0.equals("reason") }) {
        let text = try scanner.string(body)
        reason = APNsResponseBody.withText(text, body) { APNsReason($0) }
      } else if first >= UInt8(ascii: "0"), first <= UInt8(ascii: "9"),
        APNsResponseBody.withText(key, body, { $0.equals("timestamp") })
      {
        timestamp = try scanner.number(body).integer.flatMap { $0 <= Limits.unixMillisecondsMaximum ? $0 : nil }
      } else {
        try scanner.skipValue(body)
      }
      hasMember = try scanner.nextMember(body)
    }
  }
}

extension APNsResponseBody {
  private static func withText<Result>(
    _ string: JSONString, _ body: Span<UInt8>, _ use: (Span<UInt8>) -> Result
  ) -> Result {
    guard string.hasEscapes else { return use(body.extracting(string.range.range)) }
    let text = JSONEscape.unescaped(string.range, of: body)
    return use(text.span)
  }
}

extension PushAnswer {
  /// The answer in the last response of `connection`.
  package init(response ticket: Ticket, status: Int, from connection: HTTP2ClientConnection) {
    self.init(ticket: ticket, kind: .response)
    self.status = UInt16(clamping: status)
    if status != 200 {
      let body = connection.withResponseBody { APNsResponseBody($0) }
      reason = body.reason
      if status == 410 { unregisteredAt = body.timestamp }
    }
    uniqueID = connection.withResponseHeader(.apnsUniqueID) { UUIDValue($0) }
  }
}
