import PushCore

/// One request in flight and its answer so far. Streams are reused, so their buffers keep their memory.
struct HTTP2ClientStream {
  /// The result that is reported for the ticket.
  enum Outcome {
    case response
    case notProcessed
    case lost(HTTP2ErrorCode)
  }

  enum State {
    /// Not in use. → submitting
    case free
    /// Being submitted: changes now are the submit's result, not an event. → pending, refused, free
    case submitting
    /// It ended while it was being submitted. → free
    case refused
    /// Its request was submitted. → answered, finished
    case pending
    /// The response is complete and unreported; nghttp2 still has the stream. → reported, finished
    case answered
    /// Reported, and its answer was read; nghttp2 still has the stream. → free
    case reported
    /// nghttp2 closed the stream; the outcome is unreported. → free
    case finished(Outcome)
  }

  /// A response header's index among those whose values are kept; nil: it is not kept.
  static func keptPlace(of name: HTTP2HeaderName) -> Int? {
    switch name {
    case .apnsID: 0
    case .apnsUniqueID: 1
    case .apnsRequestID: 2
    case .apnsChannelID: 3
    case .contentType: 4
    case .retryAfter: 5
    case .date: 6
    case .method, .scheme, .authority, .path, .status, .authorization, .contentLength, .userAgent, .apnsTopic,
      .apnsPushType, .apnsPriority, .apnsExpiration, .apnsCollapseID:
      nil
    }
  }

  var ticket = Ticket(index: 0, generation: 0)
  /// 0 until nghttp2 accepted the request.
  var streamID: Int32 = 0
  /// The next one in the list of free streams.
  var next: Int32 = -1
  var state = State.free
  var status: UInt16 = 0
  /// The headers of the final response were received; later ones are trailers.
  var hasFinalHeaders = false
  var isBodyCut = false
  /// 1xx responses before the final one.
  var informationalCount: UInt8 = 0
  /// The offset of its HEADERS in all bytes sent.
  var headersOffset: UInt64 = 0

  /// To be sent: the part of `body` from `bodyOffset` to `bodyEnd`.
  var body: [UInt8] = []
  var bodyOffset = 0
  var bodyEnd = 0

  /// Values of kept headers, then the response's body.
  var received: [UInt8] = []
  /// Where the body begins in `received`.
  var responseBodyStart = 0
  var keptValues = InlineArray<7, ByteRange>(repeating: .empty)

  /// No answer yet, and not known to be lost.
  var isPending: Bool {
    if case .pending = state { return true }
    return false
  }

  /// nghttp2 has the stream, or is creating it.
  var isOpen: Bool {
    switch state {
    case .submitting, .pending, .answered, .reported: true
    case .free, .refused, .finished: false
    }
  }

  mutating func begin(ticket: Ticket, body: [UInt8], range: Range<Int>, headersOffset: UInt64) {
    self.ticket = ticket
    streamID = 0
    self.body = body
    bodyOffset = range.lowerBound
    bodyEnd = range.upperBound
    self.headersOffset = headersOffset
    state = .submitting
    isBodyCut = false
    informationalCount = 0
    forgetResponse()
  }

  mutating func forgetResponse() {
    status = 0
    hasFinalHeaders = false
    received.removeAll(keepingCapacity: true)
    responseBodyStart = 0
    keptValues = InlineArray(repeating: .empty)
  }

  /// Releases the request's body.
  mutating func releaseBody() {
    body = []
    bodyOffset = bodyEnd
  }

  mutating func keep(_ name: HTTP2HeaderName, _ value: UnsafeBufferPointer<UInt8>) {
    guard let place = HTTP2ClientStream.keptPlace(of: name), keptValues[place].isEmpty else { return }
    keptValues[place] = ByteRange(start: received.count, count: value.count)
    unsafe received.append(contentsOf: value)
    responseBodyStart = received.count
  }

  mutating func appendBody(_ chunk: UnsafeBufferPointer<UInt8>, limit: Int) {
    let room = limit - (received.count - responseBodyStart)
    if chunk.count > room { isBodyCut = true }
    if room > 0 { unsafe received.append(contentsOf: chunk.prefix(room)) }
  }
}
