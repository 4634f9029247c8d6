import PushCore

/// One request and the rest of its answer. Streams are reused, so their buffers keep their memory.
struct HTTP2ServerStream {
  /// One header as received. A known name is not stored; the value is also indexed by its name.
  struct Field {
    var known: HTTP2HeaderName?
    var name = ByteRange.empty
    var value = ByteRange.empty
  }

  /// Maximum number of headers in one request.
  static let fieldsMaximum = 64

  var streamID: Int32 = 0
  /// The next one in the list of free streams.
  var next: Int32 = -1
  var isClosed = true
  var isComplete = false
  var isAnswered = false
  /// Queued events about this stream.
  var eventsUnreported = 0
  var closeCode = HTTP2ErrorCode.noError

  /// Names and values, then the body.
  var received: [UInt8] = []
  var fields: [Field] = []
  var values = InlineArray<20, ByteRange>(repeating: .empty)
  /// Bit sets of known names: present, and present more than once.
  var present: UInt32 = 0
  var repeated: UInt32 = 0
  var hasHeaders = false
  var bodyStart = 0
  /// Bytes of the body that were received, kept or not.
  var bodyCount = 0
  /// Bytes received since the stream's window was last opened.
  var unconsumed = 0

  var response: [UInt8] = []
  var responseOffset = 0
  var options = HTTP2ResponseOptions()

  mutating func begin(_ streamID: Int32) {
    self.streamID = streamID
    isClosed = false
    isComplete = false
    isAnswered = false
    closeCode = .noError
    received.removeAll(keepingCapacity: true)
    fields.removeAll(keepingCapacity: true)
    present = 0
    repeated = 0
    hasHeaders = false
    bodyStart = 0
    bodyCount = 0
    unconsumed = 0
  }

  func value(of name: HTTP2HeaderName) -> ByteRange {
    present & (1 << UInt32(name.rawValue)) == 0 ? .empty : values[Int(name.rawValue)]
  }

  /// false: too many headers for one request.
  mutating func append(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limit: Int
  ) -> Bool {
    if fields.count == HTTP2ServerStream.fieldsMaximum || received.count + name.count + value.count > limit {
      return false
    }
    var field = Field()
    if let known = unsafe HTTP2HeaderName.matching(name) {
      field.known = known
      field.value = ByteRange(start: received.count, count: value.count)
      let bit: UInt32 = 1 << UInt32(known.rawValue)
      if present & bit == 0 { values[Int(known.rawValue)] = field.value } else { repeated |= bit }
      present |= bit
    } else {
      field.name = ByteRange(start: received.count, count: name.count)
      unsafe received.append(contentsOf: name)
      field.value = ByteRange(start: received.count, count: value.count)
    }
    unsafe received.append(contentsOf: value)
    bodyStart = received.count
    fields.append(field)
    return true
  }

  mutating func appendBody(_ chunk: UnsafeBufferPointer<UInt8>, limit: Int) {
    bodyCount += chunk.count
    unconsumed += chunk.count
    let room = limit - (received.count - bodyStart)
    if room > 0 { unsafe received.append(contentsOf: chunk.prefix(room)) }
  }

  mutating func releaseResponse() {
    response = []
    responseOffset = 0
  }
}
