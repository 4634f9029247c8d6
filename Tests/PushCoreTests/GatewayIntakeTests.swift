import PushCore
import Testing

/// What the gateway makes of bodies: jobs, registrations, filters.
@Suite struct GatewayIntakeTests {
  private let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
  private let uuid = UUIDValue(high: 0x0102_0304_0506_4708, low: 0x890A_0B0C_0D0E_0F10)

  private func sender(_ app: String? = "com.example.app", query: String? = nil, environment: String? = nil)
    -> JobIntake.Sender
  {
    let key = APIKey(
      id: "abcdefgh", hash: [], app: app, environment: nil, scopes: [.admin], rate: nil, createdAt: 1)
    return JobIntake.Sender(key: key, app: query, environment: environment)
  }

  private func take(_ json: String, _ sender: JobIntake.Sender? = nil) -> Result<TakenJob, Problem> {
    var intake = JobIntake()
    do throws(Problem) {
      return .success(try intake.take(Array(json.utf8), from: sender ?? self.sender(), newID: { uuid }))
    } catch {
      return .failure(error)
    }
  }

  private var rest: String {
    #""push_type":"alert","to":{"token":"\#(token)"},"payload":{"aps":{"alert":{"title":"Shipped"}}}}"#
  }

  @Test func aCompleteJobIsUnchanged() throws {
    let json = #" {"id":"j-1","app":"com.example.app","environment":"sandbox",\#(rest)"#
    let job = try take(json).get()
    #expect(job.body == Array(json.utf8))
    #expect(job.id == "j-1" && job.scope == AppScope(app: "com.example.app", environment: .sandbox))
  }

  @Test func missingFieldsComeFromTheKey() throws {
    let job = try take(" {" + rest, sender(environment: "sandbox")).get()
    #expect(job.id == uuid.text)
    #expect(
      String(decoding: job.body, as: UTF8.self)
        == #"{"id":"\#(uuid.text)","app":"com.example.app","environment":"sandbox","# + rest)
    // The default environment is not written.
    #expect(try take(#"{"id":"a",\#(rest)"#).get().body == Array(#"{"app":"com.example.app","id":"a",\#(rest)"#.utf8))
  }

  @Test func anotherAppIsForbidden() {
    guard case .failure(let problem) = take(#"{"app":"com.example.other",\#(rest)"#) else {
      Issue.record("it was taken")
      return
    }
    #expect(problem.kind == .forbidden && problem.kind.status == 403)
    // A key of no app takes the job's, and the query's must not differ.
    #expect((try? take(#"{"app":"com.example.other",\#(rest)"#, sender(nil)).get()) != nil)
    #expect((try? take(#"{"app":"com.example.other",\#(rest)"#, sender(nil, query: "com.example.app")).get()) == nil)
    #expect((try? take("{" + rest, sender(nil)).get()) == nil)
  }

