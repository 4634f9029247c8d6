import Foundation
import Glibc
import TestSupport
import Testing

/// Outcomes as server-sent events, and what devices register.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct GatewayOutcomeTests {
  /// A reader of events.
  private final class Reader {
    private let socket: RawSocket
    private var text = ""

    /// - Parameter receiveBytes: of the kernel's buffer; nil: as many as the kernel likes.
    init(
      _ world: GatewayWorld, _ query: String = "", lastID: String? = nil, key: String? = nil, receiveBytes: Int32? = nil
    ) throws {
      socket = try RawSocket(port: world.port, receiveBytes: receiveBytes)
      let last = lastID.map { "Last-Event-ID: \($0)\r\n" } ?? ""
      socket.send(
        Array(
          "GET /v1/outcomes\(query) HTTP/1.1\r\nHost: a\r\n\(last)Authorization: Bearer \(key ?? world.key)\r\n\r\n"
            .utf8))
      try #require(wait { $0.contains("\r\n:") }, "\(text)")
    }

    /// false: it did not come in time.
    func wait(_ isDone: (String) -> Bool) -> Bool {
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 5) { () -> Bool? in
        if isDone(text) { return true }
        text += String(decoding: socket.receive(milliseconds: 50), as: UTF8.self)
        return isDone(text) || socket.isAtEnd ? true : nil
      } != nil && isDone(text)
    }

    /// As `wait`, for a stream of megabytes: searches only what is new, and keeps nothing.
    func wait(for word: String) -> Bool {
      let word = Array(word.utf8)
      var tail: [UInt8] = []
      return ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 5) { () -> Bool? in
        tail = tail.suffix(word.count) + socket.receive(milliseconds: 50)
        return tail.contains(word) ? true : socket.isAtEnd ? false : nil
      } ?? false
    }

    /// Ids and data, in their order.
    var events: [(id: Int, data: String)] {
      text.matches(of: /id: ([0-9]+)\ndata: ([^\n]*)\n\n/).compactMap { match in
        Int(match.1).map { ($0, String(match.2)) }
      }
    }

    var hasEnded: Bool { wait { _ in socket.isAtEnd } }
    /// The stream has ended; the connection may go on.
    var isComplete: Bool { wait { $0.hasSuffix("\r\n0\r\n\r\n") } }
  }

  /// The answer to a request that is refused. Of a stream, what it begins with.
  private func refusal(_ world: GatewayWorld, _ query: String = "") throws -> String {
    let socket = try RawSocket(port: world.port)
    socket.send(
      Array("GET /v1/outcomes\(query) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\n\r\n".utf8))
    var text = ""
    _ = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 5) { () -> Bool? in
      text += String(decoding: socket.receive(milliseconds: 50), as: UTF8.self)
      return text.hasSuffix("}") || text.contains("\r\n:") ? true : nil
    }
    return text
  }

  /// Outcomes that no kernel's buffers hold for a client that does not read.
  private func publishLarge(_ world: GatewayWorld) throws {
    let text = String(repeating: "x", count: 15_000)
    try world.outside.publish(
      (0..<LargeOutcomes.count).map { outcome("large-\($0)-\(text)").replacing("\n", with: " ") },
      exchange: "\(world.prefix).results", routingKey: "accepted.production.com.example.app")
  }

  private enum LargeOutcomes {
    static let count = 400
    static let last = "large-399-"
  }

  private func outcome(_ id: String, app: String = "com.example.app", environment: String = "production") -> String {
    "{\"version\":1,\"job_id\":\"\(id)\",\"app\":\"\(app)\",\"environment\":\"\(environment)\",\"meta\":{\n\"a\": 1}}"
  }

  private func publish(_ outcome: String, _ world: GatewayWorld) throws {
    try world.outside.publish(
      outcome, exchange: "\(world.prefix).results", routingKey: "accepted.production.com.example.app")
  }

  @Test func anAppReadsItsOutcomesAndResumes() throws {
    let world = try GatewayWorld("outcomes")
    let reader = try Reader(world)
    try publish(outcome("other", app: "com.example.other"), world)
    try publish(outcome("sandbox", environment: "sandbox"), world)
    for number in 1...3 { try publish(outcome("mine-\(number)"), world) }
    #expect(reader.wait { $0.contains("mine-3") })
    let events = reader.events
    #expect(!events.contains { $0.data.contains("other") || $0.data.contains("sandbox") })
    #expect(events.map(\.id) == events.map(\.id).sorted() && Set(events.map(\.id)).count == events.count)
    let second = try #require(events.first { $0.data.contains("mine-2") })
    // Line breaks of a verbatim meta are spaces.
    #expect(second.data == outcome("mine-2").replacing("\n", with: " "))
    for later in [try Reader(world, "?after=\(second.id)"), try Reader(world, lastID: "\(second.id)")] {
      #expect(later.wait { $0.contains("mine-3") })
      #expect(later.events.map(\.id) == [second.id + 1] && later.events.first?.data.contains("mine-3") ?? false)
    }
    #expect(try world.ask("GET", "/v1/outcomes?after=x").status == 400)
    // The log has its last event, and none after it.
    let last = try #require(events.last).id
    let latest = try Reader(world, "?after=\(last)")
    try publish(outcome("next"), world)
    #expect(latest.wait { $0.contains("next") } && latest.events.count == 1)
    let beyond = try refusal(world, "?after=\(last + 100)")
    #expect(beyond.hasPrefix("HTTP/1.1 404") && beyond.contains("has no event \(last + 100) yet"), "\(beyond)")
    let all = try Reader(world, "?after=-1")
    #expect(all.wait { $0.contains("mine-3") })
    #expect(all.events.map(\.id).starts(with: events.map(\.id)))
    // A drain ends its readers.
    let waiting = try Reader(world)
    world.process.child.signalLeader(SIGTERM)
    #expect(waiting.hasEnded)
    #expect(world.process.waitForExit(seconds: 20) == 0, "\(world.process.log)")
  }

  @Test func aReaderWhoseKeyIsRevokedOrWhoseClientLeavesEnds() throws {
    let world = try GatewayWorld("readers")
    let key = try world.makeKey(["--app", "com.example.app", "--scope", "read"])
    let reader = try Reader(world, key: key)
    try publish(outcome("before"), world)
    #expect(reader.wait { $0.contains("before") })
    let id = try #require(key.split(separator: "_").dropFirst().first)
    #expect(try world.herald(["keys", "revoke", String(id)]).status == 0)
    // By then the gateway has read the keys again.
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 100) {
        (try? world.ask("GET", "/v1/segments/none", key: key).status) == 401 ? true : nil
      } == true)
    try publish(outcome("after"), world)
    #expect(reader.isComplete && !reader.events.contains { $0.data.contains("after") })
    // A client that leaves frees its place at once: there are 100.
    for number in 0..<110 { #expect(try Reader(world).events.isEmpty, "\(number)") }
  }

  @Test func withoutALogThereAreNoOutcomes() throws {
    let world = try GatewayWorld("no-log", isLogged: false)
    let answer = try refusal(world)
    #expect(answer.hasPrefix("HTTP/1.1 404") && answer.contains("results.log is false"), "\(answer)")
  }

  @Test func aKeyHasABoundOfReaders() throws {
    let world = try GatewayWorld("bound", further: ["readers_per_key_max: 2"])
    let readers = try (0..<2).map { _ in try Reader(world) }
    let third = try refusal(world)
    #expect(third.hasPrefix("HTTP/1.1 429") && third.contains("Retry-After: "), "\(third)")
    #expect(third.contains("the key has 2 readers of outcomes"))
    // Another key has its own.
    let key = try world.makeKey(["--app", "com.example.app", "--scope", "read"])
    let other = try Reader(world, key: key)
    try publish(outcome("all"), world)
    for reader in readers + [other] { #expect(reader.wait { $0.contains("all") }) }
  }

  @Test(arguments: ["", "Connection: keep-alive\r\n"])
  func aClientWithoutChunksGetsPlainEvents(_ connection: String) throws {
    let world = try GatewayWorld("old")
    let socket = try RawSocket(port: world.port)
    socket.send(
      Array("GET /v1/outcomes HTTP/1.0\r\n\(connection)Authorization: Bearer \(world.key)\r\n\r\n".utf8))
    var text = ""
    func wait(_ isDone: @escaping () -> Bool) -> Bool {
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 5) { () -> Bool? in
        text += String(decoding: socket.receive(milliseconds: 50), as: UTF8.self)
        return isDone() || socket.isAtEnd ? true : nil
      } != nil && isDone()
    }
    #expect(wait { text.contains("\r\n\r\n:\n\n") }, "\(text)")
    #expect(!text.contains("Transfer-Encoding") && text.contains("Connection: close"))
    try publish(outcome("one"), world)
    #expect(wait { text.contains("\n\nid: 0\ndata: ") && text.hasSuffix("}\n\n") }, "\(text)")
    world.process.child.signalLeader(SIGTERM)
    #expect(wait { socket.isAtEnd } && text.hasSuffix("}\n\n"), "\(text)")
  }

  @Test func aReaderThatReadsNothingHoldsNoDrain() throws {
    let world = try GatewayWorld("unread")
    let unread = try Reader(world, receiveBytes: 4_096)
    let other = try Reader(world)
    try publishLarge(world)
    // By then the first reader has had its outcomes too.
    #expect(other.wait(for: LargeOutcomes.last))
    world.process.child.signalLeader(SIGTERM)
    // drain_timeout_s is 20.
    #expect(world.process.waitForExit(seconds: 15) == 0, "\(world.process.log)")
    withExtendedLifetime(unread) {}
  }

  /// The request's time and the thread's time behind it are one time.
  @Test func whatRabbitMQDoesNotConfirmHoldsNoDrainLonger() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("unconfirmed", rabbitmq: rabbitmq, drainSeconds: 2, isLogged: false)
    rabbitmq.pause()
    defer { rabbitmq.resume() }
    let client = try RawSocket(port: world.port)
    let body = world.job()
    client.send(
      Array(
        """
        POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\nContent-Type: application/json\r
        Content-Length: \(body.utf8.count)\r\n\r\n\(body)
        """.utf8))
    #expect(world.waitForMetric("herald_gateway_open", 1))
    world.process.child.signalLeader(SIGTERM)
    // Twice the time of the drain, and a second to close, would be five.
    #expect(world.process.waitForExit(seconds: 4) != nil, "\(world.process.log)")
  }

  /// A reader that reads slowly acknowledges outcomes after their connection to RabbitMQ was lost. By then another reader has its channel.
  @Test func lateAcknowledgementsDoNotEndOtherReaders() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("late", rabbitmq: rabbitmq)
    let slow = try Reader(world, receiveBytes: 65_536)
    let other = try Reader(world)
    try publishLarge(world)
    #expect(other.wait(for: LargeOutcomes.last))
    _ = try rabbitmq.rabbitmqctl(["close_all_connections", "test"])
    #expect(other.isComplete)
    let next = try Reader(world)
    try publish(outcome("first"), world)
    #expect(next.wait { $0.contains("first") })
    // What was written is acknowledged before its stream ends.
    #expect(slow.isComplete)
    try publish(outcome("second"), world)
    #expect(next.wait { $0.contains("second") })
  }

  @Test func readersThatNeverReadTakeLittleMemory() throws {
    let count = 100
    let world = try GatewayWorld("unread", further: ["readers_per_key_max: \(count)"])
    // Its code is mapped from a file, and larger in a build for tests.
    func ownBytes() throws -> Int {
      let text = try String(contentsOfFile: "/proc/\(world.process.child.pid)/status", encoding: .utf8)
      let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
      return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) * 1024
    }
    // More than the kernel's buffers hold.
    let meta = String(repeating: "x", count: 5_000)
    // The shares of apps that come one after the other.
    let apps = [
      ("com.example.app", 75), ("com.example.b", 18), ("com.example.c", 5), ("com.example.d", 1), ("com.example.e", 1),
    ]
    // A chunk of the log has at most what was published at once.
    for app in apps {
      for start in stride(from: 0, to: 1_500, by: 100) {
        try world.outside.publish(
          (start..<start + 100).map { number in
            // Somebody else's, 300 KB each.
            let text = number % 50 == 49 ? String(repeating: "y", count: 300_000) : meta
            return outcome("job-\(number)-\(text)", app: app.0).replacing("\n", with: " ")
          },
          exchange: "\(world.prefix).results", routingKey: "accepted.production.\(app.0)")
      }
    }
    var readers: [RawSocket] = []
    for (app, share) in apps {
      let key = try world.makeKey(["--app", app, "--scope", "read"])
      for _ in 0..<share {
        let reader = try RawSocket(port: world.port, receiveBytes: 4_096)
        reader.send(
          Array("GET /v1/outcomes?after=-1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\n\r\n".utf8))
        readers.append(reader)
      }
      #expect(world.waitForMetric("herald_gateway_outcome_readers", readers.count, seconds: 60))
    }
    #expect(world.waitForMetric("herald_gateway_outcome_readers", count, seconds: 60))
    // Of each reader 32 outcomes and the rest of a chunk of RabbitMQ's log, and none of the large ones.
    let isHeld = ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 100) {
      (world.metric("herald_gateway_outcome_bytes") ?? 0) > count * 16 * meta.utf8.count ? true : nil
    }
    #expect(isHeld == true)
    // Until nothing more is taken.
    var (last, most, same) = (0, 0, 0)
    _ = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 250) { () -> Bool? in
      let now = (try? ownBytes()) ?? 0
      same = abs(now - last) < 256 << 10 ? same + 1 : 0
      (last, most) = (now, max(most, now))
      return same == 8 ? true : nil
    }
    let held = try #require(world.metric("herald_gateway_outcome_bytes"))
    #expect(held < 32 << 20, "\(held) bytes")
    // With what the allocator keeps. All of a gateway is to stay below 80 MiB.
    #expect(most < 60 << 20, "\(most >> 20) MiB")
    withExtendedLifetime(readers) {}
  }

  @Test func readersOfALongLogStarveNobody() throws {
    let world = try GatewayWorld("long")
    let count = 5_000
    let outcomes = (1...count).map { outcome("job-\($0)-").replacing("\n", with: " ") }
    try world.outside.publish(
      outcomes, exchange: "\(world.prefix).results", routingKey: "accepted.production.com.example.app")
    let readers = try (0..<4).map { _ in try RawSocket(port: world.port) }
    for reader in readers {
      reader.send(
        Array("GET /v1/outcomes?after=-1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\n\r\n".utf8))
    }
    let other = try RawSocket(port: world.port)
    let last = Array("job-\(count)-".utf8)
    var tails = [[UInt8]](repeating: [], count: readers.count)
    var answers = 0
    while !tails.allSatisfy({ $0.contains(last) }) {
      other.send(Array("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
      try #require(!other.receive(milliseconds: 20_000).isEmpty)
      answers += 1
      for (index, reader) in readers.enumerated() where !tails[index].contains(last) {
        tails[index] = tails[index].suffix(last.count) + reader.receive(milliseconds: 0)
        try #require(!reader.isAtEnd)
      }
    }
    // If it starved, it would get one answer, at the end.
    #expect(answers > 5, "\(answers) answers")
  }

  @Test func registrationsArePublishedInTheWorkersFormat() throws {
    let world = try GatewayWorld("devices")
    let device = try world.ask("PUT", "/v1/devices/hw%2F1", body: "{\"user\":\"u-1\",\"tags\":{\"vip\":true}}")
    #expect(device.status == 202 && device.body == "{\"device\":\"hw/1\"}")
    #expect(try world.ask("DELETE", "/v1/users/u-1").status == 202)
    let wrong = try world.ask("PUT", "/v1/devices/d", body: "{\"user\":7}")
    #expect(wrong.status == 400 && wrong.body.contains("\"pointer\":\"/user\""))
    #expect(try world.ask("PUT", "/v1/devices/d", body: "{\"device\":\"e\"}").status == 400)
    let messages = try world.outside.drain("\(world.prefix).registrations")
    let bodies = messages.map { String(decoding: $0.body, as: UTF8.self) }
    #expect(bodies.count == 2)
    // Two of the same bytes, within a millisecond, are still two.
    let ids = Set(messages.compactMap(\.messageID))
    #expect(ids.count == 2 && ids.allSatisfy { $0.utf8.count == 36 }, "\(ids)")
    #expect(
      bodies[0].wholeMatch(
        of:
          /\{"version":1,"kind":"device","at":[0-9]{13},"app":"com.example.app","environment":"production","device":"hw\/1","user":"u-1","tags":\{"vip":true\}\}/
      ) != nil, "\(bodies)")
    #expect(bodies[1].contains("\"kind\":\"forget\"") && bodies[1].hasSuffix("\"user\":\"u-1\"}"))
  }

  @Test func theAPIIsDescribed() throws {
    let world = try GatewayWorld("docs")
    let description = try #require(LoopbackHTTP.request("GET", "/openapi.json", port: world.port))
    let document = try #require(
      JSONSerialization.jsonObject(with: Data(description.body.utf8)) as? [String: Any])
    #expect(document["openapi"] as? String == "3.1.0")
    let page = try #require(LoopbackHTTP.request("GET", "/docs", port: world.port))
    #expect(page.headers["content-type"] == "text/html; charset=utf-8")
    // Nothing of it comes from elsewhere, and every path is there.
    #expect(!page.body.contains("http://") && !page.body.contains("https://") && !page.body.contains("<script"))
    for path in (document["paths"] as? [String: Any] ?? [:]).keys { #expect(page.body.contains(path), "\(path)") }
    #expect(page.body.contains("id=\"quota-exceeded\""))
  }
}
