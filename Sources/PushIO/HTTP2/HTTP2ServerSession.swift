import CNGHTTP2
import PushCore

/// The server side of HTTP/2 without a socket, with faults for tests: received bytes and responses in, events and bytes to send out.
@safe
package final class HTTP2ServerSession {
  private let settings: HTTP2ServerSettings
  private let recorder: UnsafeMutablePointer<HTTP2ServerRecorder>
  private let handle: HTTP2SessionHandle
  private var isEndedFlag = false
  private var isStarted = false
  private var openedUnreported = false
  private var closedUnreported = false
  private var isClosing = false
  private var endError: HTTP2Error?

  /// Opens no window while set. Bytes received meanwhile are counted; the windows open when this is unset.
  package var withholdsWindowUpdates = false

  package init(settings: HTTP2ServerSettings = HTTP2ServerSettings()) {
    self.settings = settings
    unsafe recorder = .allocate(capacity: 1)
    unsafe recorder.initialize(to: HTTP2ServerRecorder(settings: settings))
    handle = unsafe HTTP2SessionHandle.server(callbacks: .server, recorder: UnsafeMutableRawPointer(recorder))
    handle.submitSettings([
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: UInt32(settings.maximumStreams)),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: UInt32(settings.streamWindow)),
    ])
    handle.widenConnectionWindow(to: settings.connectionWindow)
  }

  deinit {
    unsafe recorder.deinitialize(count: 1)
    unsafe recorder.deallocate()
  }

  // MARK: - State

  package var isOpen: Bool { isStarted && !isEndedFlag }
  package var isEnded: Bool { isEndedFlag }
  package var streamsInFlight: Int { unsafe recorder.pointee.openCount }
  package var lastStreamID: HTTP2StreamID { unsafe recorder.pointee.lastStreamID }
  package var counters: HTTP2ServerCounters { unsafe recorder.pointee.counters }

  package var acknowledgesPings: Bool {
    get { unsafe recorder.pointee.acknowledgesPings }
    set { unsafe recorder.pointee.acknowledgesPings = newValue }
  }

  // MARK: - Bytes

  /// The transport is open: sends the preface.
  package func open(into queue: inout ByteQueue) {
    if isStarted || isEndedFlag { return }
    isStarted = true
    openedUnreported = true
    drain(into: &queue)
  }

  func receive(_ bytes: UnsafeBufferPointer<UInt8>, into queue: inout ByteQueue) {
    guard isOpen else { return }
    let code = unsafe handle.receive(bytes)
    if code != 0 {
      end(HTTP2SessionHandle.error(code))
      return
    }
    acknowledgePings()
    openWindows()
    drain(into: &queue)
  }

  /// Consumes bytes from the client and answers what needs no decision.
  package func receive(_ bytes: Span<UInt8>, into queue: inout ByteQueue) {
    unsafe bytes.withUnsafeBufferPointer { unsafe receive($0, into: &queue) }
  }

  /// Writes what was held back because too many bytes were unwritten, and opens windows that are no longer withheld.
  package func resume(into queue: inout ByteQueue) {
    guard isOpen else { return }
    openWindows()
    if handle.wantsWrite { drain(into: &queue) }
  }

  private func acknowledgePings() {
    if unsafe recorder.pointee.pings.isEmpty { return }
    for ping in unsafe recorder.pointee.pings {
      var data = ping
      unsafe withUnsafeBytes(of: &data) { bytes in
        _ = unsafe nghttp2_submit_ping(
          handle.pointer, UInt8(NGHTTP2_FLAG_ACK.rawValue), bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
      }
    }
    unsafe recorder.pointee.pings.removeAll(keepingCapacity: true)
  }

  private func openWindows() {
    if withholdsWindowUpdates { return }
    if unsafe recorder.pointee.unconsumed > 0 {
      _ = unsafe nghttp2_session_consume_connection(handle.pointer, recorder.pointee.unconsumed)
      unsafe recorder.pointee.unconsumed = 0
    }
    while let streamID = unsafe recorder.pointee.hungryStreams.popLast() {
      let index = unsafe recorder.pointee.index(of: streamID, in: handle.pointer)
      if index < 0 { continue }
      _ = unsafe nghttp2_session_consume_stream(handle.pointer, streamID, recorder.pointee[index].unconsumed)
      unsafe recorder.pointee[index].unconsumed = 0
    }
  }

  private func drain(into queue: inout ByteQueue) {
    let code = handle.drain(into: &queue, limit: settings.outboundLimit)
    if code != 0 {
      end(HTTP2SessionHandle.error(code))
    } else if let violation = unsafe recorder.pointee.violation {
      end(.protocolViolation(code: violation.code, detail: violation.detail))
    } else if unsafe isClosing || recorder.pointee.goAwayReceived, handle.isOver {
      end(nil)
    }
  }

  /// The connection ended.
  package func end(_ error: HTTP2Error?) {
    if isEndedFlag { return }
    isEndedFlag = true
    endError = error
    closedUnreported = true
    unsafe recorder.pointee.closeAll()
  }

  // MARK: - Events

  package func nextEvent() -> HTTP2ServerEvent? {
    if openedUnreported {
      openedUnreported = false
      return .opened
    }
    if let event = unsafe recorder.pointee.nextEvent() { return event }
    if closedUnreported {
      closedUnreported = false
      return .closed(endError)
    }
    return nil
  }

  private func index(of stream: HTTP2StreamID) -> Int32? {
    if isEndedFlag { return nil }
    let index = unsafe recorder.pointee.index(of: stream, in: handle.pointer)
    return index < 0 ? nil : index
  }

  /// The value of a known header (its first occurrence), without a copy; empty if it is absent or the stream is gone.
  package func withHeader<Result>(
    _ name: HTTP2HeaderName, of stream: HTTP2StreamID, _ body: (Span<UInt8>) -> Result
  ) -> Result {
    guard let index = index(of: stream) else { return body(Span()) }
    let range = unsafe recorder.pointee[index].value(of: name).range
    return unsafe recorder.pointee[index].received.withUnsafeBufferPointer { received in
      body(unsafe received.span.extracting(range))
    }
  }

  package func hasHeader(_ name: HTTP2HeaderName, of stream: HTTP2StreamID) -> Bool {
    guard let index = index(of: stream) else { return false }
    return unsafe recorder.pointee[index].present & (1 << UInt32(name.rawValue)) != 0
  }

  /// Some known header occurred more than once.
  package func hasDuplicate(of stream: HTTP2StreamID) -> Bool {
    guard let index = index(of: stream) else { return false }
    return unsafe recorder.pointee[index].repeated != 0
  }

  package func headerCount(of stream: HTTP2StreamID) -> Int {
    guard let index = index(of: stream) else { return 0 }
    return unsafe recorder.pointee[index].fields.count
  }

  /// A header as received, by position; duplicates are visible.
  package func withField<Result>(
    at position: Int, of stream: HTTP2StreamID, _ body: (_ name: Span<UInt8>, _ value: Span<UInt8>) -> Result
  ) -> Result {
    guard let index = index(of: stream), position >= 0, position < headerCount(of: stream) else {
      return body(Span(), Span())
    }
    let field = unsafe recorder.pointee[index].fields[position]
    return unsafe recorder.pointee[index].received.withUnsafeBufferPointer { received in
      let received = unsafe received.span
      if let known = field.known {
        let name = unsafe UnsafeBufferPointer(start: known.text.utf8Start, count: known.text.utf8CodeUnitCount)
        return body(unsafe name.span, received.extracting(field.value.range))
      }
      return body(received.extracting(field.name.range), received.extracting(field.value.range))
    }
  }

  /// The request's body, or the part that the settings keep.
  package func withBody<Result>(of stream: HTTP2StreamID, _ body: (Span<UInt8>) -> Result) -> Result {
    guard let index = index(of: stream) else { return body(Span()) }
    let start = unsafe recorder.pointee[index].bodyStart
    return unsafe recorder.pointee[index].received.withUnsafeBufferPointer { received in
      body(unsafe received.span.extracting(start...))
    }
  }

  /// Bytes of the body that were received, kept or not.
  package func bodyCount(of stream: HTTP2StreamID) -> Int {
    guard let index = index(of: stream) else { return 0 }
    return unsafe recorder.pointee[index].bodyCount
  }

  // MARK: - Answers

  /// Answers a request. `headers` begin with `:status`. false: the stream is gone or was answered.
  package func respond(
    _ stream: HTTP2StreamID, _ headers: borrowing HTTP2HeaderList, body: [UInt8],
    options: HTTP2ResponseOptions, into queue: inout ByteQueue
  ) -> Bool {
    guard isOpen, let index = index(of: stream), unsafe !recorder.pointee[index].isAnswered else { return false }
    unsafe recorder.pointee[index].isAnswered = true
    if let status = options.informationalStatus { submitInformational(status, stream) }
    let code = unsafe headers.withFields { fields, count in
      if body.isEmpty, options.isPlain {
        return unsafe nghttp2_submit_response(handle.pointer, stream, fields, count, nil)
      }
      unsafe recorder.pointee[index].response = body
      unsafe recorder.pointee[index].responseOffset = 0
      unsafe recorder.pointee[index].options = options
      var source = unsafe serverBodySource(of: index)
      return unsafe nghttp2_submit_response(handle.pointer, stream, fields, count, &source)
    }
    // The caller may reuse the list's memory after this returns, so its frame is written now regardless of the limit.
    drainAll(into: &queue)
    return code == 0
  }

  private func submitInformational(_ status: Int, _ stream: HTTP2StreamID) {
    var headers = HTTP2HeaderList()
    headers.append(.status, decimal: status)
    _ = unsafe headers.withCopiedFields { fields, count in
      unsafe nghttp2_submit_headers(
        handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, nil, fields, count, nil)
    }
  }

  private func drainAll(into queue: inout ByteQueue) {
    let code = handle.drain(into: &queue, limit: .max)
    if code != 0 { end(HTTP2SessionHandle.error(code)) } else { drain(into: &queue) }
  }

  // MARK: - Faults

  package func reset(_ stream: HTTP2StreamID, _ code: HTTP2ErrorCode, into queue: inout ByteQueue) {
    guard isOpen else { return }
    _ = unsafe nghttp2_submit_rst_stream(
      handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
    drain(into: &queue)
  }

  /// Sends GOAWAY: nothing above `lastStreamID` was processed (nil: everything received was). Open streams up to it may still be answered;
  /// then the connection ends.
  package func goAway(
    lastStreamID: HTTP2StreamID?, code: HTTP2ErrorCode, debug: [UInt8], into queue: inout ByteQueue
  ) {
    guard isOpen else { return }
    isClosing = true
    unsafe recorder.pointee.ownGoAwayCode = code
    let last = lastStreamID ?? self.lastStreamID
    _ = unsafe debug.withUnsafeBufferPointer { debug in
      unsafe nghttp2_submit_goaway(
        handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, code.rawValue, debug.baseAddress, debug.count)
    }
    drain(into: &queue)
  }

  package func changeMaximumStreams(_ count: Int, into queue: inout ByteQueue) {
    guard isOpen else { return }
    unsafe recorder.pointee.maximumStreams = count
    handle.submitSettings([
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: UInt32(max(0, count)))
    ])
    drain(into: &queue)
  }

  package func ping(into queue: inout ByteQueue) {
    guard isOpen else { return }
    _ = unsafe nghttp2_submit_ping(handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    drain(into: &queue)
  }
}
