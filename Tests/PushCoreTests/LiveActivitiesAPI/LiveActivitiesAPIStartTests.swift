import PushCore
import TestSupport
import Testing

/// `startLiveActivity`: each row of the document's tables.
@Suite struct LiveActivitiesAPIStartTests {
  private typealias Bench = LiveActivitiesAPIBench

  private func plan(
    _ changes: [String: String?] = [:], activity: [String: String?] = [:], application: String = "XXXXX-XXXXX",
    allowsEveryone: Bool = false
  ) throws -> LiveActivitiesPlan {
    var bench = try Bench(allowsEveryone: allowsEveryone)
    return try bench.plan(
      "startLiveActivity", Bench.request(Bench.start(changes, activity: activity), application: application))
  }

  private func refusal(_ changes: [String: String?] = [:], activity: [String: String?] = [:]) throws -> String {
    var bench = try Bench()
    return try bench.refusal("startLiveActivity", Bench.request(Bench.start(changes, activity: activity)))
  }

  // MARK: - Request

  @Test func applicationIsRequired() throws {
    var bench = try Bench()
    for application in [nil, "null", #""""#, #""YYYYY-YYYYY""#, #""xxxxx-xxxxx""#, #""ALERT""#] {
      let member = application.map { "\"application\":\($0)," } ?? ""
      let body = "{\"request\":{\(member)\"auth\":\"key\",\"notifications\":[\(Bench.start())]}}"
      #expect(try bench.refusal("startLiveActivity", body) == "Application not found", "\(body)")
      // Nobody's key is asked for where there is no application.
      #expect(bench.read("startLiveActivity", body).access == nil)
    }
  }

  @Test func authIsRequired() throws {
    var bench = try Bench()
    let head = #"{"request":{"application":"XXXXX-XXXXX","#
    for member in ["", #""auth":"","#, #""auth":null,"#] {
      let body = "\(head)\(member)\"notifications\":[\(Bench.start())]}}"
      #expect(try bench.refusal("startLiveActivity", body) == "Account not found", "\(body)")
      #expect(bench.read("startLiveActivity", body, authorization: "Token abc").access?.token == "abc")
    }
    let body = "\(head)\"auth\":7,\"notifications\":[]}}"
    #expect(try bench.refusal("startLiveActivity", body) == "auth must be a string, not 7")
    let access = bench.read("startLiveActivity", Bench.request(Bench.start()), authorization: "Token abc").access
    #expect(access?.token == "key", "the body's own wins for servers")
    #expect(access?.permission == .send)
    #expect(access?.scope.description == "com.example.app in production")
  }

  /// Who has no key learns nothing but that.
  @Test func aRefusedRequestNamesItsKeyToo() throws {
    var bench = try Bench()
    let reading = bench.read("startLiveActivity", Bench.request("{}"))
    #expect(reading.access?.token == "key")
    guard case .answer = reading.decision else { throw TestFailure("it was taken") }
  }

  @Test func notificationsAreRequired() throws {
    var bench = try Bench()
    let head = #"{"request":{"application":"XXXXX-XXXXX","auth":"key""#
    let cases = [
      ("\(head)}}", "No notifications"),
      ("\(head),\"notifications\":null}}", "No notifications"),
      ("\(head),\"notifications\":[]}}", "No notifications"),
      ("\(head),\"notifications\":{}}}", "notifications must be an array of objects, not an object"),
      ("\(head),\"notifications\":[7]}}", "notifications[0] must be key-value object, not 7"),
      ("\(head),\"notifications\":[],\"notifications\":[]}}", "notifications must be there once, not twice"),
      ("{}", "request is missing"),
      ("[]", "the request must be key-value object, not an array"),
      (#"{"request":"x"}"#, #"the request must be key-value object, not "x""#),
    ]
    for (body, message) in cases { #expect(try bench.refusal("startLiveActivity", body) == message, "\(body)") }
    let many = Array(repeating: Bench.start(), count: 1001).joined(separator: ",")
    #expect(
      try bench.refusal("startLiveActivity", Bench.request(many))
        == "notifications must hold 1 to 1000 objects, not 1001")
  }

  @Test func severalNotificationsHaveACodeEach() throws {
    var bench = try Bench()
    let notifications = (0..<5).map { Bench.start(["live_activity_id": "\"ride-\($0)\""]) }
    let plan = try bench.plan("startLiveActivity", Bench.request(notifications.joined(separator: ",")))
    #expect(plan.jobs.map { $0.text($0.job.activity) } == ["ride-0", "ride-1", "ride-2", "ride-3", "ride-4"])
    let response = try #require(try plan.answer(isConfirmed: true).parts().response)
    #expect(response["Messages"] as? [String] == plan.jobs.map { MessageCode.text(ofJob: $0.text($0.job.id)) })
    #expect(Set(response["Messages"] as? [String] ?? []).count == 5)
    for job in plan.jobs {
      #expect(job.text(job.job.meta) == "{\"message_code\":\"\(MessageCode.text(ofJob: job.text(job.job.id)))\"}")
    }
  }

  /// One that is wrong holds back all: the sender corrects it and sends the whole again.
  @Test func nothingIsPublishedWhereOneIsWrong() throws {
    var bench = try Bench()
    let wrong = Bench.start(["live_activity_id": nil])
    #expect(
      try bench.refusal("startLiveActivity", Bench.request(Bench.start(), wrong))
        == "notifications[1].live_activity_id is missing")
  }

