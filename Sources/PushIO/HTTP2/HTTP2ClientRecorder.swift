import CNGHTTP2
import PushCore

/// What nghttp2's callbacks record for a client session: its streams and unreported events.
///
/// Its address is stable as long as its session lives, because C uses the address.
@safe
struct HTTP2ClientRecorder: ~Copyable {
  /// Maximum of informational responses to one request; more reset its stream.
  private static let informationalMaximum: UInt8 = 16
  /// Maximum length of a kept header's value, bytes; a longer one is not kept.
  private static let keptValueMaximum = 256
  /// GOAWAY's debug data is truncated to this many bytes.
  private static let reasonMaximum = 1024
  private static let finishedAtFirst = 8
  /// Initial room for streams.
  private static let roomAtFirst = 2

  /// The streams: room for a few, doubled up to `capacity`, so that a quiet connection uses little.
  private var streams: UnsafeMutablePointer<HTTP2ClientStream>
  private var room: Int
  private let capacity: Int
  private let responseBodyLimit: Int
  private var initializedCount = 0
  private var firstFree: Int32 = -1
  /// Streams that are neither free nor waiting to be reported.
  private(set) var usedCount = 0
  /// Streams as the protocol counts them: from HEADERS to closed.
  private(set) var openCount = 0

  /// Streams whose outcome is unreported, oldest first.
  private var finished: RingBuffer<Int32>
  /// Streams that were answered before their request was completely sent: the rest is not needed.
  var unwantedRequests: [Int32] = []

  /// The stream whose headers are being read; −1: none, or trailers.
  private var headersOf: Int32 = -1
  /// The last stream looked up, and its place.
  private var cachedStreamID: Int32 = 0
  private var cachedIndex: Int32 = -1

  /// The stream whose HEADERS were written last.
  var sentHeadersStreamID: Int32 = 0

  /// The newest SETTINGS of the server; 1 before the first.
  var peerMaximumStreams: UInt32 = 1
  var hasSettings = false
  var settingsUnreported = false

  var goAwayReceived = false
  var goAwayUnreported = false
  var goAwayLastStreamID: Int32 = 0
  var goAwayCode = HTTP2ErrorCode.noError
  var goAwayReason: [UInt8] = []

  var pingsAcknowledged = 0
  /// The error that we sent to the server in a GOAWAY.
  var violation: (code: HTTP2ErrorCode, detail: String)?
  /// Why the last received frame was refused, for a violation's detail.
  private var invalidFrameError: Int32 = 0
  /// A response's `date` was kept.
  private var hasDate = false

  init(capacity: Int, responseBodyLimit: Int) {
    room = min(HTTP2ClientRecorder.roomAtFirst, capacity)
    unsafe streams = .allocate(capacity: room)
    self.capacity = capacity
    self.responseBodyLimit = responseBodyLimit
    finished = RingBuffer(growingFrom: HTTP2ClientRecorder.finishedAtFirst)
  }

  deinit {
    unsafe streams.deinitialize(count: initializedCount)
    unsafe streams.deallocate()
  }

  // MARK: - Streams

  var freeCount: Int { capacity - usedCount }

  subscript(_ index: Int32) -> HTTP2ClientStream {
    @inline(__always)
    unsafeAddress {
      unsafe UnsafePointer(streams + Int(index))
    }
    @inline(__always)
    unsafeMutableAddress {
      unsafe streams + Int(index)
    }
  }

  mutating func take() -> Int32? {
    if firstFree >= 0 {
      let index = firstFree
      firstFree = self[index].next
      usedCount += 1
      return index
    }
    guard initializedCount < capacity else { return nil }
    if initializedCount == room { grow() }
    let index = initializedCount
    unsafe (streams + index).initialize(to: HTTP2ClientStream())
    initializedCount += 1
    usedCount += 1
    return Int32(truncatingIfNeeded: index)
  }

  private mutating func grow() {
    let larger = min(room * 2, capacity)
    let moved = UnsafeMutablePointer<HTTP2ClientStream>.allocate(capacity: larger)
    unsafe moved.moveInitialize(from: streams, count: initializedCount)
    unsafe streams.deallocate()
    unsafe streams = unsafe moved
    room = larger
  }

