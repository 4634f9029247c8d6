import ArgumentParser
import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushSettings
import PushWorker

/// The memory of hundreds of credentials: each has its own connection to APNs.
struct CredentialsBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "credentials",
    abstract: "What credentials cost in memory: as many jobs for the first of them, then one for each of the others.")

  @Option(help: "Credentials, each of a team and an app of its own.")
  var credentials = 300

  @Option(help: "Lanes of the worker.")
  var lanes = 1

  @Flag(help: "Print one JSON object instead of a table.")
  var json = false

  func validate() throws {
    if credentials < 2 { throw ValidationError("--credentials must be at least 2, not \(credentials)") }
  }

  func run() async throws {
    let simulator = try SimulatorProcess()
    defer { simulator.stop() }
    let broker = try BenchBroker(url: nil)
    defer { broker.remove() }
    try broker.fill(0)
    var logger = Logger(label: "herald-bench")
    logger.logLevel = .warning
    let worker = try Worker(configuration(broker, simulator), logger: logger)
    try worker.start()
    // As many jobs for one credential, so that the difference does not include the jobs.
    try await send(Array(repeating: 0, count: credentials), broker, worker)
    let first = try resident()
    try await send(Array(1..<credentials), broker, worker)
    let busy = try resident()
    // Idle connections release memory.
    try await Task.sleep(for: .seconds(3))
    let all = try resident()
    var figures = Figures()
    figures.add("after as many jobs for one", first / 1_048_576, "MiB")
    figures.add("after a job for each", busy / 1_048_576, "MiB")
    figures.add("after a rest of 3 s", all / 1_048_576, "MiB")
    figures.add("a credential", (all - first) / Double(credentials - 1) / 1024, "KiB")
    try figures.show("credentials: \(credentials), \(lanes) lane\(lanes == 1 ? "" : "s")", json: json)
    await worker.drain()
  }

  /// Publishes one job for each of these and waits for all outcomes.
  private func send(_ numbers: [Int], _ broker: BenchBroker, _ worker: Worker) async throws {
    let earlier = try await outcomeCount(worker)
    try broker.publish(
      numbers.enumerated().map { index, number in
        let body = String(decoding: SampleJobs.body(Int(earlier) + index), as: UTF8.self)
        return Array(body.replacing("com.example.app", with: app(number)).utf8)
      })
    let begun = ContinuousClock.now
    while true {
      try await Task.sleep(for: .milliseconds(50))
      if try await outcomeCount(worker) >= earlier + UInt64(numbers.count) { return }
      if microseconds(since: begun) > 60e6 {
        throw SimulatorProcess.Failure(description: "not done within a minute")
      }
    }
  }

  private func outcomeCount(_ worker: Worker) async throws -> UInt64 {
    let outcomes = await worker.reports().compactMap { $0?.counters }.flatMap(\.outcomeCounts)
    if let other = outcomes.first(where: { $0.outcome != .accepted }) {
      throw SimulatorProcess.Failure(description: "a job ended as \(other.outcome)")
    }
    return outcomes.reduce(0) { $0 + $1.count }
  }

  private func resident() throws -> Double {
    guard let bytes = ProcessUsage.residentBytes else {
      throw SimulatorProcess.Failure(description: "the kernel does not tell the resident memory")
    }
    return Double(bytes)
  }

  private func app(_ number: Int) -> String { "com.example.app\(number)" }

  private func configuration(_ broker: BenchBroker, _ simulator: SimulatorProcess) throws -> Configuration {
    let host = "https://127.0.0.1:\(simulator.ready.port)"
    let entries = (0..<credentials).map { number in
      """
        - {name: credential-\(number), team_id: TEAM\(100_000 + number), key_id: KEY\(1_000_000 + number),
           key_file: "\(simulator.ready.credential.keyFile)", environments: [production], apps: [\(app(number))]}
      """
    }
    let text = """
      rabbitmq: {url: "\(broker.url)", prefix: \(broker.topology.prefix), prefetch: 1000}
      redis: {prefix: "\(broker.topology.prefix):"}
      apns: {production: "\(host)", broadcast_production: "\(host)", ca_file: "\(simulator.ready.caFile)"}
      results: {log: false}
      lanes: \(lanes)
      credentials:
      \(entries.joined(separator: "\n"))
      """
    let file = FileManager.default.temporaryDirectory.appending(path: "herald-bench-\(UUID().uuidString).yaml")
    try text.write(to: file, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: file) }
    var environment = ProcessInfo.processInfo.environment
    environment["HERALD_RABBITMQ_URL"] = nil
    return try ConfigurationLoader.load(file: file.path(), environment: environment)
  }
}
