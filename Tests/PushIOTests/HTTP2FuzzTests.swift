import PushCore
import PushIO
import Testing

/// Random behaviour from a seed: whatever either side does or sends, nothing crashes and each ticket is reported exactly once.
@Suite(.timeLimit(.minutes(2)))
struct HTTP2FuzzTests {
  /// Both sides do what the protocol allows, in any order, and the bytes travel in any pieces.
  @Test(arguments: Array(1...150) as [UInt64])
  func anyOrderOfLegalStepsTellsEachTicketOnce(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var serverSettings = HTTP2ServerSettings(maximumStreams: Int.random(in: 1...50, using: &random))
    serverSettings.reportsHeaders = Bool.random(using: &random)
    var clientSettings = HTTP2ClientSettings(maximumStreams: Int.random(in: 1...50, using: &random))
    clientSettings.outboundLimit = 1 << Int.random(in: 12...20, using: &random)
    let pair = HTTP2MemoryPair(client: clientSettings, server: serverSettings)
    var tickets: [Ticket] = []
    for _ in 0..<400 {
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<35:
        let body = [UInt8](repeating: 1, count: Int.random(in: 0...9000, using: &random))
        if let ticket = pair.post(body) { tickets.append(ticket) }
        #expect(pair.client.streamsInFlight <= clientSettings.maximumStreams)
      case 35..<50: pair.deliverToServer(Int.random(in: 1...20_000, using: &random))
      case 50..<65: pair.deliverToClient(Int.random(in: 1...2000, using: &random))
      case 65..<85: answerOne(pair, &random)
      case 85..<88:
        if let ticket = tickets.randomElement(using: &random) { _ = pair.client.cancel(ticket, into: &pair.toServer) }
        pair.drainClient()
      case 88..<91:
        if let stream = (pair.requests + pair.headersOnly).randomElement(using: &random) {
          let codes: [HTTP2ErrorCode] = [.noError, .refusedStream, .internalError, .cancel]
          pair.server.reset(stream, codes[Int.random(in: 0..<4, using: &random)], into: &pair.toClient)
        }
      case 91..<94:
        pair.server.changeMaximumStreams(Int.random(in: 0...60, using: &random), into: &pair.toClient)
      case 94: pair.server.withholdsWindowUpdates.toggle()
      case 95: pair.client.ping(into: &pair.toServer)
      case 96: pair.server.ping(into: &pair.toClient)
      case 97 where seed % 3 == 0:
        let last = HTTP2StreamID.random(in: 0...max(1, pair.server.lastStreamID), using: &random) | 1
        pair.server.goAway(lastStreamID: last, code: .noError, debug: [], into: &pair.toClient)
      case 98 where seed % 5 == 0: pair.client.shutdown(into: &pair.toServer)
      default:
        pair.client.resume(into: &pair.toServer)
        pair.server.resume(into: &pair.toClient)
      }
    }
    if seed % 2 == 0 {
      // An orderly end: everything is answered, and nothing is in flight.
      pair.server.withholdsWindowUpdates = false
      pair.exchange(using: &random)
      for _ in 0..<3 {
        pair.respondToAll()
        pair.exchange(using: &random)
      }
      for stream in pair.headersOnly { pair.server.reset(stream, .cancel, into: &pair.toClient) }
      for stream in 0...pair.server.lastStreamID where stream % 2 == 1 {
        pair.server.reset(stream, .cancel, into: &pair.toClient)
      }
      pair.exchange(using: &random)
      if pair.client.isOpen { #expect(pair.client.streamsInFlight == 0) }
    }
    #expect(pair.server.counters.streamsOverLimit == 0)
    pair.endAndAudit()
  }

  private func answerOne(_ pair: HTTP2MemoryPair, _ random: inout SeededRandom) {
    guard let stream = (pair.requests + pair.headersOnly).randomElement(using: &random) else { return }
    var options = HTTP2ResponseOptions()
    if Int.random(in: 0..<4, using: &random) == 0 { options.informationalStatus = 100 }
    if Int.random(in: 0..<4, using: &random) == 0 { options.dataFrameBytes = Int.random(in: 1...50, using: &random) }
    if Int.random(in: 0..<9, using: &random) == 0 { options.leavesOpen = true }
    if Int.random(in: 0..<9, using: &random) == 0 { options.trailer = (Array("x".utf8), Array("y".utf8)) }
    let body = [UInt8](repeating: 66, count: Int.random(in: 0...300, using: &random))
    pair.respond(stream, status: 200, body: body, options: options)
  }

  @Test(arguments: Array(1...100) as [UInt64])
  func randomBytesNeverCrashEitherSide(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<5 { _ = pair.post() }
    pair.exchange()
    for _ in 0..<50 {
      // Half of it in the shape of frames, so that it gets past the first nine bytes.
      var bytes = (0..<Int.random(in: 1...200, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      if Bool.random(using: &random) {
        bytes = HTTP2MemoryPair.frame(
          type: UInt8.random(in: 0...10, using: &random), flags: UInt8.random(in: 0...255, using: &random),
          stream: UInt32.random(in: 0...12, using: &random), bytes)
      }
      if Bool.random(using: &random) { pair.feedClient(bytes) } else { pair.feedServer(bytes) }
      _ = pair.post()
    }
    pair.endAndAudit()
  }

  /// Real traffic with a few bytes changed.
  @Test(arguments: Array(1...150) as [UInt64])
  func mutatedTrafficNeverCrashesEitherSide(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let pair = HTTP2MemoryPair.ready()
    for _ in 0..<30 {
      for _ in 0..<5 { _ = pair.post([UInt8](repeating: 3, count: Int.random(in: 1...500, using: &random))) }
      if Int.random(in: 0..<4, using: &random) == 0 {
        var bytes = pair.toServer.withBytes { copy($0) }
        pair.toServer.removeAll()
        mutate(&bytes, &random)
        pair.feedServer(bytes)
      }
      pair.deliverToServer()
      pair.respondToAll()
      if Int.random(in: 0..<4, using: &random) == 0 {
        var bytes = pair.toClient.withBytes { copy($0) }
        pair.toClient.removeAll()
        mutate(&bytes, &random)
        pair.feedClient(bytes)
      }
      pair.deliverToClient()
    }
    pair.endAndAudit()
  }

  private func mutate(_ bytes: inout [UInt8], _ random: inout SeededRandom) {
    if bytes.isEmpty { return }
    for _ in 0..<Int.random(in: 1...4, using: &random) {
      let place = Int.random(in: 0..<bytes.count, using: &random)
      switch Int.random(in: 0..<3, using: &random) {
      case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
      case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
      }
    }
  }
}
