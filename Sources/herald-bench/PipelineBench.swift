import ArgumentParser
import CAllocations
import Foundation
import Logging
import PushCore
import PushIO
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

  func run() async throws {
    var figures = Figures()
    for _ in 0..<options.runs {
      let simulator = try SimulatorProcess()
      defer { simulator.stop() }
      let broker = try BenchBroker(url: nil)
      defer { broker.remove() }
      try broker.fill(options.jobs)
      try await measure(broker, simulator, &figures)
      let outcomes = try broker.outcomeCount()
      guard outcomes == options.jobs else {
        throw SimulatorProcess.Failure(description: "\(outcomes) outcomes for \(options.jobs) jobs")
      }
    }
    try figures.show(
      "pipeline: \(options.jobs) jobs, \(lanes) lane\(lanes == 1 ? "" : "s"), prefetch \(prefetch)", json: options.json)
  }

  private func measure(_ broker: BenchBroker, _ simulator: SimulatorProcess, _ figures: inout Figures) async throws {
    let configuration = try configuration(broker, simulator)
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
    var allocationsStart: (jobs: UInt64, count: UInt64)?
    var start = ContinuousClock.now
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
        allocationsStart = (done, laneAllocations)
      }
      if done >= UInt64(options.jobs), report.allSatisfy({ $0.jobsInFlight == 0 }) { break }
      if microseconds(since: begun) > 600e6 {
        throw SimulatorProcess.Failure(description: "not done within 10 minutes")
      }
    }
    let count = Double(UInt64(options.jobs) - startCount)
    figures.add("rate", count / microseconds(since: start) * 1e6, "jobs/s")
    figures.add("worker", Double(ProcessUsage.current.cpuMicroseconds - startCPU) / count, "CPU µs/job")
    if let allocationsStart {
      let allocations = laneAllocations - allocationsStart.count
      figures.add(
        "lane, after the first tenth", Double(allocations) / Double(UInt64(options.jobs) - allocationsStart.jobs),
        "allocations/job")
    }
    figures.add("start to first outcome", first ?? 0, "ms")
    figures.add("resident at a tenth", Double(residentEarly ?? 0) / 1_048_576, "MiB")
    figures.add("resident, most", Double(residentMost) / 1_048_576, "MiB")
    await worker.drain()
  }

  /// What all lanes allocated so far, C libraries included.
  private var laneAllocations: UInt64 {
    (0..<lanes).reduce(0) { unsafe $0 + allocations_of_threads_named("lane-\($1)") }
  }

  private func configuration(_ broker: BenchBroker, _ simulator: SimulatorProcess) throws -> Configuration {
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
