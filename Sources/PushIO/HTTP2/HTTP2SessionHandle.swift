import CNGHTTP2

/// The sole owner of an nghttp2 session: bytes in, bytes out. Its callbacks record the rest.
@safe
struct HTTP2SessionHandle: ~Copyable {
  /// Maximum of PING and SETTINGS acknowledgements that the peer has not read.
  private static let acknowledgementsMaximum = 1000
  /// The most settings in one frame.
  private static let settingsMaximum = 32

  let pointer: OpaquePointer

  /// A client's session. It assumes that the server allows one stream, until SETTINGS come.
  static func client(callbacks: HTTP2Callbacks, recorder: UnsafeMutableRawPointer) -> HTTP2SessionHandle {
    unsafe HTTP2SessionHandle(callbacks: callbacks, recorder: recorder, isServer: false) { option in
      unsafe nghttp2_option_set_peer_max_concurrent_streams(option, 1)
    }
  }

  /// A server's session: we answer PINGs and update windows ourselves.
  static func server(callbacks: HTTP2Callbacks, recorder: UnsafeMutableRawPointer) -> HTTP2SessionHandle {
    unsafe HTTP2SessionHandle(callbacks: callbacks, recorder: recorder, isServer: true) { option in
      unsafe nghttp2_option_set_no_auto_ping_ack(option, 1)
      unsafe nghttp2_option_set_no_auto_window_update(option, 1)
      // A client that cancels late answers by the thousand is a test, not an attack.
      unsafe nghttp2_option_set_stream_reset_rate_limit(option, 100_000, 10_000)
    }
  }

  private init(
    callbacks: HTTP2Callbacks, recorder: UnsafeMutableRawPointer, isServer: Bool, configure: (OpaquePointer) -> Void
  ) {
    var table: OpaquePointer?
    var option: OpaquePointer?
    var session: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&table) == 0, unsafe nghttp2_option_new(&option) == 0,
      let table = unsafe table, let option = unsafe option
    else { fatalError("out of memory") }
    unsafe nghttp2_option_set_max_outbound_ack(option, HTTP2SessionHandle.acknowledgementsMaximum)
    unsafe nghttp2_option_set_max_settings(option, HTTP2SessionHandle.settingsMaximum)
    unsafe configure(option)
    unsafe callbacks.install(in: table)
    let code =
      isServer
      ? unsafe nghttp2_session_server_new2(&session, table, recorder, option)
      : unsafe nghttp2_session_client_new2(&session, table, recorder, option)
    unsafe nghttp2_option_del(option)
    unsafe nghttp2_session_callbacks_del(table)
    guard code == 0, let session = unsafe session else { fatalError("out of memory") }
    unsafe pointer = session
  }

  deinit {
    unsafe nghttp2_session_del(pointer)
  }

  /// Parses received bytes. Zero, or nghttp2's error, after which the session is broken.
  func receive(_ bytes: UnsafeBufferPointer<UInt8>) -> Int32 {
    guard let start = bytes.baseAddress else { return 0 }
    let result = unsafe nghttp2_session_mem_recv(pointer, start, bytes.count)
    return result < 0 ? Int32(truncatingIfNeeded: result) : 0
  }

  /// Appends the frames that may be sent now, until `limit` bytes are queued or `isOver`. Zero, or nghttp2's error.
  func drain(into queue: inout ByteQueue, limit: Int, isOver: () -> Bool = { false }) -> Int32 {
    while queue.count < limit, !isOver() {
      var data: UnsafePointer<UInt8>?
      let count = unsafe nghttp2_session_mem_send(pointer, &data)
      if count <= 0 { return Int32(truncatingIfNeeded: count) }
      unsafe queue.append(UnsafeBufferPointer(start: data, count: count))
    }
    return 0
  }

  var wantsWrite: Bool { unsafe nghttp2_session_want_write(pointer) != 0 }

  /// Nothing more will be read or written: both sides have finished.
  var isOver: Bool { unsafe nghttp2_session_want_read(pointer) == 0 && nghttp2_session_want_write(pointer) == 0 }

  /// What the peer allows us to send on the connection before it opens its window again, bytes.
  var sendWindow: Int { max(0, Int(unsafe nghttp2_session_get_remote_window_size(pointer))) }

  func submitSettings(_ entries: [nghttp2_settings_entry]) {
    let code = unsafe entries.withUnsafeBufferPointer { entries in
      unsafe nghttp2_submit_settings(
        pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries.baseAddress, entries.count)
    }
    precondition(code == 0, "settings within their bounds")
  }

  /// Allows the peer this many bytes in flight on the connection.
  func widenConnectionWindow(to size: Int32) {
    let code = unsafe nghttp2_session_set_local_window_size(pointer, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, size)
    precondition(code == 0, "a window within its bounds")
  }

  /// nghttp2's text for an error.
  static func describe(_ code: Int32) -> String {
    guard let text = unsafe nghttp2_strerror(code) else { return "error \(code)" }
    return unsafe String(cString: text)
  }

  /// What a failed `receive` or `drain` means.
  static func error(_ code: Int32) -> HTTP2Error {
    switch code {
    case NGHTTP2_ERR_FLOODED.rawValue:
      .resourceExhausted(detail: "the peer asks for answers faster than it reads them")
    case NGHTTP2_ERR_NOMEM.rawValue: .resourceExhausted(detail: "out of memory")
    default: .protocolViolation(code: .protocolError, detail: describe(code))
    }
  }
}