  // MARK: - Alert

  @Test func contentIsTheFallback() throws {
    let job = try #require(try plan().jobs.first)
    #expect(job.text(job.job.fallback.title) == #""Ride""#)
    #expect(job.text(job.job.fallback.body) == #""Your ride""#)
    #expect(job.payload.contains(#""alert":{"title":"Ride","body":"Your ride"}"#))
    #expect(try refusal(["content": "{}"]) == "notifications[0].content must be a string, not an object")
    let long = String(repeating: "x", count: 4096)
    #expect(try refusal(["content": "\"\(long)\""]).hasPrefix("notifications[0]."))
  }

  @Test func contentMayBeAbsent() throws {
    for absent in [nil, "null", #""""#] {
      let missing = try refusal(["content": absent])
      #expect(
        missing.hasPrefix("notifications[0].content is missing: a start shows an alert, and this application has no"))
      let job = try #require(try plan(["content": absent, "title": nil], application: "ALERT-ALERT").jobs.first)
      #expect(job.payload.contains(#""alert":{"title":"Ride","body":"On its way"}"#))
      #expect(job.job.fallback.title.isEmpty, "without content there is nothing for other devices")
    }
  }

  @Test func titleIsOptional() throws {
    let cases: [(String?, String, String)] = [
      (#""T""#, "XXXXX-XXXXX", "T"), (#""T""#, "ALERT-ALERT", "T"), (nil, "ALERT-ALERT", "Ride"),
      // APNs takes no start without a title.
      (nil, "XXXXX-XXXXX", "Your ride"),
    ]
    for (title, application, expected) in cases {
      let job = try #require(try plan(["title": title], application: application).jobs.first)
      #expect(job.payload.contains("\"alert\":{\"title\":\"\(expected)\",\"body\":\"Your ride\"}"))
      #expect(job.text(job.job.fallback.title) == "\"\(expected)\"")
    }
    #expect(try refusal(["title": "7"]) == "notifications[0].title must be a string, not 7")
  }

  @Test func anAlertInTheActivityTakesPrecedence() throws {
    let alert = #"{"title":"A","body":"B","sound":"c.aiff"}"#
    let job = try #require(try plan(["content": nil, "title": nil], activity: ["alert": alert]).jobs.first)
    #expect(job.payload.contains("\"alert\":\(alert)"))
    let message = try refusal(activity: ["alert": #""only a body""#])
    #expect(message.hasPrefix("notifications[0].live_activity.alert must be an object with title and body"))
  }

  // MARK: - Activity

  @Test func liveActivityIsRequired() throws {
    #expect(try refusal(["live_activity": nil]) == "notifications[0].live_activity is missing")
    #expect(
      try refusal(["live_activity": #""x""#])
        == #"notifications[0].live_activity must be key-value object, not "x""#)
    let activity = #"{"content-state":{},"attributes-type":"A","attributes":{}}"#
    let job = try #require(try plan(["live_activity": nil, "ios_live_activity": activity]).jobs.first)
    #expect(job.payload.contains(#""attributes-type":"A""#))
    #expect(
      try refusal(["live_activity": nil, "ios_live_activity": "{}"])
        == "notifications[0].ios_live_activity.content-state is missing")
  }

  @Test func contentStateIsRequired() throws {
    #expect(try refusal(activity: ["content-state": nil]) == "notifications[0].live_activity.content-state is missing")
    #expect(
      try refusal(activity: ["content-state": "[1]"])
        == "notifications[0].live_activity.content-state must be key-value object, not an array")
    // As its sender wrote it, byte for byte.
    let state = #"{ "a" : [1, 2.50, "\u00e9/\/"],"n":null , "big":123456789012345678901234567890}"#
    #expect(try plan(activity: ["content-state": state]).jobText().contains("\"content-state\":\(state),"))
  }

  @Test func attributesTypeIsRequired() throws {
    #expect(
      try refusal(activity: ["attributes-type": nil]) == "notifications[0].live_activity.attributes-type is missing")
    #expect(
      try refusal(activity: ["attributes-type": "{}"])
        == "notifications[0].live_activity.attributes-type must be a string, not an object")
  }

  @Test func attributesAreRequired() throws {
    #expect(try refusal(activity: ["attributes": nil]) == "notifications[0].live_activity.attributes is missing")
    #expect(
      try refusal(activity: ["attributes": "true"])
        == "notifications[0].live_activity.attributes must be key-value object, not true")
  }

  @Test func liveActivityIDIsRequired() throws {
    for absent in [nil, "null", #""""#] {
      #expect(try refusal(["live_activity_id": absent]) == "notifications[0].live_activity_id is missing")
    }
    #expect(try refusal(["live_activity_id": "17"]) == "notifications[0].live_activity_id must be a string, not 17")
    #expect(
      try refusal(["live_activity_id": "\"\(String(repeating: "i", count: 129))\""])
        == "notifications[0].live_activity_id must be 1 to 128 bytes, not 129")
    // Its update token could never be registered.
    #expect(
      try refusal(["live_activity_id": #""a\nb""#])
        == "notifications[0].live_activity_id must hold no control characters")
    let job = try #require(try plan(["live_activity_id": #""ride \"17\" é""#]).jobs.first)
    #expect(job.text(job.job.activity) == #"ride "17" é"#)
  }

  @Test func theIDIsWrittenToTheAttributes() throws {
    let cases = [
      ("{}", #"{"pushwoosh":{"activityId":"ride-17"}}"#),
      (#"{"name":"Apple"}"#, #"{"pushwoosh":{"activityId":"ride-17"},"name":"Apple"}"#),
      (#"{"pushwoosh":{"activityId":"else"}}"#, #"{"pushwoosh":{"activityId":"ride-17"}}"#),
    ]
    for (attributes, expected) in cases {
      #expect(try plan(activity: ["attributes": attributes]).jobText().contains("\"attributes\":\(expected)"))
    }
    #expect(
      try refusal(activity: ["attributes": #"{"pushwoosh":7}"#])
        .hasPrefix("notifications[0].live_activity.attributes.pushwoosh must be an object, not 7"))
    // The other application leaves it to the worker.
    #expect(try plan(application: "ALERT-ALERT").jobText().contains("\"attributes\":{},"))
  }

  @Test func onlyAStartStarts() throws {
    #expect(try plan(activity: ["event": #""start""#]).jobs.first?.job.event == .start)
    for event in [#""update""#, #""end""#, "7"] {
      #expect(
        try refusal(activity: ["event": event]).hasPrefix("notifications[0].live_activity.event must be "), "\(event)")
    }
  }

  @Test func unknownKeysAreIgnored() throws {
    let plan = try plan(
      ["some_day": "{}"],
      activity: ["stale-date": "1796000600", "relevance-score": "75", "input-push-token": "1", "else": "[]"])
    let payload = try #require(plan.jobs.first?.payload)
    #expect(payload.contains(#""stale-date":1796000600,"relevance-score":75,"input-push-token":1"#))
    #expect(!payload.contains("else"))
    #expect(plan.ignored.isEmpty)
    let dismissed = try self.plan(activity: ["dismissal-date": "12345678"])
    #expect(dismissed.ignored == [.dismissalDate])
    #expect(try !dismissed.jobText().contains("dismissal-date"))
    #expect(
      try refusal(activity: ["stale-date": #""soon""#])
        .hasPrefix("notifications[0].live_activity.stale-date must be Unix seconds"))
  }

  @Test func aPayloadThatIsTooLongIsRefused() throws {
    let state = "{\"text\":\"\(String(repeating: "x", count: 4096))\"}"
    #expect(
      try refusal(activity: ["content-state": state])
        .hasPrefix("notifications[0].live_activity must be at most 4096 bytes for liveactivity, not "))
  }
}
