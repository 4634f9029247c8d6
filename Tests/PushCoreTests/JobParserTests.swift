/// Every field of a job: allowed values, parsed results, and errors.
import PushCore
import TestSupport
import Testing

@Suite struct JobParserTests {
  @Test func readsTheExample() {
    let parsed = Parsed(exampleJob)
    #expect(parsed.error == nil)
    #expect(parsed.text(parsed.job.id) == someID)
    #expect(parsed.text(parsed.job.app) == "com.example.app")
    #expect(parsed.job.pushType == .alert)
    #expect(parsed.text(parsed.job.pushTypeName) == "alert")
    #expect(parsed.job.environment == .production)
    #expect(parsed.job.targetKind == .token)
    #expect(parsed.targets == [someToken])
    #expect(parsed.text(parsed.job.to) == "{\"token\": \"\(someToken)\"}")
    #expect(parsed.text(parsed.job.topic) == "com.example.app")
    #expect(parsed.job.credential.isEmpty)
    #expect(parsed.job.priority == 10)
    #expect(parsed.job.expiration == 1_796_083_200)
    #expect(parsed.text(parsed.job.collapseID) == "order-123")
    #expect(parsed.job.tokenRegisteredAt == 1_795_996_800_000)
    #expect(parsed.text(parsed.job.payload) == "{\"aps\": {\"alert\": {\"title\": \"Shipped\"}}}")
    #expect(parsed.text(parsed.job.meta) == "{\"campaign\": \"42\"}")
    #expect(parsed.job.bytes.count == parsed.job.bodyCount, "nothing had to be changed")
  }

  @Test(
    arguments: [
      ([0x1F, 0x8B, 8], "is compressed with gzip"), ([0x28, 0xB5, 0x2F, 0xFD], "is compressed with zstd"),
      ([0xEF, 0xBB, 0xBF, 0x7B, 0x7D], "begins with a byte order mark"), ([0xFF, 0xFE, 0x7B, 0], "is UTF-16"),
      ([0x1F], "is not JSON"), ([], "is not JSON"),
    ] as [([UInt8], String)])
  func whatIsNoPlainTextIsNamed(bytes: [UInt8], text: String) {
    var parser = JobParser()
    var job = PushJob()
    job.bytes = bytes
    job.bodyCount = bytes.count
    let error = #expect(throws: JobError.self) { try parser.parse(into: &job, fallbackID: Span()) }
    #expect(error?.detail.hasPrefix("body: \(text)") == true, "\(error?.detail ?? "")")
  }

  static let right: [String] = [
    job([("version", nil)]), job([("environment", "\"sandbox\"")]), job([("priority", "1")]),
    job([("expiration", "0")]),
    job([("collapse_id", "\"\(String(repeating: "x", count: 64))\"")]), job([("collapse_id", "\"\"")]),
    job([("meta", "{}")]), job([("credential", "\"main\"")]), job([("topic", "\"com.example.other\"")]),
    job([("token_registered_at", "0")]), job([("sequence", "0")]), job([("sequence", "9007199254740992")]),
    job([("id", "\"\(String(repeating: "x", count: 128))\"")]),
    job([("to", "{\"token\": \"00fc13ad\"}")]), job([("to", "{\"token\": \"\(String(repeating: "a", count: 256))\"}")]),
    job([("to", "{\"tokens\": [\"00fc13ad\"]}")]), job([("push_type", "\"brand-new\""), ("topic", "\"t\"")]),
    " \n" + job() + "\r\n\t ",
  ]

  @Test(arguments: right) func takes(_ text: String) {
    #expect(Parsed(text).error == nil, "\(text): \(Parsed(text).error?.detail ?? "")")
  }

  @Test func wholeNumbersMayHaveAPoint() {
    let parsed = Parsed(job([("version", "1.0"), ("priority", "5.0"), ("expiration", "1.8e9"), ("sequence", "70e-1")]))
    #expect(parsed.error == nil)
    #expect(parsed.job.priority == 5 && parsed.job.expiration == 1_800_000_000 && parsed.job.sequence == 7)
  }

