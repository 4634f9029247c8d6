import APNsSimulator
import PushCore
import Testing

/// The simulator's small parts: its JSON, Base64, fault plan and ledger.
struct SimulatorPartsTests {
  // MARK: - JSON and Base64

  @Test(arguments: [
    "{}", "[]", "null", "true", "-0.5e+10", #""""#, #"{"a":[1,2,{"b":null}]}"#, #""\u00e9\ud83d\ude00\n""#, " \t\r\n1 ",
    String(repeating: "[", count: 63) + String(repeating: "]", count: 63),
  ])
  func jsonThatIsRight(_ text: String) {
    #expect(JSONValue(Array(text.utf8)) != nil)
  }

  @Test(arguments: [
    "", "{", "}", "[1,]", "{\"a\":}", "{\"a\" 1}", "{a:1}", "01", "+1", ".5", "1.", "1e", "nul", "\"", "\"\u{1}\"",
    "\"\\x\"",
    "\"\\ud800\"", "\"\\ud800\\u0041\"", "1 2", "{\"a\":1,\"a\":2}", "--1", "NaN",
    String(repeating: "[", count: 70) + String(repeating: "]", count: 70),
  ])
  func jsonThatIsWrong(_ text: String) {
    #expect(JSONValue(Array(text.utf8)) == nil)
  }

  @Test func jsonMustBeUTF8() {
    #expect(JSONValue([0x22, 0xFF, 0x22]) == nil)
    #expect(JSONValue([0x22, 0xED, 0xA0, 0x80, 0x22]) == nil)
  }

  @Test func jsonValues() {
    let value = JSONValue(Array(#"{"a":1.0,"b":1,"c":"\u0041\/","d":[true]}"#.utf8))
    #expect(value?["a"]?.integer == nil)
    #expect(value?["a"]?.number == 1)
    #expect(value?["b"]?.integer == 1)
    #expect(value?["c"]?.string == "A/")
    #expect(value?["d"]?.array == [.bool(true)])
  }

  @Test func writtenJSONIsRead() {
    let nasty = "quote \" backslash \\ control \u{1}\n é 😀"
    var json = JSONText()
    json.beginObject()
    json.field("text", nasty)
    json.field("number", 5)
    json.field("nothing", nil as String?)
    json.key("list")
    json.beginArray()
    json.value(true)
    json.beginObject()
    json.endObject()
    json.endArray()
    json.endObject()
    let value = JSONValue(json.bytes)
    #expect(value?["text"]?.string == nasty)
    #expect(value?["number"]?.integer == 5)
    #expect(value?["nothing"] == .null)
    #expect(value?["list"]?.array == [.bool(true), .object([:])])
  }

  @Test(arguments: 0...20)
  func base64ThereAndBack(_ count: Int) {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ 250) }
    for alphabet in [Base64.Alphabet.standard, .url] {
      let text = Base64.text(of: bytes, alphabet)
      #expect(Base64.decode(Array(text.utf8), alphabet) == (count == 0 && alphabet == .standard ? nil : bytes))
    }
  }

  @Test(arguments: ["A", "A===", "AB=C", "AAA", "A+-A", "====", "AA=A"])
  func base64ThatIsWrong(_ text: String) {
    #expect(Base64.decode(Array(text.utf8), .standard) == nil)
  }

  // MARK: - Faults

  private func subject(_ token: String = "00ff", identity: String = "a", earlier: Int = 0) -> FaultPlan.Subject {
    FaultPlan.Subject(
      token: token, topic: "com.example.app", pushType: "alert", identity: identity, earlierRequests: earlier)
  }

  private func plan(_ faults: String...) throws -> FaultPlan {
    var plan = FaultPlan(prefixes: try TokenPrefixTable(), seed: 1)
    for fault in faults { plan.add(try FaultRule(fault)) }
    return plan
  }

  @Test func earlierFaultsComeFirstPartByPart() throws {
    var plan = try plan("latency=5", "status=503,reason=A", "status=500,reason=B,body=missing")
    let met = plan.effect(on: subject("dead00"))
    let effect = try #require(met)
    #expect(effect.latency == .fixed(milliseconds: 5))
    #expect(effect.answer == .init(status: 503, reason: "A"))
    #expect(effect.body == .missing)
    plan.removeAll()
    let prefixed = plan.effect(on: subject("dead00"))
    let plain = plan.effect(on: subject())
    #expect(prefixed?.answer?.status == 410)
    #expect(plain == nil)
  }

