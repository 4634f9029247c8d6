import PushCore
import TestSupport
import Testing

/// Registrations of the queue `push.registrations`: valid ones are parsed, errors name field and rule.
@Suite struct RegistrationParserTests {
  private static let now: Int64 = 1_796_000_000_500
  private static let head = #""version":1,"at":1796000000000,"app":"com.example.app""#

  private func parse(_ text: String) throws(JobError) -> Registration {
    try RegistrationParser.parse(Array(text.utf8), now: RegistrationParserTests.now)
  }

  private func device(_ members: String) throws -> DeviceRegistration {
    let registration = try parse(
      "{\(RegistrationParserTests.head),\"kind\":\"device\",\"device\":\"hwid-1\",\(members)}")
    guard case .device(let device) = registration.subject else { throw TestFailure("no device") }
    return device
  }

  private func detail(_ text: String) -> String {
    do throws(JobError) { return "taken: \(try parse(text))" } catch { return error.detail }
  }

  @Test func theContractsExamplesAreTaken() throws {
    let scope = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    let full = try parse(
      """
      {"version": 1, "kind": "device", "at": 1796000000000, "app": "com.example.app", "environment": "sandbox", \
      "device": "hwid-1", "user": "u-1", "token": "00fc13AD", "push_to_start": {"*": "8000000a", "RideAttributes": \
      "8100000b"}, "locale": "en_GB", "os_version": "18.1", "time_zone": "Europe/Rome", "tags": {"plan": "gold", \
      "vip": true, "level": 7, "teams": ["a", "b", "a"]}}
      """)
    var device = DeviceRegistration(device: "hwid-1")
    device.user = .set("u-1")
    device.token = .set([0, 0xFC, 0x13, 0xAD])
    device.startTokens = [
      .init(type: "*", token: [0x80, 0, 0, 0x0A]), .init(type: "RideAttributes", token: [0x81, 0, 0, 0x0B]),
    ]
    device.locale = .set("en-GB")
    device.osVersion = .set(OSVersion(major: 18, minor: 1))
    device.timeZone = .set("Europe/Rome")
    device.tags = [
      .init(name: "plan", change: .set(.text("gold"))), .init(name: "vip", change: .set(.flag(true))),
      .init(name: "level", change: .set(.number(7))), .init(name: "teams", change: .set(.list(["a", "b"]))),
    ]
    #expect(full == Registration(scope: scope, at: 1_796_000_000_000, subject: .device(device)))

    let head = RegistrationParserTests.head
    let activity = try parse(#"{\#(head),"kind":"activity","device":"hwid-1","activity":"ride-17","token":"9a9a9a9a"}"#)
    #expect(
      activity.subject
        == .activity(ActivityRegistration(device: "hwid-1", activity: "ride-17", token: [0x9A, 0x9A, 0x9A, 0x9A])))
    #expect(activity.scope.environment == .production)
    let over = try parse(#"{\#(head),"kind":"activity","device":"hwid-1","activity":"ride-17","token":""}"#)
    #expect(over.subject == .activity(ActivityRegistration(device: "hwid-1", activity: "ride-17", token: nil)))
    #expect(try parse(#"{\#(head),"kind":"forget","user":"u-1"}"#).subject == .forget(.user("u-1")))
    #expect(try parse(#"{\#(head),"kind":"forget","device":"d"}"#).subject == .forget(.device("d")))
  }

  @Test func absentKeepsAndNullRemoves() throws {
    let nothing = try device(#""locale":"de""#)
    #expect(nothing.user == .keep && nothing.token == .keep && !nothing.removesTags && nothing.tags.isEmpty)
    let nulls = try device(
      """
      "user":null,"token":null,"push_to_start":null,"locale":null,"os_version":null,"time_zone":null,"tags":null
      """)
    #expect(nulls.user == .remove && nulls.token == .remove && nulls.locale == .remove)
    #expect(nulls.osVersion == .remove && nulls.timeZone == .remove)
    #expect(nulls.removesStartTokens && nulls.removesTags)
    let inner = try device(#""push_to_start":{"*":null},"tags":{"plan":null,"level":{"increment":-2.5}}"#)
    #expect(inner.startTokens == [.init(type: "*", token: nil)] && !inner.removesStartTokens)
    #expect(inner.tags == [.init(name: "plan", change: .remove), .init(name: "level", change: .increment(-2.5))])
    // A repetition is told from another registration of the same time.
    #expect(inner.fingerprint != 0 && nulls.fingerprint == 0)
    #expect(
      try device(#""tags":{"a":{"increment":1}}"#).fingerprint != device(#""tags":{"a":{"increment":2}}"#).fingerprint)
  }

  @Test func numbersStayWhatTheyAre() throws {
    let tags = try device(#""tags":{"a":-0,"b":9007199254740992,"c":1.5e2}"#).tags
    #expect(tags.map(\.change) == [.set(.number(0)), .set(.number(9_007_199_254_740_992)), .set(.number(150))])
    guard case .set(.number(let zero)) = tags[0].change else { throw TestFailure("no number") }
    #expect(zero.sign == .plus)
  }

  @Test func faultsNameFieldAndRule() {
    let head = RegistrationParserTests.head
    let device = #"\#(head),"kind":"device","device":"d""#
    let long = String(repeating: "x", count: 129)
    let list = (0..<51).map { "\"\($0)\"" }.joined(separator: ",")
    let tags = (0..<101).map { "\"t\($0)\":1" }.joined(separator: ",")
    let cases: [(String, String)] = [
      ("", "body: is not JSON"),
      ("[]", "body: is not JSON"),
      (#"{"kind":"device"}"#, "at: is missing"),
      (#"{"at":1796000000000,"kind":"device"}"#, "app: is missing"),
      ("{\(head)}", "kind: is missing"),
      (#"{\#(head),"kind":"devices"}"#, "kind: must be one of device, activity, forget, not devices"),
      (#"{\#(head),"kind":null}"#, "kind: must be a string, not null"),
      (#"{\#(head),"kind":"device"}"#, "device: is missing"),
      (#"{\#(head),"kind":"device","device":""}"#, "device: must be 1 to 128 bytes, not 0"),
      (#"{\#(head),"kind":"device","device":"\#(long)"}"#, "device: must be 1 to 128 bytes, not 129"),
      (#"{\#(head),"kind":"device","device":"a\u0000"}"#, "device: must hold no control characters"),
      (#"{\#(device),"user":""}"#, "user: must be 1 to 128 bytes, not 0"),
      (#"{\#(device),"user":7}"#, "user: must be a string, not 7"),
      (#"{\#(device),"device":"d"}"#, "device: must be there once, not twice"),
      (#"{\#(device),"token":"00f"}"#, "token: must be 8 to 256 hexadecimal digits"),
      (#"{\#(device),"token":"zz00zz00"}"#, "token: must be 8 to 256 hexadecimal digits"),
      (#"{\#(device),"token":""}"#, "token: must be 8 to 256 hexadecimal digits"),
      (#"{\#(device),"push_to_start":"80"}"#, "push_to_start: must be an object or null"),
      (#"{\#(device),"push_to_start":{"":"80808080"}}"#, "push_to_start.\"\": is no attributes type"),
      (#"{\#(device),"push_to_start":{"*":"8"}}"#, "push_to_start.*: must be 8 to 256 hexadecimal digits"),
      (#"{\#(device),"push_to_start":{"*":1}}"#, "push_to_start.*: must be a string or null, not 1"),
      (#"{\#(device),"locale":"en GB"}"#, "locale: must be a locale such as en-GB"),
      (#"{\#(device),"os_version":"18.1.2.3"}"#, "os_version: must be a version such as 18.1"),
      (#"{\#(device),"os_version":18.1}"#, "os_version: must be a string, not 18.1"),
      (#"{\#(device),"time_zone":"Europe Rome"}"#, "time_zone: must be a name such as Europe/Rome"),
      (#"{\#(device),"tags":[]}"#, "tags: must be an object or null, not an array"),
      (#"{\#(device),"tags":{"a":1,"a":2}}"#, "tags.a: must be there once, not twice"),
      (#"{\#(device),"tags":{"\#(String(repeating: "n", count: 65))":1}}"#, "tags.nnnn"),
      (#"{\#(device),"tags":{"":1}}"#, "tags.\"\": is no tag's name"),
      (
        #"{\#(device),"tags":{"a":"\#(String(repeating: "v", count: 257))"}}"#,
        "tags.a: must be at most 256 bytes, not 257"
      ),
      (#"{\#(device),"tags":{"a":[\#(list)]}}"#, "tags.a: must have at most 50 members, not 51"),
      (#"{\#(device),"tags":{"a":["b",1]}}"#, "tags.a[1]: must be a string, not 1"),
      (#"{\#(device),"tags":{"a":1e999}}"#, "tags.a: must be a number that 64 bits hold"),
      (#"{\#(device),"tags":{"a":9007199254740993}}"#, "tags.a: is an integer beyond 2^53"),
      (#"{\#(device),"tags":{"a":99999999999999999999}}"#, "tags.a: is an integer beyond 2^53"),
      (#"{\#(device),"tags":{"a":{"increment":"1"}}}"#, "tags.a: must be a value, or an object with increment"),
      (#"{\#(device),"tags":{"a":{}}}"#, "tags.a: must be a value, or an object with increment"),
      (#"{\#(device),"tags":{"a":{"increment":1,"by":2}}}"#, "tags.a: must be a value, or an object with increment"),
      (#"{\#(device),"tags":{\#(tags)}}"#, "tags: must have at most 100 tags"),
      (#"{\#(device),"activity":"a"}"#, "activity: does not go with the kind device"),
      (#"{\#(device),"tokn":"00"}"#, "tokn: is not a key of a registration; did you mean token?"),
      (#"{\#(device),"environment":"dev"}"#, "environment: must be production or sandbox, not dev"),
      (#"{"version":2,"at":1796000000000,"app":"a","kind":"device","device":"d"}"#, "version: must be 1, not 2"),
      (#"{"at":1796000000,"app":"a","kind":"device","device":"d"}"#, "at: must be Unix milliseconds of 13 digits"),
      (
        #"{"at":1830000000000,"app":"a","kind":"device","device":"d"}"#, "at: must be Unix milliseconds, at most a year"
      ),
      (
        #"{"at":9223372036854775807,"app":"a","kind":"device","device":"d"}"#,
        "at: must be Unix milliseconds, at most a year"
      ),
      (#"{"at":"1796000700000","app":"a","kind":"device","device":"d"}"#, "at: must be an integer, not"),
      (#"{"at":1796000000000,"app":"a b","kind":"device","device":"d"}"#, "app: must be a bundle id"),
      (#"{\#(head),"kind":"activity","device":"d","activity":"a"}"#, "token: is missing"),
      (#"{\#(head),"kind":"activity","device":"d","activity":"a","token":null}"#, "token: must be a string, not null"),
      (#"{\#(head),"kind":"activity","device":"d","token":""}"#, "activity: is missing"),
      (
        #"{\#(head),"kind":"activity","device":"d","activity":"a","token":"","user":"u"}"#,
        "user: does not go with the kind"
      ),
      (#"{\#(head),"kind":"forget"}"#, "device: is missing; forget takes a device or a user"),
      (#"{\#(head),"kind":"forget","device":"d","user":"u"}"#, "user: does not go with device"),
      (#"{\#(head),"kind":"forget","user":null}"#, "user: must be a string, not null"),
      (#"{\#(head),"kind":"forget","user":"u","token":"00000000"}"#, "token: does not go with the kind forget"),
    ]
    for (text, expected) in cases {
      let detail = detail(text)
      #expect(detail.hasPrefix(expected), "\(text.prefix(200)): \(detail)")
    }
    #expect(detail(String(repeating: " ", count: 64 * 1024 + 1)).hasPrefix("body: must be at most 65536 bytes"))
  }

  /// Any bytes are accepted, or refused with a field and a rule in printable text.
  @Test func survivesDamage() {
    let originals = [
      #"{"version":1,"kind":"device","at":1796000000000,"app":"a","device":"d","user":null,"token":"00fc13ad","push_to_start":{"*":"80808080"},"locale":"en-GB","os_version":"18.1","tags":{"a":[1,"b"],"c":{"increment":1},"d":-1.5e3}}"#,
      #"{"kind":"activity","at":1796000000000,"app":"a","device":"d","activity":"\u00e9","token":""}"#,
      #"{"kind":"forget","at":1796000000000,"app":"a","user":"😀"}"#,
    ].map { Array($0.utf8) }
    var random = SeededRandom(seed: 18)
    for round in 0..<30_000 {
      var bytes = originals[round % originals.count]
      for _ in 0...Int.random(in: 0..<3, using: &random) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1..<9, using: &random)))
        case 2: bytes.insert(contentsOf: Array(bytes[place..<min(bytes.count, place + 20)]), at: place)
        default: bytes.insert(contentsOf: Array(["null", "{", "]", "\"", "1e9", "\\u0000"][round % 6].utf8), at: place)
        }
        if bytes.isEmpty { bytes = [0x7B] }
      }
      do throws(JobError) {
        let registration = try RegistrationParser.parse(bytes, now: RegistrationParserTests.now)
        #expect(registration.at >= DeviceLimits.timeMinimum)
      } catch {
        #expect(!error.field.isEmpty && error.detail.utf8.count < 500, "round \(round)")
      }
    }
  }
}