  /// (what is changed, the field that the error names, a part of its rule)
  static let wrong: [(String, String, String)] = [
    (job([("version", "2")]), "version", "must be 1, not 2"),
    (job([("version", "\"1\"")]), "version", "must be an integer, not \"1\""),
    (job([("version", "1.5")]), "version", "must be an integer, not 1.5"),
    (job([("id", nil)]), "id", "missing"),
    (job([("id", "\"\"")]), "id", "1 to 128 bytes, not 0"),
    (job([("id", "\"\(String(repeating: "x", count: 129))\"")]), "id", "1 to 128 bytes, not 129"),
    (job([("id", "7")]), "id", "must be a string, not 7"),
    (job([("id", "null")]), "id", "must be a string, not null"),
    (job([("app", nil)]), "app", "missing"),
    (job([("app", "\"\"")]), "app", "bundle id"),
    (job([("app", "\"com.example app\"")]), "app", "not \"com.example app\""),
    (job([("app", "\"com/../x\"")]), "app", "bundle id"),
    (job([("app", "\"\(String(repeating: "x", count: 201))\"")]), "app", "(201 bytes)"),
    (job([("app", "{}")]), "app", "must be a string, not an object"),
    (job([("push_type", nil)]), "push_type", "missing"),
    (job([("push_type", "\"alrt\"")]), "push_type", "alert, background"),
    (job([("push_type", "\"a b\""), ("topic", "\"t\"")]), "push_type", "not a b"),
    (job([("push_type", "[]")]), "push_type", "must be a string, not an array"),
    (job([("environment", "\"development\"")]), "environment", "production or sandbox, not development"),
    (job([("environment", "1")]), "environment", "must be a string, not 1"),
    (job([("topic", "\"\"")]), "topic", "must be letters, digits"),
    (job([("topic", "\"com.example.app.\"")]), "topic", "not \"com.example.app.\""),
    (job([("topic", "\"com.example..app\"")]), "topic", "in parts with dots between them"),
    (job([("topic", "\".com.example\"")]), "topic", "in parts with dots between them"),
    (job([("topic", "\"com.example.app/b\"")]), "topic", "in parts with dots between them"),
    (job([("topic", "\"a\\r\\nb\"")]), "topic", "a\\x0d\\x0ab"),
    (job([("topic", "true")]), "topic", "must be a string, not true"),
    (job([("credential", "\"\"")]), "credential", "1 to 64 bytes"),
    (job([("priority", "7")]), "priority", "one of 10, 5, 1 for alert, not 7"),
    (job([("priority", "\"10\"")]), "priority", "must be an integer, not \"10\""),
    (job([("priority", "5.5")]), "priority", "must be an integer, not 5.5"),
    (job([("expiration", "-1")]), "expiration", "0 or more and at most 11 digits, not -1"),
    (job([("expiration", "99999999999999999999")]), "expiration", "must be an integer"),
    (job([("expiration", "null")]), "expiration", "must be an integer, not null"),
    (job([("collapse_id", "\"\(String(repeating: "x", count: 65))\"")]), "collapse_id", "at most 64 bytes, not 65"),
    (job([("collapse_id", "\"\(String(repeating: "é", count: 33))\"")]), "collapse_id", "at most 64 bytes, not 66"),
    (job([("collapse_id", "\"a\\nb\"")]), "collapse_id", "control characters"),
    (job([("collapse_id", "\" a\"")]), "collapse_id", "space"),
    (job([("sequence", "-1")]), "sequence", "must be 0 to 2^53 (9007199254740992), not -1"),
    (job([("sequence", "9007199254740993")]), "sequence", "must be 0 to 2^53 (9007199254740992), not 9007199254740993"),
    (job([("sequence", "1.5")]), "sequence", "must be an integer, not 1.5"),
    (job([("sequence", "\"7\"")]), "sequence", "must be an integer, not \"7\""),
    (job([("sequence", "null")]), "sequence", "must be an integer, not null"),
    (job([("token_registered_at", "-5")]), "token_registered_at", "0 or more, not -5"),
    (job([("meta", "[]")]), "meta", "must be an object, not an array"),
    (job([("meta", "{\"a\": \"\(String(repeating: "x", count: 2048))\"}")]), "meta", "at most 2048 bytes"),
    (job([("payload", nil)]), "payload", "missing"),
    (job([("payload", "\"{}\"")]), "payload", "must be an object, not \"{}\""),
    (job([("payload", "null")]), "payload", "must be an object, not null"),
    (job([("to", nil)]), "to", "missing"),
    (job([("to", "\"abc\"")]), "to", "must be an object with one of token"),
    (job([("to", "{}")]), "to", "exactly one kind of target, not 0"),
    (job([("to", "{\"token\": \"00fc13ad\", \"tokens\": [\"00fc13ad\"]}")]), "to", "exactly one kind of target, not 2"),
    (job([("to", "{\"device\": \"x\"}")]), "to.device", "not a kind of target"),
    (job([("to", "{\"activity\": \"u\"}")]), "activity", "takes the push type liveactivity"),
    (job([("to", "{\"token\": 5}")]), "to.token", "must be a string, not 5"),
    (job([("to", "{\"token\": \"\"}")]), "to.token", "8 to 256 hexadecimal digits"),
    (job([("to", "{\"token\": \"00fc13a\"}")]), "to.token", "hexadecimal"),
    (job([("to", "{\"token\": \"00fc13adf\"}")]), "to.token", "an even number"),
    (job([("to", "{\"token\": \"00fc13ag\"}")]), "to.token", "not \"00fc13ag\""),
    (job([("to", "{\"token\": \"\(String(repeating: "a", count: 258))\"}")]), "to.token", "(258 bytes)"),
    (job([("to", "{\"tokens\": \"00fc13ad\"}")]), "to.tokens", "must be an array of strings, not \"00fc13ad\""),
    (job([("to", "{\"tokens\": []}")]), "to.tokens", "1 to 1000 tokens, not 0"),
    (job([("to", "{\"tokens\": [\"00fc13ad\", 7]}")]), "to.tokens[1]", "must be a string, not 7"),
    (job([("to", "{\"tokens\": [\"00fc13ad\", \"zz\"]}")]), "to.tokens[1]", "hexadecimal"),
    (
      job([("to", "{\"channel\": \"dHN0LXNyY2gtY2hubA==\"}")]), "to.channel",
      "takes the push type liveactivity, not alert"
    ),
    (job([("to", "{\"channel\": \"a b\"}"), ("push_type", "\"liveactivity\"")]), "to.channel", "base64"),
    (job([("colapse_id", "\"x\"")]), "colapse_id", "did you mean collapse_id?"),
    (job([("pushType", "\"x\"")]), "pushType", "did you mean push_type?"),
    (job([("", "1")]), "\"\"", "is not a key of a job"),
    (job([("something_else", "1")]), "something_else", "is not a key of a job"),
    ("[]", "body", "an object must begin here, at byte 0, not ["),
    ("", "body", "ends too early, at byte 0"),
    ("{}", "id", "missing"),
    (job() + "x", "body", "nothing may follow"),
    (String(job().dropLast()), "body", "ends too early"),
    (job([("meta", "{\"a\": 01}")]), "body", "not a JSON number"),
  ]

