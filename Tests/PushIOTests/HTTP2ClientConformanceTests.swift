import PushCore
import PushIO
import Testing

/// The cases that h2spec has for clients, by its sections (those of RFC 9113): violations that the client must not tolerate end the
/// connection, frames that it must ignore change nothing, and each request is reported exactly once.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2ClientConformanceTests {
  /// The fate of the connection.
  enum End: Sendable {
    /// It ends, and the client sends GOAWAY.
    case closes
    /// It goes on, and all requests are answered.
    case stays
    /// The connection or one stream ends: RFC 9113 or h2spec allows both.
    case either
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let section: String
    let what: String
    let end: End
    /// What the server sends while requests are in flight on streams 1, 3 and 5.
    let frames: [UInt8]

    init(_ section: String, _ what: String, _ end: End, _ frames: [UInt8]...) {
      self.section = section
      self.what = what
      self.end = end
      self.frames = Array(frames.joined())
    }

    var testDescription: String { "\(section) \(what)" }
  }

  // MARK: - Frames

  private static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
    HTTP2MemoryPair.frame(type: type, flags: flags, stream: stream, payload)
  }

  private static let endStream: UInt8 = 1
  private static let endHeaders: UInt8 = 4
  private static let padded: UInt8 = 8
  /// `:status 200`.
  private static let status: [UInt8] = [0x88]
  /// `x-dummy0: abc`, without a table.
  private static let more: [UInt8] = [0x00, 8] + Array("x-dummy0".utf8) + [3] + Array("abc".utf8)
  private static let test = Array("test".utf8)

  private static func data(_ stream: UInt32, _ flags: UInt8 = endStream, _ bytes: [UInt8] = test) -> [UInt8] {
    frame(0, flags, stream, bytes)
  }

  private static func headers(_ stream: UInt32, _ flags: UInt8, _ block: [UInt8] = status) -> [UInt8] {
    frame(1, flags, stream, block)
  }

  private static func priority(_ stream: UInt32, _ bytes: [UInt8] = [0, 0, 0, 0, 255]) -> [UInt8] {
    frame(2, 0, stream, bytes)
  }

  private static func reset(_ stream: UInt32, _ bytes: [UInt8] = [0, 0, 0, 8]) -> [UInt8] { frame(3, 0, stream, bytes) }
  private static func settings(_ bytes: [UInt8], _ flags: UInt8 = 0, _ stream: UInt32 = 0) -> [UInt8] {
    frame(4, flags, stream, bytes)
  }
  private static func ping(_ flags: UInt8 = 0, _ stream: UInt32 = 0, _ count: UInt8 = 8) -> [UInt8] {
    frame(6, flags, stream, (0..<count).map { $0 })
  }
  private static func window(_ stream: UInt32, _ bytes: [UInt8] = [0, 0, 0, 100]) -> [UInt8] {
    frame(8, 0, stream, bytes)
  }
  private static func continuation(_ stream: UInt32, _ flags: UInt8, _ block: [UInt8] = more) -> [UInt8] {
    frame(9, flags, stream, block)
  }

  private static let endOfAll = endStream | endHeaders
  private static let largest = 16_384

  // MARK: - Cases

  static let frameFormat: [Case] = [
    Case("4.1", "a frame of an unknown type", .stays, frame(255, 0, 0, Array(0..<8)), ping()),
    Case("4.1", "a flag that means nothing", .stays, frame(6, 0xfe, 0, Array(0..<8))),
    Case("4.1", "the reserved bit of a stream id", .stays, frame(6, 0, 0x8000_0000, Array(0..<8))),
    Case(
      "4.2", "DATA of 2^14 octets", .either, headers(1, endHeaders),
      data(1, endStream, [UInt8](repeating: 0x78, count: largest)), ping()),
    Case(
      "4.2", "DATA larger than SETTINGS_MAX_FRAME_SIZE", .closes, headers(1, endHeaders),
      data(1, endStream, [UInt8](repeating: 0x78, count: largest + 1))),
    Case(
      "4.2", "HEADERS larger than SETTINGS_MAX_FRAME_SIZE", .closes,
      headers(1, endOfAll, status + [UInt8](repeating: 0x88, count: largest))),
    Case("4.3", "a header block that cannot be read", .closes, headers(1, endOfAll, [0x40])),
    Case("5.5", "a frame of an unknown extension", .stays, frame(0x16, 0, 0, Array(0..<8)), ping()),
  ]

  static let streams: [Case] = [
    Case("5.1", "idle: DATA", .closes, data(2)),
    Case("5.1", "idle: RST_STREAM", .closes, reset(2)),
    Case("5.1", "idle: WINDOW_UPDATE", .closes, window(2)),
    Case("5.1", "idle: CONTINUATION", .closes, continuation(2, endHeaders, status)),
    Case("5.1", "closed by RST_STREAM: DATA", .either, headers(1, endHeaders), reset(1), data(1)),
    Case("5.1", "closed by RST_STREAM: HEADERS", .either, headers(1, endHeaders), reset(1), headers(1, endOfAll)),
    Case(
      "5.1", "closed by RST_STREAM: CONTINUATION", .closes, headers(1, endHeaders), reset(1),
      continuation(1, endHeaders)),
    Case("5.1", "closed: DATA", .either, headers(1, endOfAll), data(1)),
    Case("5.1", "closed: HEADERS", .either, headers(1, endOfAll), headers(1, endOfAll)),
    Case("5.1", "closed: CONTINUATION", .closes, headers(1, endOfAll), continuation(1, endHeaders)),
    Case("5.1.1", "a stream that the client did not open", .closes, headers(101, endOfAll)),
    Case("5.4.1", "an invalid PING ends the connection", .closes, ping(0, 0, 7)),
    Case("5.4.1", "an invalid PING is reported with GOAWAY", .closes, ping(0, 0, 9)),
  ]

  static let dataAndHeaders: [Case] = [
    Case("6.1", "DATA on stream 0", .closes, data(0)),
    Case("6.1", "DATA on a stream that is not open", .either, headers(3, endOfAll), data(3)),
    Case("6.1", "DATA padded beyond its end", .closes, headers(1, endHeaders), data(1, padded | endStream, [6] + test)),
    Case("6.2", "HEADERS unfinished, then PRIORITY", .closes, headers(1, 0), priority(1), continuation(1, endHeaders)),
    Case("6.2", "HEADERS on stream 0", .closes, headers(0, endOfAll)),
    Case("6.2", "HEADERS padded beyond its end", .closes, headers(1, padded | endOfAll, [200] + status)),
    Case("6.3", "PRIORITY on stream 0", .closes, priority(0)),
    Case("6.3", "PRIORITY that has not 5 octets", .closes, priority(1, [0, 0, 0, 255])),
    Case("6.4", "RST_STREAM on stream 0", .closes, reset(0)),
    Case("6.4", "RST_STREAM of an idle stream", .closes, reset(99)),
    Case("6.4", "RST_STREAM that has not 4 octets", .closes, reset(1, [0, 0, 8])),
  ]

  static let settingsAndPings: [Case] = [
    Case("1", "the server's preface", .stays, settings([])),
    Case("6.5", "SETTINGS that acknowledges with a payload", .closes, settings([0, 3, 0, 0, 0, 1], 1)),
    Case("6.5", "SETTINGS on a stream", .closes, settings([0, 3, 0, 0, 0, 100], 0, 1)),
    Case("6.5", "SETTINGS that has not a multiple of 6 octets", .closes, settings([0, 3, 0])),
    Case("6.5.2", "an initial window above 2^31-1", .closes, settings([0, 4, 0x80, 0, 0, 0])),
    Case("6.5.2", "a maximum frame size below 2^14", .closes, settings([0, 5, 0, 0, 0x3f, 0xff])),
    Case("6.5.2", "a maximum frame size above 2^24-1", .closes, settings([0, 5, 1, 0, 0, 0])),
    Case("6.5.2", "an unknown setting", .stays, settings([0, 0xff, 0, 0, 0, 1]), ping()),
    Case("6.5.3", "SETTINGS, which is acknowledged", .stays, settings([0, 3, 0, 0, 0, 100])),
    Case("6.7", "PING, which is answered", .stays, ping()),
    Case("6.7", "PING that acknowledges, which is not", .stays, ping(1)),
    Case("6.7", "PING on a stream", .closes, ping(0, 1)),
    Case("6.7", "PING that has not 8 octets", .closes, ping(0, 0, 6)),
    Case("6.8", "GOAWAY on a stream", .closes, frame(7, 0, 1, [0, 0, 0, 0, 0, 0, 0, 0])),
  ]

  static let windowsAndContinuations: [Case] = [
    Case("6.9", "WINDOW_UPDATE by 0", .closes, window(0, [0, 0, 0, 0])),
    Case("6.9", "WINDOW_UPDATE by 0 on a stream", .either, headers(1, endHeaders), window(1, [0, 0, 0, 0])),
    Case("6.9", "WINDOW_UPDATE that has not 4 octets", .closes, window(0, [0, 0, 1])),
    Case(
      "6.9.1", "a window beyond 2^31-1", .closes, window(0, [0x7f, 0xff, 0xff, 0xff]),
      window(0, [0x7f, 0xff, 0xff, 0xff])),
    Case(
      "6.9.1", "a window beyond 2^31-1 on a stream", .either, headers(1, endHeaders),
      window(1, [0x7f, 0xff, 0xff, 0xff]), window(1, [0x7f, 0xff, 0xff, 0xff])),
    Case(
      "6.10", "CONTINUATION twice", .stays, headers(1, endStream), continuation(1, 0), continuation(1, endHeaders),
      ping()),
    Case("6.10", "CONTINUATION, then another frame", .closes, headers(1, 0), continuation(1, 0), data(1)),
    Case("6.10", "CONTINUATION on stream 0", .closes, headers(1, endStream), continuation(0, endHeaders)),
    Case("6.10", "CONTINUATION behind finished HEADERS", .closes, headers(1, endOfAll), continuation(1, endHeaders)),
    Case(
      "6.10", "CONTINUATION behind a finished one", .closes, headers(1, endStream), continuation(1, endHeaders),
      continuation(1, endHeaders)),
    Case(
      "6.10", "CONTINUATION behind DATA", .closes, headers(1, 0), data(1), continuation(1, 0),
      continuation(0, endHeaders)),
  ]

  static let all = frameFormat + streams + dataAndHeaders + settingsAndPings + windowsAndContinuations

  /// The number of h2spec's cases for clients.
  @Test func noCaseIsMissing() {
    #expect(HTTP2ClientConformanceTests.all.count == 57)
  }

  @Test(arguments: all) func holds(_ tested: Case) {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<3 { #expect(pair.post() != nil) }
    pair.exchange()
    pair.feedClient(tested.frames)
    switch tested.end {
    case .closes:
      #expect(pair.isClientClosed)
      #expect(pair.clientError != nil)
      // GOAWAY is the last frame that it writes.
      #expect(pair.written.contains { $0.type == 7 })
      #expect(pair.reported.count == 3)
      #expect(pair.post() == nil)
    case .stays:
      #expect(!pair.isClientClosed)
      // Only frames that need an acknowledgement get one.
      let asked = HTTP2MemoryPair.heads(in: tested.frames).filter {
        ($0.type == 4 || $0.type == 6) && $0.flags & 1 == 0
      }
      #expect(pair.written.filter { $0.flags & 1 == 1 }.map(\.type) == asked.map(\.type))
      // The server that answers below did not ask.
      pair.toServer.removeAll()
      pair.respondToAll()
      pair.exchange()
      #expect(pair.reported.values.allSatisfy { $0 == .response(200) } && pair.reported.count == 3)
      #expect(pair.post() != nil)
      pair.exchange()
    case .either:
      if !pair.isClientClosed {
        pair.exchange()
        pair.respondToAll()
        pair.exchange()
        #expect(pair.reported.count == 3)
      }
    }
    pair.endAndAudit()
  }

  /// A frame that is cut off in the middle ends what it belongs to, and no more.
  @Test(arguments: all) func holdsInPieces(_ tested: Case) {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<3 { #expect(pair.post() != nil) }
    pair.exchange()
    for byte in tested.frames.prefix(200) where !pair.isClientClosed { pair.feedClient([byte]) }
    pair.endAndAudit()
  }
}

extension HTTP2MemoryPair {
  /// The frames that the client wrote and the server has not read yet.
  fileprivate var written: [(type: UInt8, flags: UInt8)] {
    toServer.withBytes { HTTP2MemoryPair.heads(in: copy($0)) }
  }

  /// Type and flags of each frame.
  fileprivate static func heads(in bytes: [UInt8]) -> [(type: UInt8, flags: UInt8)] {
    var heads: [(type: UInt8, flags: UInt8)] = []
    var start = 0
    while start + 9 <= bytes.count {
      heads.append((bytes[start + 3], bytes[start + 4]))
      start += 9 + Int(bytes[start]) << 16 + Int(bytes[start + 1]) << 8 + Int(bytes[start + 2])
    }
    return heads
  }
}
