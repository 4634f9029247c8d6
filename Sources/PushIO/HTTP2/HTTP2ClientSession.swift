import CNGHTTP2
package import PushCore

/// A client's side of HTTP/2 without a socket: bytes in, events out, requests in, bytes out.
///
/// A request's frames are written while it is submitted, as far as the server's windows allow; the rest follows when
/// they open. Each ticket that was taken is reported exactly once, at the latest by `end`.
@safe
package final class HTTP2ClientSession {
  private let settings: HTTP2ClientSettings
  private let recorder: UnsafeMutablePointer<HTTP2ClientRecorder>
  private let handle: HTTP2SessionHandle
  /// All bytes that were ever handed out.
  private var bytesSent: UInt64 = 0
  /// The last response: readable until the next event.
  private var reportedIndex: Int32 = -1

  private enum State {
    /// Bytes may be exchanged, but the transport is not open yet. → open, ended
    case waiting
    case open
    /// No request, no bytes any more; what was recorded is still reported.
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
    // Twice the streams: those of a turn's answers are still to be reported while their successors are in flight.
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
    // The session goes after this, and does not call while it goes.
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

  /// Stream ids are a bounded supply: half of it is used up.
  package var shouldRotate: Bool { unsafe nghttp2_session_get_next_stream_id(handle.pointer) >= 1 << 30 }

  // MARK: - Requests

  /// Sends a request. `body` is held until it is written, not copied; an empty range ends the stream with its headers.
  ///
  /// false: no stream is free, the connection is not open or going away, or too much waits for the socket. Nothing was
  /// sent then, and the ticket is not reported.
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
    // nghttp2 would not have it: out of ids, closing, or broken.
    unsafe recorder.pointee.discard(index)
    if streamID > 0, state == .open, !isSent {
      fail(.resourceExhausted(detail: "a request could not be written"), queue: &queue, goAwayStart: nil)
    }
    return false
  }

  /// Gives a request up with RST_STREAM; it is reported as lost with code CANCEL. false: it is unknown or has its answer.
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

  /// Says GOAWAY. What is in flight finishes; then the session is over.
  package func shutdown(into queue: inout ByteQueue) {
    if state == .ended || isShuttingDown { return }
    isShuttingDown = true
    _ = unsafe nghttp2_submit_goaway(
      handle.pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2ErrorCode.noError.rawValue, nil, 0)
    if state == .open { drain(into: &queue, limit: settings.outboundLimit) }
  }

  // MARK: - Bytes

  /// The transport is open: says the preface.
  package func open(into queue: inout ByteQueue) {
    guard state == .waiting else { return }
    state = .open
    openedUnreported = true
    drain(into: &queue, limit: settings.outboundLimit)
  }

  /// Takes what came from the server and answers what needs no decision.
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

  /// Writes what waited because too much did.
  package func resume(into queue: inout ByteQueue) {
    if state == .open, handle.wantsWrite { drain(into: &queue, limit: settings.outboundLimit) }
  }

  private func drain(into queue: inout ByteQueue, limit: Int) {
    let before = queue.count
    // Nothing follows the GOAWAY that tells the peer of its violation.
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

  /// Ends over a fault while the transport lives and writes what `queue` holds before it closes: requests that are reported as not
  /// processed go out of it, the GOAWAY that says why stays. `goAwayStart`: where nghttp2 wrote it; nil: it wrote none.
  private func fail(_ error: HTTP2Error, queue: inout ByteQueue, goAwayStart: Int?) {
    if state != .open { return }
    let written = bytesSent &- UInt64(queue.count)
    let first = unsafe recorder.pointee.firstRequest(from: written)
    end(error, unwrittenBytes: queue.count)
    let tail = goAwayStart ?? queue.count
    if let first, case let start = Int(first &- written), start < tail {
      // A request's HEADERS begin a frame, so that what stays is whole.
      queue.remove(start..<tail)
    }
    if goAwayStart == nil { appendGoAway(error.code, to: &queue) }
  }

  /// A GOAWAY from a session whose nghttp2 is of no use any more. It promised no push of the server's.
  private func appendGoAway(_ code: HTTP2ErrorCode, to queue: inout ByteQueue) {
    // Length 8, type, no flags; stream 0; no stream of the server's was processed.
    queue.appendBigEndian(UInt32(8 << 8 | NGHTTP2_GOAWAY.rawValue))
    queue.append(0)
    queue.appendBigEndian(UInt32(0))
    queue.appendBigEndian(UInt32(0))
    queue.appendBigEndian(code.rawValue)
  }

  /// Gives back the memory of streams, where none is in use.
  package func releaseMemory() {
    unsafe recorder.pointee.releaseMemory()
  }

  /// The connection is over: every request that waits is reported, then the end. Requests that begin within the last
  /// `unwrittenBytes` handed out never left.
  package func end(_ error: HTTP2Error?, unwrittenBytes: Int) {
    if state == .ended { return }
    // A peer that says why before it closes has said it all.
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

  /// The next of what happened; nil once everything is reported.
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

  /// The body of the last response (or as much of it as was kept), until the next event.
  package func withResponseBody<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    guard reportedIndex >= 0 else { return body(Span()) }
    let start = unsafe recorder.pointee[reportedIndex].responseBodyStart
    return unsafe recorder.pointee[reportedIndex].received.withUnsafeBufferPointer { received in
      body(unsafe received.span.extracting(start...))
    }
  }

  /// A header of the last response, until the next event; empty where it is absent or not among those kept.
  package func withResponseHeader<Result>(_ name: HTTP2HeaderName, _ body: (Span<UInt8>) -> Result) -> Result {
    guard reportedIndex >= 0, let place = HTTP2ClientStream.keptPlace(of: name) else { return body(Span()) }
    let range = unsafe recorder.pointee[reportedIndex].keptValues[place].range
    return unsafe recorder.pointee[reportedIndex].received.withUnsafeBufferPointer { received in
      body(unsafe received.span.extracting(range))
    }
  }

  /// Part of the response's body was cut.
  package var isResponseBodyCut: Bool { unsafe reportedIndex >= 0 && recorder.pointee[reportedIndex].isBodyCut }

  /// The debug data of the newest GOAWAY; empty where there was none.
  package func withGoAwayReason<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    body(unsafe recorder.pointee.goAwayReason.span)
  }
}
