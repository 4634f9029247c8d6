/// An answer of the Live Activities API: always JSON, `{"status_code": …, "status_message": …, "response": …}`.
///
/// Its clients expect HTTP 200 and `status_code` 200 for success. They do not retry a mistake of the sender: HTTP 200 with another
/// `status_code`. They retry HTTP 429 and 5xx.
package struct LiveActivitiesAnswer: Hashable, Sendable {
  /// The HTTP status.
  package let status: Int
  /// The header `Retry-After`, seconds.
  package let retryAfter: Int?
  package let body: [UInt8]

  /// - Parameter response: JSON.
  private init(status: Int, code: Int, _ message: String, response: [UInt8]? = nil, retryAfter: Int? = nil) {
    self.status = status
    self.retryAfter = retryAfter
    var body: [UInt8] = []
    body.append(text: "{\"status_code\":")
    body.append(decimal: Int64(code))
    body.append(text: ",\"status_message\":")
    body.append(jsonString: message)
    body.append(text: ",\"response\":")
    if let response { body.append(contentsOf: response) } else { body.append(text: "null") }
    body.append(ASCII.closeBrace)
    self.body = body
  }

  // MARK: - Done

  /// A device's call succeeded.
  package static let done = LiveActivitiesAnswer(status: 200, code: 200, "OK")

  /// RabbitMQ confirmed the notifications.
  /// - Parameters:
  ///   - codes: the `MessageCode` of each notification, in order.
  ///   - unknown: devices or users that the registry does not know.
  static func sent(codes: [String], unknown: [String]) -> LiveActivitiesAnswer {
    var response: [UInt8] = []
    response.append(text: "{\"Messages\":")
    response.append(jsonStrings: codes)
    if !unknown.isEmpty {
      response.append(text: ",\"UnknownDevices\":{\"\":")
      response.append(jsonStrings: unknown)
      response.append(ASCII.closeBrace)
    }
    response.append(ASCII.closeBrace)
    return LiveActivitiesAnswer(status: 200, code: 200, "OK", response: response)
  }

  // MARK: - The sender's mistakes

  /// The arguments are wrong.
  static func refused(_ fault: LiveActivitiesFault) -> LiveActivitiesAnswer {
    LiveActivitiesAnswer(status: 200, code: 210, fault.message)
  }

  /// The key does not exist.
  package static let unknownAccount = refused(.account)

  /// The key is not for this app, or does not allow the call.
  package static let forbidden = LiveActivitiesAnswer(
    status: 200, code: 403, "Token restrictions forbid this operation")

  /// The app has no such segment in its environment.
  package static func unknownSegment(_ code: SegmentCode) -> LiveActivitiesAnswer {
    refused(LiveActivitiesFault("Filter not found: \(code)"))
  }

  /// A filter of the request cannot be evaluated; `rule` says why.
  package static func unusableFilter(_ rule: String) -> LiveActivitiesAnswer {
    refused(LiveActivitiesFault("Filter not usable: \(rule)"))
  }

  /// The body is not JSON.
  static func unparsable(_ error: JSONError, in bytes: Span<UInt8>) -> LiveActivitiesAnswer {
    let offset = error.offset
    let isSlash = offset + 1 < bytes.count && bytes[offset] == UInt8(ascii: "/")
    if isSlash, bytes[offset + 1] == UInt8(ascii: "/") || bytes[offset + 1] == UInt8(ascii: "*") {
      return LiveActivitiesAnswer(
        status: 400, code: 400,
        "The request is not JSON: a comment begins at byte \(offset), and comments are not JSON; take them out")
    }
    let text = error.kind == .trailingBytes ? "nothing may follow the request's object" : error.text
    return LiveActivitiesAnswer(status: 400, code: 400, "The request is not JSON: \(text), at byte \(offset)")
  }

  /// The call does not exist.
  package static func unsupported(_ method: String) -> LiveActivitiesAnswer {
    refused(LiveActivitiesFault(LiveActivitiesMethod.refusal(of: method)))
  }

  /// So much of the body came without a key.
  package static func keyTooLate(maximum: Int) -> LiveActivitiesAnswer {
    LiveActivitiesAnswer(
      status: 413, code: 413,
      "The key must be in the header Authorization, or auth within the first \(maximum) bytes of a larger request")
  }

  /// The body exceeds the server's maximum.
  package static func tooLarge(maximum: Int) -> LiveActivitiesAnswer {
    LiveActivitiesAnswer(status: 413, code: 413, "The request is too large: at most \(maximum) bytes are taken")
  }

  package static let compressed = LiveActivitiesAnswer(
    status: 415, code: 415, "The body is compressed; send it as it is")

  /// Another HTTP method than POST.
  package static let notPOST = LiveActivitiesAnswer(status: 405, code: 405, "Send a POST with a JSON body")

  // MARK: - Temporary failures

  /// The key exceeded its rate.
  package static func tooMany(retryAfter seconds: Int) -> LiveActivitiesAnswer {
    LiveActivitiesAnswer(
      status: 429, code: 429, "Too many requests; send this one again in \(seconds) s", retryAfter: seconds)
  }

  /// RabbitMQ did not confirm, or Redis did not store a filter. The request may still have had an effect.
  package static let unconfirmed = LiveActivitiesAnswer(
    status: 503, code: 503, "The request could not be stored; send it again", retryAfter: 5)

  package static let failed = LiveActivitiesAnswer(status: 500, code: 500, "Internal error")
}
