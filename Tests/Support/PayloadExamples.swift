/// Payloads that keep Apple's rules, and payloads that break each: for the parser's tests, and for the comparison with
/// the simulator, which must agree.
package enum PayloadExamples {
  /// (push type, payload)
  package static let taken: [(String, String)] = [
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
    ("liveactivity", start(",\"stale-date\":5")), ("liveactivity", start(",\"stale-date\":1796000000.25")),
    ("liveactivity", start(alert: "{\"title-loc-key\":\"K\",\"loc-key\":\"B\",\"sound\":{\"name\":\"x\"}}")),
    ("accessory", accessory),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX\\/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"\\u0041Q==\",\"messageIndex\":\"7\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"0\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"18446744073709551616\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"\\u0037\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"AAAA\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AAA=\",\"messageIndex\":\"7\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"\\n\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\",\"alert\":\"mine\",\"key-of-2030\":{}},\"mine\":1}"
    ),
    (
      "alert",
      "{\"aps\":{\"alert\":\"a\",\"keyID\":7,\"messageIndex\":[],\"encryptedData\":\"?\",\"sessionIdentifier\":\"\"}}"
    ),
  ]

  /// An accessory's response.
  package static let accessory =
    "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}"

  /// A Live Activity's start.
  package static func start(_ more: String = "", alert: String = "{\"title\":\"t\",\"body\":\"b\"}") -> String {
    """
    {"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":\(alert)\(more)}}
    """
  }

  /// (type, payload, field, part of the rule)
  package static let refused: [(String, String, String, String)] = [
    // A key of Apple's twice: which one counts is not known.
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"},\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps",
      "must be there once, not twice"
    ),
    (
      "alert", "{\"aps\":{\"alert\":\"a\"},\"aps\":{}}", "payload.aps",
      "must be there once, not twice"
    ),
    (
      "alert", "{\"aps\":{\"alert\":\"a\"},\"\\u0061ps\":{}}", "payload.aps",
      "must be there once, not twice"
    ),
    (
      "voip", "{\"aps\":{},\"aps\":{}}", "payload.aps",
      "must be there once, not twice"
    ),
    (
      "alert", "{\"aps\":{\"alert\":null,\"alert\":\"a\"}}", "payload.aps.alert",
      "must be there once, not twice"
    ),
    (
      "alert", "{\"aps\":{\"alert\":\"a\",\"badge\":1,\"badge\":2}}", "payload.aps.badge",
      "must be there once, not twice"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"title\":\"a\",\"title\":\"b\"}}}", "payload.aps.alert.title",
      "must be there once, not twice"
    ),
    (
      "alert", "{\"aps\":{\"sound\":{\"name\":\"a\",\"name\":\"b\"}}}", "payload.aps.sound.name",
      "must be there once, not twice"
    ),
    (
      "mdm", "{\"mdm\":\"a\",\"mdm\":\"b\"}", "payload.mdm",
      "must be there once, not twice"
    ),
    (
      "fileprovider", "{\"container-identifier\":\"a\",\"container-identifier\":\"b\"}", "payload.container-identifier",
      "must be there once, not twice"
    ),
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
      "alert", "{\"aps\":{\"alert\":{\"title\":\"a\",\"title-loc-key\":\"K\"}}}", "payload.aps.alert.title",
      "stands beside title-loc-key; use one"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"body\":\"a\",\"loc-key\":\"K\"}}}", "payload.aps.alert.body",
      "stands beside loc-key; use one"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"subtitle\":\"a\",\"subtitle-loc-key\":\"K\"}}}",
      "payload.aps.alert.subtitle", "stands beside subtitle-loc-key; use one"
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
    ("background", "{}", "payload", "must not be an empty object"),
    ("background", "{\"aps\":{}}", "payload.aps.content-available", "must be 1"),
    (
      "background", "{\"aps\":{\"content-available\":0}}", "payload.aps.content-available",
      "must be 1 for a background push, not 0"
    ),
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
    ("fileprovider", "{}", "payload", "must not be an empty object"),
    ("fileprovider", "{\"a\":1}", "payload.container-identifier", "not empty for a file provider, and is missing"),
    ("fileprovider", "{\"container-identifier\":\"\"}", "payload.container-identifier", "not empty"),
    (
      "fileprovider", "{\"container-identifier\":1}", "payload.container-identifier",
      "a string that is not empty for a file provider, not 1"
    ),
    ("mdm", "{}", "payload", "must not be an empty object"), ("mdm", "{\"a\":1}", "payload.mdm", "and is missing"),
    ("mdm", "{\"mdm\":\"\"}", "payload.mdm", "PushMagic"),
    ("mdm", "{\"mdm\":1}", "payload.mdm", "PushMagic"),
    ("mdm", "{\"mdm\":\"m\",\"aps\":{}}", "payload", "nothing else"),
    ("widgets", "{}", "payload", "must not be an empty object"),
    ("widgets", "{\"aps\":{\"content-changed\":1}}", "payload.aps.content-changed", "must be true or false, not 1"),
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
      "stands beside input-push-token; use one"
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
    (
      "liveactivity", start().replacing("\"attributes\":{},", with: ""), "payload.aps.attributes",
      "must be an object to start a Live Activity, and is missing"
    ),
    (
      "liveactivity", start().replacing("\"attributes-type\":\"A\",", with: ""), "payload.aps.attributes-type",
      "must be a string to start a Live Activity, and is missing"
    ),
    ("liveactivity", "{}", "payload", "must not be an empty object"),
    ("liveactivity", "{\"mine\":1}", "payload.aps", "for a Live Activity, and is missing"),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"end\",\"stale-date\":1}}", "payload.aps.stale-date",
      "goes with start and update only"
    ),
    (
      "liveactivity", "{\"aps\":{\"timestamp\":1,\"event\":\"end\",\"dismissal-date\":1796000000000}}",
      "payload.aps.dismissal-date", "must be Unix seconds, a number of at most 11 digits, not 1796000000000"
    ),
    (
      "liveactivity", start(",\"stale-date\":1796000000000.5"), "payload.aps.stale-date",
      "a number of at most 11 digits, not 1796000000000.5"
    ),
    ("liveactivity", start(",\"stale-date\":-1"), "payload.aps.stale-date", "must be Unix seconds"),
    (
      "liveactivity",
      "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{},\"input-push-channel\":\"c\"}}",
      "payload.aps.input-push-channel", "start only"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"subtitle\":{\"loc-key\":\"K\"}}}}", "payload.aps.alert.subtitle",
      "must be a string: only a Live Activity"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"body\":{\"loc-key\":\"K\"}}}}", "payload.aps.alert.body",
      "must be a string: only a Live Activity"
    ),
    (
      "alert", "{\"aps\":{\"alert\":{\"title-loc-args\":[\"a\"]}}}", "payload.aps.alert.title-loc-args",
      "needs title-loc-key"
    ),
    (
      "location", "{\"aps\":{\"alert\":{\"subtitle-loc-args\":[]}}}", "payload.aps.alert.subtitle-loc-args",
      "needs subtitle-loc-key"
    ),
    ("accessory", "{}", "payload", "must not be an empty object"),
    (
      "accessory", "{\"mine\":1}", "payload.aps.encryptedData",
      "must be an accessory's encrypted response in base64, and is missing"
    ),
    ("accessory", "{\"aps\":[]}", "payload.aps", "must be an object, not an array"),
    (
      "accessory", "{\"aps\":{\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "and is missing"
    ),
    (
      "accessory", "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.sessionIdentifier", "must be the id of the accessory's session, a string, and is missing"
    ),
    (
      "accessory", "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"messageIndex\":\"7\"}}",
      "payload.aps.keyID", "must be the id of the ratchet's key in base64, and is missing"
    ),
    (
      "accessory", "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\"}}",
      "payload.aps.messageIndex", "must be the ratchet's message index, a string of decimal digits, and is missing"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":null,\"messageIndex\":\"7\"}}",
      "payload.aps.keyID", "in base64, not null"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "must be base64 with + and /, padded, not \"\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX_-w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "not \"PoX_-w==\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "padded, not \"PoX/+w\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"====\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "padded"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+===\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "padded"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"AQ==AQ==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "padded"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX\\n\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "padded"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":[62],\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.encryptedData", "padded, not an array"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.sessionIdentifier", "must be a string that is not empty, not \"\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":7,\"keyID\":\"AQ==\",\"messageIndex\":\"7\"}}",
      "payload.aps.sessionIdentifier", "not empty, not 7"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"A\",\"messageIndex\":\"7\"}}",
      "payload.aps.keyID", "must be base64 with + and /, padded, not \"A\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":1,\"messageIndex\":\"7\"}}",
      "payload.aps.keyID", "padded, not 1"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":7}}",
      "payload.aps.messageIndex", "must be a string of decimal digits, not 7"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"\"}}",
      "payload.aps.messageIndex", "decimal digits, not \"\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"-1\"}}",
      "payload.aps.messageIndex", "not \"-1\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"0x7\"}}",
      "payload.aps.messageIndex", "not \"0x7\""
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"٧\"}}",
      "payload.aps.messageIndex", "decimal digits"
    ),
    (
      "accessory",
      "{\"aps\":{\"encryptedData\":\"PoX/+w==\",\"sessionIdentifier\":\"s-1\",\"keyID\":\"AQ==\",\"messageIndex\":\"7\",\"badge\":-1}}",
      "payload.aps.badge", "not -1"
    ),
  ]

  /// Broadcasts: (payload, field, part of the rule)
  package static let refusedBroadcasts: [(String, String, String)] = [
    (start(), "payload.aps.event", "must be update or end: a broadcast cannot start an activity, not \"start\"")
  ]
}