  @Test(arguments: wrong) func refuses(_ text: String, _ field: String, _ rule: String) {
    let error = Parsed(text).error
    #expect(error?.field == field, "\(text): \(error?.detail ?? "taken")")
    #expect(error?.rule.contains(rule) == true, "\(error?.detail ?? "taken")")
    #expect(error?.detail.utf8.count ?? 0 < 400)
  }

  @Test func refusesAKeyTwice() {
    let text = "{\"id\": \"a\", \"id\": \"b\"," + job([("id", nil)]).dropFirst()
    #expect(Parsed(text).error?.field == "id")
    #expect(Parsed(text).error?.rule == "must be there once, not twice")
    let escaped = "{\"id\": \"a\", \"\\u0069d\": \"b\"," + job([("id", nil)]).dropFirst()
    #expect(Parsed(escaped).error?.rule == "must be there once, not twice")
  }

  @Test func tellsWhereJSONBreaks() {
    #expect(Parsed("{\"id\": \"a\", x}").error?.byteOffset == 12)
    #expect(Parsed(job([("priority", "7")])).error?.byteOffset == nil)
  }

  // MARK: id

  @Test func takesTheMessageIDInPlaceOfTheID() {
    let parsed = Parsed(job([("id", nil)]), messageID: "message-1")
    #expect(parsed.error == nil)
    #expect(parsed.text(parsed.job.id) == "message-1")
    let both = Parsed(job(), messageID: "message-1")
    #expect(both.text(both.job.id) == someID)
    #expect(Parsed(job([("id", nil)]), messageID: String(repeating: "x", count: 129)).error?.field == "id")
    #expect(Parsed(bytes: Array(job([("id", nil)]).utf8), messageID: [0xFF]).error?.field == "id")
  }

