import CNGHTTP2
import PushCore

/// What nghttp2's callbacks record for a server session: its streams and unreported events.
///
/// Its address is stable as long as its session lives, because C uses the address.
@safe
struct HTTP2ServerRecorder: ~Copyable {
  struct Record {
    enum Kind: UInt8 {
      case headers, request, reset
    }

    var kind: Kind
    var index: Int32
  }

  /// Blocks of streams, allocated as needed: a block never moves.
  private static let blockShift: Int32 = 8
  private static let blockSize = 1 << Int(blockShift)

  private let settings: HTTP2ServerSettings
  private var blocks: [UnsafeMutablePointer<HTTP2ServerStream>] = unsafe []
  private var initializedCount = 0
  private var firstFree: Int32 = -1
  private(set) var openCount = 0
  private(set) var lastStreamID: Int32 = 0

  private var records = RingBuffer<Record>(growingFrom: 64)
  var counters = HTTP2ServerCounters()
  /// Bytes of bodies received since the connection's window was last opened.
  var unconsumed = 0
  /// Streams whose window must be opened, because half of it is used.
  var hungryStreams: [Int32] = []
  /// PINGs to answer, eight bytes each.
  var pings: [UInt64] = []
  var acknowledgesPings: Bool
  /// The newest limit that we announced.
  var maximumStreams: Int

  private var headersOf: Int32 = -1
  private var cachedStreamID: Int32 = 0
  private var cachedIndex: Int32 = -1

  var violation: (code: HTTP2ErrorCode, detail: String)?
  /// The code of a GOAWAY that our user requested: no violation by the client.
  var ownGoAwayCode: HTTP2ErrorCode?
  var goAwayReceived = false
  private var invalidFrameError: Int32 = 0

  init(settings: HTTP2ServerSettings) {
    self.settings = settings
    acknowledgesPings = settings.acknowledgesPings
    maximumStreams = settings.maximumStreams
  }

  deinit {
    for index in unsafe 0..<blocks.count {
      let block = unsafe blocks[index]
      unsafe block.deinitialize(
        count: min(HTTP2ServerRecorder.blockSize, initializedCount - index * HTTP2ServerRecorder.blockSize))
      unsafe block.deallocate()
    }
  }

  // MARK: - Streams

  @inline(__always)
  private func address(_ index: Int32) -> UnsafeMutablePointer<HTTP2ServerStream> {
    let block = unsafe blocks[Int(index >> HTTP2ServerRecorder.blockShift)]
    return unsafe block + (Int(index) & (HTTP2ServerRecorder.blockSize - 1))
  }

  subscript(_ index: Int32) -> HTTP2ServerStream {
    @inline(__always)
    unsafeAddress {
      unsafe UnsafePointer(address(index))
    }
    @inline(__always)
    unsafeMutableAddress {
      unsafe address(index)
    }
  }

  private mutating func take() -> Int32 {
    if firstFree >= 0 {
      let index = firstFree
      firstFree = self[index].next
      return index
    }
    if unsafe initializedCount == blocks.count * HTTP2ServerRecorder.blockSize {
      unsafe blocks.append(.allocate(capacity: HTTP2ServerRecorder.blockSize))
    }
    let index = Int32(truncatingIfNeeded: initializedCount)
    unsafe address(index).initialize(to: HTTP2ServerStream())
    initializedCount += 1
    return index
  }

  private mutating func releaseIfDone(_ index: Int32) {
    guard self[index].isClosed, self[index].eventsUnreported == 0 else { return }
    self[index].next = firstFree
    firstFree = index
  }

  /// The open stream's place, or −1.
  mutating func index(of streamID: Int32, in session: OpaquePointer?) -> Int32 {
    if streamID == cachedStreamID { return cachedIndex }
    guard let data = unsafe nghttp2_session_get_stream_user_data(session, streamID) else { return -1 }
    let index = Int32(truncatingIfNeeded: Int(bitPattern: data)) - 1
    // nghttp2 remembers closed streams for a while; their places may have been reused.
    if self[index].streamID != streamID || self[index].isClosed { return -1 }
    cachedStreamID = streamID
    cachedIndex = index
    return index
  }

  private mutating func record(_ kind: Record.Kind, _ index: Int32) {
    self[index].eventsUnreported += 1
    records.append(Record(kind: kind, index: index))
  }

  /// The next event. A request that was reset is reported only as reset, and only if it was reported before.
  mutating func nextEvent() -> HTTP2ServerEvent? {
    while let record = records.popFirst() {
      let index = record.index
      self[index].eventsUnreported -= 1
      let streamID = self[index].streamID
      let isClosed = self[index].isClosed
      let code = self[index].closeCode
      if isClosed { releaseIfDone(index) }
      switch record.kind {
      case .headers where !isClosed: return .headers(streamID)
      case .request where !isClosed: return .request(streamID)
      case .reset: return .reset(streamID, code)
      case .headers, .request: break
      }
    }
    return nil
  }

