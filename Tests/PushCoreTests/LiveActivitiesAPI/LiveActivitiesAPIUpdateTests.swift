import PushCore
import TestSupport
import Testing

/// `updateLiveActivity`: each row of the document's tables.
@Suite struct LiveActivitiesAPIUpdateTests {
  private typealias Bench = LiveActivitiesAPIBench

  private func plan(_ changes: [String: String?] = [:], activity: [String: String?] = [:]) throws -> LiveActivitiesPlan
  {
    var bench = try Bench()
    return try bench.plan("updateLiveActivity", Bench.request(Bench.update(changes, activity: activity)))
  }

  private func refusal(_ changes: [String: String?] = [:], activity: [String: String?] = [:]) throws -> String {
    var bench = try Bench()
    return try bench.refusal("updateLiveActivity", Bench.request(Bench.update(changes, activity: activity)))
  }

  private static let end: [String: String?] = ["event": #""end""#]

  @Test func authAndApplicationAreRequired() throws {
    var bench = try Bench()
    let update = Bench.update()
    #expect(
      try bench.refusal("updateLiveActivity", "{\"request\":{\"auth\":\"key\",\"notifications\":[\(update)]}}")
        == "Application not found")
    #expect(
      try bench.refusal(
        "updateLiveActivity", "{\"request\":{\"application\":\"XXXXX-XXXXX\",\"notifications\":[\(update)]}}")
        == "Account not found")
    #expect(
      try bench.refusal("updateLiveActivity", #"{"request":{"application":"XXXXX-XXXXX","auth":"key"}}"#)
        == "No notifications")
    #expect(bench.read("updateLiveActivity", Bench.request(update)).access?.permission == .send)
  }

  @Test func liveActivityIsRequired() throws {
    #expect(try refusal(["live_activity": nil]) == "notifications[0].live_activity is missing")
    let older = try plan(
      ["live_activity": nil, "ios_live_activity": #"{"event":"update","content-state":{}}"#])
    #expect(older.jobs.first?.to == #"{"activity":"ride-17"}"#)
  }

  @Test func eventIsUpdateOrEnd() throws {
    #expect(try plan().jobs.first?.job.event == .update)
    #expect(try plan(activity: LiveActivitiesAPIUpdateTests.end).jobs.first?.job.event == .end)
    #expect(try refusal(activity: ["event": nil]) == "notifications[0].live_activity.event is missing: update or end")
    for event in [#""start""#, #""Update""#] {
      #expect(
        try refusal(activity: ["event": event])
          == "notifications[0].live_activity.event must be update or end, not \(event)")
    }
    #expect(try refusal(activity: ["event": "1"]) == "notifications[0].live_activity.event must be a string, not 1")
  }

  @Test func contentStateIsRequiredToUpdate() throws {
    #expect(try plan().jobs.first?.payload.contains(#""content-state":{"eta":15}"#) == true)
    #expect(try refusal(activity: ["content-state": nil]) == "notifications[0].live_activity.content-state is missing")
    #expect(
      try refusal(activity: ["content-state": #""x""#])
        == #"notifications[0].live_activity.content-state must be key-value object, not "x""#)
    // Its own clients end without one: the last one stays.
    let end = try plan(activity: ["event": #""end""#, "content-state": nil])
    #expect(end.jobs.first?.payload == #"{"aps":{"timestamp":1796000000,"event":"end"}}"#)
  }

  @Test func dismissalDateIsOfAnEnd() throws {
    let end = try plan(activity: ["event": #""end""#, "dismissal-date": "12345678"])
    #expect(end.jobs.first?.payload.contains(#""dismissal-date":12345678"#) == true)
    #expect(end.ignored.isEmpty)
    let update = try plan(activity: ["dismissal-date": "12345678"])
    #expect(try !update.jobText().contains("dismissal-date"))
    #expect(update.ignored == [.dismissalDate])
    #expect(
      try refusal(activity: ["event": #""end""#, "dismissal-date": #""soon""#])
        .hasPrefix("notifications[0].live_activity.dismissal-date must be Unix seconds"))
  }

  @Test func staleDateIsOfAnUpdate() throws {
    #expect(try plan(activity: ["stale-date": "1796000600"]).jobText().contains(#""stale-date":1796000600"#))
    let end = try plan(activity: ["event": #""end""#, "stale-date": "1796000600"])
    #expect(end.ignored == [.staleDate])
    #expect(try !end.jobText().contains("stale-date"))
  }

  @Test func liveActivityIDIsRequired() throws {
    #expect(try refusal(["live_activity_id": nil]) == "notifications[0].live_activity_id is missing")
    #expect(try refusal(["live_activity_id": "{}"]).hasPrefix("notifications[0].live_activity_id must be a string"))
    #expect(
      try refusal(["live_activity_id": "\"\(String(repeating: "é", count: 65))\""])
        == "notifications[0].live_activity_id must be 1 to 128 bytes, not 130")
  }

  /// An update is for all devices of the activity; what would name fewer is refused, never widened.
  @Test func anUpdateHasNoOtherTarget() throws {
    for key in ["users", "devices", "filter", "filter_code"] {
      let value = key.hasPrefix("filter") ? #""C""# : #"["a"]"#
      #expect(
        try refusal([key: value])
          == "notifications[0].\(key) does not go with an update: it is for all devices of the activity")
    }
    let end = try plan(["devices": #"["hwid-1"]"#], activity: LiveActivitiesAPIUpdateTests.end)
    #expect(end.jobs.first?.to == #"{"devices":["hwid-1"]}"#)
    #expect(end.jobs.first.map { $0.text($0.job.activity) } == "ride-17")
    #expect(end.devices == ["hwid-1"])
    #expect(
      try refusal(["devices": "[]"], activity: LiveActivitiesAPIUpdateTests.end)
        == "notifications[0].devices must hold 1 to 1000 strings, not 0")
    #expect(
      try refusal(["users": #"["u"]"#], activity: LiveActivitiesAPIUpdateTests.end)
        == "notifications[0].users does not go with an end: it is for all devices of the activity")
  }

  /// The older document names update tokens instead of the activity.
  @Test func updateTokensAreAccepted() throws {
    let tokens = "[\"\(Bench.token)\"]"
    let plan = try plan(["live_activity_id": nil, "live_activity_push_tokens": tokens])
    let job = try #require(plan.jobs.first)
    #expect(job.targets == [Bench.token])
    #expect(job.job.targetKind == .tokens)
    #expect(job.job.activity.isEmpty)
    #expect(job.payload == #"{"aps":{"timestamp":1796000000,"event":"update","content-state":{"eta":15}}}"#)
    #expect(
      try refusal(["live_activity_id": nil, "live_activity_push_tokens": #"["xyz"]"#])
        .hasPrefix("notifications[0].live_activity_push_tokens[0] must be 8 to 256 hexadecimal digits"))
    // The activity wins.
    let both = try self.plan(["live_activity_push_tokens": tokens])
    #expect(both.jobs.first?.to == #"{"activity":"ride-17"}"#)
    #expect(both.ignored == [.pushTokens])
  }

  @Test func anUpdateHasNoAlertOfItsOwn() throws {
    let plan = try plan(["content": #""x""#, "title": #""y""#])
    #expect(plan.ignored == [.content, .title])
    #expect(try !plan.jobText().contains("alert"))
    let alert = #"{"title":"A","body":"B"}"#
    #expect(try self.plan(activity: ["alert": alert]).jobText().contains("\"alert\":\(alert)"))
  }
}
