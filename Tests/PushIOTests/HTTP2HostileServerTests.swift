import PushCore
import PushIO
import Testing

/// A hostile server: nothing that it sends crashes or hangs the client or exceeds its memory bounds, and
/// each request is reported once.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2HostileServerTests {
  private func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    HTTP2MemoryPair.frame(type: type, flags: flags, stream: stream, payload)
  }

  /// A connection with three requests in flight, on streams 1, 3 and 5.
  private func busy(_ settings: HTTP2ClientSettings = HTTP2ClientSettings()) -> HTTP2MemoryPair {
    let pair = HTTP2MemoryPair.ready(client: settings)
    for _ in 0..<3 { #expect(pair.post() != nil) }
    pair.exchange()
    return pair
  }

  /// Violations that a client must not tolerate.
  @Test(
    arguments: [
      ("a push that was forbidden", 5, 4, 1, [0, 0, 0, 2, 0x88]),
      ("a window beyond 2^31", 8, 0, 0, [0x7f, 0xff, 0xff, 0xff]),
      ("an initial window beyond 2^31", 4, 0, 0, [0, 4, 0xff, 0xff, 0xff, 0xff]),
      ("a frame size too small", 4, 0, 0, [0, 5, 0, 0, 0, 1]),
      ("a push setting of 2", 4, 0, 0, [0, 2, 0, 0, 0, 2]),
      ("settings that acknowledge with a body", 4, 1, 0, [0, 3, 0, 0, 0, 1]),
      ("a reset of an idle stream", 3, 0, 99, [0, 0, 0, 8]),
      ("a window of an idle stream", 8, 0, 99, [0, 0, 0, 1]),
      ("a reset of no stream", 3, 0, 0, [0, 0, 0, 8]),
      ("a priority of no stream", 2, 0, 0, [0, 0, 0, 1, 16]),
      ("a GOAWAY on a stream", 7, 0, 1, [0, 0, 0, 0, 0, 0, 0, 0]),
      ("a ping on a stream", 6, 0, 1, [1, 2, 3, 4, 5, 6, 7, 8]),
      ("padding longer than the frame", 0, 8, 1, [200, 1, 2]),
      ("a header table beyond its bound", 1, 4, 1, [0x3f, 0xff, 0xff, 0xff, 0x7f, 0x88]),
      ("a header that is not in the table", 1, 4, 1, [0xff, 0x80, 0x01]),
    ] as [(String, UInt8, UInt8, UInt32, [UInt8])])
  func breaksTheConnection(_ what: String, _ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) {
    let pair = busy()
    pair.feedClient(frame(type, flags: flags, stream: stream, payload))
    #expect(pair.isClientClosed, "\(what)")
    guard case .protocolViolation = pair.clientError else {
      Issue.record("\(what): a violation, not \(String(describing: pair.clientError))")
      return
    }
    #expect(pair.reported.count == 3)
    #expect(pair.post() == nil)
  }

  private static func field(_ name: String, _ value: String) -> [UInt8] {
    [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
  }

  /// Malformed answers: RFC 9113, 8.1 to 8.3. 0x88 is `:status 200`.
  @Test(
    arguments: [
      ("a name in capitals", [0x88] + field("X-Dummy", "a")),
      ("a status behind a header", field("x-dummy", "a") + [0x88]),
      ("an unknown pseudo-header", [0x88] + field(":test", "a")),
      ("a request's pseudo-header", [0x88, 0x84]),
      ("no status", field("x-dummy", "a")),
      ("two statuses", [0x88, 0x88]),
      ("a status that is none", field(":status", "abc")),
      ("a header of HTTP/1", [0x88] + field("connection", "keep-alive")),
      ("another length than it says", [0x88] + field("content-length", "1")),
    ] as [(String, [UInt8])])
  func aMalformedAnswerEndsItsStreamOnly(_ what: String, _ block: [UInt8]) {
    let pair = busy()
    pair.feedClient(frame(1, flags: 5, stream: 3, block))
    #expect(!pair.isClientClosed, "\(what)")
    // By ticket: the second one was on stream 3.
    #expect(pair.reported.keys.sorted() == [2] && pair.reported[2] != .response(200), "\(what): \(pair.reported)")
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    #expect(pair.reported[1] == .response(200) && pair.reported[3] == .response(200))
    pair.endAndAudit()
  }

  @Test func aFloodOfSettingsThatNobodyReadsIsGivenUp() {
    var settings = HTTP2ClientSettings()
    settings.outboundLimit = 64 * 1024
    let pair = busy(settings)
    for count in 0..<20_000 where !pair.isClientClosed {
      pair.feedClient(frame(4, [0, 3, 0, 0, 0, UInt8(truncatingIfNeeded: count % 100 + 3)]))
    }
    guard case .resourceExhausted = pair.clientError else {
      Issue.record("given up, not \(String(describing: pair.clientError))")
      return
    }
    #expect(pair.waitingForServer < 128 * 1024)
    #expect(pair.reported.count == 3)
  }

  @Test func framesThatMeanNothingCostNothing() {
    let pair = busy()
    for _ in 0..<20_000 {
      pair.feedClient(frame(2, stream: 1, [0, 0, 0, 0, 16]))
      pair.feedClient(frame(0xfe, flags: 0xff, stream: 1, [1, 2, 3]))
      pair.feedClient(frame(4, flags: 1))
      if pair.isClientClosed { break }
    }
    #expect(pair.waitingForServer < 1024 * 1024)
    pair.endAndAudit()
  }

  @Test func anEndlessRowOfEmptyDataFramesHoldsNothing() {
    let pair = busy()
    pair.feedClient(frame(1, flags: 4, stream: 1, [0x88]))
    for _ in 0..<50_000 { pair.feedClient(frame(0, stream: 1)) }
    #expect(pair.client.streamsInFlight <= 3)
    pair.feedClient(frame(0, flags: 1, stream: 1))
    pair.endAndAudit()
    #expect(pair.reported[1] == .response(200) || pair.clientError != nil)
  }

  @Test func aWindowOverflowOfOneStreamEndsThatStreamOnly() {
    let pair = busy()
    pair.feedClient(frame(8, stream: 3, [0x7f, 0xff, 0xff, 0xff]))
    #expect(!pair.isClientClosed)
    #expect(pair.reported.count <= 1)
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    // By ticket: the second one was on stream 3.
    #expect(pair.reported[1] == .response(200) && pair.reported[3] == .response(200))
    #expect(pair.reported[2] != .response(200))
    pair.endAndAudit()
  }

  /// One table entry of 4,000 bytes, named ten thousand times: 40 MB of headers in 14 KB.
  @Test func aHeaderBombDoesNotGoOff() {
    let pair = busy()
    let name = Array("apns-id".utf8)
    var block: [UInt8] = [0x88, 0x40, UInt8(name.count)] + name + [0x7f, 0xa1, 0x1e]
    block += [UInt8](repeating: 0x61, count: 4_000)
    pair.feedClient(frame(1, stream: 1, block))
    pair.feedClient(frame(9, flags: 4, stream: 1, [UInt8](repeating: 0xbe, count: 10_000)))
    #expect((pair.apnsIDs[1]?.count ?? 0) <= 256)
    pair.endAndAudit()
  }

  @Test func everyStreamResetAtOnceIsReportedAndForgotten() {
    let pair = HTTP2MemoryPair.ready()
    var stream: UInt32 = 1
    for _ in 0..<10_000 {
      guard pair.post() != nil else { break }
      pair.toServer.removeAll()
      pair.feedClient(frame(3, stream: stream, [0, 0, 0, 7]))
      stream += 2
    }
    #expect(pair.reported.count == 10_000)
    #expect(pair.reported.values.allSatisfy { $0 == .notProcessed })
    #expect(pair.client.streamsInFlight == 0)
    pair.endAndAudit()
  }

  @Test func aGoAwayThatGrowsOrComesTwiceTellsOnce() {
    let pair = busy()
    pair.feedClient(frame(7, [0, 0, 0, 3, 0, 0, 0, 0]))
    pair.feedClient(frame(7, [0, 0, 0, 5, 0, 0, 0, 0]))
    pair.feedClient(frame(7, [0, 0, 0, 1, 0, 0, 0, 11] + [UInt8](repeating: 0x78, count: 10_000)))
    #expect(pair.post() == nil)
    pair.endAndAudit()
  }

  @Test func streamsThatAreAnsweredAgainAreNotReported() {
    let pair = busy()
    for _ in 0..<3 {
      pair.feedClient(frame(1, flags: 5, stream: 1, [0x88]))
      if pair.isClientClosed { break }
    }
    #expect(pair.reported[1] == .response(200))
    pair.endAndAudit()
  }

  @Test func aLimitOfZeroStreamsIsObeyed() {
    let pair = HTTP2MemoryPair.ready()
    pair.feedClient(frame(4, [0, 3, 0, 0, 0, 0]))
    #expect(pair.client.availableStreams == 0)
    #expect(pair.post() == nil)
    pair.feedClient(frame(4, [0, 3, 0, 0, 0, 1]))
    #expect(pair.post() != nil)
    #expect(pair.post() == nil)
    pair.endAndAudit()
  }
}
