import PushCore
import TestSupport
import Testing

/// Whom a start is for: `filter_code`, `devices`, `users`, or nobody named.
@Suite struct LiveActivitiesAPITargetTests {
  private typealias Bench = LiveActivitiesAPIBench

  private func plan(_ changes: [String: String?], allowsEveryone: Bool = false) throws -> LiveActivitiesPlan {
    var bench = try Bench(allowsEveryone: allowsEveryone)
    return try bench.plan("startLiveActivity", Bench.request(Bench.start(changes)))
  }

  private func refusal(_ changes: [String: String?], allowsEveryone: Bool = false) throws -> String {
    var bench = try Bench(allowsEveryone: allowsEveryone)
    return try bench.refusal("startLiveActivity", Bench.request(Bench.start(changes)))
  }

  private func list(_ count: Int) -> String {
    "[\((0..<count).map { "\"name-\($0)\"" }.joined(separator: ","))]"
  }

  @Test func devicesAreIDsOrTokens() throws {
    // A hardware id may be in upper case.
    let id = "1CA68A12-8DAC-4BB7-BEE5-B756288B6D3C"
    let plan = try plan(["devices": "[\"\(id)\",\"\(Bench.token)\",\"\(id)\"]"])
    #expect(plan.jobs.first?.targets == [id, Bench.token])
    #expect(plan.jobs.first?.job.targetKind == .devices)
    #expect(plan.devices == [id, Bench.token])
    #expect(plan.users.isEmpty)
    #expect(
      try refusal(["devices": "[\"hwid-1\",\"\(Bench.token.uppercased())\"]"])
        == "notifications[0].devices[1] is a device token with upper-case digits; write it in lower case")
    #expect(try refusal(["devices": #""hwid-1""#]).hasPrefix("notifications[0].devices must be an array of strings"))
    #expect(try refusal(["devices": #"["a",7]"#]) == "notifications[0].devices[1] must be a string, not 7")
    #expect(try refusal(["devices": #"["a",""]"#]) == "notifications[0].devices[1] must be 1 to 128 bytes, not 0")
  }

  @Test func atMostAThousandDevices() throws {
    #expect(try plan(["devices": list(1000)]).jobs.first?.targets.count == 1000)
    #expect(
      try refusal(["devices": list(1001)]) == "notifications[0].devices must hold 1 to 1000 strings, not 1001")
  }

  @Test func atMostAThousandUsers() throws {
    let plan = try plan(["users": list(1000), "devices": nil])
    #expect(plan.jobs.first?.targets.count == 1000)
    #expect(plan.jobs.first?.job.targetKind == .users)
    #expect(plan.users.count == 1000)
    #expect(try refusal(["users": list(1001)]) == "notifications[0].users must hold 1 to 1000 strings, not 1001")
    #expect(try refusal(["users": #"[{"id":1}]"#]) == "notifications[0].users[0] must be a string, not an object")
  }

  /// Users win over devices, and both over a filter. Those that lose are not even looked at.
  @Test func oneKindOfTargetTakesPrecedence() throws {
    let cases: [([String: String?], String)] = [
      (["users": #"["u-1"]"#, "devices": #"["D"]"#, "filter_code": #""C""#], #"{"users":["u-1"]}"#),
      (["users": #"["u-1"]"#, "devices": "7", "filter_code": "7"], #"{"users":["u-1"]}"#),
      (["users": "[]", "devices": #"["D"]"#, "filter_code": "7"], #"{"devices":["D"]}"#),
      (["users": "null", "devices": nil, "filter_code": #""C""#], #"{"segment":"C"}"#),
      (["devices": "[]", "filter_code": #""C""#], #"{"segment":"C"}"#),
      (["devices": nil, "filter_code": #""C""#, "filter": #""D""#], #"{"segment":"C"}"#),
      (["devices": nil, "filter": #""D""#], #"{"segment":"D"}"#),
    ]
    for (changes, to) in cases { #expect(try plan(changes).jobs.first?.to == to, "\(changes)") }
  }

  @Test func aFilterInPlaceBecomesASegment() throws {
    let text = #""T(\"plan\", EQ, \"gold\") * T(\"level\", GTE, 7)""#
    let json = #"{"all":[{"tag":"plan","is":"gold"},{"tag":"level","at_least":7}]}"#
    let first = try plan(["devices": nil, "filter_code": text])
    let segment = try #require(first.segments.first)
    #expect(first.segments.count == 1)
    #expect(String(decoding: segment.filter.json, as: UTF8.self) == json)
    #expect(first.jobs.first?.to == "{\"segment\":\"\(segment.code)\"}")
    #expect(segment.code.text.wholeMatch(of: /filter:[0-9a-f]{32}/) != nil)
    // The code is a function of the filter, however it was written.
    for other in [json, " \(json)", "\"\(json.replacing("\"", with: "\\\""))\""] {
      #expect(try plan(["devices": nil, "filter": other]).segments == first.segments, "\(other)")
    }
    #expect(try plan(["devices": nil, "filter": #"{"tag":"plan","is":"silver"}"#]).segments != first.segments)
    // Several notifications with one filter put it once.
    var bench = try Bench()
    let start = Bench.start(["devices": nil, "filter_code": text])
    let plan = try bench.plan("startLiveActivity", Bench.request(start, start))
    #expect(plan.segments == first.segments)
    #expect(plan.jobs.count == 2)
  }

  /// A name that is wrong is told at once, not in an outcome.
  @Test func namedSegmentsAreLookedUp() throws {
    #expect(try plan(["devices": nil, "filter_code": #""Gold""#]).namedSegments.map(\.text) == ["Gold"])
    let filter = #"{"any":[{"segment":"B"},{"not":{"segment":"A"}},{"segment":"B"}]}"#
    #expect(try plan(["devices": nil, "filter": filter]).namedSegments.map(\.text) == ["A", "B"])
    #expect(try plan(["devices": #"["d"]"#, "filter_code": #""Gold""#]).namedSegments.isEmpty)
    var bench = try Bench()
    let starts = ["Gold", "Gold", "Silver"].map { Bench.start(["devices": nil, "filter_code": "\"\($0)\""]) }
    let plan = try bench.plan("startLiveActivity", Bench.request(starts.joined(separator: ",")))
    #expect(plan.namedSegments.map(\.text) == ["Gold", "Silver"])
    let answer = LiveActivitiesAnswer.unknownSegment(plan.namedSegments[0])
    #expect(answer.status == 200)
    #expect(answer.text == #"{"status_code":210,"status_message":"Filter not found: Gold","response":null}"#)
  }

  @Test func anInvalidFilterIsRefused() throws {
    let cases = [
      (#""Gold customers""#, "notifications[0].filter_code must be 1 to 64 letters, digits, hyphens"),
      (#""T(\"plan\", IS, 1)""#, "notifications[0].filter_code is not a filter: the filter, at byte 10, "),
      (
        #""AT(\"XXXXX-XXXXX\")""#,
        "notifications[0].filter_code is not a filter: the filter, at byte 0, must not name an app"
      ),
      (#"{"tag":7}"#, "notifications[0].filter_code is not a filter: /tag must be a string"),
      ("7", "notifications[0].filter_code must be a segment's code, or a filter, not 7"),
    ]
    for (filter, message) in cases {
      let refusal = try refusal(["devices": nil, "filter_code": filter])
      #expect(refusal.hasPrefix(message), "\(refusal)")
    }
  }

  @Test func aStartWithoutATargetIsRefusedUnlessAllowed() throws {
    for absent in [["devices": nil], ["devices": "null"], ["devices": nil, "filter_code": #""""#]]
      as [[String: String?]]
    {
      let refusal = try refusal(absent)
      #expect(refusal.hasPrefix("notifications[0] has no target: give users, devices or filter_code; "), "\(refusal)")
      let plan = try plan(absent, allowsEveryone: true)
      let segment = try #require(plan.segments.first)
      #expect(
        String(decoding: segment.filter.json, as: UTF8.self)
          == #"{"any":[{"has":"token"},{"not":{"has":"token"}}]}"#)
      #expect(plan.jobs.first?.to == "{\"segment\":\"\(segment.code)\"}")
    }
  }

  /// A list that came out empty must not reach everybody.
  @Test func anEmptyListIsRefused() throws {
    #expect(
      try refusal(["devices": "[]"], allowsEveryone: true)
        == "notifications[0].devices must hold 1 to 1000 strings, not 0")
    #expect(
      try refusal(["devices": "[]", "users": "[]"], allowsEveryone: true)
        == "notifications[0].users must hold 1 to 1000 strings, not 0")
  }

  @Test func aFilterInTheRequestIsParsed() throws {
    var random = SeededRandom(seed: 8)
    for _ in 0..<200 {
      let filter = SegmentFilter.random(using: &random)
      let plan = try plan(["devices": nil, "filter": String(decoding: filter.json, as: UTF8.self)])
      #expect(plan.segments.map(\.filter) == [filter])
    }
  }
}