  /// Frees the streams' memory, if none is used.
  mutating func releaseMemory() {
    guard usedCount == 0, finished.isEmpty, initializedCount > 0 else { return }
    unsafe streams.deinitialize(count: initializedCount)
    unsafe streams.deallocate()
    room = min(HTTP2ClientRecorder.roomAtFirst, capacity)
    unsafe streams = .allocate(capacity: room)
    initializedCount = 0
    firstFree = -1
    cachedStreamID = 0
    headersOf = -1
    finished = RingBuffer(growingFrom: HTTP2ClientRecorder.finishedAtFirst)
    unwantedRequests = []
  }

  private mutating func release(_ index: Int32) {
    self[index].state = .free
    self[index].releaseBody()
    self[index].next = firstFree
    firstFree = index
    usedCount -= 1
  }

  mutating func opened(_ index: Int32, streamID: Int32) {
    self[index].streamID = streamID
    cachedStreamID = streamID
    cachedIndex = index
    openCount += 1
  }

  /// The submit is complete: later changes of the stream are reported. false: it was refused meanwhile.
  mutating func accept(_ index: Int32) -> Bool {
    guard case .submitting = self[index].state else { return false }
    self[index].state = .pending
    return true
  }

  /// Drops a stream that was not created.
  mutating func discard(_ index: Int32) {
    if self[index].streamID > 0, self[index].isOpen { openCount -= 1 }
    cachedStreamID = 0
    release(index)
  }

  /// A stream's outcome was reported and its answer read.
  mutating func reported(_ index: Int32) {
    switch self[index].state {
    case .answered: self[index].state = .reported
    case .finished: release(index)
    case .free, .submitting, .refused, .pending, .reported: preconditionFailure("only a finished stream is reported")
    }
  }

  mutating func popFinished() -> Int32? {
    finished.popFirst()
  }

  /// The stream of an unanswered request. A linear search: it is only used for late requests.
  func pendingIndex(of ticket: Ticket) -> Int32? {
    for index in 0..<Int32(truncatingIfNeeded: initializedCount)
    where self[index].isPending && self[index].ticket == ticket {
      return index
    }
    return nil
  }

  /// The offset in all bytes sent of the first waiting request at or after `offset`; nil: there is none.
  func firstRequest(from offset: UInt64) -> UInt64? {
    var first: UInt64?
    for index in 0..<Int32(truncatingIfNeeded: initializedCount)
    where self[index].isOpen && self[index].headersOffset >= offset {
      first = min(first ?? .max, self[index].headersOffset)
    }
    return first
  }

  /// The connection ended: reports every waiting request. Those that begin at or after `writtenBytes` were never sent.
  mutating func finishAll(code: HTTP2ErrorCode, writtenBytes: UInt64) {
    for index in 0..<Int32(truncatingIfNeeded: initializedCount) where self[index].isOpen {
      closed(index, unanswered: self[index].headersOffset >= writtenBytes ? .notProcessed : .lost(code))
    }
    cachedStreamID = 0
  }

  /// nghttp2 closed an open stream. `unanswered`: the outcome if no response came.
  private mutating func closed(_ index: Int32, unanswered: HTTP2ClientStream.Outcome) {
    openCount -= 1
    switch self[index].state {
    case .submitting:
      self[index].state = .refused
    case .pending:
      self[index].state = .finished(unanswered)
      finished.append(index)
    case .answered:
      self[index].state = .finished(.response)
    case .reported:
      release(index)
      return
    case .free, .refused, .finished:
      preconditionFailure("a stream is closed once")
    }
    self[index].releaseBody()
  }

  @inline(__always)
  private mutating func index(of streamID: Int32, in session: OpaquePointer?) -> Int32 {
    if streamID == cachedStreamID { return cachedIndex }
    guard let data = unsafe nghttp2_session_get_stream_user_data(session, streamID) else { return -1 }
    cachedStreamID = streamID
    cachedIndex = Int32(truncatingIfNeeded: Int(bitPattern: data)) - 1
    return cachedIndex
  }

  // MARK: - From the callbacks

  /// Zero, or an error that resets the stream.
  mutating func beginHeaders(of streamID: Int32, in session: OpaquePointer?) -> Int32 {
    headersOf = -1
    let index = unsafe index(of: streamID, in: session)
    if index < 0 || self[index].hasFinalHeaders || !self[index].isPending { return 0 }
    if self[index].status != 0 {
      // An informational response came before this one.
      if self[index].informationalCount >= HTTP2ClientRecorder.informationalMaximum {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
      }
      self[index].informationalCount += 1
      self[index].forgetResponse()
    }
    headersOf = index
    return 0
  }

