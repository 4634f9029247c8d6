import ArgumentParser
import Foundation
import PushCore
import PushIO
import PushLane

struct GatewayBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "gateway",
    abstract: "Jobs over HTTP/1.1 to `herald gateway`, answered 202 once RabbitMQ confirmed them.",
    discussion: """
      One job a request, then JSON Lines, then requests at a rate, then one beside idle connections. Every answer and the \
      count of jobs in the queue are checked.
      """)

  @OptionGroup var options: BenchOptions

  @Option(help: "The program `herald`. Default: the one beside this program.")
  var herald: String?

  @Option(help: "Another gateway to measure in the same run, in turn with Herald: a program of scripts/peers.")
  var peer: String?

  @Flag(help: "The peer stores nothing in Redis. Default: like Herald, it stores the ids of confirmed jobs for a day.")
  var peerWithoutRedis = false

  @Option(help: "Kept-alive connections, each with a request at a time.")
  var connections = 64

  @Option(help: "Jobs in a request of JSON Lines.")
  var lines = 100

  @Option(help: "Requests a second where times are measured.")
  var rate = 1000

  @Option(help: "For how long, seconds.")
  var seconds = 10

  @Option(help: "Idle connections beside the last request; each made a request before.")
  var idle = 10_000

  @Option(help: "RabbitMQ's process: its CPU is shown too.")
  var rabbitmq: Int32?

  private var heraldProgram: String {
    herald
      ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "herald").path()
  }

  func validate() throws {
    for (name, value) in [
      ("--connections", connections), ("--lines", lines), ("--seconds", seconds), ("--idle", idle), ("--rate", rate),
    ] where value < 1 { throw ValidationError("\(name) must be at least 1, not \(value)") }
    for program in [heraldProgram, peer].compactMap({ $0 }) where !FileManager.default.isExecutableFile(atPath: program)
    {
      throw ValidationError("\(program) is no program")
    }
  }

  func run() throws {
    var figures = Figures()
    for _ in 0..<options.runs {
      let ours = try measured("", &figures) {
        try GatewayProcess.herald(heraldProgram, $0, connectionsMaximum: 2 * (idle + connections))
      }
      guard let peer else { continue }
      let theirs = try measured("peer, ", &figures) { try GatewayProcess.peer(peer, $0, remembers: !peerWithoutRedis) }
      for (name, ours, theirs) in [("one a request", ours.one, theirs.one), ("JSON Lines", ours.lines, theirs.lines)] {
        figures.add("\(name): rate / peer's", ours.rate / theirs.rate, "ratio of rates")
        figures.add("\(name): CPU / peer's", ours.gateway / theirs.gateway, "ratio of CPU")
      }
    }
    try figures.show(
      "gateway: \(options.jobs) jobs, one and \(lines) a request, \(connections) connections", json: options.json)
  }

  /// What jobs cost.
  private struct Cost {
    var rate: Double
    /// CPU of the gateway a job, microseconds.
    var gateway: Double
  }

  /// Starts a gateway with queues of its own, and measures everything. Each job must be in the queue in the end.
  private func measured(
    _ name: String, _ figures: inout Figures, start: (BenchBroker) throws -> GatewayProcess
  ) throws -> (one: Cost, lines: Cost) {
    let broker = try BenchBroker(url: nil)
    defer { broker.remove() }
    try broker.fill(0)
    let redis = try BenchRedis.session()
    defer { redis.close() }
    let gateway = try start(broker)
    do {
      let costs = try measure(gateway, redis, name, &figures)
      try gateway.stop()
      let wanted = offeredCount + 2 * options.jobs + 1
      let found = try broker.jobsLeft()
      guard found == wanted else {
        throw SimulatorProcess.Failure(description: "\(found) jobs in the queue; \(wanted) were answered 202")
      }
      try BenchRedis.remove(prefix: "\(broker.topology.prefix):", from: redis)
      return costs
    } catch {
      gateway.abandon()
      throw error
    }
  }

  private var offeredCount: Int { rate * seconds }

  private func measure(
    _ gateway: GatewayProcess, _ redis: RedisSession, _ name: String, _ figures: inout Figures
  ) throws -> (one: Cost, lines: Cost) {
    let load = try GatewayLoad(port: gateway.port, connections: connections)
    var residentMost: Int64 = 0
    var number = 0
    /// Requests with so many jobs in all, none of which was sent before.
    func requests(_ jobs: Int, _ each: Int, asLines: Bool) -> [LoadRequest] {
      let first = number
      number += jobs
      return stride(from: first, to: number, by: each).map {
        LoadRequest(jobs: $0..<min($0 + each, number), asLines: asLines, key: gateway.key)
      }
    }
    func cost(
      _ phase: String, _ requests: [LoadRequest], _ jobs: Int, _ pace: GatewayLoad.Pace
    ) throws -> (Cost, times: [Double]) {
      let before = try Usage(gateway, rabbitmq, redis)
      let begun = ContinuousClock.now
      var turns = 0
      let times = try load.run(requests, pace) {
        turns += 1
        if turns % 50 == 0 { residentMost = max(residentMost, gateway.residentBytes) }
      }
      let wall = microseconds(since: begun)
      let used = try Usage(gateway, rabbitmq, redis).since(before, jobs: jobs)
      figures.add("\(name)\(phase): gateway", used.gateway, "CPU µs/job")
      if rabbitmq != nil { figures.add("\(name)\(phase): RabbitMQ", used.rabbitmq, "CPU µs/job") }
      figures.add("\(name)\(phase): Redis", used.redis, "CPU µs/job")
      figures.add("\(name)\(phase): load", used.load, "CPU µs/job")
      return (Cost(rate: Double(jobs) / wall * 1e6, gateway: used.gateway), times)
    }
    let (one, _) = try cost(
      "one a request", requests(options.jobs, 1, asLines: false), options.jobs, .asFastAsPossible)
    figures.add("\(name)one a request: rate", one.rate, "jobs/s")
    let (lines, _) = try cost(
      "JSON Lines", requests(options.jobs, self.lines, asLines: true), options.jobs, .asFastAsPossible)
    figures.add("\(name)JSON Lines: rate", lines.rate, "jobs/s")
    let (_, times) = try cost(
      "\(rate)/s", requests(offeredCount, 1, asLines: false), offeredCount, .perSecond(Double(rate)))
    for (quantile, part) in [("p50", 0.5), ("p99", 0.99), ("most", 1)] {
      let time = times[min(times.count - 1, Int(Double(times.count) * part))]
      figures.add("\(name)\(rate)/s: \(quantile)", time, "ms")
    }
    figures.add("\(name)resident, most", Double(residentMost) / 1_048_576, "MiB")
    try besideIdle(gateway, requests(1, 1, asLines: false), name, &figures)
    return (one, lines)
  }

  /// Idle connections, none of which may end, and a job beside them.
  private func besideIdle(
    _ gateway: GatewayProcess, _ job: [LoadRequest], _ name: String, _ figures: inout Figures
  ) throws {
    let quiet = try GatewayLoad(port: gateway.port, connections: idle)
    try quiet.runOnEach(LoadRequest(probe: "/readyz"))
    Thread.sleep(forTimeInterval: 1)
    let times = try GatewayLoad(port: gateway.port, connections: 1).run(job, .asFastAsPossible)
    figures.add("\(name)\(idle) idle: resident", Double(gateway.residentBytes) / 1_048_576, "MiB")
    figures.add("\(name)\(idle) idle: a job", times[0], "ms")
    try quiet.check()
  }

  /// CPU of all who take part, microseconds.
  private struct Usage {
    var gateway: Double
    var rabbitmq: Double
    var redis: Double
    var load: Double

    init(_ gateway: GatewayProcess, _ rabbitmq: Int32?, _ redis: RedisSession) throws {
      guard let used = ProcessUsage.cpuMicroseconds(of: gateway.processIdentifier) else {
        throw SimulatorProcess.Failure(description: "the gateway ended")
      }
      self.gateway = Double(used)
      self.rabbitmq = Double(rabbitmq.flatMap(ProcessUsage.cpuMicroseconds) ?? 0)
      self.redis = try BenchRedis.cpuMicroseconds(redis)
      load = Double(ProcessUsage.current.cpuMicroseconds)
    }

    /// A job, of so many since then.
    func since(_ earlier: Usage, jobs: Int) -> Usage {
      var each = self
      each.gateway = (gateway - earlier.gateway) / Double(jobs)
      each.rabbitmq = (rabbitmq - earlier.rabbitmq) / Double(jobs)
      each.redis = (redis - earlier.redis) / Double(jobs)
      each.load = (load - earlier.load) / Double(jobs)
      return each
    }
  }
}
