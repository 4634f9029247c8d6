import PushCore
import PushIO
import Testing

/// A client and a server session that exchange their bytes in memory, and an auditor that counts the reports of each
/// ticket.
final class HTTP2MemoryPair {
  let client: HTTP2ClientSession
  let server: HTTP2ServerSession
  var toServer = ByteQueue()
  var toClient = ByteQueue()

  /// Bytes in transit.
  var waitingForServer: Int { toServer.count }
  var waitingForClient: Int { toClient.count }

  enum Reported: Equatable {
    case response(Int)
    case notProcessed
    case lost(HTTP2ErrorCode)
  }

  private(set) var submitted: Set<UInt32> = []
  private(set) var reported: [UInt32: Reported] = [:]
  private(set) var bodies: [UInt32: [UInt8]] = [:]
  private(set) var apnsIDs: [UInt32: [UInt8]] = [:]
  private(set) var clientNotes: [String] = []
  private(set) var clientError: HTTP2Error?
  private(set) var isClientClosed = false
  private(set) var requests: [HTTP2StreamID] = []
  private(set) var resets: [HTTP2StreamID: HTTP2ErrorCode] = [:]
  private(set) var headersOnly: [HTTP2StreamID] = []
  private(set) var isServerClosed = false
  private(set) var serverError: HTTP2Error?
  private var nextTicket: UInt32 = 1
  private var headers = HTTP2HeaderList()

  init(
    client clientSettings: HTTP2ClientSettings = HTTP2ClientSettings(),
    server serverSettings: HTTP2ServerSettings = HTTP2ServerSettings(), opens: Bool = true
  ) {
    client = HTTP2ClientSession(settings: clientSettings)
    server = HTTP2ServerSession(settings: serverSettings)
    if opens {
      client.open(into: &toServer)
      server.open(into: &toClient)
    }
  }

  /// A connection after the exchange of SETTINGS.
  static func ready(
    client: HTTP2ClientSettings = HTTP2ClientSettings(), server: HTTP2ServerSettings = HTTP2ServerSettings()
  ) -> HTTP2MemoryPair {
    let pair = HTTP2MemoryPair(client: client, server: server)
    pair.exchange()
    return pair
  }

  /// Submits a POST; its ticket, or nil where it was refused.
  func post(_ body: [UInt8] = Array("{}".utf8), id: String = "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11") -> Ticket? {
    let ticket = Ticket(index: nextTicket, generation: 1)
    headers.removeAll()
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    headers.append(.authority, "api.push.apple.com")
    headers.append(.path, Array("/3/device/\(nextTicket)".utf8).span)
    headers.append(.authorization, "bearer token")
    headers.append(.apnsTopic, "com.example.app")
    headers.append(.apnsID, Array(id.utf8).span, isIndexed: false)
    guard client.submit(headers, body: body, bodyRange: 0..<body.count, ticket: ticket, into: &toServer) else {
      return nil
    }
    submitted.insert(nextTicket)
    nextTicket += 1
    return ticket
  }

  @discardableResult
  func respond(
    _ stream: HTTP2StreamID, status: Int = 200, body: [UInt8] = [],
    options: HTTP2ResponseOptions = HTTP2ResponseOptions()
  ) -> Bool {
    var answer = HTTP2HeaderList()
    answer.append(.status, decimal: status)
    server.withHeader(.apnsID, of: stream) { answer.append(.apnsID, $0, isIndexed: false) }
    return server.respond(stream, answer, body: body, options: options, into: &toClient)
  }

  /// Answers every open request.
  func respondToAll() {
    for stream in requests { respond(stream) }
    requests.removeAll()
  }

  /// The first `count` requests were answered.
  func forgetRequests(_ count: Int) {
    requests.removeFirst(count)
  }

  /// Moves up to `limit` bytes towards the server.
  func deliverToServer(_ limit: Int = .max) {
    let count = min(limit, toServer.count)
    if count == 0 { return }
    toServer.withBytes { server.receive($0.extracting(0..<count), into: &toClient) }
    toServer.consume(count)
    drainServer()
  }

