import Foundation
import Glibc
import PushCore
import PushStores
import TestSupport
import Testing

/// What devices show after many updates at once is the newest one's state by its producer's order, whichever lane or worker has it.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct WorkerActivityOrderTests {
  private struct Shown: Decodable {
    struct Activity: Decodable {
      let id: String?
      let state: String
      let content: [String: Int]
      let updateToken: String?

      private enum CodingKeys: String, CodingKey {
        case id, state
        case content = "content_state"
        case updateToken = "update_token"
      }
    }

    let activities: [Activity]
  }

  private static let startToken = "80aa" + String(repeating: "0", count: 156)

  /// A worker or several, and a simulated device that shows activities.
  private final class World {
    let worker: WorkerWorld
    let activity: ActivityWorld
    var processes: [WorkerProcess] = []
    private var adminPort: UInt16 = 0

    /// Of the last worker.
    var metrics: String? { LoopbackHTTP.request("GET", "/metrics", port: adminPort)?.body }

    init(_ name: String, workers: Int = 1, lanes: Int = 2, rabbitmq: RabbitMQServer? = nil) throws {
      worker = try WorkerWorld("order-\(name)", rabbitmq: rabbitmq, options: .init(prefetch: 100, lanes: lanes))
      activity = ActivityWorld(worker)
      for _ in 0..<workers {
        // The broker soon knows that one hangs.
        let usual = worker.configuration(rabbitmqURL: worker.rabbitmq.url + "?heartbeat=3")
        adminPort = try LoopbackPort.free()
        let configuration = usual.replacing(
          "admin: {port: \(worker.adminPort)}", with: "admin: {port: \(adminPort)}")
        processes.append(try worker.startWorker(configuration: configuration))
      }
      try register(#""kind":"device","device":"d-0","push_to_start":{"*":"\#(WorkerActivityOrderTests.startToken)"}"#)
      let registry = try AudienceRegistry(url: RedisServer.shared().url, prefix: "\(worker.prefix):")
      let isKnown = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 50) { () -> Bool? in
        let found = try? registry.wait {
          registry.devices.members(of: .hasPushToStart("*"), limit: 1, in: registry.scope, then: $0)
        }
        return found?.isEmpty == false ? true : nil
      }
      try #require(isKnown == true, "\(processes[0].log.suffix(3_000))")
    }

    func close() { for process in processes { process.child.kill() } }

    func register(_ members: String) throws {
      let now = Int64(Date().timeIntervalSince1970 * 1000)
      try worker.outside.publish(
        #"{"at":\#(now),"app":"com.example.app",\#(members)}"#, exchange: "",
        routingKey: "\(worker.prefix).registrations")
    }

    func enqueue(_ jobs: [String]) throws {
      let result = try worker.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
      try #require(result.output == "\(jobs.count) of \(jobs.count) jobs confirmed\n", "\(result.errors)")
    }

    static func start(_ id: String, _ more: String = "") -> String {
      ActivityWorld.job(
        "start-\(id)", #"{"devices":["d-0"]}"#,
        """
        {"aps":{"event":"start","attributes-type":"Ride","attributes":{"activityId":"\(id)"},"content-state":{"eta":0},\
        "alert":{"title":"t","body":"b"}}}
        """, #""activity":"\#(id)",\#(more)"#)
    }

    static func update(_ id: String, _ eta: Int, event: String = "update", _ more: String = "") -> String {
      ActivityWorld.job(
        "\(id)-\(eta)", #"{"activity":"\#(id)"}"#, #"{"aps":{"event":"\#(event)","content-state":{"eta":\#(eta)}}}"#,
        more)
    }

    func shown() -> [String: Shown.Activity] {
      let text = LoopbackHTTP.request("GET", "/activities", port: worker.simulator.controlPort)?.body ?? ""
      let all = (try? JSONDecoder().decode(Shown.self, from: Data(text.utf8)).activities) ?? []
      return Dictionary(all.compactMap { one in one.id.map { ($0, one) } }) { $1 }
    }

    /// Waits until the device shows all of these activities like this.
    func waitUntil(
      _ ids: [String], seconds: Int = 60, _ location: SourceLocation = #_sourceLocation,
      _ condition: (Shown.Activity) -> Bool
    ) throws {
      var missing: [String] = []
      _ = ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 100) { () -> Bool? in
        let shown = shown()
        missing = ids.filter { id in shown[id].map(condition) != true }
        return missing.isEmpty ? true : nil
      }
      let (all, unlike) = (shown(), missing)
      try #require(
        missing.isEmpty, "\(unlike.count) of \(ids.count): \(unlike.map { "\($0) \(all[$0]?.content["eta"] ?? -1)" })",
        sourceLocation: location)
    }

    /// Registers the update token of each, like the app.
    func registerTokens(_ ids: [String]) throws {
      try waitUntil(ids) { $0.updateToken != nil }
      let shown = shown()
      for id in ids {
        let token = try #require(shown[id]?.updateToken)
        try register(#""kind":"activity","device":"d-0","activity":"\#(id)","token":"\#(token)""#)
      }
    }

    /// Started, with its update token known.
    func run(_ ids: [String]) throws {
      try enqueue(ids.map { World.start($0) })
      try registerTokens(ids)
      let known = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 100) { () -> Bool? in
        let list = try? worker.herald([
          "activities", "list", "--app", "com.example.app", "--environment", "production", "--json",
        ])
        return list?.output.components(separatedBy: #""state":"active""#).count == ids.count + 1 ? true : nil
      }
      let list = try worker.herald([
        "activities", "list", "--app", "com.example.app", "--environment", "production", "--json",
      ])
      try #require(known == true, "\(list)")
    }
  }

  private static func ids(_ count: Int) -> [String] { (0..<count).map { "ride-\($0)" } }

  /// The gateway numbers them: three updates, or an update and an end, in one request of JSON Lines.
  @Test func oneRequest_theLastLineIsShown() throws {
    let world = try World("request")
    defer { world.close() }
    let gateway = try GatewayWorld("order", prefix: world.worker.prefix)
    let all = Self.ids(60)
    let (ids, ending, bare) = (Array(all[..<20]), Array(all[20..<40]), Array(all[40...]))
    try world.run(all)
    func post(_ lines: [String]) throws {
      let answer = try gateway.ask(
        "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"], body: lines.joined(separator: "\n"))
      #expect(answer.status == 202 && !answer.body.contains("errors"), "\(answer.body)")
    }
    for id in ids { try post((1...3).map { World.update(id, $0) }) }
    for id in ending { try post([World.update(id, 1), World.update(id, 2, event: "end")]) }
    for id in bare {
      let end = ActivityWorld.job("\(id)-2", #"{"activity":"\#(id)"}"#, #"{"aps":{"event":"end"}}"#)
      try post([World.update(id, 1), end])
    }
    // Each outcome is told, and by then nothing more is sent.
    for id in ids {
      let ends = try world.activity.ends(ofEach: (1...3).map { "\(id)-\($0)" })
      #expect(ends[2].outcome == "completed", "\(ends[2])")
      #expect(ends.allSatisfy { $0.outcome == "completed" || $0.cause == "superseded" }, "\(ends)")
    }
    for id in ending + bare {
      let ends = try world.activity.ends(ofEach: (1...2).map { "\(id)-\($0)" })
      #expect(ends[1].outcome == "completed", "\(ends[1])")
      #expect(ends[0].outcome == "completed" || ends[0].cause == "superseded", "an older one is not invalid: \(ends)")
    }
    try world.waitUntil(ids) { $0.content["eta"] == 3 && $0.state == "active" }
    try world.waitUntil(ending) { $0.content["eta"] == 2 && $0.state != "active" }
    try world.waitUntil(bare) { $0.content["eta"] == 1 && $0.state != "active" }
  }

  /// Without a number of anybody, in two lanes: the update waits for the start, whichever is first.
  @Test func startAndUpdateAtOnce_theUpdateIsShown() throws {
    let world = try World("start")
    defer { world.close() }
    let ids = Self.ids(20)
    // The update is published before its start.
    for id in ids.prefix(3) { try world.worker.publish(World.update(id, 5)) }
    try world.enqueue(ids.flatMap { [World.start($0), World.update($0, 6)] })
    try world.registerTokens(ids)
    try world.waitUntil(ids) { $0.content["eta"] == 6 }
    let ends = try world.activity.ends(ofEach: ids.map { "\($0)-6" })
    #expect(ends.allSatisfy { $0.outcome == "completed" }, "\(ends)")
    let first = try world.activity.ends(ofEach: ids.prefix(3).map { "\($0)-5" })
    #expect(first.allSatisfy { $0.outcome == "completed" || $0.cause == "superseded" }, "\(first)")
  }

  /// Most of them are superseded. The last one is shown, and each has an outcome.
  @Test func aBurst_endsWithItsLast() throws {
    let world = try World("burst", workers: 3)
    defer { world.close() }
    let ids = Self.ids(4)
    try world.run(ids)
    let count = 300
    let clock = ContinuousClock()
    let took = try clock.measure {
      try world.enqueue((1...count).flatMap { number in ids.map { World.update($0, number) } })
      for id in ids { #expect(try world.activity.end(of: "\(id)-\(count)").outcome == "completed") }
    }
    try world.waitUntil(ids) { $0.content["eta"] == count }
    let ends = try world.activity.ends(ofEach: ids.flatMap { id in (1..<count).map { "\(id)-\($0)" } })
    let other = ends.first { $0.outcome != "completed" && $0.cause != "superseded" }
    #expect(other == nil)
    let superseded = ends.count { $0.cause == "superseded" }
    #expect(superseded > ids.count * count / 2, "one a second is sent: \(superseded), in \(took)")
    try world.waitUntil(ids) { $0.content["eta"] == count }
  }

  /// Numbers within one millisecond, in any order; the lanes lose their connections amid them and get them again; then all are published once
  /// more.
  @Test func onSixLanes_theLargestSequenceIsShown() throws {
    let world = try World("lanes", lanes: 6, rabbitmq: RabbitMQServer())
    defer { world.close() }
    let ids = Self.ids(20)
    try world.run(ids)
    let count = 60
    let millisecond = Int64(Date().timeIntervalSince1970 * 1_000) * 1_000
    var random = SeededRandom(seed: 6)
    let burst = ids.flatMap { id in
      (1...count).map { World.update(id, $0, #""sequence":\#(millisecond + Int64($0)),"#) }
    }
    func publish() throws {
      try world.worker.outside.publish(
        burst.shuffled(using: &random), exchange: "\(world.worker.prefix).jobs", routingKey: "transactional")
    }
    func received() -> Int {
      (world.metrics ?? "").matches(of: /\nherald_jobs_received_total\{[^}]*\} ([0-9]+)/).reduce(0) {
        $0 + (Int($1.1) ?? 0)
      }
    }
    let before = received()
    // Delivered and unfinished when the connections end.
    world.processes[0].child.pause()
    try publish()
    _ = try world.worker.rabbitmq.rabbitmqctl(["close_all_connections", "test"])
    world.processes[0].child.resume()
    let all = ids.flatMap { id in (1...count).map { "\(id)-\($0)" } }
    func expectOrder() throws {
      let ends = try world.activity.ends(ofEach: all)
      #expect(ends.allSatisfy { $0.outcome == "completed" || $0.cause == "superseded" })
      for (index, id) in ids.enumerated() {
        #expect(ends[(index + 1) * count - 1].outcome == "completed", "\(id)")
      }
      try world.waitUntil(ids) { $0.content["eta"] == count }
    }
    try expectOrder()
    #expect(received() - before > burst.count, "some came again: \(received() - before) of \(burst.count)")
    func endCounts() -> [String: Int] {
      Dictionary(world.activity.outcomes.map { ($0.job ?? "", 1) }, uniquingKeysWith: +)
    }
    let known = endCounts()
    try publish()
    let haveEnded = try ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 200) { () throws -> Bool? in
      _ = try world.activity.ends(ofEach: all)
      let now = endCounts()
      return all.allSatisfy { now[$0, default: 0] > known[$0, default: 0] } ? true : nil
    }
    #expect(haveEnded == true, "each has its outcome again")
    try expectOrder()
  }

  /// Nobody numbers them, and some wait for the share of their app: what comes back is not newer than what came meanwhile. Of two lanes one may
  /// read later.
  @Test(arguments: [false, true]) func anUnnumberedBurst_endsWithItsLast(isStamped: Bool) throws {
    let world = try World(isStamped ? "stamped" : "unnumbered", lanes: 1)
    defer { world.close() }
    let ids = Self.ids(60)
    try world.run(ids)
    let count = 25
    try world.worker.outside.publish(
      (1...count).flatMap { number in ids.map { World.update($0, number) } }, exchange: "\(world.worker.prefix).jobs",
      routingKey: "transactional", timestamp: isStamped ? Int64(Date().timeIntervalSince1970) : nil)
    let last = try world.activity.ends(ofEach: ids.map { "\($0)-\(count)" })
    #expect(last.allSatisfy { $0.outcome == "completed" }, "\(last)")
    let ends = try world.activity.ends(ofEach: ids.flatMap { id in (1..<count).map { "\(id)-\($0)" } })
    #expect(ends.allSatisfy { $0.outcome == "completed" || $0.cause == "superseded" })
    try world.waitUntil(ids) { $0.content["eta"] == count }
    let metrics = world.metrics ?? ""
    let waits = metrics.firstMatch(of: /herald_expansions_waits_total{for="share"} ([0-9]+)/).flatMap { Int($0.1) }
    #expect(waits ?? 0 > 100, "\(metrics.suffix(2_000))")
  }

  /// Its deliveries come again, behind newer updates.
  @Test func aWorkerThatHangs_bringsNoOlderStateBack() throws {
    let world = try World("hang", workers: 2)
    defer { world.close() }
    let ids = Self.ids(20)
    try world.run(ids)
    let second = Int64(Date().timeIntervalSince1970)
    // It holds what is delivered to it from now on.
    world.processes[0].child.pause()
    for id in ids {
      for number in 1...4 {
        try world.worker.publish(World.update(id, number, #""sequence":\#(second * 1_000_000 + Int64(number)),"#))
      }
    }
    // The other worker has sent the last ones that it has; now the broker gives it the rest.
    for id in ids {
      let ends = try world.activity.ends(ofEach: (1...4).map { "\(id)-\($0)" })
      #expect(ends.allSatisfy { $0.outcome == "completed" || $0.cause == "superseded" }, "\(ends)")
      #expect(ends[3].outcome == "completed", "\(ends)")
    }
    try world.waitUntil(ids) { $0.content["eta"] == 4 }
    world.processes[0].child.resume()
    try world.enqueue(ids.map { World.update($0, 5) })
    let ends = try world.activity.ends(ofEach: ids.map { "\($0)-5" })
    #expect(ends.allSatisfy { $0.outcome == "completed" }, "\(ends)")
    try world.waitUntil(ids) { $0.content["eta"] == 5 }
  }
}
