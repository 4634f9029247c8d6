import Foundation
import TestSupport
import Testing

/// Members of a Live Activity through a worker with a separate Redis for its registry: dismissed, and forgotten.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerActivityMemberTests {
  private struct Shown: Decodable {
    struct Device: Decodable {
      let device: String?
      let state: String
    }
    let members: [String: Int]
    let devices: [Device]
  }

  private static let of = ["--app", "com.example.app", "--environment", "production"]
  private static let startTokens = ["a", "b"].map { "ac70" + String(repeating: $0, count: 60) }
  private static let updateTokens = (0..<3).map { "5\($0)" + String(repeating: "5", count: 62) }

  private static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

  @Test func whoSwipedItAwayIsNoBadTokenAndWhoIsForgottenIsNobody() throws {
    let registry = try RedisServer()
    let world = try WorkerWorld("members")
    let text = world.configuration(furtherLines: "registry: {url: \"\(registry.url)\"}")
    let activity = ActivityWorld(world)
    func herald(_ arguments: [String], input: String? = nil) throws -> String {
      let result = try world.herald(arguments, configuration: text, input: input)
      #expect(result.status == 0, "\(arguments): \(result.errors)")
      return result.output
    }
    func update(_ id: String, _ eta: Int) throws {
      let state = #"{"aps":{"event":"update","stale-date":2000000000,"content-state":{"eta":\#(eta)}}}"#
      try activity.publish(id, #"{"activity":"ride-17"}"#, state)
    }
    /// Waits until the activity has these members.
    func wait(for members: [String: Int], _ location: SourceLocation = #_sourceLocation) throws -> Shown {
      var last = ""
      let shown = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) { () -> Shown? in
        let show = ["activities", "show", "ride-17", "--json"] + Self.of
        last = (try? world.herald(show, configuration: text).output) ?? ""
        let shown = try? JSONDecoder().decode(Shown.self, from: Data(last.utf8))
        return shown?.members.filter { $0.value > 0 } == members ? shown : nil
      }
      return try #require(shown, "\(last)", sourceLocation: location)
    }

    let devices = Self.startTokens.enumerated().map { number, token in
      """
      {"kind":"device","at":1700000000000,"app":"com.example.app","device":"d-\(number)","user":"u-\(number)",\
      "push_to_start":{"*":"\(token)"}}
      """
    }
    let imported = try herald(["devices", "import"] + Self.of, input: devices.joined(separator: "\n"))
    #expect(imported.contains("2 devices added"))
    let worker = try world.startWorker(configuration: text)
    let start = """
      {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{},\
      "alert":{"title":"t","body":"b"}}}
      """
    try activity.publish("s1", #"{"devices":["d-0","d-1"]}"#, start, #""activity":"ride-17","#)
    #expect(try activity.end(of: "s1").summary == ["devices": 2, "accepted": 2])
    _ = try wait(for: ["started": 2])
    #expect(try herald(["activities", "list"] + Self.of).contains("ride-17"))
    for number in 0..<2 { try activity.register("d-\(number)", Self.updateTokens[number]) }
    _ = try wait(for: ["live": 2])
    // Nothing is published where there is nothing to end.
    let unknown = try world.herald(["activities", "end", "ride-99"] + Self.of, configuration: text)
    #expect(unknown.status == 1 && unknown.errors.contains("the activity ride-99 is not known: "), "\(unknown)")
    #expect(unknown.output.isEmpty)
    let own = start.replacing(
      #""content-state":{},"#, with: #""content-state":{},"stale-date":1,"input-push-channel":"dHN0LXNyY2gtY2hubA==","#)
    try activity.publish("s3", #"{"devices":["nobody"]}"#, own, #""activity":"match-1","#)
    #expect(try activity.end(of: "s3").summary == ["devices": 0])
    #expect(worker.log.matches(of: /starts with an input-push-channel of their own/).count == 1, "\(worker.log)")

    // The first user dismisses the activity: APNs does not know the update token any more.
    try world.simulator.setDevices("\(Self.updateTokens[0]) unregistered \(Self.now)")
    try update("u1", 1)
    #expect(try activity.end(of: "u1").summary == ["devices": 2, "accepted": 1, "unregistered": 1])
    _ = try wait(for: ["over": 1, "live": 1])
    try update("u2", 2)
    #expect(try activity.end(of: "u2").summary == ["devices": 1, "accepted": 1])
    // A mark would stay for a month, although no job uses that token again.
    let marks = try herald(["tokens", "show", "--json", Self.updateTokens[0]] + Self.of)
    #expect(marks.contains("\"dead\":false"), "\(marks)")
    let metrics = try #require(world.admin("/metrics")?.body)
    #expect(
      metrics.contains("\nherald_apns_bad_device_token_warnings_total") && !metrics.contains("warnings_total{} 1"))
    let paused = metrics.split(separator: "\n").filter { $0.hasPrefix("herald_apns_paused") }
    #expect(!paused.isEmpty && paused.allSatisfy { $0.hasSuffix(" 0") }, "\(paused)")
    // One of three states had no stale date.
    #expect(metrics.contains("\nherald_activities_without_stale_date_total 1\n"))
    #expect(worker.log.matches(of: /jobs without stale-date/).count == 1, "\(worker.log)")

    // The device joins again, and is sent the newest state.
    try activity.register("d-0", Self.updateTokens[2])
    #expect(try activity.end(of: "u2/late/d-0").outcome == "accepted")
    _ = try wait(for: ["live": 2])

    #expect(try herald(["devices", "forget", "--user", "u-0"]).contains("1 forgotten"))
    #expect(try wait(for: ["live": 1]).devices.map(\.device) == ["d-1"])
    try update("u3", 3)
    #expect(try activity.end(of: "u3").summary == ["devices": 1, "accepted": 1])
    #expect(worker.drain(seconds: 30) == 0, "\(worker.log)")
  }

  /// A phone that another person logged in to, under another id, keeps its activity's update token.
  @Test func updateToken_isTheNewerRegistrations_alsoOfAnotherUser() throws {
    let world = try WorkerWorld("holder")
    let activity = ActivityWorld(world)
    func register(_ fields: String, at: Int64 = Self.now) throws {
      try world.outside.publish(
        #"{"at":\#(at),"app":"com.example.app",\#(fields)}"#, exchange: "", routingKey: "\(world.prefix).registrations")
    }
    func token(_ device: Int, at: Int64 = Self.now) throws {
      try register(
        #""kind":"activity","device":"d-\#(device)","activity":"ride-17","token":"\#(Self.updateTokens[0])""#, at: at)
    }
    /// Waits until these devices are shown in these states.
    func wait(for states: [String: String], _ location: SourceLocation = #_sourceLocation) throws {
      var last = ""
      let isSo = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) { () -> Bool? in
        last = (try? world.herald(["activities", "show", "ride-17", "--json"] + Self.of).output) ?? ""
        guard let shown = try? JSONDecoder().decode(Shown.self, from: Data(last.utf8)) else { return nil }
        let now = shown.devices.map { ($0.device ?? "", $0.state) }
        return Dictionary(now, uniquingKeysWith: { $1 }) == states ? true : nil
      }
      try #require(isSo == true, "\(last)", sourceLocation: location)
    }
    func update(_ id: String, _ eta: Int) throws -> [String] {
      try activity.publish(
        id, #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":\#(eta)}}}"#)
      #expect(try activity.end(of: id).summary == ["devices": 1, "accepted": 1])
      return activity.outcomes.filter { $0.job?.hasPrefix("\(id)/") == true }.compactMap { $0.to?.device }
    }
    for (number, start) in Self.startTokens.enumerated() {
      try register(
        #""kind":"device","device":"d-\#(number)","user":"u-\#(number)","push_to_start":{"*":"\#(start)"}"#)
    }
    let worker = try world.startWorker()
    try #require(
      ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) {
        (try? world.herald(["devices", "show", "d-1"] + Self.of).status) == 0 ? true : nil
      } == true)
    try activity.publish("s1", #"{"devices":["d-0","d-1"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try activity.end(of: "s1").summary == ["devices": 2, "accepted": 2])
    let now = Self.now
    try token(0, at: now - 2_000)
    try wait(for: ["d-0": "live", "d-1": "started"])
    try token(1, at: now - 1_000)
    try wait(for: ["d-0": "over", "d-1": "live"])
    #expect(try update("u1", 1) == ["d-1"])
    // An older registration that comes late takes nothing, a newer one takes it back.
    try token(0, at: now - 1_500)
    try token(0, at: now)
    try wait(for: ["d-0": "live", "d-1": "over"])
    #expect(try update("u2", 2) == ["d-0"])
    #expect(worker.drain(seconds: 30) == 0, "\(worker.log)")
  }
}
