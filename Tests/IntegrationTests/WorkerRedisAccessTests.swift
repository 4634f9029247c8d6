import Foundation
import PushIO
import TestSupport
import Testing

/// Workers whose Redis user has the permissions that `docs/redis.md` lists, and no others.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerRedisAccessTests {
  /// The manual's permissions for an ACL user: for one server, in addition for a cluster, and for channels.
  private struct Documented {
    let server: [String]
    let cluster: [String]
    let channels: [String]

    init() throws {
      let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
      let text = try String(contentsOf: root.appending(path: "docs/redis.md"), encoding: .utf8)
      let lists = text.split(separator: "`").filter { $0.hasPrefix("+") }
      try #require(
        lists.count > 2 && lists[0].hasPrefix("+evalsha ") && lists[1].hasPrefix("+cluster|slots "), "\(lists)")
      (server, cluster, channels) = (Self.words(lists[0]), Self.words(lists[1]), Self.words(lists[2]))
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
