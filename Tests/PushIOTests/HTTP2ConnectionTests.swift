import PushCore
import PushIO
import TestSupport
import Testing

/// Both ends of a connection over a socket pair, in clear text and with TLS, on one loop.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2ConnectionTests {
  /// A loop, a client and a server that answers by itself.
  private final class World {
    let loop: EventLoop
    let client: HTTP2ClientConnection
    let server: HTTP2ServerConnection
    var answers = true
    private(set) var responses: [UInt32: Int] = [:]
    private(set) var notProcessed: Set<UInt32> = []
    private(set) var lost: [UInt32: HTTP2ErrorCode] = [:]
    private(set) var clientEnds: [HTTP2Error?] = []
    private(set) var serverEnds: [HTTP2Error?] = []
    private(set) var requests: [HTTP2StreamID] = []
    private(set) var maximumInFlight = 0
    private var headers = HTTP2HeaderList()

    init(
      clientTLS: TLSContext? = nil, serverTLS: TLSContext? = nil,
      settings: HTTP2ServerSettings = HTTP2ServerSettings()
    ) throws {
      loop = try EventLoop()
      let (one, other) = try makeSocketPair()
      var options = ConnectOptions()
      options.serverName = "localhost"
      client = HTTP2ClientConnection.adopt(loop: loop, fileDescriptor: one, tls: clientTLS, options: options)
      server = HTTP2ServerConnection.adopt(loop: loop, fileDescriptor: other, tls: serverTLS, settings: settings)
    }

    func submit(_ number: UInt32, body: [UInt8]) -> Bool {
      headers.removeAll()
      headers.append(.method, "POST")
      headers.append(.scheme, "https")
      headers.append(.authority, "localhost")
      headers.append(.path, Array("/3/device/\(number)".utf8).span)
      return client.submit(
        headers, body: body, bodyRange: 0..<body.count, ticket: Ticket(index: number, generation: 1))
    }

    /// Turns the loop until the condition holds, for ten seconds at most.
    func turn(until condition: () -> Bool) -> Bool {
      // The loop's clock shows its last turn, which may be long ago.
      loop.poll(maximumWaitMilliseconds: 0)
      drain()
      loop.flush()
      let deadline = loop.now.monotonic.adding(milliseconds: 10_000)
      while loop.now.monotonic < deadline {
        if condition() { return true }
        loop.poll(maximumWaitMilliseconds: 20)
        drain()
        loop.flush()
      }
      return condition()
    }

    func drain() {
      while let event = client.nextEvent() {
        switch event {
        case .response(let ticket, let status): responses[ticket.index] = status
        case .notProcessed(let ticket): notProcessed.insert(ticket.index)
        case .lost(let ticket, let code): lost[ticket.index] = code
        case .closed(let error): clientEnds.append(error)
        case .opened, .settingsChanged, .goAway, .pingAcknowledged: break
        }
      }
      while let event = server.nextEvent() {
        switch event {
        case .request(let stream):
          requests.append(stream)
          maximumInFlight = max(maximumInFlight, server.streamsInFlight)
          if answers {
            var answer = HTTP2HeaderList()
            answer.append(.status, "200")
            server.respond(stream, answer)
          }
        case .closed(let error): serverEnds.append(error)
        case .opened, .headers, .reset: break
        }
      }
    }
  }

  private func tls() throws -> (client: TLSContext, server: TLSContext, folder: TemporaryFolder) {
    let folder = try TemporaryFolder()
    let authority = try CertificateFactory(commonName: "Test authority")
    let issued = try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"]))
    let certificate = folder.path + "/certificate.pem"
    let key = folder.path + "/key.pem"
    let trusted = folder.path + "/authority.pem"
    try issued.write(certificateFile: certificate, keyFile: key)
    try authority.writeCertificate(to: trusted)
    return (
      try TLSContext.client(alpn: ["h2"], caFile: trusted),
      try TLSContext.server(certificateFile: certificate, keyFile: key, alpn: ["h2"], clientCAFile: nil), folder
    )
  }

  private func sendThousands(_ world: World) {
    let total: UInt32 = 5000
    var sent: UInt32 = 0
    let body = [UInt8](repeating: 120, count: 700)
    #expect(
      world.turn {
        while sent < total, world.client.availableStreams > 0 {
          guard world.submit(sent, body: body) else { break }
          sent += 1
        }
        return world.responses.count == Int(total)
      })
    #expect(world.responses.values.allSatisfy { $0 == 200 })
    #expect(world.notProcessed.isEmpty && world.lost.isEmpty)
    #expect(world.server.counters.requests == Int(total))
    #expect(world.server.counters.invalidFrames == 0)
    world.client.shutdown()
    #expect(world.turn { world.clientEnds.count == 1 && world.serverEnds.count == 1 })
    #expect(world.clientEnds[0] == nil)
  }

  @Test func thousandsOfRequestsInClear() throws {
    sendThousands(try World())
  }

  @Test func thousandsOfRequestsOverTLS() throws {
    let contexts = try tls()
    sendThousands(try World(clientTLS: contexts.client, serverTLS: contexts.server))
  }

  @Test func anotherProtocolThanHTTP2IsRefused() throws {
    let contexts = try tls()
    let authority = contexts.folder.path + "/authority.pem"
    let client = try TLSContext.client(alpn: ["http/1.1"], caFile: authority)
    let world = try World(clientTLS: client, serverTLS: contexts.server)
    #expect(world.turn { world.clientEnds.count == 1 })
    #expect(world.clientEnds[0] != nil)
    #expect(!world.submit(1, body: []))
  }

  @Test func anAbortTellsEachRequestOnce() throws {
    let world = try World()
    world.answers = false
    #expect(world.turn { world.client.streamLimit == 1000 })
    for number in 0..<100 as Range<UInt32> { #expect(world.submit(number, body: [1])) }
    #expect(world.turn { world.requests.count == 100 })
    for number in 100..<150 as Range<UInt32> { #expect(world.submit(number, body: [1])) }
    world.client.abort()
    #expect(world.turn { world.clientEnds.count == 1 && world.serverEnds.count == 1 })
    #expect(world.lost.count == 100)
    #expect(world.lost.values.allSatisfy { $0 == .cancel })
    // They were still here, so the server never saw them.
    #expect(world.notProcessed == Set(100..<150))
    #expect(!world.submit(200, body: []))
  }

  @Test func aServerThatGoesAwayWithoutAWordLosesWhatIsInFlight() throws {
    let world = try World()
    world.answers = false
    #expect(world.turn { world.client.streamLimit == 1000 })
    for number in 0..<10 as Range<UInt32> { #expect(world.submit(number, body: [1])) }
    #expect(world.turn { world.requests.count == 10 })
    world.server.abort()
    #expect(world.turn { world.clientEnds.count == 1 })
    #expect(world.lost.count == 10)
    #expect(world.lost.values.allSatisfy { $0 == .connectError })
    #expect(world.clientEnds[0] != nil)
  }

  /// Bytes that TLS encrypted and the socket never took were not sent.
  @Test func whatTheSocketRefusedWasNeverProcessed() throws {
    let contexts = try tls()
    let world = try World(clientTLS: contexts.client, serverTLS: contexts.server)
    world.answers = false
    #expect(world.turn { world.client.streamLimit == 1000 })
    #expect(world.submit(1, body: [1]))
    #expect(world.turn { world.requests.count == 1 })
    world.server.abort()
    for number in 2..<10 as Range<UInt32> { #expect(world.submit(number, body: [UInt8](repeating: 7, count: 3000))) }
    // The send fails: the loop has not looked at the socket in between.
    world.loop.flush()
    #expect(world.turn { world.clientEnds.count == 1 })
    #expect(world.lost == [1: .connectError])
    #expect(world.notProcessed == Set(2..<10))
  }

  @Test func illegalBytesFromTheServerEndTheConnection() throws {
    let world = try World()
    world.answers = false
    #expect(world.turn { world.client.streamLimit == 1000 })
    #expect(world.submit(1, body: [1]))
    #expect(world.turn { world.requests.count == 1 })
    world.server.sendRaw(HTTP2MemoryPair.frame(type: 6, [1]).span)
    #expect(world.turn { world.clientEnds.count == 1 && world.serverEnds.count == 1 })
    #expect(world.lost == [1: .frameSizeError])
    #expect(world.server.counters.goAwaysReceived == 1)
  }

  @Test func aPingMeasuresLife() throws {
    let world = try World()
    #expect(world.turn { world.client.isOpen && world.server.isOpen })
    world.client.ping()
    #expect(world.client.unansweredPingSince != nil)
    #expect(world.turn { world.client.unansweredPingSince == nil })
    world.server.acknowledgesPings = false
    world.client.ping()
    #expect(world.turn { world.server.counters.pingsReceived == 2 })
    _ = world.turn { false == world.client.isOpen || world.loop.turnCount > 50 }
    #expect(world.client.unansweredPingSince != nil)
  }

  @Test func changedLimitsAreNeverExceeded() throws {
    let world = try World()
    #expect(world.turn { world.client.streamLimit == 1000 })
    var sent: UInt32 = 0
    let limits = [1000, 1, 3, 1000, 2, 500]
    for limit in limits {
      world.server.changeMaximumStreams(limit)
      #expect(world.turn { world.client.streamLimit == limit })
      let target = sent + 600
      #expect(
        world.turn {
          while sent < target, world.client.availableStreams > 0 {
            guard world.submit(sent, body: [1, 2, 3]) else { break }
            sent += 1
          }
          return world.responses.count == Int(target)
        })
    }
    #expect(world.server.counters.streamsOverLimit == 0)
    #expect(world.server.counters.streamsRefused == 0)
    #expect(world.server.counters.invalidFrames == 0)
  }

  @Test func aConnectionThatCannotBeMadeIsReportedOnce() throws {
    let loop = try EventLoop()
    let client = HTTP2ClientConnection.connect(
      loop: loop, to: Endpoint(unixPath: "/nonexistent/herald.socket"), tls: nil)
    var ends: [HTTP2Error?] = []
    for _ in 0..<200 where ends.isEmpty {
      loop.poll(maximumWaitMilliseconds: 10)
      while let event = client.nextEvent() {
        if case .closed(let error) = event { ends.append(error) }
      }
      loop.flush()
    }
    #expect(ends.count == 1)
    guard case .transport = ends.first ?? nil else {
      Issue.record("the transport's error, not \(ends)")
      return
    }
    #expect(client.isClosed && client.availableStreams == 0)
  }
}
