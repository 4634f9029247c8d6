import ArgumentParser
import CAllocations
import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushSettings
import PushWorker

struct PipelineBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pipeline",
    abstract:
      "The whole way: preloaded quorum queue, Redis, a fast simulator over TLS, outcome confirmed, job acknowledged.")

  @OptionGroup var options: BenchOptions

  @Option(help: "Lanes of the worker.")
  var lanes = 1

  @Option(help: "Unacknowledged deliveries of a lane.")
  var prefetch = 2000

  @Option(help: "Jobs in a hundred that are invalid, each in another way; they end in outcomes and dead letters.")
  var invalidPercent = 0

  @Option(help: "Another worker to measure in the same run, in turn with Herald: a program of scripts/peers.")
  var peer: String?

  @Flag(help: "Stop Redis for good once half of the jobs are done; it must be yours to stop. Takes one run.")
  var stopRedis = false

  func validate() throws {
    if !(0...100).contains(invalidPercent) {
      throw ValidationError("--invalid-percent must be from 0 to 100, not \(invalidPercent)")
    }
    if peer != nil, invalidPercent > 0 {
      throw ValidationError("--peer takes valid jobs only: leave --invalid-percent")
    }
    if stopRedis, options.runs > 1 || peer != nil {
      throw ValidationError("--stop-redis takes --runs 1 and no --peer: nobody starts Redis again")
    }
    if let peer, !FileManager.default.isExecutableFile(atPath: peer) {
      throw ValidationError("--peer: \(peer) is no program; scripts/peers/go/build makes one")
    }
  }

  @Option(help: "Fail where a lane itself makes more allocations a job than this, after the first tenth of the jobs.")
  var allocationsMaximum: Double?

  func run() async throws {
    var figures = Figures()
    allocations_begin()
    for _ in 0..<options.runs {
      let ours = try await measured { try await measure($0, $1, &figures) }
      guard let peer else { continue }
      let process = PeerProcess(program: peer, jobs: options.jobs, prefetch: prefetch)
      let theirs = try await measured { try process.measure($0, $1) }
      figures.add("peer's rate", theirs.rate, "jobs/s")
      figures.add("peer", theirs.cpu, "CPU µs/job")
      figures.add("peer's resident, most", theirs.residentBytes / 1_048_576, "MiB")
      figures.add("rate / peer's", ours.rate / theirs.rate, "ratio of rates")
      figures.add("worker / peer", ours.cpu / theirs.cpu, "ratio of CPU")
    }
    let share = invalidPercent > 0 ? ", \(invalidPercent) % of them invalid" : ""
    try figures.show(
      "pipeline: \(options.jobs) jobs\(share), \(lanes) lane\(lanes == 1 ? "" : "s"), prefetch \(prefetch)",
      json: options.json)
  }

  /// Runs a worker with a new simulator and a filled queue; the worker must do all jobs.
  private func measured<Usage>(
    _ work: (BenchBroker, SimulatorProcess) async throws -> Usage
  ) async throws -> Usage {
    let simulator = try SimulatorProcess()
    defer { simulator.stop() }
    let broker = try BenchBroker(url: nil)
    defer { broker.remove() }
    try broker.fill(options.jobs, invalidPercent: invalidPercent)
    let earlier = peer == nil ? nil : try BenchRedis.writeCount()
    let usage = try await work(broker, simulator)
    let outcomes = try broker.outcomeCount()
    guard outcomes == options.jobs else {
      throw SimulatorProcess.Failure(description: "\(outcomes) outcomes for \(options.jobs) jobs")
    }
    let left = try broker.jobsLeft()
    guard left == 0 else {
      throw SimulatorProcess.Failure(description: "\(left) of \(options.jobs) jobs were not acknowledged")
    }
    let counters = try await simulator.counters()
    let valid = options.jobs - options.jobs * invalidPercent / 100
    guard counters.requests == valid, counters.acceptedIDs == valid else {
      throw SimulatorProcess.Failure(
        description: "\(counters.requests) requests, \(counters.acceptedIDs) ids accepted, for \(valid) valid jobs")
    }
    if let earlier {
      let writes = try BenchRedis.writeCount() - earlier
      // Two writes a job: a script writes the device's rate, and the outcome is stored.
      guard writes >= 2 * options.jobs else {
        throw SimulatorProcess.Failure(description: "\(writes) writes in Redis for \(options.jobs) jobs")
      }
    }
    if !stopRedis {
      let session = try BenchRedis.session()
      defer { session.close() }
      try BenchRedis.remove(prefix: "\(broker.topology.prefix):", from: session)
    }
    return usage
  }

  private func measure(
    _ broker: BenchBroker, _ simulator: SimulatorProcess, _ figures: inout Figures
  ) async throws -> (rate: Double, cpu: Double) {
    let configuration = try PipelineBench.configuration(
      broker, simulator, lanes: lanes, prefetch: prefetch)
    var logger = Logger(label: "herald-bench")
    logger.logLevel = .warning
    let worker = try Worker(configuration, logger: logger)
    let begun = ContinuousClock.now
    try worker.start()
    var first: Double?
    var residentMost: Int64 = 0
    var residentEarly: Int64?
    var startCPU: Int64 = 0
    var startCount: UInt64 = 0
    var allocationsStart: (jobs: UInt64, own: UInt64, libraries: UInt64)?
    var start = ContinuousClock.now
    var isRedisToStop = stopRedis
    while true {
      try await Task.sleep(for: .milliseconds(first == nil ? 2 : 50))
      let report = await worker.reports().compactMap { $0 }
      let done = report.reduce(0) { $0 + $1.counters.outcomeCounts.reduce(0) { $0 + $1.count } }
      if first == nil, done > 0 {
        first = microseconds(since: begun) / 1000
        startCPU = ProcessUsage.current.cpuMicroseconds
        startCount = done
        start = ContinuousClock.now
      }
      let resident = ProcessUsage.residentBytes ?? 0
      residentMost = max(residentMost, resident)
      if residentEarly == nil, done > UInt64(options.jobs / 10) {
        residentEarly = resident
        allocationsStart = (done, laneAllocations(.own), laneAllocations(.libraries))
      }
      if isRedisToStop, done >= UInt64(options.jobs / 2) {
        isRedisToStop = false
        try BenchRedis.stop()
      }
      if done >= UInt64(options.jobs), report.allSatisfy({ $0.jobsInFlight == 0 }) { break }
      if microseconds(since: begun) > 600e6 {
        throw SimulatorProcess.Failure(description: "not done within 10 minutes")
      }
    }
    let count = Double(UInt64(options.jobs) - startCount)
    let rate = count / microseconds(since: start) * 1e6
    let cpu = Double(ProcessUsage.current.cpuMicroseconds - startCPU) / count
    figures.add("rate", rate, "jobs/s")
    figures.add("worker", cpu, "CPU µs/job")
    if let allocationsStart {
      let count = Double(UInt64(options.jobs) - allocationsStart.jobs)
      let own = Double(laneAllocations(.own) - allocationsStart.own) / count
      let libraries = Double(laneAllocations(.libraries) - allocationsStart.libraries) / count
      figures.add("lane, after the first tenth", own, "allocations/job")
      figures.add("the C libraries for it", libraries, "allocations/job")
      if let allocationsMaximum, own > allocationsMaximum {
        throw SimulatorProcess.Failure(
          description: "the lane made \(own) allocations a job after the first tenth; at most \(allocationsMaximum)")
      }
    }
    figures.add("start to first outcome", first ?? 0, "ms")
    figures.add("resident at a tenth", Double(residentEarly ?? 0) / 1_048_576, "MiB")
    figures.add("resident, most", Double(residentMost) / 1_048_576, "MiB")
    await worker.drain()
    return (rate, cpu)
  }

  private enum Allocator {
    /// Swift code of ours, and the Swift runtime for it.
    case own
    /// nghttp2, OpenSSL and the others.
    case libraries
  }

  /// The allocations of all lanes' threads so far.
  private func laneAllocations(_ allocator: Allocator) -> UInt64 {
    (0..<lanes).reduce(0) { unsafe $0 + allocations_of_threads_named("lane-\($1)", allocator == .own) }
  }

  static func configuration(
    _ broker: BenchBroker, _ simulator: SimulatorProcess, lanes: Int, prefetch: Int
  ) throws -> Configuration {
    let host = "https://127.0.0.1:\(simulator.ready.port)"
    let text = """
      rabbitmq: {url: "\(broker.url)", prefix: \(broker.topology.prefix), prefetch: \(prefetch)}
      redis: {prefix: "\(broker.topology.prefix):"}
      apns: {production: "\(host)", broadcast_production: "\(host)", ca_file: "\(simulator.ready.caFile)"}
      results: {log: false}
      lanes: \(lanes)
      credentials:
        - {name: main, team_id: \(simulator.ready.credential.teamID), key_id: \(simulator.ready.credential.keyID),
           key_file: "\(simulator.ready.credential.keyFile)", environments: [production], apps: [com.example.app]}
      """
    let file = FileManager.default.temporaryDirectory.appending(path: "herald-bench-\(UUID().uuidString).yaml")
    try text.write(to: file, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: file) }
    var environment = ProcessInfo.processInfo.environment
    environment["HERALD_RABBITMQ_URL"] = nil
    return try ConfigurationLoader.load(file: file.path(), environment: environment)
  }
}
