import PushCore
import TestSupport
import Testing

/// Requests of chance and of malice: every one gets an answer, and whatever goes out is what the worker takes.
@Suite struct LiveActivitiesAPIPropertyTests {
  private typealias Bench = LiveActivitiesAPIBench

  private static let methods = LiveActivitiesMethod.allCases.map(\.rawValue) + ["createMessage"]

  /// Requests that are right or nearly so.
  private static let corpus: [String] = [
    Bench.request(Bench.start()), Bench.request(Bench.start(), Bench.start(["users": #"["a","b"]"#])),
    Bench.request(Bench.start(["devices": nil, "filter": #"{"any":[{"tag":"t","is":1},{"not":{"has":"token"}}]}"#])),
    Bench.request(Bench.start(["devices": nil, "filter_code": #""T(\"plan\", EQ, \"gold\")""#])),
    Bench.request(Bench.start(["content": nil, "title": nil]), application: "ALERT-ALERT"),
    Bench.request(Bench.start(activity: ["alert": #"{"title":"a","body":"b"}"#, "stale-date": "1796000600"])),
    Bench.request(Bench.update()), Bench.request(Bench.update(activity: ["event": #""end""#, "dismissal-date": "1"])),
    Bench.request(Bench.update(["live_activity_id": nil, "live_activity_push_tokens": "[\"\(Bench.token)\"]"])),
    Bench.request(Bench.update(["devices": #"["hwid-1"]"#], activity: ["event": #""end""#])),
    Bench.call(["push_token": "\"\(Bench.token)\"", "timezone": "3600", "language": #""en""#, "gateway": #""sandbox""#]
    ),
    Bench.call(["tags": #"{"a":{"operation":"increment","value":2},"b":["x"],"c":null,"d":1.5e3}"#]),
    Bench.call(["activity_id": #""ride-17""#, "activity_token": #""""#, "userId": #""u""#]),
    Bench.call(["activity_push_to_start_token": "\"\(Bench.token)\""]),
  ]

  /// What every reading promises.
  private func check(_ bench: inout Bench, _ method: String, _ body: [UInt8]) throws -> Bool {
    let reading = bench.read(method, body)
    switch reading.decision {
    case .answer(let answer):
      let parts = try answer.parts()
      try #require(answer.status == 200 && parts.code == 210 || answer.status == 400 && parts.code == 400)
      try #require(!parts.message.isEmpty && parts.message.utf8.count <= 1000, "\(parts.message)")
      try #require(parts.response == nil)
      if answer.status == 400 { try #require(scanError(body) != nil) }
      return false
    case .plan(let plan):
      try #require(reading.access?.scope == plan.scope)
      try Bench.check(plan)
      for confirmed in [true, false] {
        let answer = plan.answer(isConfirmed: confirmed, unknown: plan.devices + plan.users)
        let parts = try answer.parts()
        try #require(answer.status == (confirmed ? 200 : 503) && parts.code == answer.status)
        if let messages = parts.response?["Messages"] as? [String] {
          try #require(messages.count == plan.publications.count)
        }
      }
      return true
    }
  }

  @Test func changedRequestsAreAnswered() throws {
    var random = SeededRandom(seed: 19)
    var bench = try Bench(allowsEveryone: true)
    let corpus = LiveActivitiesAPIPropertyTests.corpus.map { Array($0.utf8) }
    let tokens = [
      "\"", "\\", "{", "}", "[", "]", ",", ":", "-", "0", "1e999", "\\ud800", "null", "//", "true", "\u{0}", "é",
      "\"\"",
      "9223372036854775808", "\"users\":[],", "\"event\":\"end\",", "{\"a\":", "[[[[[[[[",
    ].map { Array($0.utf8) }
    var taken = 0
    for _ in 0..<10_000 {
      var body = corpus.randomElement(using: &random) ?? []
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let place = Int.random(in: 0...body.count, using: &random)
        let end = min(body.count, place + Int.random(in: 0..<24, using: &random))
        switch Int.random(in: 0..<6, using: &random) {
        case 0 where place < body.count: body[place] = UInt8.random(in: 0...255, using: &random)
        case 1 where place < body.count: body[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: body.removeSubrange(place..<end)
        case 3: body.insert(contentsOf: Array(body[place..<end]), at: end)
        case 4: body.insert(contentsOf: tokens.randomElement(using: &random) ?? [], at: place)
        default:
          let other = corpus.randomElement(using: &random) ?? []
          body.replaceSubrange(place..., with: other.suffix(Int.random(in: 0...other.count, using: &random)))
        }
      }
      let method = LiveActivitiesAPIPropertyTests.methods.randomElement(using: &random) ?? ""
      if try check(&bench, method, body) { taken += 1 }
    }
    #expect(taken > 300, "most of what is tried is refused, but not all: \(taken)")
  }

  @Test func anyBytesAreAnswered() throws {
    var random = SeededRandom(seed: 20)
    var bench = try Bench(allowsEveryone: true)
    for _ in 0..<5_000 {
      let body = (0..<Int.random(in: 0..<40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      let method = LiveActivitiesAPIPropertyTests.methods.randomElement(using: &random) ?? ""
      #expect(try !check(&bench, method, body))
    }
  }

  /// Every member of a request with a value of every kind in its place.
  @Test func everyFieldWithEveryKindOfValue() throws {
    let values = [
      "null", "true", "0", "-1", "1.5", "1e400", #""""#, #""x""#, #""é\n""#, "[]", "{}", #"["a"]"#, "[null]",
      #"{"a":1}"#,
      "[[[{}]]]", #"{"operation":"increment","value":1}"#, #"{"a":{"operation":"increment","value":1e400}}"#,
    ]
    let notification = [
      "content", "title", "devices", "users", "filter", "filter_code", "live_activity", "ios_live_activity",
      "live_activity_id", "live_activity_push_tokens",
    ]
    let activity = [
      "event", "attributes", "attributes-type", "content-state", "alert", "sound", "dismissal-date", "stale-date",
      "relevance-score", "input-push-token", "input-push-channel",
    ]
    let request = [
      "application", "auth", "notifications", "hwid", "userId", "tags", "gateway", "language", "timezone",
      "device_type",
      "push_token", "os_version", "activity_id", "activity_token", "activity_push_to_start_token",
    ]
    var bench = try Bench()
    var taken = 0
    for value in values {
      var bodies = request.map { Bench.call([$0: value]) }
      bodies += notification.flatMap {
        [Bench.request(Bench.start([$0: value])), Bench.request(Bench.update([$0: value]))]
      }
      bodies += activity.flatMap {
        [Bench.request(Bench.start(activity: [$0: value])), Bench.request(Bench.update(activity: [$0: value]))]
      }
      for body in bodies {
        for method in LiveActivitiesAPIPropertyTests.methods {
          if try check(&bench, method, Array(body.utf8)) { taken += 1 }
        }
      }
    }
    #expect(taken > 300)
  }

  @Test func deepAndLongBodiesAreAnswered() throws {
    var bench = try Bench()
    let deep = String(repeating: "[", count: 100_000)
    let long = "[\(Array(repeating: "\"x\"", count: 20_000).joined(separator: ","))]"
    for method in LiveActivitiesMethod.allCases.map(\.rawValue) {
      _ = try check(&bench, method, Array(deep.utf8))
      _ = try check(&bench, method, Array(Bench.call(["tags": long, "notifications": long]).utf8))
      _ = try check(&bench, method, Array(Bench.request(Bench.start(["devices": long])).utf8))
      let members = (0..<20_000).map { "\"\($0)\":1" }.joined(separator: ",")
      _ = try check(&bench, method, Array(Bench.call(["tags": "{\(members)}"]).utf8))
    }
  }

  @Test func theSameRequestReadsTheSame() throws {
    for body in LiveActivitiesAPIPropertyTests.corpus {
      for method in LiveActivitiesAPIPropertyTests.methods {
        var (first, second) = (try Bench(), try Bench())
        #expect(first.read(method, body) == second.read(method, body))
      }
    }
  }

  /// Ids come from the random numbers alone, so a request that is sent again makes other jobs.
  @Test func everyJobHasAnIDOfItsOwn() throws {
    var bench = try Bench()
    var ids: Set<String> = []
    for _ in 0..<1000 {
      let plan = try bench.plan("startLiveActivity", Bench.request(Bench.start(), Bench.start()))
      for job in plan.jobs { ids.insert(job.text(job.job.id)) }
    }
    #expect(ids.count == 2000)
  }
}
