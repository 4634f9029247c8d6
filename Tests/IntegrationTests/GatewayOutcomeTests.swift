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

    init(_ world: GatewayWorld, _ query: String = "", lastID: String? = nil, key: String? = nil) throws {
      socket = try RawSocket(port: world.port)
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

    /// Ids and data, in their order.
    var events: [(id: Int, data: String)] {
      text.matches(of: /id: ([0-9]+)\ndata: ([^\n]*)\n\n/).compactMap { match in
        Int(match.1).map { ($0, String(match.2)) }
      }
    }

    var hasEnded: Bool { wait { _ in socket.isAtEnd } }
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
    let all = try Reader(world, "?after=-1")
    #expect(all.wait { $0.contains("mine-3") })
    #expect(all.events.count == 3 && all.events.map(\.id) == events.map(\.id))
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
    #expect(reader.wait { $0.hasSuffix("\r\n0\r\n\r\n") } && !reader.events.contains { $0.data.contains("after") })
    // A client that leaves frees its place at once: there are 100.
    for number in 0..<110 { #expect(try Reader(world).events.isEmpty, "\(number)") }
  }

  @Test func registrationsArePublishedInTheWorkersFormat() throws {
    let world = try GatewayWorld("devices")
    let device = try world.ask("PUT", "/v1/devices/hw%2F1", body: "{\"user\":\"u-1\",\"tags\":{\"vip\":true}}")
    #expect(device.status == 202 && device.body == "{\"device\":\"hw/1\"}")
    #expect(try world.ask("DELETE", "/v1/users/u-1").status == 202)
    let wrong = try world.ask("PUT", "/v1/devices/d", body: "{\"user\":7}")
    #expect(wrong.status == 400 && wrong.body.contains("\"pointer\":\"/user\""))
    #expect(try world.ask("PUT", "/v1/devices/d", body: "{\"device\":\"e\"}").status == 400)
    let bodies = try world.outside.drain("\(world.prefix).registrations").map {
      String(decoding: $0.body, as: UTF8.self)
    }
    #expect(bodies.count == 2)
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
