/// Outcomes as bytes, their routing keys, and copies of jobs for one target.
import PushCore
import Testing

@Suite struct OutcomeWriterTests {
  @Test func writesTheContractsExample() {
    let parsed = Parsed(exampleJob)
    let record = OutcomeRecord(
      outcome: .accepted, status: 200, attempts: 1, receivedAt: 1_796_000_000_000, sentAt: 1_796_000_000_004,
      completedAt: 1_796_000_000_031)
    #expect(
      outcomeText(record, parsed.job, target: 0) == """
        {"version":1,"job_id":"\(someID)","apns_id":"\(someID)","apns_unique_id":null,"outcome":"accepted","status":200,\
        "reason":null,"detail":null,"app":"com.example.app","topic":"com.example.app","push_type":"alert",\
        "environment":"production","to":{"token":"\(someToken)"},"attempts":1,"ambiguous":false,"suppressed":false,\
        "unregistered_at":null,"enqueued_at":null,"received_at":1796000000000,"sent_at":1796000000004,"completed_at":1796000000031,\
        "worker":"host-1/0","meta":{"campaign": "42"}}
        """)
  }

  @Test func writesEveryField() {
    let parsed = Parsed(
      job([
        ("id", "\"a\\\"b\\\\\\u0001é\""), ("environment", "\"sandbox\""),
        ("to", "{\"tokens\":[\"AABBCCDD\",\"00112233\"]}"),
      ]))
    let record = OutcomeRecord(
      outcome: .unregistered, status: 410, reason: .other("say \"why\""), detail: "line\nbreak",
      apnsUniqueID: UUIDValue(high: 1, low: 2), attempts: 3, isAmbiguous: true, isSuppressed: true, unregisteredAt: -5,
      enqueuedAt: 1, receivedAt: 0, sentAt: nil, completedAt: Int64.max)
    let apnsID = UUIDValue.apnsID(for: parsed.job, target: 1).text
    #expect(
      outcomeText(record, parsed.job, target: 1) == """
        {"version":1,"job_id":"a\\"b\\\\\\u0001é","apns_id":"\(apnsID)",\
        "apns_unique_id":"00000000-0000-0001-0000-000000000002","outcome":"unregistered","status":410,\
        "reason":"say \\"why\\"","detail":"line\\u000abreak","app":"com.example.app","topic":"com.example.app",\
        "push_type":"alert","environment":"sandbox","to":{"token":"00112233"},"attempts":3,"ambiguous":true,\
        "suppressed":true,"unregistered_at":-5,"enqueued_at":1,"received_at":0,"sent_at":null,\
        "completed_at":9223372036854775807,\
        "worker":"host-1/0","meta":null}
        """)
  }

  static let invalid: [(String, String)] = [
    ("no JSON", "\"job_id\":null"), ("{\"id\": \"a\", ", "\"job_id\":\"a\""), ("{}", "\"app\":null"),
    (job([("to", "{\"users\": []}")]), "\"to\":{\"users\": []}"), (job([("meta", "[]")]), "\"meta\":null"),
    (job([("priority", "7")]), "\"detail\":\"priority: must be one of 10, 5, 1 for alert, not 7\""),
    (job([("to", "\"\(String(repeating: "x", count: 3000))\"")]), "\"to\":null"), ("", "\"push_type\":null"),
  ]

  @Test(arguments: invalid) func writesOutcomesOfInvalidJobs(_ text: String, _ part: String) {
    let parsed = Parsed(text)
    let record = OutcomeRecord(
      outcome: .invalid, detail: parsed.error?.detail, attempts: 0, receivedAt: 1, sentAt: nil, completedAt: 2)
    let outcome = outcomeText(record, parsed.job, target: nil)
    #expect(parsed.error != nil)
    #expect(scanError(outcome) == nil)
    #expect(outcome.contains(part), "\(outcome)")
  }

  /// The longest of everything fits into the room that the writer reserves.
  @Test func writesTheLongestOutcome() {
    let parsed = Parsed(
      job([
        ("id", "\"\(String(repeating: "\\u0001", count: 128))\""), ("app", "\"\(String(repeating: "x", count: 200))\""),
        ("topic", "\"\(String(repeating: "x", count: 255))\""),
        ("meta", "{\"a\":\"\(String(repeating: "x", count: 2000))\"}"),
        ("to", "{\"token\":\"\(String(repeating: "a", count: 256))\"}"),
      ]))
    #expect(parsed.error == nil)
    let record = OutcomeRecord(
      outcome: .unregistered, status: .max, reason: .badEnvironmentKeyIdInToken,
      detail: String(repeating: "\u{1}", count: 500),
      apnsUniqueID: UUIDValue(high: 1, low: 2), attempts: .max, unregisteredAt: .min, receivedAt: .min, sentAt: .min,
      completedAt: .min)
    #expect(scanError(outcomeText(record, parsed.job, target: 0)) == nil)
  }

  @Test func writesRoutingKeys() {
    func key(_ outcome: Outcome, _ text: String) -> String {
      var output: [UInt8] = []
      OutcomeWriter.appendRoutingKey(outcome, of: Parsed(text).job, to: &output)
      return String(decoding: output, as: UTF8.self)
    }
    #expect(key(.accepted, exampleJob) == "accepted.production.com.example.app")
    #expect(key(.rejected, job([("environment", "\"sandbox\"")])) == "rejected.sandbox.com.example.app")
    #expect(key(.invalid, "{") == "invalid.production.unknown")
    #expect(key(.invalid, job([("app", "\"a b\\nc\"")])) == "invalid.production.a_b_c")
    #expect(key(.invalid, job([("app", "\"\(String(repeating: "x", count: 900))\"")])).utf8.count == 255)
  }

  @Test func rewritesATargetOfABatch() {
    let text = job([("to", "{ \"tokens\" : [\"AABBCCDD\", \"00112233\"] }"), ("meta", "{ }")])
    let parsed = Parsed(text)
    var output: [UInt8] = []
    JobRewriter.append(parsed.job, onlyTarget: 0, to: &output)
    #expect(
      String(decoding: output, as: UTF8.self)
        == text.replacing("{ \"tokens\" : [\"AABBCCDD\", \"00112233\"] }", with: "{\"token\":\"aabbccdd\"}"))
    #expect(Parsed(bytes: output).targets == ["aabbccdd"])
  }

  @Test func writesDecimals() {
    for value in [0, 1, 9, 10, -1, 99, 100, 1_796_000_000_000, Int64.max, Int64.min] {
      var output: [UInt8] = []
      output.append(decimal: value)
      #expect(String(decoding: output, as: UTF8.self) == String(value))
    }
  }
}
