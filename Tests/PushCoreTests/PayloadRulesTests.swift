/// Apple's rules for payloads. Keys that Apple does not describe pass.
import PushCore
import TestSupport
import Testing

@Suite struct PayloadRulesTests {
  @Test(arguments: PayloadExamples.taken) func takes(_ type: String, _ payload: String) {
    let error = Parsed(job(type, payload: payload)).error
    #expect(error == nil, "\(type) \(payload): \(error?.detail ?? "")")
    // Keys may stand in any order: the payload before its type.
    #expect(
      Parsed("{\"payload\": \(payload), " + job(type, payload: payload, [("payload", nil)]).dropFirst()).error == nil)
  }

  @Test(arguments: PayloadExamples.refused) func refuses(
    _ type: String, _ payload: String, _ field: String, _ rule: String
  ) {
    let error = Parsed(job(type, payload: payload)).error
    #expect(error?.field == field, "\(type) \(payload): \(error?.detail ?? "taken")")
    #expect(error?.rule.contains(rule) == true, "\(error?.detail ?? "taken")")
  }

  @Test func walletTakesAnEmptyPush() {
    let pass = ("app", "\"pass.com.example\"")
    #expect(Parsed(job("alert", payload: "{\"aps\":{}}", [pass])).error == nil)
    #expect(Parsed(job("alert", payload: "{}", [pass])).error == nil)
  }

  @Test func broadcastsDoNotStart() {
    let channel = ("to", "{\"channel\": \"dHN0\"}")
    for (payload, field, rule) in PayloadExamples.refusedBroadcasts {
      let error = Parsed(job("liveactivity", payload: payload, [channel])).error
      #expect(error?.field == field && error?.rule == rule, "\(error?.detail ?? "taken")")
    }
    #expect(
      Parsed(job("liveactivity", payload: "{\"aps\":{\"timestamp\":1,\"event\":\"end\"}}", [channel])).error == nil)
  }

  /// Every row of the table is broken by an example.
  @Test func everyRuleHasAnExample() {
    var errors = PayloadExamples.refused.compactMap { type, payload, _, _ in Parsed(job(type, payload: payload)).error }
    errors += PayloadExamples.refusedBroadcasts.compactMap { payload, _, _ in
      Parsed(job("liveactivity", payload: payload, [("to", "{\"channel\": \"dHN0\"}")])).error
    }
    for rule in PayloadRule.table {
      let broken = errors.first { $0.field == rule.path && $0.rule.hasPrefix(rule.text) }
      #expect(broken?.answer == rule.answer, "\(rule.path): \(rule.text)")
    }
  }

  @Test(arguments: RequestExamples.refused) func refusesRequests(_ example: RequestExamples.Example) {
    let error = Parsed(job(example.pushType, payload: example.payload, example.changes)).error
    let row = example.rule.row
    #expect(error?.field == row.field, "\(error?.detail ?? "taken")")
    #expect(error?.answer == row.answer)
    #expect(error?.rule.contains(example.text) == true, "\(error?.detail ?? "taken")")
  }

  @Test func everyRuleOfRequestsHasAnExample() {
    for rule in RequestRule.allCases {
      #expect(RequestExamples.refused.contains { $0.rule == rule }, "\(rule)")
      #expect(!rule.row.demand.isEmpty)
    }
  }
}