  func deliverToClient(_ limit: Int = .max) {
    let count = min(limit, toClient.count)
    if count == 0 { return }
    toClient.withBytes { client.receive($0.extracting(0..<count), into: &toServer) }
    toClient.consume(count)
    drainClient()
  }

  /// Moves all bytes both ways until none are left.
  func exchange() {
    drainServer()
    drainClient()
    for _ in 0..<100_000 {
      client.resume(into: &toServer)
      server.resume(into: &toClient)
      if toServer.isEmpty && toClient.isEmpty { return }
      deliverToServer()
      deliverToClient()
    }
    Issue.record("the two sides never stop talking")
  }

  /// The same in pieces of random size.
  func exchange(using random: inout SeededRandom) {
    for _ in 0..<1_000_000 {
      client.resume(into: &toServer)
      server.resume(into: &toClient)
      if toServer.isEmpty && toClient.isEmpty { return }
      deliverToServer(Int.random(in: 1...3000, using: &random))
      deliverToClient(Int.random(in: 1...300, using: &random))
    }
    Issue.record("the two sides never stop talking")
  }

  func drainClient() {
    while let event = client.nextEvent() {
      #expect(!isClientClosed, "nothing follows the end")
      switch event {
      case .opened: clientNotes.append("opened")
      case .settingsChanged(let maximum): clientNotes.append("settings \(maximum)")
      case .goAway(let last, let code): clientNotes.append("goaway \(last) \(code)")
      case .pingAcknowledged: clientNotes.append("pong")
      case .response(let ticket, let status):
        tell(ticket, .response(status))
        bodies[ticket.index] = client.withResponseBody { copy($0) }
        apnsIDs[ticket.index] = client.withResponseHeader(.apnsID) { copy($0) }
      case .notProcessed(let ticket): tell(ticket, .notProcessed)
      case .lost(let ticket, let code): tell(ticket, .lost(code))
      case .closed(let error):
        isClientClosed = true
        clientError = error
      }
    }
  }

  func drainServer() {
    while let event = server.nextEvent() {
      switch event {
      case .opened: break
      case .headers(let stream): headersOnly.append(stream)
      case .request(let stream): requests.append(stream)
      case .reset(let stream, let code): resets[stream] = code
      case .closed(let error):
        isServerClosed = true
        serverError = error
      }
    }
  }

  private func tell(_ ticket: Ticket, _ what: Reported) {
    #expect(submitted.contains(ticket.index), "only what was submitted is reported")
    #expect(reported[ticket.index] == nil, "a ticket is reported once")
    reported[ticket.index] = what
  }

  /// The connection ends now; every ticket must have been reported.
  func endAndAudit(unwrittenBytes: Int? = nil) {
    client.end(.aborted, unwrittenBytes: unwrittenBytes ?? toServer.count)
    drainClient()
    #expect(Set(reported.keys) == submitted, "every ticket is reported")
    #expect(isClientClosed)
    #expect(client.streamsInFlight == 0)
  }

  /// A frame, byte by byte.
  static func frame(type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    [
      UInt8(truncatingIfNeeded: payload.count >> 16), UInt8(truncatingIfNeeded: payload.count >> 8),
      UInt8(truncatingIfNeeded: payload.count), type, flags,
      UInt8(truncatingIfNeeded: stream >> 24), UInt8(truncatingIfNeeded: stream >> 16),
      UInt8(truncatingIfNeeded: stream >> 8), UInt8(truncatingIfNeeded: stream),
    ] + payload
  }

  func feedClient(_ bytes: [UInt8]) {
    client.receive(bytes.span, into: &toServer)
    drainClient()
  }

  func feedServer(_ bytes: [UInt8]) {
    server.receive(bytes.span, into: &toClient)
    drainServer()
  }
}

func copy(_ span: Span<UInt8>) -> [UInt8] {
  var bytes: [UInt8] = []
  for index in 0..<span.count { bytes.append(span[index]) }
  return bytes
}