  /// The connection ended: closes all open streams without a report.
  mutating func closeAll() {
    for index in 0..<Int32(truncatingIfNeeded: initializedCount) where !self[index].isClosed {
      self[index].isClosed = true
      self[index].releaseResponse()
      releaseIfDone(index)
    }
    openCount = 0
    cachedStreamID = 0
  }

  // MARK: - From the callbacks

  mutating func beginHeaders(of streamID: Int32, isRequest: Bool, in session: OpaquePointer?) {
    headersOf = -1
    // Trailers are not kept.
    if !isRequest { return }
    let index = take()
    self[index].begin(streamID)
    openCount += 1
    lastStreamID = max(lastStreamID, streamID)
    headersOf = index
    cachedStreamID = streamID
    cachedIndex = index
    _ = unsafe nghttp2_session_set_stream_user_data(
      session, streamID, UnsafeMutableRawPointer(bitPattern: Int(index) + 1))
  }

  /// Zero, or an error that resets the stream.
  mutating func header(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Int32 {
    let index = headersOf
    if index < 0 { return 0 }
    return unsafe self[index].append(name, value, limit: settings.requestHeaderLimit)
      ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
  }

  mutating func headersReceived(of streamID: Int32, endsStream: Bool, in session: OpaquePointer?) {
    let index = headersOf
    headersOf = -1
    if index >= 0, settings.reportsHeaders, !endsStream { record(.headers, index) }
    if endsStream { unsafe requestEnded(streamID, in: session) }
  }

  mutating func dataChunk(_ chunk: UnsafeBufferPointer<UInt8>, of streamID: Int32, in session: OpaquePointer?) {
    unconsumed += chunk.count
    let index = unsafe index(of: streamID, in: session)
    if index < 0 { return }
    unsafe self[index].appendBody(chunk, limit: settings.requestBodyLimit)
    if self[index].unconsumed >= Int(settings.streamWindow) / 2 {
      hungryStreams.append(streamID)
    }
  }

  mutating func requestEnded(_ streamID: Int32, in session: OpaquePointer?) {
    let index = unsafe index(of: streamID, in: session)
    if index < 0 || self[index].isComplete { return }
    self[index].isComplete = true
    counters.requests += 1
    record(.request, index)
  }

  mutating func streamClosed(_ streamID: Int32, _ code: UInt32, in session: OpaquePointer?) {
    let index = unsafe index(of: streamID, in: session)
    cachedStreamID = 0
    if index < 0 || self[index].isClosed { return }
    self[index].isClosed = true
    self[index].closeCode = HTTP2ErrorCode(rawValue: code)
    self[index].releaseResponse()
    openCount -= 1
    if code != HTTP2ErrorCode.noError.rawValue { record(.reset, index) }
    releaseIfDone(index)
  }

  mutating func ping(_ data: UInt64) {
    counters.pingsReceived += 1
    if acknowledgesPings { pings.append(data) }
  }

  mutating func frameInvalid(isHeaders: Bool, _ error: Int32) {
    if isHeaders, error == NGHTTP2_ERR_REFUSED_STREAM.rawValue {
      counters.streamsRefused += 1
      return
    }
    counters.invalidFrames += 1
    if isHeaders, error == NGHTTP2_ERR_PROTO.rawValue, openCount >= maximumStreams { counters.streamsOverLimit += 1 }
    invalidFrameError = error
  }

  mutating func goAwaySent(code: UInt32, debug: UnsafeBufferPointer<UInt8>) {
    let code = HTTP2ErrorCode(rawValue: code)
    if code == .noError || code == ownGoAwayCode || violation != nil { return }
    var detail = unsafe String(decoding: debug, as: UTF8.self)
    if detail.isEmpty, invalidFrameError != 0 { detail = HTTP2SessionHandle.describe(invalidFrameError) }
    violation = (code, detail)
  }

  /// Writes the next part of a response's body. `isLast`: the body ends here.
  mutating func readBody(
    of index: Int32, into buffer: UnsafeMutablePointer<UInt8>?, capacity: Int, isLast: inout Bool
  ) -> Int {
    let offset = self[index].responseOffset
    let left = self[index].response.count - offset
    let count = min(capacity, left, self[index].options.dataFrameBytes)
    if count > 0, let buffer = unsafe buffer {
      unsafe self[index].response.withUnsafeBufferPointer { body in
        if let start = body.baseAddress { unsafe buffer.update(from: start + offset, count: count) }
      }
      self[index].responseOffset = offset + count
    }
    isLast = count == left
    return count
  }
}