  @Test func namesAJobThatIsInvalid() {
    let late = Parsed("{\"priority\": \"x\", " + job().dropFirst())
    #expect(late.error?.field == "priority")
    #expect(late.text(late.job.id) == someID)
    #expect(late.text(late.job.app) == "com.example.app")
    let broken = Parsed("{\"id\": \"a\", \"app\": \"com.example\", ", messageID: "m")
    #expect(broken.error?.field == "body")
    #expect(broken.text(broken.job.id) == "a")
    let nameless = Parsed("no JSON", messageID: "m")
    #expect(nameless.text(nameless.job.id) == "m")
    #expect(nameless.job.targets.isEmpty)
  }

  // MARK: Changed bytes

  @Test func undoesEscapesBehindTheBody() {
    let text = job([
      ("id", "\"a\\\"b\\\\c\\/d\\u00e9\\ud83d\\ude00\\n\""), ("app", "\"com\\u002eexample\""),
      ("collapse_id", "\"\\u0061b\""), ("credential", "\"m\\u0061in\""),
    ])
    let parsed = Parsed(text)
    #expect(parsed.error == nil)
    #expect(parsed.text(parsed.job.id) == "a\"b\\c/dé😀\n")
    #expect(parsed.text(parsed.job.app) == "com.example")
    #expect(parsed.text(parsed.job.topic) == "com.example")
    #expect(parsed.text(parsed.job.collapseID) == "ab")
    #expect(parsed.text(parsed.job.credential) == "main")
    #expect(parsed.job.bytes.prefix(parsed.job.bodyCount).elementsEqual(text.utf8))
  }

  @Test func lowersTokens() {
    let parsed = Parsed(job([("to", "{\"token\": \"00FC13aDff78\"}")]))
    #expect(parsed.targets == ["00fc13adff78"])
    let escaped = Parsed(job([("to", "{\"token\": \"00FC13aDff\\u0037\\u0038\"}")]))
    #expect(escaped.error == nil)
    #expect(escaped.targets == ["00fc13adff78"])
  }

  @Test func sendsOnceToATokenNamedTwice() {
    let parsed = Parsed(
      job([("to", "{\"tokens\": [\"aabbccdd\", \"00112233\", \"AABBCCDD\", \"00112233\", \"44556677\"]}")]))
    #expect(parsed.error == nil)
    #expect(parsed.job.targetKind == .tokens)
    #expect(parsed.targets == ["aabbccdd", "00112233", "44556677"])
  }

