import Foundation
import Glibc
import TestSupport
import Testing

/// How requests come over a connection: many at once, in pieces, in chunks, and without an end.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct GatewayRequestTests {
  /// A client that reads answers one after another.
  private final class Client {
    struct Answer {
      var head: String
      var body: String
      var status: Int { Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0 }
    }

    let socket: RawSocket
    private var bytes: [UInt8] = []

    /// - Parameter receiveBytes: of the kernel's buffer; nil: as many as the kernel likes.
    init(_ world: GatewayWorld, receiveBytes: Int32? = nil) throws {
      socket = try RawSocket(port: world.port, receiveBytes: receiveBytes)
    }

    func send(_ text: String) { socket.send(Array(text.utf8)) }

    /// The next answer; nil: none came in time.
    /// - Parameter hasBody: false: it is the answer to a HEAD.
    func answer(hasBody: Bool = true, seconds: Int = 20) -> Answer? {
      ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 1) { () -> Answer? in
        if let answer = take(hasBody) { return answer }
        bytes += socket.receive(milliseconds: 100)
        return take(hasBody)
      }
    }

    private func take(_ hasBody: Bool) -> Answer? {
      let text = String(decoding: bytes, as: UTF8.self)
      guard let end = text.range(of: "\r\n\r\n") else { return nil }
      let head = String(text[..<end.lowerBound])
      let length = head.firstMatch(of: /Content-Length: ([0-9]+)/.ignoresCase()).flatMap { Int($0.1) } ?? 0
      let start = head.utf8.count + 4
      let count = hasBody ? length : 0
      guard bytes.count >= start + count else { return nil }
      let body = String(decoding: bytes[start..<start + count], as: UTF8.self)
      bytes.removeFirst(start + count)
      return Answer(head: head, body: body)
    }

    /// Whether the gateway closes the connection, and sends nothing more.
    func isEnded(seconds: Int = 20) -> Bool {
      _ = ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 1) { () -> Bool? in
        bytes += socket.receive(milliseconds: 100)
        return socket.isAtEnd || !bytes.isEmpty ? true : nil
      }
      return socket.isAtEnd && bytes.isEmpty
    }
  }

  private func head(_ world: GatewayWorld, _ further: String, key: String? = nil) -> String {
    "POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key ?? world.key)\r\n\(further)\r\n\r\n"
  }

  private func post(_ world: GatewayWorld, _ id: String) -> String {
    let body = world.job("\"id\":\"\(id)\",")
    return head(world, "Content-Length: \(body.utf8.count)") + body
  }

  /// Waits until the gateway has read what was sent to it before.
  private func waitUntilTaken(_ world: GatewayWorld) {
    #expect(LoopbackHTTP.request("GET", "/livez", port: world.port)?.status == 200)
  }

  private static let get = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test func pipelinedRequestsAreAnsweredInTheirOrder() throws {
    let world = try GatewayWorld("pipeline")
    let client = try Client(world)
    let ids = (0..<20).map { "job-\($0)" }
    // A request that needs RabbitMQ before one that does not, again and again.
    client.send(ids.map { post(world, $0) + GatewayRequestTests.get }.joined())
    for id in ids {
      #expect(client.answer()?.body == "{\"id\":\"\(id)\"}")
      #expect(client.answer()?.body == "ok\n")
    }
    // Nothing of the connection is left over, and one that is refused ends those behind it.
    client.send(GatewayRequestTests.get)
    #expect(client.answer()?.body == "ok\n")
    client.send(post(world, "last") + "no request\r\n\r\n" + GatewayRequestTests.get)
    #expect(client.answer()?.status == 202)
    #expect(client.answer()?.status == 400)
    #expect(client.isEnded())
    #expect(try world.takeJobs().compactMap(\.messageID) == ids + ["last"])
  }

  @Test func manyAnswersThatComeAtOnceDoNotDeepenTheStack() throws {
    let world = try GatewayWorld("deep")
    let client = try Client(world)
    let count = 3_000
    client.send(post(world, "first") + String(repeating: GatewayRequestTests.get, count: count))
    #expect(client.answer()?.status == 202)
    for number in 0..<count { try #require(client.answer()?.body == "ok\n", "\(number)") }
  }

  @Test func manyRequestsAtOnceDoNotKeepOthersWaiting() throws {
    let world = try GatewayWorld("turns")
    let (busy, other) = (try RawSocket(port: world.port), try Client(world))
    other.send(GatewayRequestTests.get)
    let size = try #require(other.answer().map { $0.head.utf8.count + 4 + $0.body.utf8.count })
    // The gateway finds all of them at once.
    world.process.child.pause()
    let requests = Array(String(repeating: GatewayRequestTests.get, count: 50_000).utf8)
    let count = busy.sendNow(requests) / GatewayRequestTests.get.utf8.count
    world.process.child.resume()
    var (received, answers) = (0, 0)
    while received < count * size {
      other.send(GatewayRequestTests.get)
      try #require(other.answer()?.status == 200)
      answers += 1
      received += busy.receive(milliseconds: 0).count
      try #require(!busy.isAtEnd)
    }
    // 64 in a turn; less than half of the turns, because this client is no faster than the gateway.
    #expect(answers > count / 256, "\(answers) answers beside \(count)")
  }

  /// What comes before the answer to an earlier request is decoded at once, and takes many times its bytes.
  ///
  /// The gateway decodes it without a pause, here for many seconds: SwiftNIO is not optimised in test builds. No heartbeat may end
  /// the connection to RabbitMQ meanwhile.
  @Test func requestsThatWaitTakeBoundedMemory() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("waiting", rabbitmq: rabbitmq, isLogged: false, hasHeartbeats: false)
    // Together more than the maximum, and no more than SwiftNIO reads from before it does anything else.
    let clients = try (0..<62).map { _ in try Client(world) }
    // Then the gateway reads 64 KiB at a time.
    let large = String(repeating: " ", count: 300_000)
    for client in clients {
      client.send(head(world, "Content-Length: \(large.utf8.count)") + large)
      #expect(client.answer()?.status == 400)
    }
    let chunks = head(world, "Transfer-Encoding: chunked") + String(repeating: "1\r\n \r\n", count: 9_000) + "0\r\n\r\n"
    rabbitmq.pause()
    world.process.child.pause()
    for (number, client) in clients.enumerated() { client.send(post(world, "job-\(number)") + chunks) }
    world.process.child.resume()
    #expect(world.waitForMetric("herald_gateway_open", clients.count, seconds: 60))
    rabbitmq.resume()
    var refused = 0
    for client in clients {
      // On a slow machine the time for the confirm is over.
      let first = try #require(client.answer())
      #expect(first.status == 202 || first.body.contains("did not confirm it in time"), "\(first.body)")
      let next = try #require(client.answer())
      guard next.status == 503 else {
        #expect(next.status == 400)
        continue
      }
      refused += 1
      #expect(next.body.contains("too many requests before the answers to others"), "\(next.body)")
      #expect(client.isEnded())
    }
    #expect(refused > 0 && refused < clients.count, "\(refused) of \(clients.count)")
    // The others find room again.
    let client = try Client(world)
    client.send(post(world, "last") + chunks)
    #expect(client.answer()?.status == 202 && client.answer()?.status == 400)
  }

  @Test func aRequestMayComeInAnyPieces() throws {
    let world = try GatewayWorld("pieces")
    let client = try Client(world)
    for byte in (post(world, "one") + GatewayRequestTests.get).utf8 {
      client.socket.send([byte])
      usleep(200)
    }
    #expect(client.answer()?.body == "{\"id\":\"one\"}")
    #expect(client.answer()?.body == "ok\n")
    // Head and body apart: what the head says is checked first, then the gateway waits.
    let body = world.job("\"id\":\"two\",")
    client.send(head(world, "Content-Length: \(body.utf8.count)"))
    waitUntilTaken(world)
    client.send(body)
    #expect(client.answer()?.status == 202)
    // In chunks, with an extension and a trailer.
    let chunks = world.job("\"id\":\"three\",").map { "1;a=b\r\n\($0)\r\n" }.joined() + "0\r\nX-Trailer: a\r\n\r\n"
    client.send(head(world, "Transfer-Encoding: chunked") + chunks)
    #expect(client.answer()?.body == "{\"id\":\"three\"}")
    #expect(try world.takeJobs().compactMap(\.messageID) == ["one", "two", "three"])
  }

  @Test func aRefusalDoesNotWaitForTheBody() throws {
    let world = try GatewayWorld("early")
    let body = world.job()
    let wrongHead = head(world, "Content-Length: \(body.utf8.count)", key: "hk_00000000_x")
    // The body did not come: it is not waited for, and the connection ends, whatever comes of it.
    let early = try Client(world)
    early.send(wrongHead)
    let refusal = try #require(early.answer())
    #expect(refusal.status == 401 && refusal.head.contains("Connection: close"))
    early.send(body + GatewayRequestTests.get)
    #expect(early.isEnded())
    // It came with the head: the connection stays.
    let complete = try Client(world)
    complete.send(wrongHead + body)
    #expect(complete.answer()?.status == 401)
    complete.send(post(world, "good"))
    #expect(complete.answer()?.status == 202)
    // Nobody reads a body of a method without one.
    complete.send("GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + GatewayRequestTests.get)
    #expect(complete.answer()?.body == "ok\n" && complete.answer()?.body == "ok\n")
    #expect(try world.takeJobs().compactMap(\.messageID) == ["good"])
  }

  @Test func aHEADHasNoBodyAndTheClientsCloseIsHeeded() throws {
    let world = try GatewayWorld("head")
    let client = try Client(world)
    client.send("HEAD /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n")
    let refusal = try #require(client.answer(hasBody: false))
    #expect(refusal.status == 405 && refusal.head.contains("Allow: POST"))
    for path in ["/readyz", "/metrics", "/docs", "/openapi.json"] {
      client.send("HEAD \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(client.answer(hasBody: false)?.status == 200)
    }
    client.send("HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n" + GatewayRequestTests.get)
    let answer = try #require(client.answer(hasBody: false))
    #expect(answer.status == 200 && answer.head.contains("Content-Length: 3"))
    let date = try #require(answer.head.firstMatch(of: /Date: (.*) GMT\r\n/)).1
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = .gmt
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss"
    #expect(abs(try #require(formatter.date(from: String(date))).timeIntervalSinceNow) < 60)
    #expect(client.answer()?.body == "ok\n")
    client.send("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GatewayRequestTests.get)
    #expect(client.answer()?.head.contains("Connection: close") ?? false)
    #expect(client.isEnded())
    let old = try Client(world)
    old.send("GET /livez HTTP/1.0\r\n\r\n")
    #expect(old.answer()?.body == "ok\n")
    #expect(old.isEnded())
    let absolute = try Client(world)
    absolute.send("GET http://a.example/v1/segments/none?app=com.example.app HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(absolute.answer()?.status == 401)
  }

  /// HEAD has the answer of GET without its body, and changes nothing (RFC 9110, 9.1 and 9.3.2).
  @Test func everyPathWithGETAnswersHEAD() throws {
    let world = try GatewayWorld("heads")
    _ = try world.ask("PUT", "/v1/segments/gold", body: #"{"filter":{"tag":"plan","is":"gold"}}"#)
    let id = try world.id(world.ask("POST", "/v1/jobs", body: world.job()))
    for path in ["/v1/segments/gold", "/v1/segments/none", "/v1/jobs/\(id)", "/v1/jobs/none", "/v1/activities/none"] {
      let (get, head) = (try world.ask("GET", path), try world.ask("HEAD", path))
      #expect(head.status == get.status && head.body.isEmpty, "\(path): \(head.status)")
      #expect(head.headers["content-length"] == "\(get.body.utf8.count)", "\(path)")
    }
    let events = try world.ask("HEAD", "/v1/outcomes")
    #expect(events.status == 200 && events.body.isEmpty && events.headers["content-type"] == "text/event-stream")
    #expect(events.headers["content-length"] == nil && events.headers["transfer-encoding"] == nil)
    #expect(try world.ask("HEAD", "/v1/outcomes?after=x").status == 400)
    #expect(try world.ask("HEAD", "/v1/segments/gold", key: "hk_none").status == 401)
  }

  /// A proxy in front may have read a different one than the gateway would.
  @Test(arguments: [
    "1.1\r\n", "1.1\r\nHost: a\r\nhost: b\r\n", "1.1\r\nHost: a\r\nHost: a\r\n", "1.0\r\nHost: a\r\nHost: b\r\n",
  ])
  func aRequestNamesOneHost(_ head: String) throws {
    let world = try GatewayWorld("host")
    let client = try Client(world)
    client.send("GET /livez HTTP/\(head)\r\n" + GatewayRequestTests.get)
    let answer = try #require(client.answer())
    #expect(answer.status == 400 && answer.body.contains("exactly one Host header field"), "\(answer.body)")
    #expect(client.isEnded())
  }

  @Test func aClientThatLeavesHurtsNobody() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("leave", rabbitmq: rabbitmq, isLogged: false)
    rabbitmq.pause()
    var gone: Client? = try Client(world)
    gone?.send(post(world, "gone"))
    let half = try Client(world)
    half.send(post(world, "half"))
    half.socket.endSending()
    waitUntilTaken(world)
    gone = nil
    // In the middle of a body.
    var cut: Client? = try Client(world)
    cut?.send(head(world, "Content-Length: 100") + "{")
    waitUntilTaken(world)
    cut = nil
    rabbitmq.resume()
    // Who has only ended its half gets its answer.
    #expect(half.answer()?.status == 202)
    #expect(half.isEnded())
    #expect(try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"next\",")).status == 202)
    #expect(world.waitForMetric("herald_gateway_connections", 1))
    #expect(Set(try world.takeJobs().compactMap(\.messageID)) == ["gone", "half", "next"])
  }

  @Test func aDrainAnswersWhatCameAndClosesWhatIsIdle() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("drain", rabbitmq: rabbitmq, isLogged: false)
    let (idle, fresh) = (try Client(world), try Client(world))
    idle.send(GatewayRequestTests.get)
    #expect(idle.answer()?.status == 200)
    rabbitmq.pause()
    let busy = try Client(world)
    busy.send(post(world, "in flight"))
    let slow = try Client(world)
    let body = world.job("\"id\":\"in pieces\",")
    slow.send(head(world, "Content-Length: \(body.utf8.count)"))
    #expect(world.waitForMetric("herald_gateway_open", 1))
    world.process.child.signalLeader(SIGTERM)
    // These wait for nothing, although RabbitMQ confirms nothing.
    #expect(idle.isEnded(seconds: 3) && fresh.isEnded(seconds: 3))
    rabbitmq.resume()
    slow.send(body)
    for client in [busy, slow] {
      let answer = client.answer()
      #expect(answer?.status == 202 && answer?.head.contains("Connection: close") ?? false, "\(world.process.log)")
      #expect(client.isEnded())
    }
    #expect(world.process.waitForExit(seconds: 20) == 0, "\(world.process.log)")
    #expect(world.process.waitForLine("the drain begins", "unconfirmed", "1", seconds: 1), "\(world.process.log)")
    #expect(world.process.waitForLine("the drain has ended", "connections", "0", seconds: 1), "\(world.process.log)")
    #expect(try world.takeJobs().count == 2)
  }

  // MARK: - Clients that read slowly

  private static let getDocument = "GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"

  /// The bytes of an answer with the API's description.
  private func documentBytes(_ world: GatewayWorld) throws -> Int {
    let client = try Client(world)
    client.send(GatewayRequestTests.getDocument)
    let answer = try #require(client.answer())
    return answer.head.utf8.count + 4 + answer.body.utf8.count
  }

  /// Waits until the gateway answers no more of the requests that came, because the client does not read.
  /// - Returns: how many requests for the document it has answered.
  private func waitUntilStuck(_ world: GatewayWorld) throws -> Int {
    var (last, sameCount) = (0, 0)
    return try #require(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 1) {
        let count = world.metric("herald_gateway_requests_total{route=\"/openapi.json\",status=\"200\"}") ?? 0
        sameCount = count == last ? sameCount + 1 : 0
        last = count
        return last > 0 && sameCount >= 20 ? last : nil
      })
  }

  /// The kernel's buffers of the client. Those of the gateway hold at most 4 MiB.
  private static let receiveBytes: Int32 = 65_536
  /// Requests whose answers no buffers hold: 12 MB.
  private static let manyCount = 400

  /// Everything up to the end of the connection.
  private func rest(_ socket: RawSocket) -> Int {
    var count = 0
    while !socket.isAtEnd {
      let bytes = socket.receive(milliseconds: 20_000)
      guard !bytes.isEmpty || socket.isAtEnd else { return -1 }
      count += bytes.count
    }
    return count
  }

  @Test func whoReadsNoAnswersIsNotReadEither() throws {
    let world = try GatewayWorld("unread")
    let client = try Client(world)
    let requests = Array(String(repeating: GatewayRequestTests.getDocument, count: 500).utf8)
    var sent = 0
    var idle = 0
    while idle < 50, sent < 64 << 20 {
      let count = client.socket.sendNow(requests)
      sent += count
      idle = count == 0 ? idle + 1 : 0
      if count == 0 { waitUntilTaken(world) }
    }
    #expect(sent < 64 << 20, "\(sent) bytes of requests were taken")
    #expect(LoopbackHTTP.request("GET", "/livez", port: world.port)?.status == 200)
    // It goes on once the client reads.
    for _ in 0..<200 { #expect(client.answer()?.status == 200) }
  }

  @Test func answersAreWholeThoughTheConnectionEnds() throws {
    let world = try GatewayWorld("whole")
    let size = try documentBytes(world)
    let many = GatewayRequestTests.manyCount
    let requests = Array(String(repeating: GatewayRequestTests.getDocument, count: many).utf8)
    // The client has ended its half.
    let half = try RawSocket(port: world.port, receiveBytes: GatewayRequestTests.receiveBytes)
    half.send(requests)
    half.endSending()
    _ = try waitUntilStuck(world)
    let last = "Connection: close\r\n".utf8.count
    #expect([many * size, many * size + last].contains(rest(half)))
    let before = try waitUntilStuck(world)
    // The gateway stops.
    let unread = try RawSocket(port: world.port, receiveBytes: GatewayRequestTests.receiveBytes)
    unread.send(requests)
    let answered = try waitUntilStuck(world) - before
    world.process.child.signalLeader(SIGTERM)
    #expect(world.process.waitForLine("the drain begins"))
    let count = rest(unread)
    // Every answer that was made arrives.
    #expect(answered > 0 && count >= answered * size, "\(count) bytes of \(answered) answers of \(size)")
    #expect([0, last].contains(count % size))
    #expect(world.process.waitForExit(seconds: 20) == 0, "\(world.process.log)")
  }

  @Test func whatIsNoHTTPIsAnsweredAfterAnswersThatAreNotRead() throws {
    let world = try GatewayWorld("garbage")
    let full = try Client(world, receiveBytes: GatewayRequestTests.receiveBytes)
    full.send(String(repeating: GatewayRequestTests.getDocument, count: GatewayRequestTests.manyCount))
    // So many answers fill the buffers. A few more: then the bytes come in the same read as requests that are not answered yet.
    let fill = try waitUntilStuck(world)
    for further in 1...8 {
      let client = try Client(world, receiveBytes: GatewayRequestTests.receiveBytes)
      let count = fill + 5 * further
      client.send(String(repeating: GatewayRequestTests.getDocument, count: count) + "no request\r\n\r\n")
      _ = try waitUntilStuck(world)
      for number in 0..<count { try #require(client.answer()?.status == 200, "\(number) of \(count)") }
      #expect(client.answer()?.status == 400)
      #expect(client.isEnded())
    }
    withExtendedLifetime(full) {}
  }

  // MARK: - Other protocols

  @Test(arguments: [
    "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
  ])
  func aRequestForAnotherProtocolEndsTheConnection(request: String) throws {
    let world = try GatewayWorld("upgrade")
    let client = try Client(world)
    client.send(request)
    let answer = try #require(client.answer())
    #expect([200, 404].contains(answer.status) && answer.head.contains("Connection: close"))
    client.send(GatewayRequestTests.get)
    #expect(client.isEnded())
  }

  @Test func aClientThatAsksFirstIsToldToContinue() throws {
    let world = try GatewayWorld("continue")
    let body = world.job("\"id\":\"asked\",")
    let fields = "Content-Length: \(body.utf8.count)\r\nExpect: 100-continue"
    let client = try Client(world)
    client.send(head(world, fields))
    #expect(client.answer(hasBody: false)?.status == 100)
    client.send(body)
    #expect(client.answer()?.status == 202)
    // Whoever is refused is told that instead.
    let refused = try Client(world)
    refused.send(head(world, fields, key: "hk_00000000_x"))
    #expect(refused.answer()?.status == 401)
    #expect(try world.takeJobs().compactMap(\.messageID) == ["asked"])
  }
}
