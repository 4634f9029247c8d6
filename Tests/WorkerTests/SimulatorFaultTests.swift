import APNsSimulator
import Foundation
import PushCore
import PushIO
import TestSupport
import Testing

/// Each fault on the wire, as Herald's own client connection sees it.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct SimulatorFaultTests {
  /// A running simulator without TLS that asks for no credential, and faults from the start.
  private func start(
    _ faults: [String] = [], _ change: (inout SimulatorOptions) -> Void = { _ in }
  ) throws -> (Simulator, SimulatorPorts) {
    var options = SimulatorOptions()
    options.checksCredentials = false
    options.faults = try faults.map { try FaultRule($0) }
    change(&options)
    let simulator = try Simulator(options)
    return (simulator, try simulator.start())
  }

  private func notification(
    _ token: String = SimulatorRequests.deviceToken, id: Int = 1, payload: String = SimulatorRequests.alert
  ) -> SimulatedRequest {
    let digits = String(id)
    let identifier = "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
    return SimulatorRequests.device(
      ["authorization": nil, "apns-id": identifier], path: "/3/device/" + token, payload: payload)
  }

  private func ask(_ port: UInt16, _ request: SimulatedRequest) throws -> SimulatorClient.Answer? {
    try SimulatorClient(port).ask(request)
  }

  /// Whether the condition holds within ten seconds.
  private func soon(_ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(10)
    while ContinuousClock.now < deadline {
      if try condition() { return true }
      usleep(2_000)
    }
    return false
  }

  // MARK: - Without faults

  @Test func acceptsAndKeepsBook() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification(id: 1))?.status == 200)
    #expect(client.ask(notification(id: 1))?.status == 200)
    let answer = try #require(client.ask(notification(id: 2)))
    #expect(answer.identifier == "00000000-0000-4000-8000-000000000002")
    #expect(answer.body.isEmpty)
    #expect(client.limits == [1, 1000], "one stream until the first valid request")
    let ledger = simulator.ledger
    #expect(ledger.accepted == 3)
    #expect(ledger.distinctAccepted == 2)
    #expect(ledger.duplicates.count == 1)
    #expect(ledger.acceptances(of: "00000000-0000-4000-8000-000000000001") == 2)
    #expect(ledger.entries.map(\.stream) == [1, 3, 5])
    #expect(ledger.connections.first?.requests == 3)
    #expect(ledger.lastNotifications.count == 3)
    #expect(JSONValue(ledger.json())?["counters"]?["accepted"]?.integer == 3)
  }

  @Test func theLimitStaysAtOneWhileNothingIsValid() throws {
    let (simulator, ports) = try start { $0.checksCredentials = true }
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification())?.body == #"{"reason":"MissingProviderToken"}"#)
    #expect(client.ask(notification())?.status == 403)
    #expect(client.limits == [1])
  }

  @Test func stopsAndStartsAgainOnTheSamePort() throws {
    // One that the system picks for others' connections may be taken meanwhile.
    let port = try LoopbackPort.free()
    let (simulator, ports) = try start { $0.port = port }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification(id: 1))?.status == 200)
    simulator.stop()
    #expect(client.run { $0.isClosed })
    var options = SimulatorOptions()
    options.checksCredentials = false
    options.port = ports.port
    let second = try Simulator(options)
    #expect(try second.start().port == ports.port)
    #expect(try ask(ports.port, notification(id: 2))?.status == 200)
    second.stop()
    #expect(simulator.ledger.accepted == 1)
    #expect(simulator.ledger.connectionsOpen == 0)
  }

  @Test func aTakenPortIsSaid() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    var options = SimulatorOptions()
    options.port = ports.port
    let second = try Simulator(options)
    #expect(throws: SimulatorError.self) { try second.start() }
  }

  @Test func fastModeAcceptsAndStillKnowsPrefixes() throws {
    let (simulator, ports) = try start { $0.isFast = true }
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification(id: 1))?.status == 200)
    #expect(client.ask(notification(id: 1))?.identifier == "00000000-0000-4000-8000-000000000001")
    #expect(client.ask(notification("dead" + SimulatorRequests.deviceToken, id: 2))?.status == 410)
    #expect(client.ask(notification(id: 3, payload: ""))?.status == 400)
    #expect(client.dates.count == 4)
    #expect([0, 2, 3].allSatisfy { client.dates[$0] != nil }, "a connection's first answer, and every refusal")
    #expect(client.limits == [1000])
    #expect(simulator.ledger.accepted == 2)
    #expect(simulator.ledger.duplicates.count == 1)
  }

  // MARK: - Token prefixes

  struct PrefixRow: Sendable, CustomTestStringConvertible {
    let prefix: String
    /// First and second try: status and reason, or how the request ended without an answer.
    let first: String
    let second: String
    let accepted: Int

    var testDescription: String { "\(prefix): \(first), \(second)" }
  }

  static let prefixRows: [PrefixRow] = [
    PrefixRow(prefix: "dead", first: "410 Unregistered at", second: "410 Unregistered at", accepted: 0),
    PrefixRow(prefix: "dea1", first: "410 ExpiredToken at", second: "410 ExpiredToken at", accepted: 0),
    PrefixRow(prefix: "dea2", first: "410 Unregistered at", second: "410 Unregistered at", accepted: 0),
    PrefixRow(prefix: "bad0", first: "400 BadDeviceToken", second: "400 BadDeviceToken", accepted: 0),
    PrefixRow(prefix: "bad1", first: "400 DeviceTokenNotForTopic", second: "400 DeviceTokenNotForTopic", accepted: 0),
    PrefixRow(prefix: "bad2", first: "400 TopicDisallowed", second: "400 TopicDisallowed", accepted: 0),
    PrefixRow(prefix: "bad3", first: "400 SomethingNew", second: "400 SomethingNew", accepted: 0),
    PrefixRow(prefix: "bad4", first: "400", second: "400", accepted: 0),
    PrefixRow(prefix: "bad5", first: "400 BadDeviceToken", second: "400 BadDeviceToken", accepted: 0),
    PrefixRow(prefix: "bad6", first: "400 <html>", second: "400 <html>", accepted: 0),
    PrefixRow(prefix: "4030", first: "403 ExpiredProviderToken", second: "403 ExpiredProviderToken", accepted: 0),
    PrefixRow(prefix: "4031", first: "403 InvalidProviderToken", second: "403 InvalidProviderToken", accepted: 0),
    PrefixRow(prefix: "4130", first: "413 PayloadTooLarge", second: "413 PayloadTooLarge", accepted: 0),
    PrefixRow(prefix: "7007", first: "429 TooManyRequests", second: "429 TooManyRequests", accepted: 0),
    PrefixRow(
      prefix: "7008", first: "429 TooManyProviderTokenUpdates", second: "429 TooManyProviderTokenUpdates", accepted: 0),
    PrefixRow(prefix: "5000", first: "500 InternalServerError", second: "500 InternalServerError", accepted: 0),
    PrefixRow(prefix: "5001", first: "500 SomethingNew", second: "500 SomethingNew", accepted: 0),
    PrefixRow(prefix: "5030", first: "503 ServiceUnavailable", second: "503 ServiceUnavailable", accepted: 0),
    PrefixRow(prefix: "5031", first: "503 Shutdown", second: "503 Shutdown", accepted: 0),
    PrefixRow(prefix: "1429", first: "429 TooManyRequests", second: "200", accepted: 1),
    PrefixRow(prefix: "1500", first: "500 InternalServerError", second: "200", accepted: 1),
    PrefixRow(prefix: "1503", first: "503 ServiceUnavailable", second: "200", accepted: 1),
    PrefixRow(prefix: "2503", first: "503 ServiceUnavailable", second: "503 ServiceUnavailable", accepted: 0),
    PrefixRow(prefix: "f007", first: "not processed", second: "200", accepted: 1),
    PrefixRow(prefix: "f002", first: "lost INTERNAL_ERROR", second: "200", accepted: 1),
    PrefixRow(prefix: "f008", first: "lost CANCEL", second: "200", accepted: 2),
    PrefixRow(prefix: "d0b0", first: "lost CONNECT_ERROR", second: "200", accepted: 1),
    PrefixRow(prefix: "d0a0", first: "lost CONNECT_ERROR", second: "200", accepted: 2),
    PrefixRow(prefix: "ab50", first: "nothing", second: "nothing", accepted: 2),
    PrefixRow(prefix: "ab51", first: "nothing", second: "200", accepted: 1),
    PrefixRow(prefix: "60a0", first: "200 goaway Shutdown", second: "200", accepted: 2),
    PrefixRow(prefix: "60a1", first: "not processed", second: "200", accepted: 1),
    PrefixRow(prefix: "51a0", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "51a1", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "51a2", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "ac71", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "ac72", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "ac73", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "ac74", first: "200", second: "200", accepted: 2),
    PrefixRow(prefix: "ac75", first: "200", second: "200", accepted: 2),
  ]

  @Test func everyPrefixIsTested() {
    #expect(TokenPrefixTable.rows.map(\.prefix) == SimulatorFaultTests.prefixRows.map(\.prefix))
  }

  @Test(arguments: prefixRows)
  func tokenPrefix(_ row: PrefixRow) throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let request = notification(row.prefix + SimulatorRequests.deviceToken)
    #expect(try outcome(ports.port, request) == row.first)
    #expect(try outcome(ports.port, request) == row.second)
    #expect(simulator.ledger.accepted == row.accepted)
  }

  /// The end of one request on a connection of its own, in words.
  private func outcome(_ port: UInt16, _ request: SimulatedRequest) throws -> String {
    let client = try SimulatorClient(port)
    guard client.open(), let number = client.submit(request) else { return "not opened" }
    client.run(milliseconds: 1500) { $0.isSettled(number) }
    if let answer = client.answers[number] {
      var text = String(answer.status)
      let body = JSONValue(Array(answer.body.utf8))
      if !answer.body.isEmpty { text += " " + (body?["reason"]?.string ?? answer.body) }
      if body?["timestamp"]?.integer != nil { text += " at" }
      if let goAway = client.goAways.first, let reason = JSONValue(Array(goAway.debug.utf8))?["reason"]?.string {
        text += " goaway \(reason)"
      }
      return text
    }
    if client.notProcessed.contains(number) { return "not processed" }
    if let code = client.lost[number] { return "lost \(code)" }
    return "nothing"
  }

  // MARK: - Faults by rule

  @Test func aShareOfRequests() throws {
    let (simulator, ports) = try start(["share=0.5,status=503,reason=ServiceUnavailable"])
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    for id in 1...200 { _ = client.ask(notification(id: id)) }
    let refused = simulator.ledger.answers(status: 503, reason: "ServiceUnavailable")
    #expect((60...140).contains(refused))
    #expect(client.answers.values.filter { $0.status == 503 }.count == refused)
  }

  @Test func conditions() throws {
    let (simulator, ports) = try start([
      "topic=com.example.none,status=500", "type=voip,status=500",
      "prefix=77,times=1,status=429,reason=TooManyRequests",
    ])
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    let marked = "77" + String(SimulatorRequests.deviceToken.dropFirst(2))
    #expect(client.ask(notification(id: 1))?.status == 200)
    #expect(client.ask(notification(marked, id: 2))?.status == 429)
    #expect(client.ask(notification(marked, id: 3))?.status == 200)
  }

  @Test(arguments: ["latency=200", "latency=200-300"])
  func latency(_ fault: String) throws {
    let (simulator, ports) = try start([fault])
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.open())
    let before = client.loop.now.monotonic
    #expect(client.ask(notification())?.status == 200)
    let elapsed = client.loop.now.monotonic.milliseconds(since: before)
    #expect((199...2000).contains(elapsed))
  }

  @Test func exponentialLatency() {
    var random = SeededBits(seed: 7)
    var sum: Int64 = 0
    for _ in 0..<10_000 { sum += FaultEffect.Latency.exponential(meanMilliseconds: 1000).milliseconds(&random) }
    #expect((950...1050).contains(sum / 10_000))
  }

  @Test func goAwayAfterSomeRequests() throws {
    let (simulator, ports) = try start(["after=2,goaway=previous,code=0,reason=Shutdown"])
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification(id: 1))?.status == 200)
    #expect(client.ask(notification(id: 2))?.status == 200)
    #expect(client.ask(notification(id: 3)) == nil)
    #expect(client.notProcessed == [2])
    #expect(client.goAways == [.init(last: 3, code: .noError, debug: #"{"reason":"Shutdown"}"#)])
    #expect(simulator.ledger.accepted == 2)
  }

  @Test func goAwayWithAChosenIDAndCode() throws {
    let (simulator, ports) = try start(["goaway=1,code=11"])
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification())?.status == 200)
    #expect(client.goAways == [.init(last: 1, code: .enhanceYourCalm, debug: "")])
  }

  @Test func announcedShutdown() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification(id: 1))?.status == 200)
    simulator.act(.shutdown)
    #expect(client.run { !$0.goAways.isEmpty })
    #expect(client.goAways.first?.debug == #"{"reason":"Shutdown"}"#)
    #expect(try ask(ports.port, notification(id: 2))?.body == #"{"reason":"Shutdown"}"#)
  }

  @Test(arguments: [1, 2, 7, 8, 11, 4711] as [UInt32])
  func resetWithAnyCode(_ code: UInt32) throws {
    let (simulator, ports) = try start(["reset=\(code)"])
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification()) == nil)
    if code == 7 {
      #expect(client.notProcessed == [0])
    } else {
      #expect(client.lost[0]?.rawValue == code)
    }
    #expect(!client.isClosed)
  }

  @Test func streamLimitsGoDownAndUp() throws {
    let (simulator, ports) = try start(["times=1,streams=1000/1/1000,every=50"]) { $0.startsWithOneStream = false }
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification())?.status == 200)
    #expect(client.run { $0.limits == [1000, 1, 1000] })
    simulator.act(.changeStreamLimits(.init(values: [5])))
    #expect(client.run { $0.limits.last == 5 })
  }

  @Test func withheldWindow() throws {
    let (simulator, ports) = try start(["withhold-window"]) { $0.startsWithOneStream = false }
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.open())
    let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}"#
    for id in 1...30 { #expect(client.submit(notification(id: id, payload: payload)) != nil) }
    client.run(milliseconds: 500) { $0.answers.count == 30 }
    #expect((1...16).contains(client.answers.count), "65,535 bytes are 16 payloads")
    simulator.removeAllFaults()
    #expect(client.run { $0.answers.count == 30 })
  }

  @Test func noAnswerToPings() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.open())
    client.http.ping()
    #expect(client.run { $0.pongs == 1 })
    try simulator.add(fault: "no-ping-ack")
    #expect(client.ask(notification())?.status == 200)
    client.http.ping()
    #expect(!client.run(milliseconds: 300) { $0.pongs == 2 })
    #expect(simulator.wait(timeoutMilliseconds: 2000) { $0.pings == 2 })
  }

  @Test func droppedConnections() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let client = try SimulatorClient(ports.port)
    #expect(client.ask(notification())?.status == 200)
    simulator.act(.dropConnections)
    #expect(client.run { $0.isClosed })
  }

  @Test func refusedConnections() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let id = try simulator.add(fault: "refuse")
    // The listener closes in the simulator's next turn.
    #expect(try soon { try !SimulatorClient(ports.port).open() })
    simulator.remove(fault: id)
    #expect(try soon { try ask(ports.port, notification())?.status == 200 })
  }

  @Test func aPortThatWasTakenMeanwhile() throws {
    let (simulator, ports) = try start()
    defer { simulator.stop() }
    let id = try simulator.add(fault: "refuse")
    #expect(try soon { try !SimulatorClient(ports.port).open() })
    let (other, _) = try start { $0.port = ports.port }
    simulator.remove(fault: id)
    // The simulator's next turns.
    usleep(200_000)
    other.stop()
    #expect(try soon { try ask(ports.port, notification())?.status == 200 })
  }

  @Test func faultsThatCannotBeRead() {
    for text in [
      "", "share=2", "status=99", "prefix=xyz", "latency=-5", "latency=300-200", "reset=", "nonsense", "share=0.5",
      "reason=X", "body=upside-down", "goaway=-1", "streams=", "every=5", "status=200000",
    ] {
      #expect(throws: FaultSyntaxError.self, "\(text)") { try FaultRule(text) }
    }
  }
}
