import CNGHTTP2
package import PushCore

/// The client side of HTTP/2 without a socket: received bytes and requests in, events and bytes to send out.
///
/// A request's frames are written when it is submitted, as far as the server's windows allow; the rest follows when they open. Each
/// accepted ticket is reported exactly once, at the latest by `end`.
@safe
package final class HTTP2ClientSession {
  private let settings: HTTP2ClientSettings
  private let recorder: UnsafeMutablePointer<HTTP2ClientRecorder>
  private let handle: HTTP2SessionHandle
  /// All bytes that were ever written.
  private var bytesSent: UInt64 = 0
  /// The last response: readable until the next event.
  private var reportedIndex: Int32 = -1

  private enum State {
    /// Bytes may be exchanged, but the transport is not open yet. → open, ended
    case waiting
    case open
    /// No more requests and bytes; recorded events are still reported.
    case ended
  }

  private var state = State.waiting
  private var openedUnreported = false
  private var closedUnreported = false
  private var isShuttingDown = false
  private var endError: HTTP2Error?
  private var pingCounter: UInt64 = 0

  package init(settings: HTTP2ClientSettings = HTTP2ClientSettings()) {
    self.settings = settings
    // Twice the maximum of streams: a turn's answers are still unreported while new requests are in flight.
    unsafe recorder = .allocate(capacity: 1)
    unsafe recorder.initialize(
      to: HTTP2ClientRecorder(
        capacity: settings.maximumStreams * 2, responseBodyLimit: settings.responseBodyLimit))
    handle = unsafe HTTP2SessionHandle.client(callbacks: .client, recorder: UnsafeMutableRawPointer(recorder))
    handle.submitSettings([
      nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: UInt32(settings.streamWindow)),
    ])
    handle.widenConnectionWindow(to: settings.connectionWindow)
    if settings.firstStreamID > 1 {
      _ = unsafe nghttp2_session_set_next_stream_id(handle.pointer, settings.firstStreamID)
    }
  }

  deinit {
    // The session is freed after this, and makes no calls while it is.
    unsafe recorder.deinitialize(count: 1)
    unsafe recorder.deallocate()
  }

  // MARK: - State

  package var isOpen: Bool { state == .open }
  package var isEnded: Bool { state == .ended }
  package var isGoingAway: Bool { unsafe isShuttingDown || recorder.pointee.goAwayReceived || state == .ended }
  package var streamsInFlight: Int { unsafe recorder.pointee.openCount }

  package var streamLimit: Int {
    min(settings.maximumStreams, unsafe Int(recorder.pointee.peerMaximumStreams))
  }

  package var availableStreams: Int {
    if state != .open || isGoingAway { return 0 }
    return max(0, unsafe min(streamLimit - recorder.pointee.openCount, recorder.pointee.freeCount))
  }

  package var sendWindow: Int { state == .ended ? 0 : handle.sendWindow }

  /// Stream ids are limited: half of them are used.
  package var shouldRotate: Bool { unsafe nghttp2_session_get_next_stream_id(handle.pointer) >= 1 << 30 }

  // MARK: - Requests

  /// Sends a request. `body` is retained until it is written, not copied; an empty range ends the stream with its headers.
  ///
  /// false: no stream is free, the connection is not open or going away, or too many bytes are unwritten. Then nothing was sent, and the
  /// ticket is not reported.
  package func submit(
    _ headers: borrowing HTTP2HeaderList, body: [UInt8], bodyRange: Range<Int>, ticket: Ticket,
    into queue: inout ByteQueue
  ) -> Bool {
    precondition(bodyRange.lowerBound >= 0 && bodyRange.upperBound <= body.count, "a range of the body")
    guard availableStreams > 0, queue.count < settings.outboundLimit else { return false }
    guard let index = unsafe recorder.pointee.take() else { return false }
    unsafe recorder.pointee[index].begin(
      ticket: ticket, body: bodyRange.isEmpty ? [] : body, range: bodyRange, headersOffset: bytesSent)
    let streamID = unsafe headers.withFields { fields, count in
      let streamData = unsafe UnsafeMutableRawPointer(bitPattern: Int(index) + 1)
      if bodyRange.isEmpty {
        return unsafe nghttp2_submit_request(handle.pointer, nil, fields, count, nil, streamData)
      }
      var source = unsafe clientBodySource(of: index)
      return unsafe nghttp2_submit_request(handle.pointer, nil, fields, count, &source, streamData)
    }
    if streamID > 0 {
      unsafe recorder.pointee.opened(index, streamID: streamID)
      drain(into: &queue, limit: .max)
    }
    let isSent = unsafe streamID > 0 && recorder.pointee.sentHeadersStreamID == streamID
    if isSent, unsafe recorder.pointee.accept(index) { return true }
    // nghttp2 refused it: out of ids, closing, or broken.
    unsafe recorder.pointee.discard(index)
    if streamID > 0, state == .open, !isSent {
      fail(.resourceExhausted(detail: "a request could not be written"), queue: &queue, goAwayStart: nil)
    }
    return false
  }

  /// Cancels a request with RST_STREAM; it is reported as lost with code CANCEL. false: it is unknown or already answered.
  package func cancel(_ ticket: Ticket, into queue: inout ByteQueue) -> Bool {
    guard state == .open, let index = unsafe recorder.pointee.pendingIndex(of: ticket) else { return false }
    let streamID = unsafe recorder.pointee[index].streamID
    _ = unsafe nghttp2_submit_rst_stream(
      handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, HTTP2ErrorCode.cancel.rawValue)
    drain(into: &queue, limit: .max)
    return true
  }

  package func ping(into queue: inout ByteQueue) {
    if state != .open { return }
    pingCounter &+= 1
    var data = pingCounter.bigEndian
    unsafe withUnsafeBytes(of: &data) { bytes in
      _ = unsafe nghttp2_submit_ping(
        handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
    }
    drain(into: &queue, limit: settings.outboundLimit)
  }

  /// Sends GOAWAY. Requests in flight finish; then the session ends.
  package func shutdown(into queue: inout ByteQueue) {
    if state == .ended || isShuttingDown { return }
    isShuttingDown = true
    _ = unsafe nghttp2_submit_goaway(
      handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2ErrorCode.noError.rawValue, nil, 0)
    if state == .open { drain(into: &queue, limit: settings.outboundLimit) }
  }

  // MARK: - Bytes

  /// The transport is open: sends the preface.
  package func open(into queue: inout ByteQueue) {
    guard state == .waiting else { return }
    state = .open
    openedUnreported = true
    drain(into: &queue, limit: settings.outboundLimit)
  }

  /// Consumes bytes from the server and answers what needs no decision.
  func receive(_ bytes: UnsafeBufferPointer<UInt8>, into queue: inout ByteQueue) {
    guard state == .open else { return }
    let code = unsafe handle.receive(bytes)
    if code != 0 {
      fail(HTTP2SessionHandle.error(code), queue: &queue, goAwayStart: nil)
      return
    }
    while let streamID = unsafe recorder.pointee.unwantedRequests.popLast() {
      _ = unsafe nghttp2_submit_rst_stream(
        handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, HTTP2ErrorCode.cancel.rawValue)
    }
    drain(into: &queue, limit: settings.outboundLimit)
  }

  package func receive(_ bytes: Span<UInt8>, into queue: inout ByteQueue) {
    unsafe bytes.withUnsafeBufferPointer { unsafe receive($0, into: &queue) }
  }

  /// Writes what was held back because too many bytes were unwritten.
  package func resume(into queue: inout ByteQueue) {
    if state == .open, handle.wantsWrite { drain(into: &queue, limit: settings.outboundLimit) }
  }

  private func drain(into queue: inout ByteQueue, limit: Int) {
    let before = queue.count
    // Nothing may follow the GOAWAY that reports a violation.
    let code = handle.drain(into: &queue, limit: limit) { unsafe recorder.pointee.violation != nil }
    bytesSent &+= UInt64(queue.count - before)
    if code != 0 {
      fail(HTTP2SessionHandle.error(code), queue: &queue, goAwayStart: nil)
    } else if let violation = unsafe recorder.pointee.violation {
      fail(.protocolViolation(code: violation.code, detail: violation.detail), queue: &queue, goAwayStart: before)
    } else if unsafe recorder.pointee.goAwayReceived || isShuttingDown, handle.isOver {
      let code = unsafe recorder.pointee.goAwayCode
      end(code == .noError ? nil : .peerReported(code: code), unwrittenBytes: queue.count)
    }
  }

  /// Ends because of an error while the transport is open and will still write `queue`. Requests that are reported as not processed are
  /// removed from it; the GOAWAY with the reason stays. `goAwayStart`: where nghttp2 wrote it; nil: it wrote none.
  private func fail(_ error: HTTP2Error, queue: inout ByteQueue, goAwayStart: Int?) {
    if state != .open { return }
    let written = bytesSent &- UInt64(queue.count)
    let first = unsafe recorder.pointee.firstRequest(from: written)
    end(error, unwrittenBytes: queue.count)
    let tail = goAwayStart ?? queue.count
    if let first, case let start = Int(first &- written), start < tail {
      // A request's HEADERS start a frame, so the remaining frames are complete.
      queue.remove(start..<tail)
    }
    if goAwayStart == nil { appendGoAway(error.code, to: &queue) }
  }

  /// A GOAWAY for a session whose nghttp2 state is broken.
  private func appendGoAway(_ code: HTTP2ErrorCode, to queue: inout ByteQueue) {
    // Length 8, type, no flags; stream 0; no server-initiated stream was processed.
    queue.appendBigEndian(UInt32(8 << 8 | NGHTTP2_GOAWAY.rawValue))
    queue.append(0)
    queue.appendBigEndian(UInt32(0))
    queue.appendBigEndian(UInt32(0))
    queue.appendBigEndian(code.rawValue)
  }

  /// Frees the streams' memory, if none is in use.
  package func releaseMemory() {
    unsafe recorder.pointee.releaseMemory()
  }

  /// The connection ended: every waiting request is reported, then the end. Requests that begin within the last `unwrittenBytes` were never
  /// sent.
  package func end(_ error: HTTP2Error?, unwrittenBytes: Int) {
    if state == .ended { return }
    // If the peer gave a reason before it closed, that is the reason.
    var reason = error
    if let violation = unsafe recorder.pointee.violation {
      reason = .protocolViolation(code: violation.code, detail: violation.detail)
    } else if unsafe recorder.pointee.goAwayReceived, isTransportEnd(error) {
      let code = unsafe recorder.pointee.goAwayCode
      reason = code == .noError ? error : .peerReported(code: code)
    }
    let isOpened = state == .open
    state = .ended
    let written = isOpened ? bytesSent &- UInt64(truncatingIfNeeded: unwrittenBytes) : 0
    unsafe recorder.pointee.finishAll(code: reason?.code ?? .connectError, writtenBytes: written)
    endError = reason
    closedUnreported = true
  }

  private func isTransportEnd(_ error: HTTP2Error?) -> Bool {
    switch error {
    case nil, .transport, .closedByPeer: true
    case .notNegotiated, .protocolViolation, .peerReported, .resourceExhausted, .aborted: false
    }
  }

  // MARK: - Events

  /// The next event; nil once everything is reported.
  package func nextEvent() -> HTTP2ClientEvent? {
    if reportedIndex >= 0 {
      unsafe recorder.pointee.reported(reportedIndex)
      reportedIndex = -1
    }
    if openedUnreported {
      openedUnreported = false
      return .opened
    }
    if unsafe recorder.pointee.settingsUnreported {
      unsafe recorder.pointee.settingsUnreported = false
      return .settingsChanged(maximumStreams: streamLimit)
    }
    if unsafe recorder.pointee.goAwayUnreported {
      unsafe recorder.pointee.goAwayUnreported = false
      return unsafe .goAway(
        lastStreamID: Int(recorder.pointee.goAwayLastStreamID), code: recorder.pointee.goAwayCode)
    }
    if let index = unsafe recorder.pointee.popFinished() { return reported(index) }
    if unsafe recorder.pointee.pingsAcknowledged > 0 {
      unsafe recorder.pointee.pingsAcknowledged = 0
      return .pingAcknowledged
    }
    if closedUnreported {
      closedUnreported = false
      return .closed(endError)
    }
    return nil
  }

  private func reported(_ index: Int32) -> HTTP2ClientEvent {
    reportedIndex = index
    let ticket = unsafe recorder.pointee[index].ticket
    switch unsafe recorder.pointee[index].state {
    case .answered, .finished(.response):
      return .response(ticket, status: unsafe Int(recorder.pointee[index].status))
    case .finished(.notProcessed): return .notProcessed(ticket)
    case .finished(.lost(let code)): return .lost(ticket, code)
    case .free, .submitting, .refused, .pending, .reported: preconditionFailure("only a finished stream is reported")
    }
  }

  /// The body of the last response (or the part that was kept), until the next event.
  package func withResponseBody<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    guard reportedIndex >= 0 else { return body(Span()) }
    let start = unsafe recorder.pointee[reportedIndex].responseBodyStart
    return unsafe recorder.pointee[reportedIndex].received.withUnsafeBufferPointer { received in
      body(unsafe received.span.extracting(start...))
    }
  }

  /// A header of the last response, until the next event; empty if it is absent or not kept.
  package func withResponseHeader<Result>(_ name: HTTP2HeaderName, _ body: (Span<UInt8>) -> Result) -> Result {
    guard reportedIndex >= 0, let place = HTTP2ClientStream.keptPlace(of: name) else { return body(Span()) }
    let range = unsafe recorder.pointee[reportedIndex].keptValues[place].range
    return unsafe recorder.pointee[reportedIndex].received.withUnsafeBufferPointer { received in
      body(unsafe received.span.extracting(range))
    }
  }

  /// The response's body was truncated.
  package var isResponseBodyCut: Bool { unsafe reportedIndex >= 0 && recorder.pointee[reportedIndex].isBodyCut }

  /// The debug data of the newest GOAWAY; empty if there was none.
  package func withGoAwayReason<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    body(unsafe recorder.pointee.goAwayReason.span)
  }
}
