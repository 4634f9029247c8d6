/// The stored answer to a request with an idempotency key. It is encoded as four lines (the request's fingerprint, status, content type,
/// location), then the body.
package struct IdempotentAnswer: Hashable, Sendable {
  /// What a request with the key finds.
  package enum Finding: Hashable, Sendable {
    /// The key is new: carry out the request.
    case new
    /// The first request with the key is not answered yet.
    case inFlight
    /// The key was used for a different request.
    case mismatch
    /// The same request was answered before.
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

  /// The stored value while the request is in progress.
  package static func pending(_ fingerprint: String) -> [UInt8] { Array("\(fingerprint)\n".utf8) }

  package var encoded: [UInt8] { Array("\(fingerprint)\n\(status)\n\(contentType)\n\(location)\n".utf8) + body }

  /// Decodes the value that is stored for a key.
  /// - Parameters:
  ///   - kept: the stored value; nil: none.
  ///   - fingerprint: that of the new request.
  package static func find(_ kept: [UInt8]?, fingerprint: String) -> Finding {
    guard let kept else { return .new }
    let lines = kept.split(separator: UInt8(ascii: "\n"), maxSplits: 4, omittingEmptySubsequences: false)
    let words = lines.prefix(4).map { String(decoding: $0, as: UTF8.self) }
    guard words.first == fingerprint else { return .mismatch }
    guard lines.count == 5, let status = Int(words[1]), 200...599 ~= status else {
      return .inFlight
    }
    return .answered(
      IdempotentAnswer(
        fingerprint: fingerprint, status: status, contentType: words[2], location: words[3], body: Array(lines[4])))
  }
}
