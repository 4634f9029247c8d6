/// The answer to a request with an idempotency key, as it is kept: lines of the request's fingerprint, the status, the content type and
/// the place, then the body.
package struct IdempotentAnswer: Hashable, Sendable {
  /// What a later request with the key gets.
  package enum Finding: Hashable, Sendable {
    /// Nobody used it: the request goes on.
    case new
    /// The first request is not answered yet.
    case inFlight
    /// The first request was another one.
    case other
    case answered(IdempotentAnswer)
  }

  package let fingerprint: String
  package let status: Int
  package let contentType: String
  /// Empty: none.
  package let location: String
  package let body: [UInt8]

  package init(fingerprint: String, status: Int, contentType: String, location: String, body: [UInt8]) {
    self.fingerprint = fingerprint
    self.status = status
    self.contentType = contentType
    self.location = location
    self.body = body
  }

  /// While the request is in flight.
  package static func pending(_ fingerprint: String) -> [UInt8] { Array("\(fingerprint)\n".utf8) }

  package var encoded: [UInt8] { Array("\(fingerprint)\n\(status)\n\(contentType)\n\(location)\n".utf8) + body }

  /// What is kept of a key, for a request with this fingerprint.
  package static func find(_ kept: [UInt8]?, fingerprint: String) -> Finding {
    guard let kept else { return .new }
    let lines = kept.split(separator: UInt8(ascii: "\n"), maxSplits: 4, omittingEmptySubsequences: false)
    let words = lines.prefix(4).map { String(decoding: $0, as: UTF8.self) }
    guard words.first == fingerprint else { return .other }
    guard lines.count == 5, let status = Int(words[1]) else { return .inFlight }
    return .answered(
      IdempotentAnswer(
        fingerprint: fingerprint, status: status, contentType: words[2], location: words[3], body: Array(lines[4])))
  }
}
