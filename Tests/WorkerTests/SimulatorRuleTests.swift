import APNsSimulator
import PushCore
import Testing

/// The simulator's answers to single requests: one row each of request and answer.
struct SimulatorRuleTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let request: SimulatedRequest
    let answer: String

    init(_ name: String, _ request: SimulatedRequest, _ answer: String) {
      self.name = name
      self.request = request
      self.answer = answer
    }

    var testDescription: String { "\(name) → \(answer)" }
  }

  typealias R = SimulatorRequests

  private static func text(_ answer: SimulatedAnswer) -> String {
    answer.reason.map { "\(answer.status) \($0)" } ?? String(answer.status)
  }

  func check(
    _ row: Row, at endpoint: SimulatedService.Endpoint, _ prepare: (inout SimulatedService) -> Void = { _ in }
  ) {
    var service = R.service()
    prepare(&service)
    var identity = ConnectionIdentity()
    let answer = service.answer(row.request, at: endpoint, identity: &identity, now: R.start)
    #expect(SimulatorRuleTests.text(answer) == row.answer)
  }

  // MARK: - Request line and headers

  static let device = "/3/device/"
  static let headerRows: [Row] = [
    Row("in order", R.device(), "200"),
    Row("no optional header", R.device(["apns-id": nil, "apns-priority": nil, "apns-expiration": nil]), "200"),
    Row("GET", R.device(method: "GET"), "405 MethodNotAllowed"),
    Row("PUT", R.device(method: "PUT"), "405 MethodNotAllowed"),
    Row("no such path", R.device(path: "/"), "404 BadPath"),
    Row("version 2", R.device(path: "/2/device/" + R.deviceToken), "404 BadPath"),
    Row("no device in the path", R.device(path: "/3/devices/" + R.deviceToken), "404 BadPath"),
    Row("a segment too many", R.device(path: "/3/device/\(R.deviceToken)/x"), "404 BadPath"),
    Row("no token", R.device(path: "/3/device/"), "400 MissingDeviceToken"),
    Row("no token, no slash", R.device(path: "/3/device"), "400 MissingDeviceToken"),
    Row("token not hexadecimal", R.device(path: device + "xyz123xyz123"), "400 BadDeviceToken"),
    Row("token of odd length", R.device(path: device + R.deviceToken + "0"), "400 BadDeviceToken"),
    Row("token too short", R.device(path: device + "00ff"), "400 BadDeviceToken"),
    Row("token too long", R.device(path: device + String(repeating: "00", count: 129)), "400 BadDeviceToken"),
    Row("token of 100 bytes", R.device(path: device + String(repeating: "0a", count: 100)), "200"),
    Row("token in upper case", R.device(path: device + R.deviceToken.uppercased()), "200"),
    Row("a query", R.device(path: device + R.deviceToken + "?a=b"), "400 BadDeviceToken"),
    Row("apns-id no UUID", R.device(["apns-id": "job-1"]), "400 BadMessageId"),
    Row("apns-id without hyphens", R.device(["apns-id": "8c1f6f0e3a574d0c9f0e2f3f6d1c7a11"]), "400 BadMessageId"),
    Row("apns-id in upper case", R.device(["apns-id": R.apnsID.uppercased()]), "200"),
    Row("apns-id empty", R.device(["apns-id": ""]), "400 BadMessageId"),
    Row("expiration in words", R.device(["apns-expiration": "tomorrow"]), "400 BadExpirationDate"),
    Row("expiration negative", R.device(["apns-expiration": "-1"]), "400 BadExpirationDate"),
    Row("expiration a fraction", R.device(["apns-expiration": "1795266000.5"]), "400 BadExpirationDate"),
    Row("expiration later", R.device(["apns-expiration": "1795366000"]), "200"),
    Row("priority 7", R.device(["apns-priority": "7"]), "400 BadPriority"),
    Row("priority in words", R.device(["apns-priority": "high"]), "400 BadPriority"),
    Row("priority 5", R.device(["apns-priority": "5"]), "200"),
    Row("priority 1", R.device(["apns-priority": "1"]), "200"),
    Row("collapse id of 64", R.device(["apns-collapse-id": String(repeating: "c", count: 64)]), "200"),
    Row("collapse id of 65", R.device(["apns-collapse-id": String(repeating: "c", count: 65)]), "400 BadCollapseId"),
    Row("no topic", R.device(["apns-topic": nil]), "400 MissingTopic"),
    Row("empty topic", R.device(["apns-topic": ""]), "400 MissingTopic"),
    Row("topic with a space", R.device(["apns-topic": "com.example app"]), "400 BadTopic"),
    Row("topic with an empty part", R.device(["apns-topic": "com.example.app."]), "400 BadTopic"),
    Row("unknown push type", R.device(["apns-push-type": "banner"]), "400 InvalidPushType"),
    Row("push type in upper case", R.device(["apns-push-type": "Alert"]), "400 InvalidPushType"),
    Row("no push type", R.device(["apns-push-type": nil]), "200"),
    Row("empty payload", R.device(payload: ""), "400 PayloadEmpty"),
  ]

  @Test(arguments: headerRows)
  func requestLineAndHeaders(_ row: Row) {
    check(row, at: .send)
  }

  @Test(arguments: SimulatedRequest.knownNames.sorted())
  func repeatedHeader(_ name: String) {
    var request = R.device()
    let value = request[name] ?? "x"
    request.fields.removeAll { $0.name == name }
    request.fields += [.init(name: name, value: value), .init(name: name, value: value)]
    check(Row("twice \(name)", request, "400 DuplicateHeaders"), at: .send)
  }

  // MARK: - Provider tokens

  static func authorized(_ value: String?) -> SimulatedRequest { R.device(["authorization": value]) }

  static let tokenRows: [Row] = [
    Row("no authorization", authorized(nil), "403 MissingProviderToken"),
    Row("empty authorization", authorized(""), "403 MissingProviderToken"),
    Row("bearer alone", authorized("bearer "), "403 MissingProviderToken"),
    Row("another scheme", authorized("basic abc"), "403 InvalidProviderToken"),
    Row("Bearer in upper case", authorized("Bearer " + R.token()), "200"),
    Row("no JWT", authorized("bearer abc"), "403 InvalidProviderToken"),
    Row("two parts", authorized("bearer abc.def"), "403 InvalidProviderToken"),
    Row("not base64url", authorized("bearer a+b.c.d"), "403 InvalidProviderToken"),
    Row("algorithm HS256", authorized("bearer " + R.token(algorithm: "HS256")), "403 InvalidProviderToken"),
    Row("algorithm none", authorized("bearer " + R.token(algorithm: "none")), "403 InvalidProviderToken"),
    Row("unknown key", authorized("bearer " + R.token(key: "NOSUCHKEY1")), "403 InvalidProviderToken"),
    Row("key of another team", authorized("bearer " + R.token(team: "TEAM000002")), "403 InvalidProviderToken"),
    Row("bad signature", authorized("bearer " + R.token(signature: 1)), "403 InvalidProviderToken"),
    Row("an hour old", authorized("bearer " + R.token(age: 3600)), "200"),
    Row("older than an hour", authorized("bearer " + R.token(age: 3601)), "403 ExpiredProviderToken"),
    Row("from the future", authorized("bearer " + R.token(age: -61)), "403 InvalidProviderToken"),
    Row("a minute ahead", authorized("bearer " + R.token(age: -60)), "200"),
    Row("key of the sandbox", authorized("bearer " + R.token(key: "SANDBOX001")), "403 BadEnvironmentKeyIdInToken"),
    Row("topic-bound key", authorized("bearer " + R.token(key: "TOPIC00001")), "200"),
    Row(
      "topic-bound key, other topic",
      R.device(["authorization": "bearer " + R.token(key: "TOPIC00001"), "apns-topic": "com.example.other"]),
      "400 TopicDisallowed"),
  ]

  @Test(arguments: tokenRows)
  func providerTokens(_ row: Row) {
    check(row, at: .send)
  }

  @Test func oneTeamAndKeyPerConnection() {
    var service = R.service()
    var identity = ConnectionIdentity()
    func answer(key: String, team: String = "TEAM000001") -> String {
      let request = R.device(["authorization": "bearer " + R.token(key: key, team: team)])
      return SimulatorRuleTests.text(service.answer(request, at: .send, identity: &identity, now: R.start))
    }
    #expect(answer(key: "KEY0000001") == "200")
    #expect(answer(key: "KEY0000002") == "403 UnrelatedKeyIdInToken")
    #expect(answer(key: "OTHERKEY01", team: "TEAM000002") == "403 InvalidProviderToken")
    #expect(answer(key: "KEY0000001") == "200")
    identity = ConnectionIdentity()
    #expect(answer(key: "KEY0000002") == "200")
    #expect(identity.tokenChanges == 0)
  }

  @Test func relatedKeysShareAConnection() {
    var service = R.service()
    var identity = ConnectionIdentity()
    for key in ["TOPIC00002", "TOPIC00001", "TOPIC00002"] {
      let request = R.device(["authorization": "bearer " + R.token(key: key)])
      #expect(service.answer(request, at: .send, identity: &identity, now: R.start).status == 200)
    }
    #expect(identity.tokenChanges == 2)
  }

  /// A connection or key, and a token by its serial number, at a second.
  private struct TokenShow {
    var service = R.service()
    var identities: [ConnectionIdentity] = [ConnectionIdentity(), ConnectionIdentity()]

    mutating func answer(serial: UInt8, on connection: Int = 0, at seconds: Int64) -> String {
      let now = R.later(seconds: seconds)
      // The same token has the same text: its iat is fixed.
      let token = R.token(age: -Int64(serial), serial: serial)
      let request = R.device(["authorization": "bearer " + token])
      return SimulatorRuleTests.text(service.answer(request, at: .send, identity: &identities[connection], now: now))
    }
  }

  @Test(arguments: SimulatorOptions.TokenScope.allCases)
  func tokenUpdates(_ scope: SimulatorOptions.TokenScope) {
    var show = TokenShow()
    show.service.tokens.limits.updateScope = scope
    let rows: [(serial: UInt8, seconds: Int64, answer: String)] = [
      (1, 10, "200"),
      (2, 1209, "429 TooManyProviderTokenUpdates"),
      (1, 1209, "200"),
      (2, 1210, "200"),
      // The older token stays valid until it expires.
      (1, 1211, "200"),
      (3, 2409, "429 TooManyProviderTokenUpdates"),
      (3, 2410, "200"),
      (1, 3700, "403 ExpiredProviderToken"),
    ]
    for row in rows {
      let answer = show.answer(serial: row.serial, at: row.seconds)
      #expect(answer == row.answer, "token \(row.serial) at \(row.seconds) s")
    }
  }

  @Test(arguments: [
    (SimulatorOptions.TokenScope.connection, "200"), (.key, "429 TooManyProviderTokenUpdates"),
  ])
  func tokensOfTwoConnections(_ scope: SimulatorOptions.TokenScope, ofItsOwn: String) {
    var show = TokenShow()
    show.service.tokens.limits.updateScope = scope
    let answers = [
      show.answer(serial: 1, on: 0, at: 10), show.answer(serial: 1, on: 1, at: 11),
      show.answer(serial: 2, on: 1, at: 12),
    ]
    #expect(answers == ["200", "200", "429 TooManyProviderTokenUpdates"], "the same token everywhere, then another")
    show.identities[1] = ConnectionIdentity()
    let fresh = show.answer(serial: 2, on: 1, at: 12)
    #expect(fresh == ofItsOwn, "a new connection's first token")
  }

  @Test func tokensAsOftenAsYouLike() {
    var show = TokenShow()
    show.service.tokens.limits.updateIntervalSeconds = 0
    let answers = (1...5).map { show.answer(serial: $0, at: 10) }
    #expect(answers == Array(repeating: "200", count: 5))
    #expect(show.identities[0].tokenChanges == 4)
  }

  @Test func revokedKey() {
    var service = R.service()
    var identity = ConnectionIdentity()
    #expect(service.answer(R.device(), at: .send, identity: &identity, now: R.start).status == 200)
    service.tokens.revoke(key: "KEY0000001")
    let answer = service.answer(R.device(), at: .send, identity: &identity, now: R.start)
    #expect(SimulatorRuleTests.text(answer) == "403 InvalidProviderToken")
  }

  @Test func anyKey() {
    var service = SimulatedService(environment: .production, seed: 1)
    service.tokens.acceptsAnyKey = true
    var identity = ConnectionIdentity()
    let request = R.device(["authorization": "bearer " + R.token(key: "WHATEVER01", signature: 9)])
    #expect(service.answer(request, at: .send, identity: &identity, now: R.start).status == 200)
  }

  // MARK: - Push types

  /// A push type with what it needs.
  static func typed(
    _ type: String, topic: String = R.app, _ changes: [String: String?] = [:], payload: String
  ) -> SimulatedRequest {
    var all: [String: String?] = ["apns-push-type": type, "apns-topic": topic]
    for (name, value) in changes { all[name] = value }
    return R.device(all, payload: payload)
  }

  static let voip = R.app + ".voip"
  static let activity = R.app + ".push-type.liveactivity"
  static let silent = #"{"aps":{"content-available":1},"k":2}"#
  static let accessory = R.app + ".push-type.accessory"
  static let update = #"{"aps":{"timestamp":1795266000,"event":"update","content-state":{"a":1}}}"#

  static let typeRows: [Row] = [
    Row("background", typed("background", ["apns-priority": "5"], payload: silent), "200"),
    Row("background at 10", typed("background", payload: silent), "400 BadPriority"),
    Row("background without priority", typed("background", ["apns-priority": nil], payload: silent), "400 BadPriority"),
    Row("background at 1", typed("background", ["apns-priority": "1"], payload: silent), "400 BadPriority"),
    Row(
      "background with an alert",
      typed("background", ["apns-priority": "5"], payload: #"{"aps":{"content-available":1,"alert":"x"}}"#),
      "400 BadRequestPayload"),
    Row(
      "background without content-available", typed("background", ["apns-priority": "5"], payload: #"{"aps":{}}"#),
      "400 BadRequestPayload"),
    Row("voip", typed("voip", topic: voip, payload: #"{"call":1}"#), "200"),
    Row("voip to the app", typed("voip", payload: #"{"call":1}"#), "400 InvalidPushType"),
    Row("alert to the voip topic", typed("alert", topic: voip, payload: R.alert), "400 InvalidPushType"),
    Row("suffix alone", typed("voip", topic: ".voip", payload: #"{"call":1}"#), "400 BadTopic"),
    Row("complication", typed("complication", topic: R.app + ".complication", payload: #"{"a":1}"#), "200"),
    Row(
      "fileprovider",
      typed("fileprovider", topic: R.app + ".pushkit.fileprovider", payload: #"{"container-identifier":"c"}"#), "200"),
    Row(
      "fileprovider without container",
      typed("fileprovider", topic: R.app + ".pushkit.fileprovider", payload: #"{"a":1}"#),
      "400 BadRequestPayload"),
    Row("location", typed("location", topic: R.app + ".location-query", payload: #"{"aps":{}}"#), "200"),
    Row(
      "location at 1",
      typed("location", topic: R.app + ".location-query", ["apns-priority": "1"], payload: #"{"aps":{}}"#),
      "400 BadPriority"),
    Row(
      "mdm with a token", typed("mdm", topic: "com.apple.mgmt.External.1", payload: #"{"mdm":"magic"}"#),
      "403 Forbidden"),
    Row("pushtotalk", typed("pushtotalk", topic: R.app + ".voip-ptt", payload: #"{"speaker":"a"}"#), "200"),
    Row(
      "pushtotalk at 5", typed("pushtotalk", topic: R.app + ".voip-ptt", ["apns-priority": "5"], payload: #"{"a":1}"#),
      "400 BadPriority"),
    Row(
      "pushtotalk stored",
      typed("pushtotalk", topic: R.app + ".voip-ptt", ["apns-expiration": "1795366000"], payload: #"{"a":1}"#),
      "400 BadExpirationDate"),
    Row(
      "widgets", typed("widgets", topic: R.app + ".push-type.widgets", payload: #"{"aps":{"content-changed":true}}"#),
      "200"),
    Row(
      "widgets with 1",
      typed("widgets", topic: R.app + ".push-type.widgets", payload: #"{"aps":{"content-changed":1}}"#),
      "400 BadRequestPayload"),
    Row(
      "controls",
      typed("controls", topic: R.app + ".push-type.controls", payload: #"{"aps":{"content-changed":true}}"#),
      "200"),
    Row("liveactivity", typed("liveactivity", topic: activity, payload: update), "200"),
    Row("liveactivity to the app", typed("liveactivity", payload: update), "400 InvalidPushType"),
    Row(
      "liveactivity at 1", typed("liveactivity", topic: activity, ["apns-priority": "1"], payload: update),
      "400 BadPriority"),
    Row(
      "wallet", typed("alert", topic: "pass.com.example", payload: #"{"aps":{}}"#), "200"),
    Row("wallet, empty object", typed("alert", topic: "pass.com.example", payload: "{}"), "200"),
  ]

  @Test(arguments: typeRows)
  func pushTypes(_ row: Row) {
    check(row, at: .send)
  }

  // MARK: - Payloads

  static func sized(_ count: Int) -> String {
    let start = #"{"aps":{"alert":""#
    return start + String(repeating: "x", count: count - start.utf8.count - 3) + #""}}"#
  }

  static func aps(_ members: String) -> SimulatedRequest { R.device(payload: #"{"aps":{\#(members)}}"#) }
  static func live(_ members: String) -> SimulatedRequest {
    typed("liveactivity", topic: activity, payload: #"{"aps":{\#(members)}}"#)
  }

  static let payloadRows: [Row] = [
    Row("4096 bytes", R.device(payload: sized(4096)), "200"),
    Row("4097 bytes", R.device(payload: sized(4097)), "413 PayloadTooLarge"),
    Row("voip of 5120 bytes", typed("voip", topic: voip, payload: sized(5120)), "200"),
    Row("voip of 5121 bytes", typed("voip", topic: voip, payload: sized(5121)), "413 PayloadTooLarge"),
    Row("no JSON", R.device(payload: "hello"), "400 BadRequestPayload"),
    Row("an array", R.device(payload: "[1]"), "400 BadRequestPayload"),
    Row("cut off", R.device(payload: #"{"aps":{"alert":"x"}"#), "400 BadRequestPayload"),
    Row("two documents", R.device(payload: R.alert + R.alert), "400 BadRequestPayload"),
    Row("a comma too many", R.device(payload: #"{"aps":{"alert":"x",}}"#), "400 BadRequestPayload"),
    Row("empty object", R.device(payload: "{}"), "400 PayloadEmpty"),
    Row("no aps", R.device(payload: #"{"a":1}"#), "400 PayloadEmpty"),
    Row("aps a string", R.device(payload: #"{"aps":"x"}"#), "400 BadRequestPayload"),
    Row("nothing to show", aps(#""thread-id":"x""#), "400 PayloadEmpty"),
    Row("badge 0", aps(#""badge":0"#), "200"),
    Row("badge negative", aps(#""badge":-1"#), "400 BadRequestPayload"),
    Row("badge a string", aps(#""badge":"1""#), "400 BadRequestPayload"),
    Row("sound", aps(#""sound":"default""#), "200"),
    Row("critical sound", aps(#""sound":{"critical":1,"name":"a","volume":0.5}"#), "200"),
    Row("sound too loud", aps(#""sound":{"critical":1,"volume":1.5}"#), "400 BadRequestPayload"),
    Row("alert a number", aps(#""alert":1"#), "400 BadRequestPayload"),
    Row("title beside its key", aps(#""alert":{"title":"a","title-loc-key":"b"}"#), "400 BadRequestPayload"),
    Row("arguments without key", aps(#""alert":{"loc-args":["a"]}"#), "400 BadRequestPayload"),
    Row("arguments not strings", aps(#""alert":{"loc-key":"k","loc-args":[1]}"#), "400 BadRequestPayload"),
    Row("arguments with key", aps(#""alert":{"loc-key":"k","loc-args":["a"]}"#), "200"),
    Row("empty alert with a badge", aps(#""alert":{},"badge":1"#), "400 BadRequestPayload"),
    Row("unknown keys", aps(#""alert":"x","new-key":{"a":[]}"#), "200"),
    Row("interruption level", aps(#""alert":"x","interruption-level":"urgent""#), "400 BadRequestPayload"),
    Row("relevance over 1", aps(#""alert":"x","relevance-score":2"#), "400 BadRequestPayload"),
    Row("url-args not strings", aps(#""alert":"x","url-args":[1]"#), "400 BadRequestPayload"),
    Row("activity without timestamp", live(#""event":"update","content-state":{}"#), "400 BadRequestPayload"),
    Row(
      "activity's timestamp in milliseconds", live(#""timestamp":1795266000000,"event":"update","content-state":{}"#),
      "400 BadRequestPayload"),
    Row("activity's event unknown", live(#""timestamp":1,"event":"stop","content-state":{}"#), "400 BadRequestPayload"),
    Row("update without state", live(#""timestamp":1,"event":"update""#), "400 BadRequestPayload"),
    Row("end without state", live(#""timestamp":1,"event":"end","dismissal-date":1"#), "200"),
    Row(
      "dismissal on update", live(#""timestamp":1,"event":"update","content-state":{},"dismissal-date":1"#),
      "400 BadRequestPayload"),
    Row(
      "stale date on end", live(#""timestamp":1,"event":"end","stale-date":1"#), "400 BadRequestPayload"),
    Row(
      "start",
      live(
        #""timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":{"title":"a","body":{"loc-key":"k"}},"input-push-token":1"#
      ), "200"),
    Row(
      "start without alert",
      live(#""timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{}"#),
      "400 BadRequestPayload"),
    Row(
      "start with token and channel",
      live(
        #""timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":{"title":"a","body":"b"},"input-push-token":1,"input-push-channel":"c""#
      ), "400 BadRequestPayload"),
    Row(
      "relevance of an activity", live(#""timestamp":1,"event":"update","content-state":{},"relevance-score":75"#),
      "200"),
  ]

  @Test(arguments: payloadRows)
  func payloads(_ row: Row) {
    check(row, at: .send)
  }

  @Test func lenientPayloads() {
    check(Row("anything", R.device(payload: "hello"), "200"), at: .send) { $0.checksPayloads = false }
  }

  // MARK: - Devices

  @Test func knownDevices() {
    let prepare: (inout SimulatedService) -> Void = { service in
      service.devices.unregistered["aa" + R.deviceToken] = 1_700_000_000_000
      service.devices.foreign = ["bb" + R.deviceToken]
      service.devices.topics["cc" + R.deviceToken] = "com.example.other"
    }
    let path = { (start: String) in SimulatorRuleTests.device + start + R.deviceToken }
    check(Row("gone", R.device(path: path("AA")), "410 Unregistered"), at: .send, prepare)
    check(Row("sandbox's", R.device(path: path("bb")), "400 BadDeviceToken"), at: .send, prepare)
    check(Row("other app's", R.device(path: path("cc")), "400 DeviceTokenNotForTopic"), at: .send, prepare)
    check(Row("another", R.device(path: path("dd")), "200"), at: .send, prepare)
    var service = R.service()
    prepare(&service)
    var identity = ConnectionIdentity()
    let answer = service.answer(R.device(path: path("aa")), at: .send, identity: &identity, now: R.start)
    #expect(String(decoding: answer.bytes, as: UTF8.self) == #"{"reason":"Unregistered","timestamp":1700000000000}"#)
  }

  @Test func oneDeviceTooOften() {
    var service = R.service()
    service.devices.requestsPerSecondMaximum = 3
    var identity = ConnectionIdentity()
    var statuses: [Int] = []
    for _ in 0..<5 { statuses.append(service.answer(R.device(), at: .send, identity: &identity, now: R.start).status) }
    let next = service.answer(R.device(), at: .send, identity: &identity, now: R.later(seconds: 1)).status
    #expect(statuses == [200, 200, 200, 429, 429])
    #expect(next == 200)
  }

  // MARK: - Certificates

  static func certified(_ type: String = "alert", topic: String? = R.app, payload: String = R.alert) -> SimulatedRequest
  {
    R.device(["authorization": nil, "apns-topic": topic, "apns-push-type": type], payload: payload)
  }

  static let certificateRows: [Row] = [
    Row("the app", certified(), "200"),
    Row("a topic of the extension", certified("voip", topic: voip, payload: #"{"a":1}"#), "200"),
    Row("another app", certified(topic: "com.example.other"), "400 TopicDisallowed"),
    Row("several topics, none said", certified(topic: nil), "400 MissingTopic"),
    Row(
      "activities need a token", certified("liveactivity", topic: activity, payload: update), "403 Forbidden"),
    Row(
      "accessories need a token", certified("accessory", topic: accessory, payload: accessoryResponse), "403 Forbidden"),
    Row("with a token, which is ignored", R.device(["authorization": "bearer nonsense"]), "200"),
  ]

  @Test(arguments: certificateRows)
  func certificates(_ row: Row) {
    var service = R.service()
    var identity = ConnectionIdentity(
      certificate: ClientCertificate(
        topics: [R.app, SimulatorRuleTests.voip, SimulatorRuleTests.activity, SimulatorRuleTests.accessory],
        subjectID: R.app))
    let answer = service.answer(row.request, at: .send, identity: &identity, now: R.start)
    #expect(SimulatorRuleTests.text(answer) == row.answer)
  }

  @Test func certificateOfOneTopic() {
    var service = R.service()
    var identity = ConnectionIdentity(certificate: ClientCertificate(topics: [], subjectID: R.app))
    let request = SimulatorRuleTests.certified(topic: nil)
    #expect(service.answer(request, at: .send, identity: &identity, now: R.start).status == 200)
    var mdm = ConnectionIdentity(certificate: ClientCertificate(topics: [], subjectID: "com.apple.mgmt.External.1"))
    let magic = SimulatorRuleTests.certified("mdm", topic: "com.apple.mgmt.External.1", payload: #"{"mdm":"m"}"#)
    #expect(service.answer(magic, at: .send, identity: &mdm, now: R.start).status == 200)
  }

  // MARK: - Ids

  @Test func identifiers() {
    var service = R.service(.sandbox)
    var identity = ConnectionIdentity()
    let given = service.answer(R.device(), at: .send, identity: &identity, now: R.start)
    #expect(given.fields.first == .init(name: "apns-id", value: R.apnsID))
    #expect(given.fields.contains { $0.name == "apns-unique-id" && $0.value.utf8.count == 36 })
    let made = service.answer(R.device(["apns-id": nil]), at: .send, identity: &identity, now: R.start)
    #expect(made.fields.first?.value.utf8.count == 36)
    var production = R.service()
    let answer = production.answer(R.device(), at: .send, identity: &identity, now: R.start)
    #expect(!answer.fields.contains { $0.name == "apns-unique-id" })
  }
}