  @Test func takesAThousandTokens() {
    let tokens = (0..<1000).map { number in "\"" + String(number + 0x1000_0000, radix: 16) + "\"" }
    let parsed = Parsed(job([("to", "{\"tokens\": [\(tokens.joined(separator: ","))]}")]))
    #expect(parsed.error == nil)
    #expect(parsed.targets.count == 1000)
    #expect(Set(parsed.targets).count == 1000)
    let more = Parsed(job([("to", "{\"tokens\": [\((tokens + ["\"00112233\""]).joined(separator: ","))]}")]))
    #expect(more.error?.rule == "must hold 1 to 1000 tokens, not 1001")
  }

  @Test func canBeUsedAgain() {
    var parser = JobParser()
    var job = PushJob()
    let empty: [UInt8] = []
    for text in [
      exampleJob, PushCoreTests.job([("to", "{\"tokens\": [\"AABBCCDD\", \"00112233\"]}")]), "{", exampleJob,
    ] {
      job.bytes = Array(text.utf8)
      job.bodyCount = job.bytes.count
      try? parser.parse(into: &job, fallbackID: empty.span)
    }
    let fresh = Parsed(exampleJob)
    #expect(job.bytes == fresh.job.bytes)
    #expect(job.targets == fresh.job.targets)
    #expect(job.id == fresh.job.id)
    #expect(job.expiration == fresh.job.expiration)
  }

  // MARK: By push type

  /// (type, topic's suffix, priorities, default, payload's limit)
  static let types: [(PushType, String, [UInt8], UInt8?, Int, PushTypeRules.Credential)] = [
    (.alert, "", [10, 5, 1], nil, 4096, .any), (.background, "", [5], 5, 4096, .any),
    (.location, ".location-query", [10, 5], nil, 4096, .tokenOnly), (.voip, ".voip", [10, 5, 1], nil, 5120, .any),
    (.complication, ".complication", [10, 5, 1], nil, 4096, .any),
    (.fileprovider, ".pushkit.fileprovider", [10, 5, 1], nil, 4096, .tokenOnly),
    (.mdm, "", [10, 5, 1], nil, 4096, .certificateOnly),
    (.liveactivity, ".push-type.liveactivity", [10, 5], nil, 4096, .tokenOnly),
    (.pushtotalk, ".voip-ptt", [10], nil, 4096, .any),
    (.widgets, ".push-type.widgets", [10, 5, 1], nil, 4096, .any),
    (.controls, ".push-type.controls", [10, 5, 1], nil, 4096, .any),
    (.accessory, ".push-type.accessory", [10, 5, 1], nil, 4096, .tokenOnly),
  ]

  /// A valid payload for each type, with room for padding after the brace.
  static func payload(_ type: PushType) -> String {
    switch type {
    case .alert: "{\"aps\":{\"alert\":\"x\"}"
    case .background: "{\"aps\":{\"content-available\":1}"
    case .location, .voip, .complication, .pushtotalk, .other: "{\"aps\":{}"
    case .fileprovider: "{\"container-identifier\":\"c\""
    case .mdm: "{\"mdm\":\"magic\""
    case .liveactivity: "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{}}"
    case .widgets, .controls: "{\"aps\":{\"content-changed\":true}"
    case .accessory: PayloadExamples.accessory.replacing("}}", with: "}")
    }
  }

  @Test(arguments: types) func fixesWhatTheTypeFixes(
    _ type: PushType, _ suffix: String, _ priorities: [UInt8], _ priority: UInt8?, _ limit: Int,
    _ credential: PushTypeRules.Credential
  ) {
    let payload = JobParserTests.payload(type)
    let parsed = Parsed(job(type.name, payload: payload + "}"))
    #expect(parsed.error == nil, "\(parsed.error?.detail ?? "")")
    #expect(parsed.job.pushType == type)
    #expect(parsed.text(parsed.job.topic) == "com.example.app" + suffix)
    #expect(parsed.job.priority == priority)
    #expect(parsed.job.expiration == (type == .pushtotalk ? 0 : nil))
    #expect(type.rules.credential == credential)
    for value in 0...11 {
      let error = Parsed(job(type.name, payload: payload + "}", [("priority", "\(value)")])).error
      #expect((error == nil) == priorities.contains(UInt8(value)), "\(type) \(value)")
      #expect(error == nil || error?.field == "priority")
    }
    let own = Parsed(job(type.name, payload: payload + "}", [("topic", "\"my.topic\(suffix)\"")]))
    #expect(own.error == nil && own.text(own.job.topic) == "my.topic\(suffix)")
    for (other, foreign, _, _, _, _) in JobParserTests.types where foreign != suffix {
      let error = Parsed(job(type.name, payload: payload + "}", [("topic", "\"my.topic\(foreign)\"")])).error
      #expect(error?.field == "topic" && error?.answer == .refuses(.invalidPushType), "\(type) \(other)")
    }
    let padding = String(repeating: " ", count: limit - payload.utf8.count - 1)
    #expect(Parsed(job(type.name, payload: payload + padding + "}")).error == nil)
    let over = Parsed(job(type.name, payload: payload + padding + " }")).error
    #expect(over?.field == "payload")
    #expect(over?.rule == "must be at most \(limit) bytes for \(type.name), not \(limit + 1)")
  }

  /// An app or a pass may be called like a suffix, and a type that we do not know may have any topic.
  @Test func namesLikeSuffixesAreTaken() {
    let alert = JobParserTests.payload(.alert) + "}"
    for (type, app, topic) in [
      ("alert", "com.example.voip", "com.example.voip"), ("alert", "pass.com.example", "pass.com.example.complication"),
      ("brand-new", "com.example.app", "com.example.app.voip"),
    ] {
      let error = Parsed(job(type, payload: alert, [("app", "\"\(app)\""), ("topic", "\"\(topic)\"")])).error
      #expect(error == nil, "\(error?.detail ?? "")")
    }
  }

  @Test func pushToTalkNeverWaits() {
    #expect(Parsed(job("pushtotalk", payload: "{}", [("expiration", "0")])).error == nil)
    let error = Parsed(job("pushtotalk", payload: "{}", [("expiration", "5")])).error
    #expect(error?.detail == "expiration: must be 0 for pushtotalk, not 5")
  }

  /// Its token is the session's own, each response counts, and Apple says nothing of how long APNs keeps one.
  @Test func accessoriesAnswerOneByOne() {
    let payload = PayloadExamples.accessory
    let long = "{\"token\": \"\(String(repeating: "0a", count: 128))\"}"
    for changes in [
      [("to", long)], [("expiration", "0")], [("expiration", "1796083200")], [("collapse_id", "\"\"")],
    ] as [[(String, String?)]] {
      let error = Parsed(job("accessory", payload: payload, changes)).error
      #expect(error == nil, "\(error?.detail ?? "")")
    }
    for (changes, detail) in [
      ([("collapse_id", "\"a\"")], "collapse_id: must be left out for accessory: no push replaces another"),
      (
        [("to", "{\"devices\": [\"d\"]}")],
        "to.devices: takes no accessory push: its token is no device's in the registry; give to.token"
      ),
      (
        [("to", "{\"users\": [\"u\"]}")],
        "to.users: takes no accessory push: its token is no device's in the registry; give to.token"
      ),
      (
        [("to", "{\"segment\": \"s\"}")],
        "to.segment: takes no accessory push: its token is no device's in the registry; give to.token"
      ),
      ([("to", "{\"activity\": \"a\"}")], "activity: takes the push type liveactivity, not accessory"),
      ([("to", "{\"channel\": \"dHN0\"}")], "to.channel: takes the push type liveactivity, not accessory"),
    ] as [([(String, String?)], String)] {
      #expect(Parsed(job("accessory", payload: payload, changes)).error?.detail == detail)
    }
    let error = Parsed(job("complication", payload: "{}", [("to", "{\"users\": [\"u\"]}")])).error
    #expect(error == nil, "other types go to the registry's devices: \(error?.detail ?? "")")
  }

  @Test func sendsUnknownTypesWithTheirTopic() {
    let parsed = Parsed(job("brand-new", payload: "{\"aps\": 7}", [("topic", "\"com.example.app.new\"")]))
    #expect(parsed.error == nil)
    #expect(parsed.job.pushType == .other)
    #expect(parsed.text(parsed.job.pushTypeName) == "brand-new")
    #expect(parsed.text(parsed.job.topic) == "com.example.app.new")
  }

  @Test func sendsToChannels() {
    let update = "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{}}"
    let channel = ("to", "{\"channel\": \"dHN0LXNyY2gt\\/Y2hubA==\"}")
    let parsed = Parsed(job("liveactivity", payload: update + "}", [channel]))
    #expect(parsed.error == nil)
    #expect(parsed.job.targetKind == .channel)
    #expect(parsed.targets == ["dHN0LXNyY2gt/Y2hubA=="])
    let padding = String(repeating: " ", count: 5120 - update.utf8.count - 1)
    #expect(Parsed(job("liveactivity", payload: update + padding + "}", [channel])).error == nil)
    #expect(Parsed(job("liveactivity", payload: update + padding + " }", [channel])).error?.field == "payload")
  }
}
