import PushCore
import PushIO
import Testing

/// A client's session against a server's, frame by frame, without a socket.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2ClientSessionTests {
  @Test func aRequestAndItsAnswerArriveWhole() throws {
    let pair = HTTP2MemoryPair.ready()
    let body = Array(#"{"aps":{"alert":"Shipped"}}"#.utf8)
    let ticket = try #require(pair.post(body))
    pair.exchange()
    let stream = try #require(pair.requests.first)
    #expect(pair.server.withBody(of: stream) { copy($0) } == body)
    #expect(pair.server.withHeader(.path, of: stream) { copy($0) } == Array("/3/device/1".utf8))
    #expect(pair.server.withHeader(.authorization, of: stream) { copy($0) } == Array("bearer token".utf8))
    #expect(!pair.server.hasHeader(.apnsCollapseID, of: stream))
    #expect(pair.server.headerCount(of: stream) == 7)
    pair.respond(stream, status: 400, body: Array(#"{"reason":"BadTopic"}"#.utf8))
    pair.exchange()
    #expect(pair.reported[ticket.index] == .response(400))
    #expect(pair.bodies[ticket.index] == Array(#"{"reason":"BadTopic"}"#.utf8))
    #expect(pair.apnsIDs[ticket.index] == Array("8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11".utf8))
    #expect(pair.client.streamsInFlight == 0)
    pair.endAndAudit()
  }

  @Test func oneStreamUntilSettings() {
    let pair = HTTP2MemoryPair(server: HTTP2ServerSettings(maximumStreams: 3))
    #expect(pair.client.availableStreams == 1)
    #expect(pair.post() != nil)
    #expect(pair.post() == nil)
    pair.exchange()
    #expect(pair.clientNotes == ["opened", "settings 3"])
    #expect(pair.client.availableStreams == 2)
    #expect(pair.post() != nil)
    #expect(pair.post() != nil)
    #expect(pair.post() == nil)
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    #expect(pair.client.availableStreams == 3)
    pair.endAndAudit()
    #expect(pair.reported.count == 3)
  }

  @Test func ourOwnMaximumHolds() {
    let pair = HTTP2MemoryPair.ready(client: HTTP2ClientSettings(maximumStreams: 2))
    #expect(pair.client.streamLimit == 2)
    #expect(pair.post() != nil)
    #expect(pair.post() != nil)
    #expect(pair.post() == nil)
    pair.endAndAudit()
  }

  /// A thousand bodies through APNs' window, in pieces of any size: no stream may hang.
  @Test(arguments: [1, 2, 3] as [UInt64])
  func flowControlLeavesNoStreamBehind(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let pair = HTTP2MemoryPair.ready()
    for number in 0..<1000 {
      let body = [UInt8](repeating: UInt8(number % 251), count: Int.random(in: 1...4096, using: &random))
      #expect(pair.post(body) != nil)
    }
    #expect(pair.client.sendWindow == 0)
    pair.exchange(using: &random)
    #expect(pair.requests.count == 1000)
    for (number, stream) in pair.requests.sorted().enumerated() {
      let body = pair.server.withBody(of: stream) { copy($0) }
      #expect(!body.isEmpty && body.allSatisfy { $0 == UInt8(number % 251) })
    }
    pair.respondToAll()
    pair.exchange(using: &random)
    #expect(pair.reported.count == 1000)
    #expect(pair.reported.values.allSatisfy { $0 == .response(200) })
    pair.endAndAudit()
  }

  @Test func aWithheldWindowStallsAndResumes() {
    let pair = HTTP2MemoryPair.ready()
    pair.server.withholdsWindowUpdates = true
    for _ in 0..<40 { #expect(pair.post([UInt8](repeating: 7, count: 4096)) != nil) }
    pair.exchange()
    #expect(pair.requests.count == 15)
    #expect(pair.client.sendWindow == 0)
    pair.server.withholdsWindowUpdates = false
    pair.exchange()
    #expect(pair.requests.count == 40)
    pair.respondToAll()
    pair.exchange()
    #expect(pair.reported.count == 40)
    pair.endAndAudit()
  }

  @Test func aBodyLargerThanTheStreamsWindowArrives() throws {
    let pair = HTTP2MemoryPair.ready()
    let body = (0..<300_000).map { UInt8(truncatingIfNeeded: $0) }
    _ = try #require(pair.post(body))
    pair.exchange()
    let stream = try #require(pair.requests.first)
    #expect(pair.server.bodyCount(of: stream) == body.count)
    #expect(pair.server.withBody(of: stream) { copy($0) } == Array(body.prefix(64 * 1024)))
  }

  /// The stream limit falls below the streams in flight and rises again; the server counts streams above the limit.
  @Test func fallingAndRisingLimitsAreKept() {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<1000 { #expect(pair.post() != nil) }
    #expect(pair.post() == nil)
    pair.exchange()
    pair.server.changeMaximumStreams(1, into: &pair.toClient)
    pair.exchange()
    #expect(pair.client.streamLimit == 1)
    #expect(pair.client.availableStreams == 0)
    while pair.requests.count > 0 {
      let half = Array(pair.requests.prefix(max(1, pair.requests.count / 2)))
      for stream in half { pair.respond(stream) }
      pair.forgetRequests(half.count)
      pair.exchange()
      while pair.client.streamsInFlight > 0, pair.post() != nil {}
    }
    pair.exchange()
    #expect(pair.client.streamsInFlight <= 1)
    #expect(pair.post() != nil)
    #expect(pair.post() == nil)
    pair.exchange()
    pair.server.changeMaximumStreams(1000, into: &pair.toClient)
    pair.exchange()
    while pair.post() != nil {}
    #expect(pair.client.streamsInFlight == 1000)
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    #expect(pair.server.counters.streamsOverLimit == 0)
    #expect(pair.server.counters.invalidFrames == 0)
    #expect(pair.clientNotes == ["opened", "settings 1000", "settings 1", "settings 1000"])
    pair.endAndAudit()
    #expect(pair.reported.values.allSatisfy { $0 == .response(200) })
  }

  /// Requests that crossed SETTINGS on the wire are refused, so they can be sent elsewhere.
  @Test func whatCrossesALowerLimitWasNotProcessed() {
    let pair = HTTP2MemoryPair.ready()
    pair.server.changeMaximumStreams(2, into: &pair.toClient)
    for _ in 0..<5 { #expect(pair.post() != nil) }
    pair.deliverToServer()
    pair.respondToAll()
    pair.exchange()
    #expect(
      pair.reported == [1: .response(200), 2: .response(200), 3: .notProcessed, 4: .notProcessed, 5: .notProcessed])
    #expect(pair.server.counters.streamsRefused == 3)
    #expect(pair.server.counters.streamsOverLimit == 0)
    pair.endAndAudit()
  }

  @Test func goAwayTellsExactlyWhatWasNotProcessed() throws {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<10 { #expect(pair.post() != nil) }
    pair.exchange()
    let last = pair.requests.sorted()[3]
    let reason = Array(#"{"reason":"Shutdown"}"#.utf8)
    pair.server.goAway(lastStreamID: last, code: .noError, debug: reason, into: &pair.toClient)
    pair.exchange()
    #expect(pair.clientNotes.last == "goaway \(last) NO_ERROR")
    #expect(pair.client.withGoAwayReason { copy($0) } == reason)
    #expect(pair.client.isGoingAway)
    #expect(pair.post() == nil)
    #expect((5...10).allSatisfy { pair.reported[$0] == .notProcessed })
    #expect((1...4).allSatisfy { pair.reported[$0] == nil })
    for stream in pair.requests where stream <= last { #expect(pair.respond(stream)) }
    pair.exchange()
    #expect((1...4).allSatisfy { pair.reported[$0] == .response(200) })
    #expect(pair.isClientClosed && pair.clientError == nil)
    #expect(pair.isServerClosed && pair.serverError == nil)
    #expect(pair.reported.count == 10)
  }

  @Test func whatGoAwayCoversIsLostWithItsCode() {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<3 { #expect(pair.post() != nil) }
    pair.exchange()
    pair.server.goAway(lastStreamID: nil, code: .enhanceYourCalm, debug: [], into: &pair.toClient)
    pair.exchange()
    #expect(pair.reported.isEmpty)
    pair.client.end(.closedByPeer, unwrittenBytes: 0)
    pair.drainClient()
    #expect((1...3).allSatisfy { pair.reported[$0] == .lost(.enhanceYourCalm) })
    guard case .peerReported(.enhanceYourCalm) = pair.clientError else {
      Issue.record("the end says what the server said, not \(String(describing: pair.clientError))")
      return
    }
  }

  @Test func resetsAreReportedByTheirCode() {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<4 { #expect(pair.post() != nil) }
    pair.exchange()
    let streams = pair.requests.sorted()
    pair.server.reset(streams[0], .refusedStream, into: &pair.toClient)
    pair.server.reset(streams[1], .internalError, into: &pair.toClient)
    var open = HTTP2ResponseOptions()
    open.leavesOpen = true
    pair.respond(streams[2], status: 200, body: [1, 2, 3], options: open)
    pair.exchange()
    pair.server.reset(streams[2], .refusedStream, into: &pair.toClient)
    pair.respond(streams[3])
    pair.server.reset(streams[3], .internalError, into: &pair.toClient)
    pair.exchange()
    #expect(pair.reported[1] == .notProcessed)
    #expect(pair.reported[2] == .lost(.internalError))
    // Its answer had begun, so it was processed.
    #expect(pair.reported[3] == .lost(.refusedStream))
    #expect(pair.reported[4] == .response(200))
    pair.endAndAudit()
  }

  @Test func aCancelledRequestIsReportedOnceAndItsAnswerIsNot() throws {
    let pair = HTTP2MemoryPair.ready()
    let first = try #require(pair.post())
    let second = try #require(pair.post())
    pair.exchange()
    let streams = pair.requests.sorted()
    pair.respond(streams[0])
    #expect(pair.client.cancel(first, into: &pair.toServer))
    #expect(!pair.client.cancel(first, into: &pair.toServer))
    #expect(!pair.client.cancel(Ticket(index: 99, generation: 1), into: &pair.toServer))
    pair.exchange()
    #expect(pair.reported[first.index] == .lost(.cancel))
    pair.respond(streams[1])
    pair.exchange()
    #expect(!pair.client.cancel(second, into: &pair.toServer))
    #expect(pair.reported[second.index] == .response(200))
    pair.endAndAudit()
  }

  /// APNs may answer before it has read the body: the rest of the body is not sent.
  @Test func anAnswerBeforeTheRequestsEndFreesTheStream() {
    var settings = HTTP2ServerSettings()
    settings.reportsHeaders = true
    let pair = HTTP2MemoryPair.ready(server: settings)
    pair.server.withholdsWindowUpdates = true
    #expect(pair.post([UInt8](repeating: 1, count: 200_000)) != nil)
    pair.exchange()
    #expect(pair.requests.isEmpty)
    #expect(pair.headersOnly.count == 1)
    pair.respond(pair.headersOnly[0], status: 413, body: Array("{}".utf8))
    pair.exchange()
    #expect(pair.reported[1] == .response(413))
    #expect(pair.client.streamsInFlight == 0)
    #expect(pair.server.streamsInFlight == 0)
    pair.endAndAudit()
  }

  @Test func informationalResponsesTrailersAndSplitBodies() {
    let pair = HTTP2MemoryPair.ready()
    #expect(pair.post() != nil)
    pair.exchange()
    var options = HTTP2ResponseOptions()
    options.informationalStatus = 103
    options.dataFrameBytes = 3
    options.trailer = (Array("apns-id".utf8), Array("not-this-one".utf8))
    pair.respond(pair.requests[0], status: 410, body: Array(#"{"reason":"Unregistered"}"#.utf8), options: options)
    while !pair.toClient.isEmpty { pair.deliverToClient(1) }
    #expect(pair.reported[1] == .response(410))
    #expect(pair.bodies[1] == Array(#"{"reason":"Unregistered"}"#.utf8))
    #expect(pair.apnsIDs[1] == Array("8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11".utf8))
    pair.endAndAudit()
  }

  @Test func anEndlessBodyIsCut() {
    let pair = HTTP2MemoryPair.ready()
    #expect(pair.post() != nil)
    pair.exchange()
    pair.respond(pair.requests[0], status: 500, body: [UInt8](repeating: 65, count: 5_000_000))
    pair.exchange()
    #expect(pair.reported[1] == .response(500))
    #expect(pair.bodies[1]?.count == 4096)
    pair.endAndAudit()
  }

  @Test func informationalResponsesWithoutEndResetTheStream() {
    let pair = HTTP2MemoryPair(opens: false)
    pair.client.open(into: &pair.toServer)
    pair.feedClient(HTTP2MemoryPair.frame(type: 4))
    #expect(pair.post() != nil)
    // HEADERS, END_HEADERS, ":status: 100" as a literal.
    let informational = HTTP2MemoryPair.frame(type: 1, flags: 4, stream: 1, [0x08, 3, 0x31, 0x30, 0x30])
    for _ in 0..<100 { pair.feedClient(informational) }
    #expect(pair.reported[1] == .lost(.internalError))
    #expect(pair.client.isOpen)
    pair.endAndAudit()
  }

  @Test func pingsAreAnsweredBothWays() {
    let pair = HTTP2MemoryPair.ready()
    pair.client.ping(into: &pair.toServer)
    pair.server.ping(into: &pair.toClient)
    pair.exchange()
    #expect(pair.clientNotes.last == "pong")
    #expect(pair.server.counters.pingsReceived == 1)
    pair.server.acknowledgesPings = false
    pair.client.ping(into: &pair.toServer)
    pair.exchange()
    #expect(pair.clientNotes.filter { $0 == "pong" }.count == 1)
  }

  @Test func shutdownFinishesWhatIsInFlight() {
    let pair = HTTP2MemoryPair.ready()
    #expect(pair.post() != nil)
    pair.exchange()
    pair.client.shutdown(into: &pair.toServer)
    #expect(pair.post() == nil)
    pair.exchange()
    #expect(!pair.isClientClosed)
    pair.respondToAll()
    pair.exchange()
    #expect(pair.reported[1] == .response(200))
    #expect(pair.isClientClosed && pair.clientError == nil)
    #expect(pair.isServerClosed)
  }

  @Test func whatNeverLeftWasNotProcessed() {
    let pair = HTTP2MemoryPair.ready()
    #expect(pair.post() != nil)
    pair.exchange()
    #expect(pair.post() != nil)
    pair.deliverToServer(1)
    #expect(pair.post() != nil)
    pair.endAndAudit()
    #expect(pair.reported == [1: .lost(.cancel), 2: .lost(.cancel), 3: .notProcessed])
  }

  @Test func streamIdentifiersRunOut() {
    var settings = HTTP2ClientSettings()
    settings.firstStreamID = 0x7fff_fffb
    let pair = HTTP2MemoryPair.ready(client: settings)
    #expect(pair.client.shouldRotate)
    #expect(!HTTP2MemoryPair.ready().client.shouldRotate)
    var count = 0
    while count < 10, pair.post() != nil { count += 1 }
    #expect(count == 3)
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    pair.endAndAudit()
    #expect(pair.reported.values.allSatisfy { $0 == .response(200) })
  }

  /// Each is a connection error; what was in flight is reported once.
  @Test(arguments: [
    HTTP2MemoryPair.frame(type: 0, stream: 0, [1, 2, 3]),
    HTTP2MemoryPair.frame(type: 4, stream: 1),
    HTTP2MemoryPair.frame(type: 4, [0, 3, 0]),
    HTTP2MemoryPair.frame(type: 6, [1, 2, 3]),
    HTTP2MemoryPair.frame(type: 7, [0]),
    HTTP2MemoryPair.frame(type: 8, [0, 0, 0, 0]),
    HTTP2MemoryPair.frame(type: 1, flags: 4, stream: 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    HTTP2MemoryPair.frame(type: 1, flags: 4, stream: 2, [0x88]),
    HTTP2MemoryPair.frame(type: 5, flags: 4, stream: 1, [0, 0, 0, 2, 0x88]),
    HTTP2MemoryPair.frame(type: 9, flags: 4, stream: 1, [0x88]),
    HTTP2MemoryPair.frame(type: 0, stream: 1, [UInt8](repeating: 0, count: 20_000)),
    Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8),
  ])
  func illegalFramesEndTheConnection(bytes: [UInt8]) {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<3 { #expect(pair.post() != nil) }
    pair.exchange()
    pair.feedClient(bytes)
    #expect(pair.isClientClosed)
    guard case .protocolViolation = pair.clientError else {
      Issue.record("a violation, not \(String(describing: pair.clientError))")
      return
    }
    #expect(pair.reported.count == 3)
    #expect(pair.waitingForServer > 0, "the server is reported why")
    #expect(pair.post() == nil)
  }

  @Test func headersWithoutEndAreRefused() {
    let pair = HTTP2MemoryPair.ready()
    #expect(pair.post() != nil)
    pair.exchange()
    pair.feedClient(HTTP2MemoryPair.frame(type: 1, stream: 1, [0x88]))
    let field: [UInt8] = [0x00, 1, 0x61, 100] + [UInt8](repeating: 0x62, count: 100)
    for _ in 0..<2000 where !pair.isClientClosed {
      pair.feedClient(HTTP2MemoryPair.frame(type: 9, stream: 1, field))
    }
    #expect(pair.isClientClosed)
    #expect(pair.reported.count == 1)
  }

  @Test func aServerThatPingsAndNeverReadsIsGivenUp() {
    var settings = HTTP2ClientSettings()
    settings.outboundLimit = 64 * 1024
    let pair = HTTP2MemoryPair.ready(client: settings)
    #expect(pair.post() != nil)
    let ping = HTTP2MemoryPair.frame(type: 6, [1, 2, 3, 4, 5, 6, 7, 8])
    for _ in 0..<20_000 where !pair.isClientClosed { pair.feedClient(ping) }
    guard case .resourceExhausted = pair.clientError else {
      Issue.record("given up, not \(String(describing: pair.clientError))")
      return
    }
    #expect(pair.waitingForServer < 128 * 1024)
    #expect(pair.reported.count == 1)
  }

  @Test func memoryIsGivenBackWhereNoStreamIsUsed() {
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<100 { #expect(pair.post() != nil) }
    pair.client.releaseMemory()
    pair.exchange()
    pair.respondToAll()
    pair.exchange()
    #expect(pair.reported.count == 100)
    for count in 101...105 {
      pair.client.releaseMemory()
      #expect(pair.post() != nil)
      pair.client.releaseMemory()
      pair.exchange()
      pair.respondToAll()
      pair.exchange()
      #expect(pair.reported.count == count)
    }
    pair.endAndAudit()
  }

  @Test func noRequestIsTakenWhileTooMuchWaits() {
    var settings = HTTP2ClientSettings()
    settings.outboundLimit = 16 * 1024
    let pair = HTTP2MemoryPair.ready(client: settings)
    var count = 0
    while pair.post([UInt8](repeating: 1, count: 1000)) != nil { count += 1 }
    #expect(count > 10 && count < 20)
    pair.exchange()
    #expect(pair.post() != nil)
    pair.endAndAudit()
  }
}
