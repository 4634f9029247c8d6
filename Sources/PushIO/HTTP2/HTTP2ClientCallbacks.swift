import CNGHTTP2

/// The client's C callbacks: they find the recorder and record.
extension HTTP2Callbacks {
  static var client: HTTP2Callbacks {
    unsafe HTTP2Callbacks(
      beginHeaders: clientBeganHeaders, header: clientReceivedHeader, dataChunk: clientReceivedData,
      frameReceived: clientReceivedFrame, frameSent: clientSentFrame, streamClosed: clientClosedStream,
      frameInvalid: clientRefusedFrame)
  }
}

@inline(__always)
private func recorder(_ userData: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<HTTP2ClientRecorder> {
  // The user data is what the session was made with.
  unsafe userData.unsafelyUnwrapped.assumingMemoryBound(to: HTTP2ClientRecorder.self)
}

private func clientBeganHeaders(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.beginHeaders(of: herald_frame_stream_id(frame), in: session)
}

private func clientReceivedHeader(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, name: UnsafePointer<UInt8>?, nameCount: Int,
  value: UnsafePointer<UInt8>?, valueCount: Int, flags: UInt8, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.header(
    UnsafeBufferPointer(start: name, count: nameCount), UnsafeBufferPointer(start: value, count: valueCount))
  return 0
}

private func clientReceivedData(
  session: OpaquePointer?, flags: UInt8, streamID: Int32, data: UnsafePointer<UInt8>?, count: Int,
  userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.dataChunk(
    UnsafeBufferPointer(start: data, count: count), of: streamID, in: session)
  return 0
}

private func clientReceivedFrame(
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
    if flags & NGHTTP2_FLAG_END_STREAM.rawValue != 0 {
      unsafe recorder.pointee.responseEnded(streamID, in: session)
    }
  case NGHTTP2_SETTINGS.rawValue:
    if flags & NGHTTP2_FLAG_ACK.rawValue == 0 { unsafe recorder.pointee.settingsReceived(in: session) }
  case NGHTTP2_PING.rawValue:
    if flags & NGHTTP2_FLAG_ACK.rawValue != 0 { unsafe recorder.pointee.pingsAcknowledged += 1 }
  case NGHTTP2_GOAWAY.rawValue:
    unsafe recorder.pointee.goAway(
      lastStreamID: herald_goaway_last_stream_id(frame), code: herald_goaway_code(frame),
      debug: UnsafeBufferPointer(start: herald_goaway_debug(frame), count: herald_goaway_debug_length(frame)))
  default:
    break
  }
  return 0
}

private func clientSentFrame(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, userData: UnsafeMutableRawPointer?
) -> Int32 {
  switch unsafe UInt32(herald_frame_type(frame)) {
  case NGHTTP2_HEADERS.rawValue:
    unsafe recorder(userData).pointee.sentHeadersStreamID = unsafe herald_frame_stream_id(frame)
  case NGHTTP2_GOAWAY.rawValue:
    unsafe recorder(userData).pointee.goAwaySent(
      code: herald_goaway_code(frame),
      debug: UnsafeBufferPointer(start: herald_goaway_debug(frame), count: herald_goaway_debug_length(frame)))
  default:
    break
  }
  return 0
}

private func clientClosedStream(
  session: OpaquePointer?, streamID: Int32, code: UInt32, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.streamClosed(streamID, code, in: session)
  return 0
}

private func clientRefusedFrame(
  session: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, error: Int32, userData: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe recorder(userData).pointee.frameInvalid(error)
  return 0
}

/// nghttp2 reads a request's body from here: the source identifies the stream's place.
func clientBodySource(of index: Int32) -> nghttp2_data_provider {
  unsafe nghttp2_data_provider(source: nghttp2_data_source(fd: index), read_callback: clientReadsBody)
}

private func clientReadsBody(
  session: OpaquePointer?, streamID: Int32, buffer: UnsafeMutablePointer<UInt8>?, capacity: Int,
  flags: UnsafeMutablePointer<UInt32>?, source: UnsafeMutablePointer<nghttp2_data_source>?,
  userData: UnsafeMutableRawPointer?
) -> Int {
  guard let source = unsafe source, let flags = unsafe flags else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
  var isLast = false
  let count = unsafe recorder(userData).pointee.readBody(
    of: source.pointee.fd, into: buffer, capacity: capacity, isLast: &isLast)
  if isLast { unsafe flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
  return count
}
