import PushCore
import TestSupport
import Testing

/// What clients are told: always JSON of one form, with the status that they act on.
@Suite struct LiveActivitiesAPIAnswerTests {
  private typealias Bench = LiveActivitiesAPIBench

  @Test func eachAnswerHasItsStatus() throws {
    let cases: [(LiveActivitiesAnswer, Int, Int, Int?, String)] = [
      (.done, 200, 200, nil, "OK"),
      (.unknownAccount, 200, 210, nil, "Account not found"),
      (.forbidden, 200, 403, nil, "Token restrictions forbid this operation"),
      (.notPOST, 405, 405, nil, "Send a POST with a JSON body"),
      (.tooLarge(maximum: 1_048_576), 413, 413, nil, "The request is too large: at most 1048576 bytes are taken"),
      (.tooMany(retryAfter: 7), 429, 429, 7, "Too many requests; send this one again in 7 s"),
      (.unconfirmed, 503, 503, 5, "The request could not be stored; send it again"),
      (.failed, 500, 500, nil, "Internal error"),
    ]
    for (answer, status, code, retryAfter, message) in cases {
      let parts = try answer.parts()
      #expect(answer.status == status)
      #expect(parts.code == code)
      #expect(parts.message == message)
      #expect(parts.response == nil)
      #expect(answer.retryAfter == retryAfter)
    }
  }

  @Test func anUnsupportedCallIsNamed() throws {
    var bench = try Bench()
    let served =
      "startLiveActivity, updateLiveActivity, registerDevice, unregisterDevice, registerUser, setTags, setActivityToken, "
      + "setActivityPushToStartToken"
    let cases = [
      ("createMessage", "createMessage is not supported; supported calls: \(served)"),
      ("startLiveActivty", "startLiveActivty is not supported; did you mean startLiveActivity?"),
      ("setTag", "setTag is not supported; did you mean setTags?"),
      ("", "A call without a name is not supported; supported calls: \(served)"),
    ]
    for (method, message) in cases {
      #expect(try bench.refusal(method, "no JSON at all") == message)
    }
    let long = try bench.refusal(String(repeating: "\u{1}x", count: 100_000), "")
    #expect(long.hasPrefix("\\x01x\\x01x"))
    #expect(long.utf8.count < 500)
  }

  @Test func invalidJSONIs400() throws {
    var bench = try Bench()
    let cases = [
      ("", "The request is not JSON: ends too early, at byte 0"),
      ("request=1", "The request is not JSON: a value must begin here, at byte 0"),
      (#"{"request":{}"#, "The request is not JSON: ends too early, at byte 13"),
      (#"{"request":{}} x"#, "The request is not JSON: nothing may follow the request's object, at byte 15"),
      (#"{"request":{},}"#, "The request is not JSON: a key in double quotes must stand here, at byte 14"),
      (
        "{\"request\": // the request\n{}}",
        "The request is not JSON: a comment begins at byte 12, and comments are not JSON; take them out"
      ),
      (
        "/* the request */ {}",
        "The request is not JSON: a comment begins at byte 0, and comments are not JSON; take them out"
      ),
      (
        #"{"request":{}} // end"#,
        "The request is not JSON: a comment begins at byte 15, and comments are not JSON; take them out"
      ),
      ("{\"a\":/", "The request is not JSON: a value must begin here, at byte 5"),
    ]
    for (body, message) in cases {
      let reading = bench.read("startLiveActivity", body)
      #expect(reading.access == nil)
      guard case .answer(let answer) = reading.decision else { throw TestFailure("it was taken: \(body)") }
      #expect(answer.status == 400)
      let parts = try answer.parts()
      #expect(parts.code == 400)
      #expect(parts.message == message)
    }
    // A string may hold what looks like one.
    #expect(try bench.plan("setTags", Bench.call(["tags": #"{"url":"https://example.com"}"#])).publications.count == 1)
  }

  @Test func unknownDevicesAreReported() throws {
    var bench = try Bench()
    let plan = try bench.plan("startLiveActivity", Bench.request(Bench.start(["devices": #"["a","b\"","c"]"#])))
    #expect(plan.devices == ["a", "b\"", "c"])
    let code = MessageCode.text(ofJob: plan.jobs[0].text(plan.jobs[0].job.id))
    #expect(
      plan.answer(isConfirmed: true, unknown: ["b\"", "c"]).text
        == """
        {"status_code":200,"status_message":"OK","response":{"Messages":["\(code)"],"UnknownDevices":{"":["b\\"","c"]}}}
        """)
    #expect(
      plan.answer(isConfirmed: true).text
        == "{\"status_code\":200,\"status_message\":\"OK\",\"response\":{\"Messages\":[\"\(code)\"]}}")
    #expect(plan.answer(isConfirmed: false, unknown: ["c"]) == .unconfirmed)
  }

  @Test func codesAreAFunctionOfTheJob() throws {
    #expect(MessageCode.text(ofJob: someID) == MessageCode.text(ofJob: someID))
    var codes: Set<String> = []
    for number in 0..<10_000 {
      let code = MessageCode.text(ofJob: "\(number)")
      #expect(code.wholeMatch(of: /[0-9A-F]{4}-[0-9A-F]{8}-[0-9A-F]{8}/) != nil, "\(code)")
      codes.insert(code)
    }
    #expect(codes.count == 10_000)
    // Fixed: what is in logs elsewhere must still be found.
    #expect(MessageCode.text(ofJob: someID) == "0912-13708E4D-D27725E9")
    // Texts that differ by zeros at the end differ.
    #expect(MessageCode.text(ofJob: "a") != MessageCode.text(ofJob: "a\u{0}"))
  }
}
