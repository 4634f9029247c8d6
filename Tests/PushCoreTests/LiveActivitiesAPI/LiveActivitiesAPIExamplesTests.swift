import PushCore
import TestSupport
import Testing

/// The document's own examples, as they stand there: each on one line, with comments.
@Suite struct LiveActivitiesAPIExamplesTests {
  private typealias Bench = LiveActivitiesAPIBench

  private static let start = """
    { "request": { "application": "XXXXX-XXXXX", // required. Pushwoosh application code "auth": "yxoPUlwqm…………pIyEX4H", \
    // required. API access token from Pushwoosh Control Panel "notifications": [{ "live_activity": { // required. Live \
    Activity data to create Live Activity in iOS "content-state": { "emoji": ":wink:" }, "attributes-type": \
    "LiveActivityAttributes", "attributes": { "name": "Apple" } }, "live_activity_id": "unique UUID", // optional. Unique \
    identifier of the Live Activity. "filter_code": "FILTER_NAME", // optional. Specify filter. "devices": [ // optional. \
    Specify tokens or hwids to send targeted push "hwid_XXXX" // notifications. Not more than 1000 tokens/hwids in ], // an \
    array. If set, the message will only be sent to // the devices on the list. Application Group for // devices list is not \
    allowed. // iOS push tokens can only be lower case. "users": [ // optional. If set, message will only be delivered to the \
    specified "user_XXXX" // user ID's (set via /registerUser call). If specified ] // together with devices parameter, the \
    latter will be // ignored. Not more than 1000 user ID's in an array. // Application Group for users list is not allowed. \
    }] }}
    """

  private static let update = """
    { "request": { "application": "XXXXX-XXXXX", // required. Pushwoosh application code "auth": "yxoPUlwqm…………pIyEX4H", \
    // required. API access token from Pushwoosh Control Panel "notifications": [{ "live_activity": { // required. Live \
    Activity data to update Live Activity in iOS "event": "update", // required. Use "update" to update Live Activity or // \
    "end" to close Live Activity "content-state": { // required. Object with key-value pairs used to pass data \
    "courierName": "NUMBER: 15", // to Live Activity for updating its content "deliveryStatus": "Done" }, "dismissal-date": \
    12345678 // optional. Time of ending Live Activity in seconds }, "live_activity_id": "unique UUID" // optional. Unique \
    identifier of the Live Activity. }] }}
    """

  /// The comments, which on one line end where only a reader sees it.
  private static let comments = [
    "// required. Pushwoosh application code", "// required. API access token from Pushwoosh Control Panel",
    "// required. Live Activity data to create Live Activity in iOS",
    "// required. Live Activity data to update Live Activity in iOS",
    "// optional. Unique identifier of the Live Activity.", "// optional. Specify filter.",
    "// optional. Specify tokens or hwids to send targeted push",
    "// notifications. Not more than 1000 tokens/hwids in",
    "// an array. If set, the message will only be sent to",
    "// the devices on the list. Application Group for", "// devices list is not allowed.",
    "// iOS push tokens can only be lower case.",
    "// optional. If set, message will only be delivered to the specified",
    "// user ID's (set via /registerUser call). If specified", "// together with devices parameter, the latter will be",
    "// ignored. Not more than 1000 user ID's in an array.", "// Application Group for users list is not allowed.",
    #"// required. Use "update" to update Live Activity or"#, #"// "end" to close Live Activity"#,
    "// required. Object with key-value pairs used to pass data", "// to Live Activity for updating its content",
    "// optional. Time of ending Live Activity in seconds",
  ]

  private func withoutComments(_ example: String) throws -> String {
    var text = example
    for comment in LiveActivitiesAPIExamplesTests.comments { text = text.replacing(comment, with: "") }
    guard !text.contains("//") else { throw TestFailure("a comment is left in \(text)") }
    return text
  }

  @Test func commentsAreNamed() throws {
    var bench = try Bench()
    for (method, example) in [
      ("startLiveActivity", LiveActivitiesAPIExamplesTests.start),
      ("updateLiveActivity", LiveActivitiesAPIExamplesTests.update),
    ] {
      guard case .answer(let answer) = bench.read(method, example).decision else { throw TestFailure("it was taken") }
      #expect(answer.status == 400)
      #expect(
        try answer.parts().message
          == "The request is not JSON: a comment begins at byte 45, and comments are not JSON; take them out")
    }
  }

  @Test func theStartRuns() throws {
    var bench = try Bench()
    let text = try withoutComments(LiveActivitiesAPIExamplesTests.start)
    // It has neither content nor an alert.
    #expect(
      try bench.refusal("startLiveActivity", text)
        == """
        notifications[0].content is missing: a start shows an alert, and this application has no default_alert; give \
        content, and a title
        """)
    let plan = try bench.plan("startLiveActivity", text.replacing("XXXXX-XXXXX", with: "ALERT-ALERT"))
    let job = try #require(plan.jobs.first)
    #expect(plan.jobs.count == 1)
    #expect(job.to == #"{"users":["user_XXXX"]}"#, "users win over devices, and devices over the filter")
    #expect(job.text(job.job.activity) == "unique UUID")
    #expect(
      job.payload == """
        {"aps":{"timestamp":1796000000,"event":"start","content-state":{ "emoji": ":wink:" },"attributes":{ "name": \
        "Apple" },"alert":{"title":"Ride","body":"On its way"},"attributes-type":"LiveActivityAttributes"}}
        """)
    #expect(plan.users == ["user_XXXX"])
    #expect(bench.read("startLiveActivity", text).access?.token == "yxoPUlwqm…………pIyEX4H")
  }

  @Test func theUpdateRuns() throws {
    var bench = try Bench()
    let plan = try bench.plan("updateLiveActivity", try withoutComments(LiveActivitiesAPIExamplesTests.update))
    let job = try #require(plan.jobs.first)
    #expect(job.to == #"{"activity":"unique UUID"}"#)
    #expect(job.job.event == .update)
    #expect(job.payload.contains(#""courierName": "NUMBER: 15",  "deliveryStatus": "Done""#))
    #expect(plan.ignored == [.dismissalDate], "an update's dismissal date, long past, has no effect")
    #expect(!job.payload.contains("12345678"))
  }

  @Test func theAnswerHasTheDocumentsForm() throws {
    var bench = try Bench()
    let plan = try bench.plan("updateLiveActivity", try withoutComments(LiveActivitiesAPIExamplesTests.update))
    let pattern =
      #/\{"status_code":200,"status_message":"OK","response":\{"Messages":\["[0-9A-F]{4}-[0-9A-F]{8}-[0-9A-F]{8}"\]\}\}/#
    #expect(plan.answer(isConfirmed: true).text.wholeMatch(of: pattern) != nil)
  }
}
