/// What Apple demands of payloads, and what passes because Apple says nothing of it.
import PushCore
import Testing

@Suite struct PayloadRulesTests {
  static let taken: [(String, String)] = [
    ("alert", "{\"aps\":{\"alert\":\"\"}}"), ("alert", "{\"aps\":{\"badge\":0}}"),
    ("alert", "{\"aps\":{\"sound\":\"default\"}}"),
    ("alert", "{\"aps\":{\"alert\":{}}}"),
    ("alert", "{\"aps\":{\"alert\":{\"title\":\"a\",\"subtitle\":\"b\",\"body\":\"c\"}}}"),
    (
      "alert",
      "{\"aps\":{\"alert\":{\"title-loc-key\":\"K\",\"title-loc-args\":[\"a\",\"b\"],\"loc-key\":\"B\",\"loc-args\":[]}}}"
    ),
    ("alert", "{\"aps\":{\"alert\":{\"launch-image\":\"x\",\"new-key\":[1,{\"a\":null}]}}}"),
    ("alert", "{\"aps\":{\"sound\":{\"critical\":1,\"name\":\"x\",\"volume\":0.5}}}"),
    ("alert", "{\"aps\":{\"sound\":{\"critical\":true,\"volume\":1}}}"),
    ("alert", "{\"aps\":{\"sound\":{\"volume\":1.000}}}"),
    (
      "alert",
      "{\"aps\":{\"alert\":\"a\",\"thread-id\":\"t\",\"category\":\"c\",\"content-available\":1,\"mutable-content\":1}}"
    ),
    (
      "alert",
      "{\"aps\":{\"alert\":\"a\",\"content-available\":true,\"mutable-content\":0,\"target-content-id\":\"x\"}}"
    ),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"interruption-level\":\"time-sensitive\",\"relevance-score\":0.75}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":1}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":5e-1}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":-0.0}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":1.0}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"filter-criteria\":\"f\",\"url-args\":[\"x\"]}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"key-of-2030\":{\"a\":[1,2]}},\"mine\":[{}]}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"sound\":null,\"badge\":null,\"category\":null}}"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"timestamp\":\"mine\",\"event\":7,\"attributes\":1}}"),
    ("alert", "{\"mine\":1,\"aps\":{\"\\u0061lert\":\"escaped key\"}}"),
    ("background", "{\"aps\":{\"content-available\":1},\"a\":1}"),
    ("location", "{}"), ("location", "{\"aps\":{}}"),
    ("voip", "{}"), ("voip", "{\"aps\":[],\"call\":1}"), ("complication", "{\"a\":1}"),
    ("pushtotalk", "{\"speaker\":\"x\"}"),
    ("fileprovider", "{\"container-identifier\":\"c\",\"domain\":\"d\"}"),
    ("mdm", "{\"mdm\":\"magic\"}"),
    ("widgets", "{\"aps\":{\"content-changed\":true}}"), ("controls", "{\"aps\":{\"content-changed\":true}}"),
    (
      "liveactivity",
      "{\"aps\":{\"timestamp\":1796000000,\"event\":\"update\",\"content-state\":{\"a\":1},\"stale-date\":2,\"relevance-score\":75.5}}"
    ),
    ("liveactivity", "{\"aps\":{\"timestamp\":100000000000,\"event\":\"update\",\"content-state\":{}}}"),
    ("liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"end\",\"dismissal-date\":1}}"),
    (
      "liveactivity",
      "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{},\"alert\":{\"title\":{\"loc-key\":\"K\",\"loc-args\":[\"a\"]},\"body\":\"b\",\"sound\":\"s\"}}}"
    ),
    ("liveactivity", start()), ("liveactivity", start(",\"input-push-token\":1")),
    ("liveactivity", start(",\"input-push-channel\":\"c\"")),
    ("liveactivity", start(",\"stale-date\":5")),
    ("liveactivity", start(alert: "{\"title-loc-key\":\"K\",\"loc-key\":\"B\",\"sound\":{\"name\":\"x\"}}")),
  ]

  static func start(_ more: String = "", alert: String = "{\"title\":\"t\",\"body\":\"b\"}") -> String {
    """
    {"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":\(alert)\(more)}}
    """
  }

  @Test(arguments: taken) func takes(_ type: String, _ payload: String) {
    let error = Parsed(job(type, payload: payload)).error
    #expect(error == nil, "\(type) \(payload): \(error?.detail ?? "")")
    // Keys may stand in any order: the payload before its type.
    #expect(
      Parsed("{\"payload\": \(payload), " + job(type, payload: payload, [("payload", nil)]).dropFirst()).error == nil)
  }

  /// (type, payload, field, part of the rule)
  static let refused: [(String, String, String, String)] = [
    ("alert", "{}", "payload.aps", "at least one of alert, badge and sound"),
    ("alert", "{\"aps\":{}}", "payload.aps", "at least one"),
    ("alert", "{\"aps\":{\"alert\":null}}", "payload.aps", "at least one"),
    ("alert", "{\"aps\":[]}", "payload.aps", "must be an object, not an array"),
    ("alert", "{\"aps\":{\"alert\":7}}", "payload.aps.alert", "must be a string or an object, not 7"),
    ("alert", "{\"aps\":{\"alert\":{},\"badge\":1}}", "payload.aps.alert", "empty object"),
    ("alert", "{\"aps\":{\"sound\":\"x\",\"alert\":{}}}", "payload.aps.alert", "empty object"),
    ("alert", "{\"aps\":{\"alert\":{\"title\":7}}}", "payload.aps.alert.title", "must be a string or an object, not 7"),
    (
      "alert", "{\"aps\":{\"alert\":{\"title\":{\"loc-key\":\"K\"}}}}", "payload.aps.alert.title",
      "must be a string: only a Live Activity"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"title\":\"a\",\"title-loc-key\":\"K\"}}}", "payload.aps.alert.title-loc-key",
      "beside title"
    ),
    ("alert", "{\"aps\":{\"alert\":{\"body\":\"a\",\"loc-key\":\"K\"}}}", "payload.aps.alert.loc-key", "beside body"),
    (
      "alert", "{\"aps\":{\"alert\":{\"subtitle\":\"a\",\"subtitle-loc-key\":\"K\"}}}",
      "payload.aps.alert.subtitle-loc-key", "beside subtitle"
    ),
    ("alert", "{\"aps\":{\"alert\":{\"loc-args\":[]}}}", "payload.aps.alert.loc-args", "needs loc-key"),
    (
      "alert", "{\"aps\":{\"alert\":{\"loc-key\":\"K\",\"loc-args\":[1]}}}", "payload.aps.alert.loc-args",
      "an array of strings, not an array"
    ),
    ("alert", "{\"aps\":{\"badge\":-1}}", "payload.aps.badge", "integer that is not negative, not -1"),
    ("alert", "{\"aps\":{\"badge\":1.5}}", "payload.aps.badge", "not 1.5"),
    ("alert", "{\"aps\":{\"badge\":\"1\"}}", "payload.aps.badge", "not \"1\""),
    ("alert", "{\"aps\":{\"sound\":1}}", "payload.aps.sound", "a string or an object, not 1"),
    ("alert", "{\"aps\":{\"sound\":{\"volume\":1.5}}}", "payload.aps.sound.volume", "from 0 to 1, not 1.5"),
    ("alert", "{\"aps\":{\"sound\":{\"volume\":-0.1}}}", "payload.aps.sound.volume", "not -0.1"),
    ("alert", "{\"aps\":{\"sound\":{\"name\":1}}}", "payload.aps.sound.name", "must be a string"),
    ("alert", "{\"aps\":{\"sound\":{\"critical\":2}}}", "payload.aps.sound.critical", "not 2"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"category\":1}}", "payload.aps.category", "must be a string, not 1"),
    (
      "alert", "{\"aps\":{\"alert\":\"a\",\"thread-id\":{}}}", "payload.aps.thread-id",
      "must be a string, not an object"
    ),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"mutable-content\":\"1\"}}", "payload.aps.mutable-content", "1 or 0"),
    (
      "alert", "{\"aps\":{\"alert\":\"a\",\"interruption-level\":\"loud\"}}", "payload.aps.interruption-level",
      "not \"loud\""
    ),
    (
      "alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":1.01}}", "payload.aps.relevance-score",
      "from 0 to 1, not 1.01"
    ),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":2}}", "payload.aps.relevance-score", "not 2"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":-0.5}}", "payload.aps.relevance-score", "not -0.5"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"relevance-score\":5e3}}", "payload.aps.relevance-score", "not 5e3"),
    ("alert", "{\"aps\":{\"alert\":\"a\",\"url-args\":\"x\"}}", "payload.aps.url-args", "an array of strings"),
    ("background", "{\"aps\":{}}", "payload.aps.content-available", "must be 1"),
    ("background", "{\"aps\":{\"content-available\":0}}", "payload.aps.content-available", "must be 1"),
    (
      "background", "{\"aps\":{\"content-available\":1,\"alert\":\"a\"}}", "payload.aps.alert",
      "not be in a background push"
    ),
    (
      "background", "{\"aps\":{\"content-available\":1,\"badge\":1}}", "payload.aps.badge",
      "not be in a background push"
    ),
    (
      "background", "{\"aps\":{\"content-available\":1,\"sound\":\"\"}}", "payload.aps.sound",
      "not be in a background push"
    ),
    ("location", "{\"aps\":{\"badge\":-1}}", "payload.aps.badge", "not -1"),
    ("fileprovider", "{}", "payload.container-identifier", "must be a string"),
    ("fileprovider", "{\"container-identifier\":1}", "payload.container-identifier", "must be a string"),
    ("mdm", "{}", "payload.mdm", "PushMagic"), ("mdm", "{\"mdm\":\"\"}", "payload.mdm", "PushMagic"),
    ("mdm", "{\"mdm\":1}", "payload.mdm", "PushMagic"),
    ("mdm", "{\"mdm\":\"m\",\"aps\":{}}", "payload", "nothing else"),
    ("widgets", "{\"aps\":{}}", "payload.aps.content-changed", "must be true"),
    ("controls", "{\"aps\":{\"content-changed\":false}}", "payload.aps.content-changed", "must be true"),
    ("liveactivity", "{\"aps\":{\"event\":\"end\"}}", "payload.aps.timestamp", "Unix seconds"),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1796000000000,\"event\":\"end\"}}", "payload.aps.timestamp",
      "not 1796000000000"
    ),
    ("liveactivity", "{\"aps\":{\"timestamp\":\"1\",\"event\":\"end\"}}", "payload.aps.timestamp", "not \"1\""),
    ("liveactivity", "{\"aps\":{\"timestamp\":1.5,\"event\":\"end\"}}", "payload.aps.timestamp", "not 1.5"),
    ("liveactivity", "{\"aps\":{\"timestamp\":1}}", "payload.aps.event", "start, update or end"),
    ("liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"stop\"}}", "payload.aps.event", "not \"stop\""),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"update\"}}", "payload.aps.content-state",
      "for start and update"
    ),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":[]}}",
      "payload.aps.content-state", "must be an object"
    ),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{},\"dismissal-date\":1}}",
      "payload.aps.dismissal-date", "end only"
    ),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{},\"input-push-token\":1}}",
      "payload.aps.input-push-token", "start only"
    ),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"end\",\"input-push-channel\":\"c\"}}",
      "payload.aps.input-push-channel", "start only"
    ),
    (
      "liveactivity", start(",\"input-push-token\":1,\"input-push-channel\":\"c\""), "payload.aps.input-push-channel",
      "beside input-push-token"
    ),
    ("liveactivity", start(",\"input-push-token\":2"), "payload.aps.input-push-token", "must be 1, not 2"),
    ("liveactivity", start(alert: "\"text\""), "payload.aps.alert", "must be an object with title and body"),
    ("liveactivity", start(alert: "{\"title\":\"t\"}"), "payload.aps.alert.body", "must be there"),
    ("liveactivity", start(alert: "{\"body\":\"t\"}"), "payload.aps.alert.title", "must be there"),
    (
      "liveactivity", start(alert: "{\"title\":{\"loc-key\":1},\"body\":\"b\"}"), "payload.aps.alert.title.loc-key",
      "must be a string, not 1"
    ),
    (
      "liveactivity", start(alert: "{\"title\":\"t\",\"body\":{\"loc-args\":\"b\"}}"),
      "payload.aps.alert.body.loc-args", "an array of strings"
    ),
    (
      "liveactivity", start(alert: "{\"title\":\"t\",\"body\":\"b\",\"sound\":{\"volume\":3}}"),
      "payload.aps.alert.sound.volume", "not 3"
    ),
    ("liveactivity", start().replacing("\"attributes\":{},", with: ""), "payload.aps.attributes", "must be there"),
    (
      "liveactivity", start().replacing("\"attributes-type\":\"A\",", with: ""), "payload.aps.attributes-type",
      "must be there"
    ),
  ]

  @Test(arguments: refused) func refuses(_ type: String, _ payload: String, _ field: String, _ rule: String) {
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
    let error = Parsed(job("liveactivity", payload: PayloadRulesTests.start(), [channel])).error
    #expect(error?.field == "payload.aps.event")
    #expect(
      Parsed(job("liveactivity", payload: "{\"aps\":{\"timestamp\":1,\"event\":\"end\"}}", [channel])).error == nil)
  }
}
