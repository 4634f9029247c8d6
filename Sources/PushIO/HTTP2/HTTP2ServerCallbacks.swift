import CNGHTTP2

/// The server's C callbacks: they find the recorder and record.
extension HTTP2Callbacks {
  static var server: HTTP2Callbacks {
    unsafe HTTP2Callbacks(
      beginHeaders: serverBeganHeaders, header: serverReceivedHeader, dataChunk: serverReceivedData,
      frameReceived: serverReceivedFrame, frameSent: serverSentFrame, streamClosed: serverClosedStream,
      frameInvalid: serverRefusedFrame)
  }
}

@inline(__always)
private func recorder(_ userData: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<HTTP2ServerRecorder> {
  // The user data is what the session was made with.
  unsafe userData.unsafelyUnwrapped.assumingMemoryBound(to: HTTP2ServerRecorder.self)
}

private func serverBeganHeaders(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.beginHeaders(
    of: herald_frame_stream_id(frame), isRequest: herald_frame_is_request(frame) != 0, in: session)
  return 0
}

private func serverReceivedHeader(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, name: UnsafePointer<UInt8>?, nameCount: Int,
  value: UnsafePointer<UInt8>?, valueCount: Int, flags: UInt8, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.header(
    UnsafeBufferPointer(start: name, count: nameCount), UnsafeBufferPointer(start: value, count: valueCount))
}

private func serverReceivedData(
  session: OpaquePointer?, flags: UInt8, streamID: Int32, data: UnsafePointer<UInt8>?, count: Int,
  userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.dataChunk(
    UnsafeBufferPointer(start: data, count: count), of: streamID, in: session)
  return 0
}

private func serverReceivedFrame(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, userData: UnsafeMutableRawPointer?
) -> Int32 {
  let recorder = unsafe recorder(userData)
  let streamID = unsafe herald_frame_stream_id(frame)
  let flags = unsafe UInt32(herald_frame_flags(frame))
  switch unsafe UInt32(herald_frame_type(frame)) {
  case NGHTTP2_HEADERS.rawValue:
    unsafe recorder.pointee.headersReceived(
      of: streamID, endsStream: flags & NGHTTP2_FLAG_END_STREAM.rawValue != 0, in: session)
  case NGHTTP2_DATA.rawValue:
    if flags & NGHTTP2_FLAG_END_STREAM.rawValue != 0 { unsafe recorder.pointee.requestEnded(streamID, in: session) }
  case NGHTTP2_SETTINGS.rawValue:
    if flags & NGHTTP2_FLAG_ACK.rawValue != 0 { unsafe recorder.pointee.counters.settingsAcknowledged += 1 }
  case NGHTTP2_RST_STREAM.rawValue:
    unsafe recorder.pointee.counters.resetsReceived += 1
  case NGHTTP2_PING.rawValue:
    if flags & NGHTTP2_FLAG_ACK.rawValue == 0, let data = unsafe herald_ping_data(frame) {
      unsafe recorder.pointee.ping(UnsafeRawPointer(data).loadUnaligned(as: UInt64.self))
    }
  case NGHTTP2_GOAWAY.rawValue:
    unsafe recorder.pointee.counters.goAwaysReceived += 1
    unsafe recorder.pointee.goAwayReceived = true
  default:
    break
  }
  return 0
}

private func serverSentFrame(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, userData: UnsafeMutableRawPointer?
) -> Int32 {
  if unsafe UInt32(herald_frame_type(frame)) == NGHTTP2_GOAWAY.rawValue {
    unsafe recorder(userData).pointee.goAwaySent(
      code: herald_goaway_code(frame),
      debug: UnsafeBufferPointer(start: herald_goaway_debug(frame), count: herald_goaway_debug_length(frame)))
  }
  return 0
}

private func serverClosedStream(
  session: OpaquePointer?, streamID: Int32, code: UInt32, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.streamClosed(streamID, code, in: session)
  return 0
}

private func serverRefusedFrame(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, error: Int32, userData: UnsafeMutableRawPointer?
) -> Int32 {
  let isHeaders = unsafe UInt32(herald_frame_type(frame)) == NGHTTP2_HEADERS.rawValue
  unsafe recorder(userData).pointee.frameInvalid(isHeaders: isHeaders, error)
  return 0
}

/// nghttp2 reads a response's body from here: the source identifies the stream's place.
func serverBodySource(of index: Int32) -> nghttp2_data_provider {
  unsafe nghttp2_data_provider(source: nghttp2_data_source(fd: index), read_callback: serverReadsBody)
}

private func serverReadsBody(
  session: OpaquePointer?, streamID: Int32, buffer: UnsafeMutablePointer<UInt8>?, capacity: Int,
  flags: UnsafeMutablePointer<UInt32>?, source: UnsafeMutablePointer<nghttp2_data_source>?,
  userData: UnsafeMutableRawPointer?
) -> Int {
  guard let source = unsafe source, let flags = unsafe flags else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
  let index = unsafe source.pointee.fd
  var isLast = false
  let count = unsafe recorder(userData).pointee.readBody(
    of: index, into: buffer, capacity: capacity, isLast: &isLast)
  if !isLast { return count }
  let options = unsafe recorder(userData).pointee[index].options
  if options.leavesOpen {
    // The rest of the body is never sent.
    return count > 0 ? count : Int(NGHTTP2_ERR_DEFERRED.rawValue)
  }
  unsafe flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
  if let trailer = options.trailer {
    unsafe flags.pointee |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
    var list = HTTP2HeaderList()
    list.append(name: trailer.name.span, value: trailer.value.span)
    _ = unsafe list.withCopiedFields { unsafe nghttp2_submit_trailer(session, streamID, $0, $1) }
  }
  return count
}
