import PushCore
import PushIO
import Testing

/// A server's session: how it reports requests, and that no client breaks it.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2ServerSessionTests {
  private func submit(
    _ pair: HTTP2MemoryPair, _ build: (inout HTTP2HeaderList) -> Void, body: [UInt8] = []
  ) -> Bool {
    var headers = HTTP2HeaderList()
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    headers.append(.authority, "localhost")
    headers.append(.path, "/3/device/00")
    build(&headers)
    return pair.client.submit(
      headers, body: body, bodyRange: 0..<body.count, ticket: Ticket(index: 7, generation: 1), into: &pair.toServer)
  }

  /// :method POST, :scheme https, :path /, :authority a
  private static let request: [UInt8] = [0x83, 0x87, 0x84, 0x01, 0x01, 0x61]

  @Test func everyHeaderIsVisibleAsItCame() throws {
    let pair = HTTP2MemoryPair.ready()
    #expect(
      submit(pair) { headers in
        headers.append(.apnsTopic, "one")
        headers.append(.apnsTopic, "two")
        headers.append("x-unknown", "three")
        headers.append(.apnsPriority, decimal: 10)
      })
    pair.deliverToServer()
    let stream = try #require(pair.requests.first)
    #expect(pair.server.hasDuplicate(of: stream))
    #expect(pair.server.headerCount(of: stream) == 8)
    #expect(pair.server.withHeader(.apnsTopic, of: stream) { copy($0) } == Array("one".utf8))
    #expect(pair.server.withHeader(.apnsPriority, of: stream) { copy($0) } == Array("10".utf8))
    let fields = (4..<8).map { position in
      pair.server.withField(at: position, of: stream) { name, value in
        String(decoding: copy(name), as: UTF8.self) + "=" + String(decoding: copy(value), as: UTF8.self)
      }
    }
    #expect(fields == ["apns-topic=one", "apns-topic=two", "x-unknown=three", "apns-priority=10"])
    #expect(pair.server.withBody(of: stream) { $0.count } == 0)
    #expect(pair.server.withHeader(.path, of: 99) { $0.count } == 0)
  }

  @Test func tooManyHeadersResetTheRequest() {
    let pair = HTTP2MemoryPair.ready()
    #expect(submit(pair) { headers in for _ in 0..<100 { headers.append("x-many", "1") } })
    pair.deliverToServer()
    #expect(pair.requests.isEmpty)
    #expect(pair.resets.count == 1)
    #expect(pair.server.isOpen)
  }

  @Test func aRequestWithoutAPathIsRefused() {
    let pair = HTTP2MemoryPair.ready()
    var headers = HTTP2HeaderList()
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    #expect(
      pair.client.submit(
        headers, body: [], bodyRange: 0..<0, ticket: Ticket(index: 1, generation: 1), into: &pair.toServer))
    pair.deliverToServer()
    #expect(pair.requests.isEmpty)
    #expect(pair.server.counters.invalidFrames == 1)
    #expect(pair.server.isOpen)
  }

  /// A client that ignores SETTINGS is counted and disconnected.
  @Test func streamsOverTheLimitAreCounted() {
    let pair = HTTP2MemoryPair.ready(server: HTTP2ServerSettings(maximumStreams: 1))
    // HEADERS with END_STREAM and END_HEADERS: :method POST, :scheme https, :path /, :authority a.
    let block: [UInt8] = [0x83, 0x87, 0x84, 0x01, 1, 0x61]
    pair.feedServer(HTTP2MemoryPair.frame(type: 1, flags: 5, stream: 1, block))
    #expect(pair.requests == [1])
    pair.feedServer(HTTP2MemoryPair.frame(type: 1, flags: 5, stream: 3, block))
    #expect(pair.server.counters.streamsOverLimit == 1)
    #expect(pair.isServerClosed)
  }

  @Test func aRequestIsAnsweredOnce() throws {
    let pair = HTTP2MemoryPair.ready()
    _ = try #require(pair.post())
    pair.exchange()
    let stream = pair.requests[0]
    #expect(pair.respond(stream))
    #expect(!pair.respond(stream))
    #expect(!pair.respond(1001))
    pair.exchange()
    pair.endAndAudit()
  }

  @Test func aPrefaceThatIsNoneEndsTheConnection() {
    let pair = HTTP2MemoryPair()
    pair.feedServer(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
    #expect(pair.isServerClosed)
  }

  @Test func longAnswersRespectTheClientsWindow() {
    var settings = HTTP2ClientSettings(responseBodyLimit: 1 << 20)
    settings.streamWindow = 10_000
    let pair = HTTP2MemoryPair.ready(client: settings)
    for _ in 0..<20 { #expect(pair.post() != nil) }
    pair.exchange()
    for stream in pair.requests { pair.respond(stream, body: [UInt8](repeating: 9, count: 100_000)) }
    #expect(pair.waitingForClient < 20 * 11_000)
    pair.exchange()
    #expect(pair.bodies.values.allSatisfy { $0.count == 100_000 })
    #expect(pair.reported.count == 20)
    pair.endAndAudit()
  }

  /// A client that goes on with a closed stream gets an error, as strictly as from nghttpd.
  @Test(arguments: [
    "HEADERS behind the answer", "DATA behind the answer", "HEADERS behind a reset", "DATA behind a reset",
  ])
  func framesOnAClosedStreamAreAViolation(_ what: String) throws {
    let pair = HTTP2MemoryPair.ready()
    #expect(submit(pair) { $0.append(.apnsTopic, "one") })
    pair.exchange()
    let stream = try #require(pair.requests.first)
    if what.hasSuffix("answer") {
      #expect(pair.respond(stream))
    } else {
      pair.feedServer(HTTP2MemoryPair.frame(type: 3, stream: UInt32(stream), [0, 0, 0, 8]))
    }
    let frame =
      what.hasPrefix("HEADERS")
      ? HTTP2MemoryPair.frame(type: 1, flags: 5, stream: UInt32(stream), Self.request)
      : HTTP2MemoryPair.frame(type: 0, flags: 1, stream: UInt32(stream), [1])
    pair.feedServer(frame)
    #expect(pair.isServerClosed)
    guard case .protocolViolation(code: .streamClosed, _)? = pair.serverError else {
      Issue.record("STREAM_CLOSED, not \(String(describing: pair.serverError))")
      return
    }
  }

  /// Frames that a client sent before it saw the reset of its stream are no error.
  @Test func bytesBehindAResetOfOursAreNoViolation() throws {
    let pair = HTTP2MemoryPair.ready()
    pair.feedServer(HTTP2MemoryPair.frame(type: 1, flags: 4, stream: 1, Self.request))
    pair.server.reset(1, .refusedStream, into: &pair.toClient)
    pair.feedServer(HTTP2MemoryPair.frame(type: 0, flags: 1, stream: 1, [1, 2, 3]))
    #expect(!pair.isServerClosed)
  }

  /// The slot of a closed stream serves another one, whatever still comes for the first.
  @Test func aClosedStreamIsNotTakenForItsSuccessor() throws {
    let pair = HTTP2MemoryPair.ready()
    #expect(pair.post() != nil)
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    pair.feedServer(HTTP2MemoryPair.frame(type: 1, flags: 4, stream: 3, Self.request))
    #expect(pair.server.streamsInFlight == 1)
    // Late frames that are legal on a closed stream.
    pair.feedServer(HTTP2MemoryPair.frame(type: 8, stream: 1, [0, 0, 0, 100]))
    pair.feedServer(HTTP2MemoryPair.frame(type: 3, stream: 1, [0, 0, 0, 8]))
    #expect(pair.server.streamsInFlight == 1 && pair.resets.isEmpty)
    pair.feedServer(HTTP2MemoryPair.frame(type: 0, flags: 1, stream: 3, [1]))
    #expect(pair.requests == [3])
  }
}
