import CNGHTTP2

/// The C callbacks of one role. Each finds its recorder through the user data and records; none calls back into nghttp2.
@safe
struct HTTP2Callbacks {
  var beginHeaders: nghttp2_on_begin_headers_callback
  var header: nghttp2_on_header_callback
  var dataChunk: nghttp2_on_data_chunk_recv_callback
  var frameReceived: nghttp2_on_frame_recv_callback
  var frameSent: nghttp2_on_frame_send_callback
  var streamClosed: nghttp2_on_stream_close_callback
  var frameInvalid: nghttp2_on_invalid_frame_recv_callback

  func install(in table: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(table, beginHeaders)
    unsafe nghttp2_session_callbacks_set_on_header_callback(table, header)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table, dataChunk)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(table, frameReceived)
    unsafe nghttp2_session_callbacks_set_on_frame_send_callback(table, frameSent)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(table, streamClosed)
    unsafe nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(table, frameInvalid)
  }
}