  @Test func triesAreCountedByNotification() throws {
    var plan = try plan("attempts=2,status=503,reason=A")
    var met: [Bool] = []
    for identity in ["a", "a", "b", "a", "b", "b"] { met.append(plan.effect(on: subject(identity: identity)) != nil) }
    #expect(met == [true, true, true, false, true, false])
  }

  @Test func afterAndTimes() throws {
    var plan = try plan("after=2,times=2,status=503")
    var met: [Bool] = []
    for earlier in 0..<6 { met.append(plan.effect(on: subject(earlier: earlier)) != nil) }
    #expect(met == [false, false, true, true, false, false])
    #expect(plan.active.first?.count == 2)
  }

  @Test func connectionFaultsAddUp() throws {
    var plan = try plan("no-ping-ack", "handshake=50", "handshake=20,refuse")
    #expect(plan.connection.ignoresPings)
    #expect(plan.connection.handshakeDelayMilliseconds == 50)
    #expect(plan.connection.refusesConnections)
    let id = try #require(plan.active.last?.id)
    let removals = [plan.remove(id), plan.remove(id)]
    let effect = plan.effect(on: subject())
    #expect(removals == [true, false])
    #expect(!plan.connection.refusesConnections)
    #expect(effect == nil)
  }

  @Test func actionsAreRead() throws {
    #expect(try SimulatorAction("shutdown") == .shutdown)
    #expect(try SimulatorAction("drop") == .dropConnections)
    #expect(
      try SimulatorAction("streams=1/2,every=5") == .changeStreamLimits(.init(values: [1, 2], intervalMilliseconds: 5)))
    #expect(
      try SimulatorAction("goaway=7,code=2,reason=X") == .goAway(.init(last: .number(7), code: 2, reason: "X")))
    #expect(try SimulatorAction("revoke=KEY") == .revoke(key: "KEY"))
    #expect(throws: FaultSyntaxError.self) { try SimulatorAction("latency=5") }
  }

  // MARK: - The ledger

  private func entry(_ id: Int) -> LedgerEntry {
    let digits = String(id)
    return LedgerEntry(
      number: 0, apnsID: "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits,
      target: "00", topic: "t", pushType: "alert", connection: 1, stream: 1, receivedAt: 5, status: 200, reason: nil,
      ending: .answered)
  }

  @Test func theLedgerHasBounds() {
    var ledger = Ledger()
    ledger.bounds.entriesMaximum = 3
    ledger.bounds.identifiersMaximum = 4
    ledger.bounds.notificationsMaximum = 2
    ledger.bounds.connectionsMaximum = 1
    for id in 1...6 { ledger.record(entry(id), isAccepted: true, payload: []) }
    ledger.record(entry(1), isAccepted: true, payload: [])
    #expect(ledger.entries.map(\.number) == [5, 6, 7])
    #expect(ledger.entriesDropped == 4)
    #expect(ledger.distinctAccepted == 4)
    #expect(ledger.identifiersDropped == 2)
    #expect(ledger.accepted == 7)
    #expect(ledger.duplicates.count == 1)
    #expect(ledger.lastNotifications.map(\.entry.number) == [6, 7])
    let numbers = [ledger.open(peer: "a", at: 0), ledger.open(peer: "b", at: 0)]
    #expect(numbers == [1, 2])
    ledger.update(connection: 2) { $0.pings = 1 }
    #expect(ledger.connections.count == 1)
    #expect(ledger.pings == 0)
    ledger.clearRequests()
    #expect(ledger.requests == 0)
    #expect(ledger.entries.isEmpty)
    #expect(ledger.connectionsOpened == 2)
  }

  @Test func duplicatesAreNamed() {
    var ledger = Ledger()
    for id in [1, 2, 2] { ledger.record(entry(id), isAccepted: true, payload: []) }
    ledger.record(entry(3), isAccepted: false, payload: [])
    let json = JSONValue(ledger.json())
    #expect(json?["duplicates"]?.object == ["00000000-0000-4000-8000-000000000002": .number(2, isInteger: true)])
    #expect(json?["requests"]?.array?.count == 4)
    #expect(ledger.acceptances(of: "00000000-0000-4000-8000-000000000003") == 0)
    #expect(ledger.acceptances(of: "nonsense") == 0)
  }
}
