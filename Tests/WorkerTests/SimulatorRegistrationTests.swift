import APNsSimulator
import PushCore
import Testing

/// Small parts of simulated devices: where registrations go, answers of a webhook, schedules, and payloads that
/// a client may send.
struct SimulatorRegistrationTests {
  // MARK: - Addresses

  @Test(arguments: [
    "http://localhost", "http://127.0.0.1:80/", "http://[::1]:8080/a?b=c", "http://[::1]", "http://hook.example?x=1",
  ])
  func webhooksThatAreRight(_ url: String) {
    #expect(throws: Never.self) { try RegistrationTarget.webhook(url) }
  }

  @Test(arguments: [
    "", "https://localhost/", "http://", "http://:80/", "http://a:0/", "http://a:65536/", "http://a:b/", "http://[::1/",
    "http://[::1]x/", "http://u:p@a/", "http://a/b c", "http://a/\r\nX: y",
  ])
  func webhooksThatAreWrong(_ url: String) {
    #expect(throws: SimulatorError.self) { try RegistrationTarget.webhook(url) }
  }

  @Test func queues() {
    #expect(throws: Never.self) { try RegistrationTarget.queue("amqp://guest:guest@localhost/") }
    for url in ["http://localhost", "amqps://localhost", "amqp://a:b"] {
      #expect(throws: SimulatorError.self) { try RegistrationTarget.queue(url) }
    }
    for name in ["", String(repeating: "q", count: 256)] {
      #expect(throws: SimulatorError.self) { try RegistrationTarget.queue("amqp://localhost", name: name) }
    }
  }

  @Test func noPasswordIsShown() {
    let error = #expect(throws: SimulatorError.self) {
      try RegistrationTarget.queue("amqp://user:secret@localhost:99999/")
    }
    #expect(error?.description.contains("secret") == false)
  }

  // MARK: - A webhook's answer

  private func read(_ text: String) -> WebhookAnswer { WebhookAnswer.read(Array(text.utf8).span) }

  @Test func statusLines() {
    #expect(read("HTTP/1.1 200 OK\r\n") == .status(200))
    #expect(read("HTTP/1.0 404\r\nX: y\r\n\r\n") == .status(404))
    #expect(read("HTTP/1.1 503\n") == .status(503))
    for text in ["", "HTT", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r"] { #expect(read(text) == .incomplete, "\(text)") }
    for text in [
      "x", "HTTP/2 200\r\n", "HTTP/1.1  200\r\n", "HTTP/1.1 20\r\n", "HTTP/1.1 2000\r\n", "HTTP/1.1 2x0 OK\r\n",
      "HTTP/1.1 100 Continue\r\n", "HTTP/1.\n", "\r\n", "HTTP/1." + String(repeating: "1", count: 5000),
    ] {
      #expect(read(text) == .unreadable, "\(text)")
    }
  }

  /// For any bytes: the rest of an answer never changes what its beginning meant.
  @Test func anyBytesOfAWebhook() {
    var random = SeededBits(seed: 7)
    let good = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
    for _ in 0..<2_000 {
      var bytes = good
      for _ in 0..<Int.random(in: 0...4, using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8(truncatingIfNeeded: random.next())
      }
      var known = WebhookAnswer.incomplete
      for count in 0...bytes.count {
        let answer = WebhookAnswer.read(bytes.span.extracting(first: count))
        if known != .incomplete, answer != known { Issue.record("\(bytes.prefix(count)): \(known), then \(answer)") }
        known = answer
      }
    }
  }

  // MARK: - What is due

  @Test func theEarliestComesFirst() {
    var random = SeededBits(seed: 3)
    var queue = DueQueue<Int>()
    var model: [(due: Int64, item: Int)] = []
    for item in 0..<2000 {
      switch random.next() % 8 {
      case 0...4:
        let due = Int64(random.next() % 100)
        queue.add(item, due: due)
        model.append((due, item))
      case 5, 6:
        let time = Int64(random.next() % 100)
        let first = model.enumerated().min { ($0.element.due, $0.offset) < ($1.element.due, $1.offset) }
        let expected = first.flatMap { $0.element.due <= time ? $0 : nil }
        let taken = queue.take(dueBy: time)
        #expect(taken == expected?.element.item)
        if let expected { model.remove(at: expected.offset) }
      default:
        let remainder = Int(random.next() % 50)
        queue.removeAll { $0 % 50 == remainder }
        model.removeAll { $0.item % 50 == remainder }
      }
      #expect(queue.count == model.count)
      #expect(queue.next == model.map(\.due).min())
    }
  }

  // MARK: - Payloads

  @Test func textAtAPath() {
    let bytes = Array(#" { "a" : {"x":[1, 2],"\u0062":{ "c" : 1.50 }} , "d":null}"#.utf8)
    #expect(JSONValue.text(at: ["a", "b"], in: bytes) == #"{ "c" : 1.50 }"#)
    #expect(JSONValue.text(at: ["a", "b", "c"], in: bytes) == "1.50")
    #expect(JSONValue.text(at: ["a", "x"], in: bytes) == "[1, 2]")
    #expect(JSONValue.text(at: ["d"], in: bytes) == "null")
    #expect(JSONValue.text(at: ["e"], in: bytes) == nil)
    #expect(JSONValue.text(at: ["a", "x", "y"], in: bytes) == nil)
    #expect(JSONValue.text(at: ["a"], in: []) == nil)
  }

  /// Without payload checks, any bytes may come: devices use what they can read, and nothing traps.
  @Test func anyPayload() throws {
    var random = SeededBits(seed: 11)
    var devices = SimulatedDevices(environment: "production", seed: 1)
    let seeds = [
      #"{"aps":{"timestamp":1795266000,"event":"start","content-state":{"a":[1,{}]},"attributes-type":"R","attributes":{"activityId":"x"},"alert":{"title":"A"},"stale-date":1795266100}}"#,
      #"{"aps":{"timestamp":1795266001,"event":"update","content-state":{"b":"é"},"stale-date":9223372036854775807}}"#,
      #"{"aps":{"timestamp":1795266002,"event":"end","dismissal-date":-9223372036854775808}}"#,
    ].map { Array($0.utf8) }
    var shown = 0
    for round in 0..<6_000 {
      var bytes = seeds[Int(random.next() % 3)]
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch random.next() % 3 {
        case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.remove(at: place)
        default: bytes.insert(bytes[Int.random(in: 0..<bytes.count, using: &random)], at: place)
        }
      }
      let now = SimulatorRequests.later(seconds: Int64(round))
      let token = devices.all.last?.updateToken ?? "80a1"
      devices.receive(bytes, token: random.next() % 2 == 0 ? token : "80a1", app: "com.example.app", now: now)
      if let text = JSONValue.text(at: ["aps", "content-state"], in: bytes), let whole = JSONValue(bytes) {
        #expect(JSONValue(Array(text.utf8)) == whole["aps"]?["content-state"])
        shown += 1
      }
      if round % 500 == 499 {
        var json = JSONText()
        json.beginArray()
        for activity in devices.all { activity.write(to: &json) }
        json.endArray()
        #expect(JSONValue(json.bytes) != nil)
        devices.removeAll()
      }
    }
    #expect(shown > 1000)
  }
}