  mutating func header(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    let index = headersOf
    if index < 0 { return }
    guard let known = unsafe HTTP2HeaderName.matching(name) else { return }
    if known == .status {
      // nghttp2 only passes three digits.
      var status: UInt16 = 0
      for index in 0..<min(3, value.count) { status = unsafe status &* 10 &+ UInt16(value[index] &- 48) }
      self[index].status = status
    } else if known == .date {
      // Keep one date per connection, to compare clocks, and all dates of refusals, because the time may be the reason.
      if hasDate, self[index].status == 200 || value.count > HTTP2ClientRecorder.keptValueMaximum { return }
      hasDate = true
      unsafe self[index].keep(known, value)
    } else if value.count <= HTTP2ClientRecorder.keptValueMaximum {
      unsafe self[index].keep(known, value)
    }
  }

  mutating func headersReceived(of streamID: Int32, endsStream: Bool, in session: OpaquePointer?) {
    let index = headersOf
    headersOf = -1
    if index >= 0, self[index].status >= 200 || self[index].status < 100 { self[index].hasFinalHeaders = true }
    if endsStream { unsafe responseEnded(streamID, in: session) }
  }

  mutating func dataChunk(_ chunk: UnsafeBufferPointer<UInt8>, of streamID: Int32, in session: OpaquePointer?) {
    let index = unsafe index(of: streamID, in: session)
    if index < 0 || !self[index].isPending { return }
    unsafe self[index].appendBody(chunk, limit: responseBodyLimit)
  }

  mutating func responseEnded(_ streamID: Int32, in session: OpaquePointer?) {
    let index = unsafe index(of: streamID, in: session)
    if index < 0 || !self[index].isPending { return }
    if self[index].bodyOffset < self[index].bodyEnd {
      unwantedRequests.append(streamID)
    }
    self[index].state = .answered
    finished.append(index)
  }

  mutating func streamClosed(_ streamID: Int32, _ code: UInt32, in session: OpaquePointer?) {
    let index = unsafe index(of: streamID, in: session)
    cachedStreamID = 0
    if index < 0 || !self[index].isOpen { return }
    // A stream that was being answered was processed, whatever its error code.
    let code = HTTP2ErrorCode(rawValue: code)
    let isRefused = code == .refusedStream && self[index].status == 0
    closed(index, unanswered: isRefused ? .notProcessed : .lost(code))
  }

  mutating func settingsReceived(in session: OpaquePointer?) {
    let limit = unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
    if !hasSettings || limit != peerMaximumStreams { settingsUnreported = true }
    hasSettings = true
    peerMaximumStreams = limit
  }

  mutating func goAway(lastStreamID: Int32, code: UInt32, debug: UnsafeBufferPointer<UInt8>) {
    goAwayReceived = true
    goAwayUnreported = true
    goAwayLastStreamID = lastStreamID
    goAwayCode = HTTP2ErrorCode(rawValue: code)
    goAwayReason.removeAll(keepingCapacity: true)
    unsafe goAwayReason.append(contentsOf: debug.prefix(HTTP2ClientRecorder.reasonMaximum))
  }

  mutating func frameInvalid(_ error: Int32) {
    invalidFrameError = error
  }

  mutating func goAwaySent(code: UInt32, debug: UnsafeBufferPointer<UInt8>) {
    if code == HTTP2ErrorCode.noError.rawValue || violation != nil { return }
    var detail = unsafe String(decoding: debug, as: UTF8.self)
    if detail.isEmpty, invalidFrameError != 0 { detail = HTTP2SessionHandle.describe(invalidFrameError) }
    violation = (HTTP2ErrorCode(rawValue: code), detail)
  }

  /// Writes the next part of a request's body: at most the requested size, less at the window's end.
  mutating func readBody(
    of index: Int32, into buffer: UnsafeMutablePointer<UInt8>?, capacity: Int, isLast: inout Bool
  ) -> Int {
    let offset = self[index].bodyOffset
    let count = min(capacity, self[index].bodyEnd - offset)
    if count > 0, let buffer = unsafe buffer {
      unsafe self[index].body.withUnsafeBufferPointer { body in
        if let start = body.baseAddress { unsafe buffer.update(from: start + offset, count: count) }
      }
      self[index].bodyOffset = offset + count
    }
    isLast = self[index].bodyOffset >= self[index].bodyEnd
    if isLast { self[index].releaseBody() }
    return count
  }
}