  @Test(arguments: [
    (#""topic":"com.example.other""#, "/topic"), (#""topic":"com.example.application""#, "/topic"),
    (#""topic":"com.example.other.com.example.app""#, "/topic"), (#""topic":"com.example""#, "/topic"),
    (#""credential":"others""#, "/credential"), (#""topic":"com.example.\u006fther""#, "/topic"),
    (#""topic":"com.example.app""#, ""), (#""topic":"com.example.app.voip""#, ""), (#""credential":"own""#, ""),
    (#""credential":"unknown""#, ""), (#""topic":"com.example.app.beta""#, "/topic"),
    (#""topic":"com.example.app.beta.voip""#, "/topic"), (#""topic":"com.example.app.betas""#, ""),
  ])
  func aKeySendsOnlyForItsApp(_ member: String, _ pointer: String) {
    var own = sender()
    own.appsOfCredentials = ["own": ["com.example.app"], "others": ["com.example.other", "com.example.app.beta"]]
    own.owners = TopicOwners(own.appsOfCredentials.values.joined())
    var any = sender(nil, query: "com.example.app")
    any.appsOfCredentials = own.appsOfCredentials
    // A key of no app may send for each, so the worker decides.
    let rest = self.rest(forTopic: member)
    #expect((try? take("{\(member),\(rest)", any).get()) != nil)
    switch take("{\(member),\(rest)", own) {
    case .success: #expect(pointer.isEmpty)
    case .failure(let problem):
      #expect(problem.kind.status == 403 && problem.faults.map(\.pointer) == [pointer], "\(problem)")
      #expect(problem.detail.contains("the key is for the app com.example.app: "), "\(problem.detail)")
    }
  }

  /// A job's members for a push type that has such a topic.
  private func rest(forTopic topic: String) -> String {
    let type = topic.contains(".voip-ptt") ? "pushtotalk" : topic.contains(".voip") ? "voip" : "alert"
    return rest.replacing(#""push_type":"alert""#, with: #""push_type":"\#(type)""#)
  }

  /// A job that APNs would refuse is no job: the client learns it at once.
  @Test(arguments: ["com.example.app.", "com.example.app.voip"])
  func aTopicThatAPNsRefusesIsNotTaken(_ topic: String) {
    guard case .failure(let problem) = take(#"{"topic":"\#(topic)",\#(rest)"#) else {
      Issue.record("it was taken")
      return
    }
    #expect(problem.kind.status == 400 && problem.faults.map(\.pointer) == ["/topic"], "\(problem)")
  }

  /// A broadcast goes to the channel of its job's app: another app's is neither named by the app nor by the topic.
  @Test(arguments: [
    (#""app":"com.example.other""#, "/app"), (#""topic":"com.example.other.push-type.liveactivity""#, "/topic"),
    (#""topic":"com.example.app.beta.push-type.liveactivity""#, "/topic"), (#""credential":"others""#, "/credential"),
    (#""topic":"com.example.app.push-type.liveactivity""#, ""), (#""credential":"own""#, ""),
  ])
  func aKeyBroadcastsOnlyForItsApp(_ member: String, _ pointer: String) {
    var own = sender()
    own.appsOfCredentials = ["own": ["com.example.app"], "others": ["com.example.other", "com.example.app.beta"]]
    own.owners = TopicOwners(own.appsOfCredentials.values.joined())
    let json = """
      {\(member),"push_type":"liveactivity","to":{"channel":"dHN0LXNyY2gtY2hubA=="},\
      "payload":{"aps":{"timestamp":1796000000,"event":"update","content-state":{"a":1}}}}
      """
    switch take(json, own) {
    case .success: #expect(pointer.isEmpty)
    case .failure(let problem):
      #expect(problem.kind.status == 403 && !pointer.isEmpty, "\(problem)")
      #expect(pointer == "/app" || problem.faults.map(\.pointer) == [pointer], "\(problem)")
    }
  }

  /// What the body names wrongly has its place; what is missing has none.
  @Test(arguments: [
    (#""app":"com.example.app","environment":"staging""#, "/environment"),
    (#""app":"com.example.app","environment":7"#, "/environment"), (#""app":5"#, "/app"), (#""app":"a b""#, "/app"),
    (#""priority":5"#, ""),
  ])
  func whatABodyNamesWronglyHasItsPlace(_ members: String, _ pointer: String) {
    let rest = #""push_type":"alert","to":{"token":"aabbccdd"},"payload":{"aps":{"alert":"a"}}"#
    let json = #"{"id":"j-1",\#(members),\#(rest)}"#
    guard case .failure(let problem) = take(json, sender(nil)) else {
      Issue.record("it was taken")
      return
    }
    #expect(problem.kind.status == 400, "\(problem)")
    #expect(problem.faults.map(\.pointer) == (pointer.isEmpty ? [] : [pointer]), "\(problem)")
  }

  /// A gateway need not have the workers' credentials: then it does not know which apps there are.
  @Test(arguments: [
    ("com.example.app.beta", false), ("com.example.app.beta.voip", false),
    ("com.example.app", true), ("com.example.app.voip", true), ("com.example.app.voip-ptt", true),
  ])
  func aKeySendsOnlyForItsApp_alsoWhereNoAppsAreKnown(_ topic: String, _ isTaken: Bool) {
    let rest = self.rest(forTopic: topic)
    for others in [[], ["com.example.other"]] {
      var own = sender()
      own.owners = TopicOwners(others)
      switch take(#"{"topic":"\#(topic)",\#(rest)"#, own) {
      case .success: #expect(isTaken)
      case .failure(let problem):
        #expect(!isTaken && problem.kind.status == 403 && problem.faults.map(\.pointer) == ["/topic"], "\(problem)")
      }
    }
    #expect((try? take(#"{"topic":"\#(topic)",\#(rest)"#, sender(nil, query: "com.example.app")).get()) != nil)
  }

  @Test(arguments: [
    ("{", "", "ends too early"), ("[]", "", "object must begin"), ("{}", "/push_type", "is missing"),
    (#"{"id":7,"push_type":"alert"}"#, "/id", "string"),
    (#"{"push_type":"alert","to":{"tokens":["00fc13ad","x"]},"payload":{"aps":{}}}"#, "/to/tokens/1", "hexadecimal"),
    (#"{"push_type":"alert","to":{"token":"00fc13ad"},"payload":{"aps":{"badge":"x"}}}"#, "/payload/aps/badge", ""),
    (#"{"app":"com.example.app","app":"com.example.app","push_type":"alert"}"#, "/app", "once"),
    (#"{"surprise":1,"push_type":"alert"}"#, "/surprise", ""),
  ])
  func whatIsWrongIsNamed(_ json: String, _ pointer: String, _ rule: String) {
    guard case .failure(let problem) = take(json) else {
      Issue.record("\(json) was taken")
      return
    }
    #expect(problem.kind == .invalid && problem.kind.status == 400)
    #expect(problem.faults.count == 1 && problem.faults.first?.pointer == pointer, "\(problem)")
    #expect(problem.detail.contains(rule), "\(problem.detail)")
  }

  /// Workers count the ends of such jobs for their parents, whose apps they do not compare.
  @Test(arguments: [
    (#""id":"sale/channel","parent_id":"sale","revision":1"#, "/parent_id"),
    (#""id":"ride-1","revision":1"#, "/revision"), (#""id":"ride-1","leave":1"#, "/revision"),
  ])
  func whatOnlyWorkersWriteIsRefused(_ members: String, _ pointer: String) {
    let to = pointer == "/parent_id" ? #"{"channel":"AAAA"}"# : #"{"activity":"ride"}"#
    let json = """
      {\(members),"push_type":"liveactivity","activity":"ride","to":\(to),\
      "payload":{"aps":{"timestamp":1796000000,"event":"update","content-state":{"a":1}}}}
      """
    guard case .failure(let problem) = take(json) else {
      Issue.record("\(json) was taken")
      return
    }
    #expect(problem.kind.status == 400 && problem.faults.map(\.pointer) == [pointer], "\(problem)")
  }

  /// What a worker writes into a payload may make it longer than APNs takes.
  @Test(arguments: [
    ("start", #""to":{"segment":"gold"},"activity":"ride""#, 4096 - 89),
    ("start", #""to":{"devices":["d"]},"activity":"ride""#, 4096 - 41),
    ("update", #""to":{"activity":"ride""# + "}", 4096 - 24),
  ])
  func whatHeraldWritesCounts(_ event: String, _ target: String, _ countMaximum: Int) throws {
    let writing = ActivityWriting(
      idAttribute: ActivityIDAttribute("a.id"), staleAfterSeconds: 60, takesChannels: true)
    func refusal(_ count: Int) throws -> Problem? {
      let attributes =
        event == "start" ? #","attributes-type":"Ride","attributes":{},"alert":{"title":"a","body":"b"}"# : ""
      let start = #"{"aps":{"timestamp":1796000000,"event":"\#(event)"\#(attributes),"content-state":{"m":""#
      let payload = start + String(repeating: "x", count: count - start.utf8.count - 4) + #""}}}"#
      try #require(payload.utf8.count == count)
      var intake = JobIntake(activities: writing)
      do throws(Problem) {
        _ = try intake.take(
          Array("{\"push_type\":\"liveactivity\",\(target),\"payload\":\(payload)}".utf8), from: sender(),
          newID: { uuid })
        return nil
      } catch {
        return error
      }
    }
    #expect(try refusal(countMaximum) == nil)
    let problem = try #require(try refusal(countMaximum + 1))
    #expect(
      problem.faults.map(\.pointer) == ["/payload"]
        && problem.detail.contains("not 4097 with what Herald writes into it"),
      "\(problem.detail)")
  }

  @Test func anOversizedJobIsRefused() {
    let json = #"{"id":"a","meta":{"m":"\#(String(repeating: "x", count: 600_000))"},\#(rest)"#
    #expect((try? take(json).get()) == nil)
  }

  /// No bytes trap, and what is taken is a job of the key's app to the parser too.
  @Test func randomBytesDoNotHarmTheIntake() {
    var random = SeededRandom(seed: 4)
    let seed = Array((#"{"id":"j","app":"com.example.app",\#(rest)"#).utf8)
    var intake = JobIntake()
    var taken = 0
    for _ in 0..<3_000 {
      var bytes = seed
      for _ in 0...(random.next() % 3) {
        let place = Int(random.next() % UInt64(bytes.count))
        switch random.next() % 3 {
        case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.remove(at: place)
        default: bytes.insert(contentsOf: bytes[..<min(place, 9)], at: place)
        }
      }
      do throws(Problem) {
        let job = try intake.take(bytes, from: sender(), newID: { uuid })
        #expect(job.scope.app == "com.example.app")
        taken += 1
      } catch {
        #expect(!error.json.isEmpty)
      }
    }
    #expect(taken > 0 && taken < 3_000)
  }

  @Test func registrationsAreCompletedFromPathAndKey() throws {
    let scope = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    let bytes = try RegistrationIntake.device(
      "hw\"1", body: Array(#"{"user":"u-1","tags":{"level":{"increment":1}}}"#.utf8), in: scope, at: 1_796_000_000_000)
    let registration = try RegistrationParser.parse(bytes, now: 1_796_000_000_000)
    #expect(registration.scope == scope && registration.at == 1_796_000_000_000)
    guard case .device(let device) = registration.subject else {
      Issue.record("no device")
      return
    }
    #expect(device.device == "hw\"1" && device.user == .set("u-1") && device.hasIncrement)
    let empty = try RegistrationIntake.device("a", body: Array("{}".utf8), in: scope, at: 1_796_000_000_000)
    #expect(try RegistrationParser.parse(empty, now: 1_796_000_000_000).kind == .device)
    let gone = try RegistrationIntake.forget(user: "u/1", in: scope, at: 1_796_000_000_000)
    #expect(
      try RegistrationParser.parse(gone, now: 1_796_000_000_000).subject == .forget(.user("u/1")))
  }

  @Test(arguments: [
    (#"{"app":"com.example.app"}"#, "/app"), (#"{"user":7}"#, "/user"), (#"{"tags":{"a":[1]}}"#, "/tags/a"), ("x", ""),
  ])
  func wrongRegistrationsAreRefused(_ body: String, _ pointer: String) throws {
    let scope = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    #expect {
      try RegistrationIntake.device("a", body: Array(body.utf8), in: scope, at: 1_796_000_000_000)
    } throws: { ($0 as? Problem)?.faults.first?.pointer.hasPrefix(pointer) ?? false }
  }

  @Test func filtersAreJSONOrText() throws {
    let filter = try SegmentIntake.filter(Array(#"{"filter":{"tag":"plan","is":"gold"}}"#.utf8))
    #expect(filter == .leaf(.tagIs("plan", .text("gold"))))
    #expect(throws: Problem.self) { try SegmentIntake.filter(Array(#"{"filter":{"tag":"plan"},"x":1}"#.utf8)) }
    #expect {
      try SegmentIntake.filter(Array(#"{"filter":{"any":[{"tag":7}]}}"#.utf8))
    } throws: { ($0 as? Problem)?.faults.first?.pointer == "/filter/any/0/tag" }
    #expect(throws: Problem.self) { try SegmentIntake.filter(Array("{}".utf8)) }
  }

  @Test func blankLinesAreSkipped() {
    let lines = JSONLines(Array("a\r\n\n  \nb\n\r\nc".utf8)).map { String(decoding: $0, as: UTF8.self) }
    #expect(lines == ["a\r", "b", "c"])
    #expect(Array(JSONLines([])).isEmpty)
  }

  @Test func aProblemIsJSON() {
    let problem = Problem(Problem.Fault(JobError(field: "to.tokens[3]", rule: "must be \"hex\"")))
    #expect(
      String(decoding: problem.json, as: UTF8.self) == """
        {"type":"/docs#invalid","title":"The body breaks a rule","status":400,"detail":"/to/tokens/3 must be \\"hex\\"",\
        "errors":[{"pointer":"/to/tokens/3","rule":"must be \\"hex\\""}]}
        """)
    #expect(
      String(decoding: Problem(.forbidden, "no").line(2), as: UTF8.self)
        == "{\"index\":2,\"status\":403,\"errors\":[{\"pointer\":\"\",\"rule\":\"no\"}]}\n")
  }

  @Test func onlyOutcomesHaveAScope() {
    let outcome = #"{"version":1,"job_id":"a","app":"com.example.app","environment":"production","outcome":"accepted"}"#
    #expect(OutcomeScope.of(Array(outcome.utf8)) == AppScope(app: "com.example.app", environment: .production))
    let answer = #"{"version":1,"id":"a","app":"com.example.app","environment":"production","action":"ensure"}"#
    #expect(OutcomeScope.of(Array(answer.utf8)) == nil)
  }
}
