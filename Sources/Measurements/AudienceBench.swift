import ArgumentParser
import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushSettings
import PushStores
import PushWorker

struct AudienceBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "audience",
    abstract: "One job for a segment of so many registered devices, from its publication to its outcome `completed`.",
    discussion: "In turn with the pipeline, which sends as many jobs for a token each: quote the ratio.")

  @OptionGroup var options: BenchOptions

  @Option(help: "Lanes of the worker.")
  var lanes = 1

  @Option(help: "Unacknowledged deliveries of a lane.")
  var prefetch = 2000

  @Flag(help: "An update of a Live Activity whose members the devices are, in place of an alert for a segment of them.")
  var activity = false

  /// Registrations on their way at once.
  private static let registrationsMaximum = 4096

  func run() async throws {
    var figures = Figures()
    for _ in 0..<options.runs { try await measure(&figures) }
    try figures.show(
      "\(activity ? "activity" : "audience"): \(options.jobs) devices, \(lanes) lane\(lanes == 1 ? "" : "s"), prefetch \(prefetch)",
      json: options.json)
  }

  private func measure(_ figures: inout Figures) async throws {
    let simulator = try SimulatorProcess()
    defer { simulator.stop() }
    let broker = try BenchBroker(url: nil)
    defer { broker.remove() }
    try broker.fill(0)
    let configuration = try PipelineBench.configuration(broker, simulator, lanes: lanes, prefetch: prefetch)
    let registering = ContinuousClock.now
    try register(configuration)
    figures.add("registered", Double(options.jobs) / microseconds(since: registering) * 1e6, "devices/s")
    var logger = Logger(label: "herald-bench")
    logger.logLevel = .warning
    let worker = try Worker(configuration, logger: logger)
    try worker.start()
    while await worker.readinessProblems().isEmpty == false { try await Task.sleep(for: .milliseconds(20)) }
    let startCPU = ProcessUsage.current.cpuMicroseconds
    let start = ContinuousClock.now
    try broker.publish([Array(job.utf8)])
    var first: Double?
    var residentMost: Int64 = 0
    while true {
      try await Task.sleep(for: .milliseconds(first == nil ? 2 : 50))
      let done = await worker.reports().compactMap { $0 }
        .reduce(0) { $0 + $1.counters.outcomeCounts.reduce(0) { $0 + $1.count } }
      if first == nil, done > 0 { first = microseconds(since: start) / 1000 }
      residentMost = max(residentMost, ProcessUsage.residentBytes ?? 0)
      if try done >= UInt64(options.jobs) && broker.outcomeCount() > options.jobs { break }
      if microseconds(since: start) > 900e6 {
        throw SimulatorProcess.Failure(description: "\(done) of \(options.jobs) devices have outcomes after 15 minutes")
      }
    }
    figures.add("rate", Double(options.jobs) / microseconds(since: start) * 1e6, "devices/s")
    figures.add(
      "worker", Double(ProcessUsage.current.cpuMicroseconds - startCPU) / Double(options.jobs), "CPU µs/device")
    figures.add("job to first outcome", first ?? 0, "ms")
    figures.add("resident, most", Double(residentMost) / 1_048_576, "MiB")
    await worker.drain()
    let counters = try await simulator.counters()
    guard counters.acceptedIDs == options.jobs, counters.requests == options.jobs else {
      throw SimulatorProcess.Failure(
        description: "\(counters.requests) requests, \(counters.acceptedIDs) ids accepted, for \(options.jobs) devices")
    }
    let session = try BenchRedis.session()
    defer { session.close() }
    try BenchRedis.remove(prefix: "\(broker.topology.prefix):", from: session)
  }

  private var job: String {
    let head = "{\"id\":\"audience-\(UUID().uuidString)\",\"app\":\"com.example.app\","
    guard activity else {
      return head + """
        "push_type":"alert","to":{"segment":"ALL"},"payload":{"aps":{"alert":{"title":"Hello","body":"Your order was shipped."}}}}
        """
    }
    return head + """
      "push_type":"liveactivity","to":{"activity":"ride"},\
      "payload":{"aps":{"event":"update","stale-date":4000000000,"content-state":{"minutes":4}}}}
      """
  }

  /// As many devices, with a token each, and a segment of all of them, or an activity.
  private func register(_ configuration: Configuration) throws {
    let loop = try EventLoop()
    guard let scope = AppScope(app: "com.example.app", environment: .production), let code = SegmentCode("ALL") else {
      preconditionFailure("both are names")
    }
    let redis = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: BenchRedis.url), tls: nil, timeoutMilliseconds: 60_000,
      seed: 1)
    defer { redis.close() }
    let registry = DeviceRegistry(loop: loop, redis: redis, prefix: configuration.redis.prefix, seed: 1)
    let segments = SegmentStore(redis: redis, prefix: configuration.redis.prefix)
    var open = 1
    var failure: (any Error)?
    let filter = try SegmentFilterParser.parse(Array(#"{"has":"token"}"#.utf8))
    segments.put(code, filter, in: scope, unixMilliseconds: loop.now.unixMilliseconds) { result in
      open -= 1
      if case .failure(let error) = result { failure = error }
    }
    var next = 0
    while open > 0 || next < options.jobs {
      while next < options.jobs, open < AudienceBench.registrationsMaximum {
        var registration = DeviceRegistration(device: "device-\(next)")
        registration.token = .set(SampleJobs.token(next))
        open += 1
        next += 1
        registry.register(registration, at: loop.now.unixMilliseconds, in: scope) { result in
          open -= 1
          if case .failure(let error) = result { failure = error }
        }
      }
      registry.turn()
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 5)
      redis.turn()
    }
    if let failure { throw failure }
    if activity { try join(loop, redis, scope, configuration.redis.prefix) }
  }

  /// The devices have the first ordinals.
  private func join(_ loop: EventLoop, _ redis: RedisClient, _ scope: AppScope, _ prefix: String) throws {
    let activities = ActivityRegistry(loop: loop, redis: redis, prefix: prefix)
    guard let id = ActivityID("ride") else { preconditionFailure("it is a name") }
    let now = loop.now.unixMilliseconds
    var (open, next) = (0, 0)
    var failure: (any Error)?
    while open > 0 || next < options.jobs {
      // The first one alone: it makes the activity known.
      while next < options.jobs, open < (next == 1 ? 1 : AudienceBench.registrationsMaximum) {
        let ordinal = UInt32(next)
        open += 1
        next += 1
        activities.register(id, in: scope, ordinal: ordinal, token: SampleJobs.token(Int(ordinal)), at: now) { result in
          open -= 1
          if case .failure(let error) = result { failure = error }
        }
      }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 5)
      redis.turn()
    }
    if let failure { throw failure }
  }
}
