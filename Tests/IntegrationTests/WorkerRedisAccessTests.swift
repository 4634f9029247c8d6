import Foundation
import PushIO
import TestSupport
import Testing

/// Workers whose Redis user has the permissions that `docs/redis.md` lists, and no others.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerRedisAccessTests {
  /// The manual's permissions for an ACL user: for one server, in addition for a cluster, and for channels, gateways and the registry.
  private struct Documented {
    let server: [String]
    let cluster: [String]
    let channels: [String]
    let gateway: [String]
    let registry: [String]

    init() throws {
      let lists = try Self.lists("docs/redis.md")
      registry = Self.words(try #require(try Self.lists("docs/reference/registry.md").first))
      try #require(
        lists.count > 3 && lists[0].hasPrefix("+evalsha ") && lists[1].hasPrefix("+cluster|slots "), "\(lists)")
      (server, cluster, channels) = (Self.words(lists[0]), Self.words(lists[1]), Self.words(lists[2]))
      gateway = Self.words(lists[3])
    }

    private static func lists(_ page: String) throws -> [Substring] {
      let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
      let text = try String(contentsOf: root.appending(path: page), encoding: .utf8)
      return text.replacing("`\n`", with: " ").split(separator: "`").filter { $0.hasPrefix("+") }
    }

    private static func words(_ list: Substring) -> [String] { list.split(separator: " ").map(String.init) }
  }

  /// An entry of `ACL LOG`: a refused command.
  private struct Refusal: Decodable {
    let object: String
    let context: String
  }

  /// All commands that the servers refused, except those that a worker can do without.
  private func refusals(_ servers: [RedisServer]) throws -> [String] {
    try servers.flatMap { server in
      try JSONDecoder().decode([Refusal].self, from: Data(try server.cli(["--json", "ACL", "LOG", "100"]).utf8))
    }.filter { !["client|setname", "client|list"].contains($0.object) }.map { "\($0.object) (\($0.context))" }
  }

  private func allow(_ rules: [String], _ world: WorkerWorld, _ servers: [RedisServer]) throws {
    for server in servers {
      try server.cli(["ACL", "SETUSER", "worker", "on", ">p", "~\(world.prefix):*"] + rules)
    }
  }

  /// All operations of a lane on a device: a rate limit that is reached, collapse ids, repeated answers, more answers
  /// than a device's key holds, dead tokens.
  private func play(_ world: WorkerWorld, at url: String) throws {
    let limit = "limits: {per_device_burst: 20, per_device_per_second: 20}"
    let text = world.configuration(redisURL: url).replacing("limits: {per_device_burst: 0}", with: limit)
    #expect(text.contains(limit))
    let worker = try world.startWorker(configuration: text)
    var jobs = (0..<30).map { world.job("job-\($0)", number: $0) }
    jobs += (0..<30).map { world.job("hot-\($0)", number: 1000) }
    jobs += (0..<25).map {
      world.job("newest-\($0)", number: 2000).replacing(
        "\"push_type\"", with: "\"collapse_id\":\"score\",\"push_type\"")
    }
    jobs.append(world.job("dead-1", token: "dead"))
    try enqueue(jobs, world)
    let count = jobs.count
    _ = try outcomes(world, count)
    try enqueue([jobs[0], world.job("dead-2", token: "dead")], world)
    let reported = try outcomes(world, count + 2)
    #expect(reported.filter { $0.jobID == "job-0" }.map(\.outcome) == ["accepted", "accepted"])
    #expect(reported.first { $0.jobID == "dead-2" }?.outcome == "unregistered")
    #expect(try world.simulator.counters().duplicateIDs == 0)
    #expect(world.admin("/metrics")?.body.contains("herald_redis_up 1\n") == true)
    #expect(worker.drain(seconds: 20) == 0)
    #expect(!worker.log.contains("NOPERM") && !worker.log.contains("stands in"), "\(worker.log)")
  }

  private func enqueue(_ jobs: [String], _ world: WorkerWorld) throws {
    let result = try world.herald(["enqueue"], input: jobs.joined(separator: "\n") + "\n")
    #expect(result.status == 0, "\(result.errors)")
  }

  private func outcomes(_ world: WorkerWorld, _ count: Int) throws -> [WorkerWorld.Outcome] {
    var outcomes: [WorkerWorld.Outcome] = []
    let isDone: Bool? = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 100) {
      outcomes = (try? world.takeOutcomes()) ?? outcomes
      return outcomes.count >= count ? true : nil
    }
    try #require(isDone != nil, "\(outcomes.count) outcomes, not \(count)")
    return outcomes
  }

  private var options: WorkerWorld.Options {
    var options = WorkerWorld.Options()
    options.redisTimeoutMilliseconds = 4_000
    return options
  }

  @Test func oneServer() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("access", redisURL: redis.url, options: options)
    try allow(Documented().server, world, [redis])
    try play(world, at: "redis://worker:p@127.0.0.1:\(redis.port)/0")
    #expect(try refusals([redis]) == [])
    redis.stop()
  }

  /// Nothing is decided in Redis, although it answers and takes writes: the gauge, from which the alert comes, says so all the time.
  @Test(arguments: ["-evalsha", "-mget"]) func withoutARight_itIsDegradedAllTheTime(right: String) throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("access-less", redisURL: redis.url)
    try allow(try Documented().server + [right], world, [redis])
    let worker = try world.startWorker(
      configuration: world.configuration(redisURL: "redis://worker:p@127.0.0.1:\(redis.port)/0"))
    #expect(world.waitUntilReady(), "\(worker.log)")
    func isDegraded() -> Bool {
      world.admin("/metrics")?.body.contains("herald_redis_degraded{feature=\"duplicates\"} 1\n") == true
    }
    // What is refused together is asked one by one once, which needs no MGET: a burst that came in one turn degrades nothing.
    var bursts = 0
    let began = try ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) { () throws -> Bool? in
      if isDegraded() { return true }
      bursts += 1
      try enqueue((0..<100).map { world.job("first-\(bursts)-\($0)", number: $0) }, world)
      return nil
    }
    #expect(began == true, "\(worker.log)")
    // Eight probes and more.
    for round in 0..<20 {
      try enqueue((0..<20).map { world.job("\(round)-\($0)", number: round) }, world)
      #expect(isDegraded(), "round \(round): \(worker.log.suffix(2_000))")
    }
    let count = 100 * bursts + 400
    #expect(try outcomes(world, count).count >= count)
    #expect(worker.drain(seconds: 20) == 0)
  }

  /// `herald check` tries what workers do: nine broken servers, each of which answers a `PING`.
  @Test func checkNamesWhatIsWrong() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("check", redisURL: redis.url)
    func check(_ url: String? = nil) throws -> (status: Int32, line: String) {
      let result = try world.herald(["check"], configuration: world.configuration(redisURL: url))
      let line = result.output.split(separator: "\n").first { $0.contains(" redis: ") }
      return (result.status, String(try #require(line, "\(result.output)\(result.errors)")))
    }
    #expect(try check().line.hasPrefix("ok   redis: "))
    #expect(try check().status == 0)
    func fails(_ settings: [(String, String, String)], _ text: String) throws {
      for (name, value, _) in settings { try redis.cli(["CONFIG", "SET", name, value]) }
      let (status, line) = try check()
      #expect(status == 1 && line.hasPrefix("FAIL redis: ") && line.contains(text), "\(line)")
      for (name, _, before) in settings { try redis.cli(["CONFIG", "SET", name, before]) }
    }
    try fails([("maxmemory", "1", "0")], "OOM")
    try fails([("min-replicas-to-write", "1", "0")], "NOREPLICAS")
    try fails(
      [("maxmemory", "1gb", "0"), ("maxmemory-policy", "allkeys-lru", "noeviction")],
      "maxmemory-policy allkeys-lru evicts what must stay")
    let primary = try RedisServer()
    try redis.cli(["REPLICAOF", "127.0.0.1", "\(primary.port)"])
    let isReplica: Bool? = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
      (try? redis.cli(["INFO", "replication"]))?.contains("master_link_status:up") == true ? true : nil
    }
    #expect(isReplica == true)
    try fails([], "READONLY")
    try redis.cli(["REPLICAOF", "NO", "ONE"])
    #expect(try check().line.hasPrefix("ok   redis: "), "each is over")

    let user = "redis://worker:p@127.0.0.1:\(redis.port)/0"
    let documented = try Documented()
    let further = Set(documented.channels + documented.gateway + documented.registry).subtracting(documented.server)
    try allow(documented.server + further + ["+info"], world, [redis])
    #expect(try check(user) == (0, "ok   redis: 127.0.0.1:\(redis.port)"))
    for right in documented.server {
      try redis.cli(["ACL", "SETUSER", "worker", "-\(right.dropFirst())"])
      let (status, line) = try check(user)
      #expect(status == 1 && line.hasSuffix("the ACL user lacks rights for sending: \(right)"), "\(right): \(line)")
      try redis.cli(["ACL", "SETUSER", "worker", right])
    }
    // What is for one use alone does not stop the others: it is said.
    for right in further.union(["+info"]) {
      try redis.cli(["ACL", "SETUSER", "worker", "-\(right.dropFirst())"])
      let (status, line) = try check(user)
      #expect(status == 0 && line.hasPrefix("ok   redis: ") && line.hasSuffix(right), "\(right): \(line)")
      try redis.cli(["ACL", "SETUSER", "worker", right])
    }
    try redis.cli(["ACL", "SETUSER", "worker", "resetkeys", "~others:*"])
    let (status, line) = try check(user)
    #expect(status == 1 && line.hasSuffix("allow ~\(world.prefix):*"), "\(line)")
    #expect(try !redis.cli(["KEYS", "*"]).contains("check:"), "nothing of it stays")
    redis.stop()
    primary.stop()
  }

  @Test func aCluster() throws {
    let cluster = try RedisCluster()
    let world = try WorkerWorld("access-cluster", redisURL: cluster.url, options: options)
    let documented = try Documented()
    try allow(documented.server + documented.cluster, world, cluster.masters)
    let nodes = cluster.masters.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
    try play(world, at: "redis-cluster://worker:p@\(nodes)")
    #expect(try refusals(cluster.masters) == [])
    cluster.stop()
  }

  /// Devices, a segment of them, a job and a Live Activity for it, and the commands for all of these.
  @Test func theRegistry() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("access-registry", redisURL: redis.url, options: options)
    let documented = try Documented()
    try allow(documented.server + documented.registry, world, [redis])
    let text = world.configuration(redisURL: "redis://worker:p@127.0.0.1:\(redis.port)/0")
    let of = ["--app", "com.example.app", "--environment", "production"]
    @discardableResult
    func herald(_ arguments: [String], input: String? = nil) throws -> String {
      let result = try world.herald(arguments + of, configuration: text, input: input)
      #expect(result.status == 0, "\(arguments): \(result.errors)")
      return result.output
    }
    func end(_ job: String) throws {
      let isThere = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 100) { () -> Bool? in
        (try? world.takeOutcomes())?.contains { $0.jobID == job && $0.outcome == "completed" } == true ? true : nil
      }
      try #require(isThere != nil, "\(job) did not end")
    }
    func register(_ kind: String, _ rest: String) throws {
      try world.outside.publish(
        #"{"kind":"\#(kind)","at":\#(Int64(Date().timeIntervalSince1970 * 1000)),"app":"com.example.app",\#(rest)}"#,
        exchange: "", routingKey: "\(world.prefix).registrations")
    }
    func publish(_ id: String, _ to: String, _ payload: String, _ more: String = "") throws {
      try world.publish(
        #"{"id":"\#(id)","app":"com.example.app","push_type":"liveactivity","to":\#(to),\#(more)"payload":\#(payload)}"#
      )
    }

    // Enough devices that sets are lists and bitmaps.
    let devices = (1000..<1700).map { number in
      """
      {"kind":"device","at":1700000000000,"app":"com.example.app","device":"d-\(number)","user":"u","token":"00fc\(number)",\
      "push_to_start":{"*":"ac70\(number)"},"os_version":"18.\(number % 3)","locale":"en-GB","time_zone":"Europe/Rome",\
      "tags":{"level":\(number),"rider":true}}
      """
    }
    #expect(try herald(["devices", "import"], input: devices.joined(separator: "\n")).contains("700 devices added"))
    let filter =
      #"{"all":[{"tag":"rider","is":true},{"tag":"level","at_most":1099},{"os_at_least":"18.0"},{"has":"token"}]}"#
    try herald(["segments", "put", "riders", "--filter", filter])
    #expect(try herald(["segments", "count", "riders"]).contains("100"))
    for command in ["show", "sample"] { try herald(["segments", command, "riders"]) }
    try herald(["segments", "list"])
    for command in [["show", "d-1001"], ["export", "--limit", "5"], ["count"]] { try herald(["devices"] + command) }

    let worker = try world.startWorker(configuration: text)
    try world.publish(
      #"{"id":"a1","app":"com.example.app","push_type":"alert","to":{"segment":"riders"},"payload":{"aps":{"alert":"x"}}}"#
    )
    try end("a1")
    let start =
      #"{"aps":{"event":"start","attributes-type":"R","attributes":{},"content-state":{},"alert":{"title":"t","body":"b"}}}"#
    try publish("s1", #"{"segment":"riders"}"#, start, #""activity":"ride","#)
    try end("s1")
    try register("activity", #""device":"d-1001","activity":"ride","token":"5050505050505050""#)
    try register("device", #""device":"d-1002","token":null,"tags":{"level":null,"rides":{"increment":1}}"#)
    let isLive = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 100) { () -> Bool? in
      let shown = (try? herald(["activities", "show", "ride", "--json"])) ?? ""
      return shown.contains("\"live\":1") ? true : nil
    }
    #expect(isLive == true)
    try publish("u1", #"{"activity":"ride"}"#, #"{"aps":{"event":"update","content-state":{"n":1}}}"#)
    try end("u1")
    try publish("e1", #"{"devices":["d-1001"]}"#, #"{"aps":{"event":"end"}}"#, #""activity":"ride","#)
    try end("e1")
    try herald(["activities", "list"])
    let shown = try world.herald(["jobs", "show", "s1"], configuration: text)
    #expect(shown.status == 0 && shown.output.contains("completed"), "\(shown.errors)")
    #expect(try world.herald(["jobs", "pause", "s1"], configuration: text).errors.contains("is completed"))
    try register("forget", #""device":"d-1001""#)
    let isForgotten = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 100) { () -> Bool? in
      let metrics = world.admin("/metrics")?.body ?? ""
      return metrics.contains("\nherald_registrations_total{kind=\"forget\",result=\"changed\"} 1\n") ? true : nil
    }
    #expect(isForgotten == true)
    #expect(worker.drain(seconds: 20) == 0)
    #expect(!worker.log.contains("NOPERM"), "\(worker.log)")
    #expect(try herald(["devices", "forget", "--user", "u"]).contains("699 forgotten"))
    try herald(["segments", "delete", "riders"])
    #expect(try refusals([redis]) == [])
    redis.stop()
  }

  /// The log names the same permissions to a refused user.
  @Test func theAdviceNamesTheSameCommands() throws {
    let documented = try Documented()
    let advice = RedisServerError(kind: .notPermitted, message: "NOPERM").description
    let named = Set(advice.split { " ,()".contains($0) }.map { "+\($0)" })
    #expect(Set(documented.server + documented.cluster).subtracting(named) == [], "not in \(advice)")
    #expect(!named.contains("+expire"))
    #expect(documented.channels.allSatisfy { !named.contains($0) })
  }
}
