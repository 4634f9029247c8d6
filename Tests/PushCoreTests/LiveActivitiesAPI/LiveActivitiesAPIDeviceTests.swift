import PushCore
import TestSupport
import Testing

/// The calls of devices: each field, and what it registers.
@Suite struct LiveActivitiesAPIDeviceTests {
  private typealias Bench = LiveActivitiesAPIBench

  private static let methods = LiveActivitiesMethod.allCases.filter { $0.permission == .register }
  /// What each call needs beside the device.
  private static let minimum: [LiveActivitiesMethod: [String: String?]] = [
    .registerUser: ["userId": #""u-1""#], .setTags: ["tags": "{}"],
    .setActivityToken: ["activity_id": #""ride-17""#, "activity_token": "\"\(Bench.token)\""],
    .setActivityPushToStartToken: ["activity_push_to_start_token": "\"\(Bench.token)\""],
  ]

  private func plan(_ method: LiveActivitiesMethod, _ changes: [String: String?] = [:]) throws -> LiveActivitiesPlan {
    var bench = try Bench()
    let fields = (LiveActivitiesAPIDeviceTests.minimum[method] ?? [:]).merging(changes) { _, new in new }
    return try bench.plan(method.rawValue, Bench.call(fields))
  }

  private func device(_ method: LiveActivitiesMethod, _ changes: [String: String?] = [:]) throws -> DeviceRegistration {
    try plan(method, changes).device()
  }

  private func refusal(_ method: LiveActivitiesMethod, _ changes: [String: String?] = [:]) throws -> String {
    var bench = try Bench()
    let fields = (LiveActivitiesAPIDeviceTests.minimum[method] ?? [:]).merging(changes) { _, new in new }
    return try bench.refusal(method.rawValue, Bench.call(fields))
  }

  // MARK: - All calls

  @Test func applicationHardwareIDAndTokenAreRequired() throws {
    for method in LiveActivitiesAPIDeviceTests.methods {
      #expect(try refusal(method, ["application": nil]) == "Application not found")
      #expect(try refusal(method, ["auth": nil]) == "Account not found")
      for absent in [nil, #""""#, "null"] { #expect(try refusal(method, ["hwid": absent]) == "hwid is missing") }
      #expect(try refusal(method, ["hwid": "7"]) == "hwid must be a string, not 7")
      #expect(
        try refusal(method, ["hwid": "\"\(String(repeating: "h", count: 129))\""])
          == "hwid must be 1 to 128 bytes, not 129")
    }
  }

  @Test func theAnswerHasNoResponse() throws {
    for method in LiveActivitiesAPIDeviceTests.methods {
      let answer = try plan(method).answer(isConfirmed: true)
      #expect(answer.status == 200)
      #expect(answer.text == #"{"status_code":200,"status_message":"OK","response":null}"#)
      #expect(try plan(method).answer(isConfirmed: false).status == 503)
    }
  }

  @Test func theKeyIsReadFromTheHeader() throws {
    var bench = try Bench()
    for method in LiveActivitiesAPIDeviceTests.methods {
      let fields = (LiveActivitiesAPIDeviceTests.minimum[method] ?? [:])
      let bare = Bench.call(fields.merging(["auth": nil]) { _, new in new })
      for (header, token) in [
        ("Token abc", "abc"), ("token  abc ", "abc"), ("Bearer hk_1", "hk_1"), ("Token", nil), ("Basic abc", nil),
        ("Token a b", nil), ("", nil),
      ] {
        let access = bench.read(method.rawValue, bare, authorization: header).access
        #expect(access?.token == token, "\(header)")
        #expect(access.map(\.permission) == (token == nil ? nil : .register))
      }
      #expect(bench.read(method.rawValue, Bench.call(fields), authorization: "Token abc").access?.token == "abc")
      #expect(bench.read(method.rawValue, Bench.call(fields), authorization: "Digest").access?.token == "key")
    }
  }

  /// What its clients send with every call has no effect and harms nothing.
  @Test func fieldsOfEveryCallAreAccepted() throws {
    for method in LiveActivitiesAPIDeviceTests.methods {
      let plan = try plan(
        method, ["v": #""7.1.3""#, "device_type": "1", "userId": #""u-1""#, "idfa": "null", "n": "[{}]"])
      #expect(plan.publications.count == 1)
      #expect(plan.segments.isEmpty && plan.devices.isEmpty && plan.users.isEmpty && plan.ignored.isEmpty)
    }
  }

  @Test func aDeviceRegistersInItsTokensEnvironment() throws {
    for method in LiveActivitiesAPIDeviceTests.methods {
      let cases = [(nil, APNsEnvironment.production), (#""sandbox""#, .sandbox), (#""production""#, .production)]
      for (gateway, environment) in cases {
        #expect(try plan(method, ["gateway": gateway]).scope.environment == environment)
      }
      #expect(
        try plan(method, ["gateway": nil, "application": #""ALERT-ALERT""#]).scope.environment == .sandbox)
      #expect(
        try refusal(method, ["gateway": #""beta""#]) == #"gateway must be sandbox or production, not "beta""#)
    }
    var bench = try Bench()
    let reading = bench.read("registerDevice", Bench.call(["gateway": #""sandbox""#]))
    #expect(reading.access?.scope.environment == .sandbox, "the key must be good for that environment")
  }

  // MARK: - registerDevice

  @Test func everyFieldOfADeviceIsRegistered() throws {
    let plan = try plan(
      .registerDevice,
      [
        "push_token": "\"\(Bench.token.uppercased())\"", "userId": #""u-1""#, "device_type": "1", "language": #""en""#,
        "timezone": "3600", "os_version": #""18.1""#, "app_version": #""1.2""#, "device_model": #""iPhone17,1""#,
        "sounds": "[]", "voip_push_token": #""00""#, "gateway": #""production""#,
        "tags": #"{"plan":"gold","level":7,"vip":true,"teams":["a","b"],"born":"2024-10-02 22:11","old":null}"#,
      ])
    let device = try plan.device()
    #expect(device.device == "hwid-1")
    #expect(device.user == .set("u-1"))
    #expect(device.token == .set(Bench.tokenBytes))
    #expect(device.locale == .set("en"))
    #expect(device.osVersion == .set(OSVersion(major: 18, minor: 1, patch: 0)))
    #expect(device.timeZone == .set("Etc/GMT-1"))
    #expect(device.startTokens.isEmpty && !device.removesStartTokens && !device.removesTags)
    #expect(
      device.tags == [
        .init(name: "plan", change: .set(.text("gold"))), .init(name: "level", change: .set(.number(7))),
        .init(name: "vip", change: .set(.flag(true))), .init(name: "teams", change: .set(.list(["a", "b"]))),
        .init(name: "born", change: .set(.text("2024-10-02 22:11"))), .init(name: "old", change: .remove),
      ])
  }

  @Test func absentFieldsAreUnchanged() throws {
    let device = try device(.registerDevice, ["push_token": #""""#, "userId": #""""#])
    #expect(device == DeviceRegistration(device: "hwid-1"))
  }

  @Test func anInvalidTokenIsRefused() throws {
    #expect(
      try refusal(.registerDevice, ["push_token": #""not hex""#])
        .hasPrefix("push_token must be 8 to 256 hexadecimal digits"))
    #expect(try refusal(.registerDevice, ["push_token": "7"]) == "push_token must be a string, not 7")
    #expect(try refusal(.registerDevice, ["userId": #""a\u0000""#]) == "userId must hold no control characters")
  }

  @Test func onlyApplesDevicesRegister() throws {
    for type in ["1", "7", #""1""#, "null"] { _ = try device(.registerDevice, ["device_type": type]) }
    for type in ["3", "0", "1.5", #""iOS""#, "[]"] {
      #expect(try refusal(.registerDevice, ["device_type": type]).hasPrefix("device_type must be 1, or 7 for a Mac"))
    }
  }

  /// The token is registered all the same.
  @Test func anInvalidDescriptionIsLeftOut() throws {
    let cases: [(String, String, LiveActivitiesField)] = [
      ("language", #""e n""#, .language), ("language", "7", .language), ("language", #""""#, .language),
      ("os_version", #""18 beta""#, .osVersion), ("os_version", "18", .osVersion),
      ("timezone", "19800", .timezone), ("timezone", "90000", .timezone),
      ("timezone", "-9223372036854775808", .timezone),
      ("timezone", #""Mars, far""#, .timezone), ("timezone", "1.5", .timezone), ("timezone", "[]", .timezone),
    ]
    for (key, value, field) in cases {
      let plan = try plan(.registerDevice, [key: value, "push_token": "\"\(Bench.token)\""])
      #expect(plan.ignored == [field], "\(key): \(value)")
      var expected = DeviceRegistration(device: "hwid-1")
      expected.token = .set(Bench.tokenBytes)
      #expect(try plan.device() == expected)
    }
  }

  @Test func timeZonesAreNames() throws {
    let cases = [
      ("0", "Etc/GMT"), ("-3600", "Etc/GMT+1"), ("50400", "Etc/GMT-14"), ("-43200", "Etc/GMT+12"),
      (#""7200""#, "Etc/GMT-2"), (#""Europe/Rome""#, "Europe/Rome"),
    ]
    for (value, name) in cases {
      #expect(try device(.registerDevice, ["timezone": value]).timeZone == .set(name))
    }
  }

  // MARK: - The others

  @Test func anUnregisteredDeviceLosesOnlyItsTokens() throws {
    var expected = DeviceRegistration(device: "hwid-1")
    expected.token = .remove
    expected.removesStartTokens = true
    #expect(try device(.unregisterDevice) == expected)
  }

  @Test func aUserIsRegistered() throws {
    var expected = DeviceRegistration(device: "hwid-1")
    expected.user = .set("u-1")
    #expect(try device(.registerUser) == expected)
    #expect(try refusal(.registerUser, ["userId": nil]) == "userId is missing")
    #expect(
      try refusal(.registerUser, ["userId": "\"\(String(repeating: "u", count: 129))\""])
        == "userId must be 1 to 128 bytes, not 129")
  }

  @Test func tagsChange() throws {
    let tags = """
      {"level":{"operation":"increment","value":2.5},"plan":{"value":"gold","operation":"set"},"a\\"b":[],"é":-0}
      """
    #expect(
      try device(.setTags, ["tags": tags]).tags == [
        .init(name: "level", change: .increment(2.5)), .init(name: "plan", change: .set(.text("gold"))),
        .init(name: "a\"b", change: .set(.list([]))), .init(name: "é", change: .set(.number(0))),
      ])
    let cases =
      [
        (nil, "tags is missing"), ("[]", "tags must be key-value object, not an array"),
        (#"{"a":{}}"#, "tags.a must be a value, or an object with operation and value"),
        (#"{"a":{"operation":"append","value":["x"]}}"#, #"tags.a.operation must be increment or set, not "append""#),
        (#"{"a":{"operation":"increment","value":"1"}}"#, #"tags.a.value must be a number, not "1""#),
        (#"{"a":{"operation":"set","value":{}}}"#, #"tags.a.operation must be increment or set, not "set""#),
        (#"{"a":[1]}"#, "tags.a[0] must be a string, not 1"),
        (#"{"a":1,"a":2}"#, "tags.a must be there once, not twice"),
        (#"{"":1}"#, "tags.\"\" is no tag's name: 1 to 64 bytes without control characters"),
      ] as [(String?, String)]
    for (tags, message) in cases { #expect(try refusal(.setTags, ["tags": tags]) == message) }
    let many = (0...100).map { "\"tag-\($0)\":1" }.joined(separator: ",")
    #expect(try refusal(.setTags, ["tags": "{\(many)}"]) == "tags must have at most 100 tags")
  }

  @Test func anActivitysTokenIsRegistered() throws {
    let activity = try plan(.setActivityToken).registration().subject
    #expect(activity == .activity(ActivityRegistration(device: "hwid-1", activity: "ride-17", token: Bench.tokenBytes)))
    // It was dismissed.
    let over = try plan(.setActivityToken, ["activity_token": #""""#]).registration().subject
    #expect(over == .activity(ActivityRegistration(device: "hwid-1", activity: "ride-17", token: nil)))
    #expect(try refusal(.setActivityToken, ["activity_token": nil]) == "activity_token is missing")
    #expect(
      try refusal(.setActivityToken, ["activity_token": "{}"]) == "activity_token must be a string, not an object")
    #expect(try refusal(.setActivityToken, ["activity_token": #""8""#]).hasPrefix("activity_token must be 8 to 256 "))
    #expect(try refusal(.setActivityToken, ["activity_id": nil]) == "activity_id is missing")
    #expect(
      try refusal(.setActivityToken, ["activity_id": #""a\tb""#]) == "activity_id must hold no control characters")
  }

  @Test func aStartTokenServesEveryType() throws {
    #expect(try device(.setActivityPushToStartToken).startTokens == [.init(type: "*", token: Bench.tokenBytes)])
    #expect(
      try device(.setActivityPushToStartToken, ["activity_push_to_start_token": #""""#]).startTokens
        == [.init(type: "*", token: nil)])
    #expect(
      try refusal(.setActivityPushToStartToken, ["activity_push_to_start_token": nil])
        == "activity_push_to_start_token is missing")
    #expect(
      try refusal(.setActivityPushToStartToken, ["activity_push_to_start_token": #""zz""#])
        .hasPrefix("activity_push_to_start_token must be 8 to 256 hexadecimal digits"))
  }
}
