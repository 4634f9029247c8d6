import PushCore
import Testing

/// What Herald reads of a Live Activity's payload, and what it writes into it.
@Suite struct ActivityPayloadTests {
  private static let start = """
    {"aps": {"event": "start", "attributes-type": "RideAttributes", "attributes": {"car": {"plate": "A 1"}},
     "content-state": {"eta": 4}, "alert": {"title": "t", "body": "b"}}, "mine": [1, 2.50]}
    """

  private func edited(_ text: String, _ change: (inout ActivityEdits) -> Void = { _ in }) throws -> String {
    var edits = ActivityEdits(timestamp: 1_796_000_000)
    change(&edits)
    return String(decoding: try ActivityPayload(Array(text.utf8)).edited(edits), as: UTF8.self)
  }

  private func id(_ attribute: String) throws -> (ActivityID, ActivityIDAttribute) {
    (try #require(ActivityID("ride-17")), try #require(ActivityIDAttribute(attribute)))
  }

  private func detail(_ text: String, _ change: (inout ActivityEdits) -> Void = { _ in }) -> String? {
    do {
      _ = try edited(text, change)
      return nil
    } catch {
      return (error as? JobError)?.detail ?? "\(error)"
    }
  }

  @Test func itKnowsItsFacts() throws {
    let payload = try ActivityPayload(Array(ActivityPayloadTests.start.utf8))
    #expect(payload.event == .start && payload.attributesType == "RideAttributes")
    #expect(payload.contentState.map { String(decoding: $0, as: UTF8.self) } == "{\"eta\": 4}")
    #expect(payload.hasAlert && !payload.hasStaleDate && !payload.hasDismissalDate && !payload.hasUpdateWay)
    let end = try ActivityPayload(
      Array("{\"aps\":{\"event\":\"end\",\"dismissal-date\":5,\"stale-date\":null,\"alert\":null}}".utf8))
    #expect(end.event == .end && end.hasDismissalDate && !end.hasStaleDate && !end.hasAlert)
    #expect(end.contentState == nil && end.attributesType.isEmpty)
    let escaped = try ActivityPayload(
      Array(
        "{\"\\u0061ps\":{\"ev\\u0065nt\":\"update\",\"attributes-type\":\"R\\u0069de\",\"input-push-token\":1}}".utf8))
    #expect(escaped.event == .update && escaped.attributesType == "Ride" && escaped.hasUpdateWay)
  }

  @Test func theTimestampIsSetOrReplaced() throws {
    #expect(
      try edited("{\"aps\":{\"event\":\"update\", \"timestamp\" : 5 }}")
        == "{\"aps\":{\"event\":\"update\", \"timestamp\" : 1796000000 }}")
    #expect(
      try edited("{\"aps\":{ \"event\":\"update\",\"timestamp\":null}}")
        == "{\"aps\":{ \"event\":\"update\",\"timestamp\":1796000000}}")
    #expect(
      try edited("{ \"aps\": {\"event\":\"update\"}}") == "{ \"aps\": {\"timestamp\":1796000000,\"event\":\"update\"}}")
  }

  @Test func theIDStandsWhereTheAppLooksForIt() throws {
    let start = ActivityPayloadTests.start
    func with(_ attribute: String) throws -> String {
      let id = try id(attribute)
      return try edited(start) { $0.id = id }
    }
    #expect(
      try with("activityId").contains("\"attributes\": {\"activityId\":\"ride-17\",\"car\": {\"plate\": \"A 1\"}}"))
    #expect(try with("a.b.c").contains("\"attributes\": {\"a\":{\"b\":{\"c\":\"ride-17\"}},\"car\": {"))
    #expect(try with("car.id").contains("\"attributes\": {\"car\": {\"id\":\"ride-17\",\"plate\": \"A 1\"}}"))
    #expect(try with("car.plate").contains("{\"plate\": \"ride-17\"}"), "a text is replaced")
    let quoted = try #require(ActivityID("a\"\\/é"))
    let empty = "{\"aps\":{\"event\":\"start\",\"timestamp\":1,\"attributes\":{}}}"
    let attribute = try #require(ActivityIDAttribute("id"))
    #expect(try edited(empty) { $0.id = (quoted, attribute) }.contains("{\"id\":\"a\\\"\\\\/é\"}"))
    let null = "{\"aps\":{\"event\":\"start\",\"timestamp\":1,\"attributes\":{\"car\" :null}}}"
    let deep = try id("car.id")
    #expect(try edited(null) { $0.id = deep }.contains("{\"car\" :{\"id\":\"ride-17\"}}"))
    let none = "{\"aps\":{\"event\":\"start\",\"timestamp\":1}}"
    #expect(try edited(none) { $0.id = deep }.contains("\"attributes\":{\"car\":{\"id\":\"ride-17\"}},\"event\""))
    let update = "{\"aps\":{\"event\":\"update\",\"timestamp\":1,\"attributes\":{}}}"
    #expect(try edited(update) { $0.id = deep }.contains("\"attributes\":{}"), "of a start alone")
  }

  @Test func anotherKindWhereTheIDGoesIsAnError() throws {
    let start = ActivityPayloadTests.start
    for (path, text) in [
      (
        "car",
        """
        payload.aps.attributes.car: must be a string, not an object: the activity's id is written to car, as \
        activities.id_attribute says
        """
      ),
      (
        "car.plate.id",
        """
        payload.aps.attributes.car.plate: must be an object, not "A 1": the activity's id is written to car.plate.id, \
        as activities.id_attribute says
        """
      ),
    ] {
      let id = try id(path)
      #expect(detail(start) { $0.id = id } == text)
    }
    let twice = "{\"aps\":{\"event\":\"start\",\"attributes\":{\"car\":{},\"c\\u0061r\":{}}}}"
    let id = try id("car.id")
    #expect(detail(twice) { $0.id = id } == "payload.aps.attributes.car: must be there once, not twice")
  }

  @Test func anEndShowsTheLastState() throws {
    let last = Array("{\"eta\": 0}".utf8)
    #expect(
      try edited("{\"aps\":{\"event\":\"end\"}}") { $0.contentState = last }
        == "{\"aps\":{\"timestamp\":1796000000,\"content-state\":{\"eta\": 0},\"event\":\"end\"}}")
    let own = "{\"aps\":{\"event\":\"end\",\"timestamp\":1,\"content-state\":{}}}"
    #expect(try edited(own) { $0.contentState = last }.contains("\"content-state\":{}"))
    let update = "{\"aps\":{\"event\":\"update\",\"timestamp\":1}}"
    #expect(try !edited(update) { $0.contentState = last }.contains("content-state"))
  }

  @Test func whatShowsLongGetsOld() throws {
    func stale(_ members: String) throws -> String {
      try edited("{\"aps\":{\"timestamp\":1,\(members)}}") { $0.staleAfterSeconds = 60 }
    }
    #expect(try stale("\"event\":\"update\"").contains("\"stale-date\":1796000060"))
    #expect(try stale("\"event\":\"start\",\"stale-date\":null").hasSuffix("\"stale-date\":1796000060}}"))
    #expect(try stale("\"event\":\"start\",\"stale-date\":7").hasSuffix("\"stale-date\":7}}"))
    #expect(try !stale("\"event\":\"end\"").contains("stale-date"))
  }

  @Test func aStartMayBringItsChannel() throws {
    let start = "{\"aps\":{\"event\":\"start\",\"timestamp\":1}}"
    #expect(try edited(start) { $0.inputPushChannel = "T25l" }.contains("{\"input-push-channel\":\"T25l\",\"event\""))
    let own = "{\"aps\":{\"event\":\"start\",\"input-push-token\":1}}"
    #expect(
      detail(own) { $0.inputPushChannel = "T25l" }
        == "payload.aps.input-push-token: must not be there: the activity's updates come on a channel that Herald names"
    )
  }

  @Test func badPayloadsAreNamed() {
    for (payload, text) in [
      ("{}", "payload.aps: must be an object for a Live Activity"),
      ("{\"aps\":7}", "payload.aps: must be an object for a Live Activity"),
      (
        "{\"aps\":{}}", "payload.aps.event: must be start, update or end for a Live Activity, and is missing"
      ),
      (
        "{\"aps\":{\"event\":\"begin\"}}",
        "payload.aps.event: must be start, update or end for a Live Activity, not \"begin\""
      ),
      ("{\"aps\":{\"event\":\"end\"},\"aps\":{}}", "payload.aps: must be there once, not twice"),
      (
        "{\"aps\":{\"event\":\"end\",\"timestamp\":1,\"timestamp\":2}}",
        "payload.aps.timestamp: must be there once, not twice"
      ),
      (
        "{\"aps\":{\"event\":\"end\",\"content-state\":[]}}",
        "payload.aps.content-state: must be an object, not an array"
      ),
      ("{\"aps\":{\"event\":\"end\"}", "body: is not JSON: ends too early, at byte 22"),
    ] {
      #expect(detail(payload) == text)
    }
    #expect(throws: Never.self) { try ActivityPayload.check(length: 4096, isBroadcast: false) }
    #expect(throws: Never.self) { try ActivityPayload.check(length: 5120, isBroadcast: true) }
    let error = #expect(throws: JobError.self) { try ActivityPayload.check(length: 4097, isBroadcast: false) }
    #expect(
      error?.detail == "payload: must be at most 4096 bytes for liveactivity, not 4097 with what Herald writes into it")
  }

  @Test func prioritySaysWhatItDoes() throws {
    for (members, priority) in [
      ("\"event\":\"start\"", 10), ("\"event\":\"end\"", 10), ("\"event\":\"update\"", 5),
      ("\"event\":\"update\",\"alert\":{\"title\":\"t\"}", 10), ("\"event\":\"update\",\"alert\":null", 5),
    ] as [(String, UInt8)] {
      let payload = try ActivityPayload(Array("{\"aps\":{\(members)}}".utf8))
      #expect(payload.priority(ofJob: nil) == priority)
      #expect(payload.priority(ofJob: 5) == 5 && payload.priority(ofJob: 10) == 10)
    }
  }

  @Test func startsAreAlikeButForTheTimestamp() throws {
    func digest(_ text: String) throws -> UInt64 { try ActivityPayload(Array(text.utf8)).digest }
    let text = "{\"aps\":{\"event\":\"start\",\"timestamp\":1,\"attributes\":{\"a\":1}}}"
    #expect(try digest(text) == digest(text.replacing("\"timestamp\":1", with: "\"timestamp\":20")))
    #expect(try digest(text) != digest(text.replacing("\"a\":1", with: "\"a\":2")))
    #expect(try digest(text) != digest(text.replacing("\"timestamp\":1,", with: "")))
    #expect(ActivityIDAttribute("") == nil && ActivityIDAttribute("a..b") == nil && ActivityIDAttribute(".a") == nil)
    #expect(ActivityIDAttribute("a.b.c.d.e.f.g.h") != nil && ActivityIDAttribute("a.b.c.d.e.f.g.h.i") == nil)
    #expect(ActivityID("") == nil && ActivityID(String(repeating: "é", count: 64)) != nil)
    #expect(ActivityID(String(repeating: "é", count: 64) + "a") == nil)
  }
}
