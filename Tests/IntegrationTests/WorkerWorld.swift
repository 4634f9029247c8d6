import Foundation
import Glibc
import TestSupport
import Testing

/// Everything that a worker needs, as processes, with third-party clients to observe it.
final class WorkerWorld {
  /// The fields of an outcome that the tests use.
  struct Outcome: Decodable {
    let jobID: String?
    let apnsID: String?
    let outcome: String
    let status: Int?
    let reason: String?
    let detail: String?
    let attempts: Int
    let ambiguous: Bool
    /// Unix milliseconds.
    let receivedAt: Int64?
    let sentAt: Int64?
    let completedAt: Int64?

    private enum CodingKeys: String, CodingKey {
      case jobID = "job_id"
      case apnsID = "apns_id"
      case receivedAt = "received_at"
      case sentAt = "sent_at"
      case completedAt = "completed_at"
      case outcome, status, reason, detail, attempts, ambiguous
    }
  }

  /// Settings that differ between tests.
  struct Options {
    var prefetch = 200
    var drainTimeoutSeconds = 20
    var lanes = 1
    /// Longer than the default: where the machine runs other tests, Redis itself may stand still; a job that goes on without it is marked.
    var redisTimeoutMilliseconds = 500
    /// The simulator's shortest interval between two provider tokens of a key; 0: any.
    var tokenIntervalSeconds = 0
  }

  let rabbitmq: RabbitMQServer
  let simulator: SimulatorProcess
  let outside: OutsideClient
  let prefix: String
  let outcomesQueue: String
  let adminPort: UInt16
  let folder: TemporaryFolder
  let configurationFile: String
  let options: Options
  private let redisURL: String
  private var outcomes: [Outcome] = []
  private var workerCount = 0

  /// Declares the topology and binds a queue to the outcomes.
  init(
    _ name: String, rabbitmq: RabbitMQServer? = nil, redisURL: String? = nil, options: Options = Options()
  ) throws {
    self.rabbitmq = try rabbitmq ?? .shared()
    self.redisURL = try redisURL ?? RedisServer.shared().url
    self.options = options
    simulator = try SimulatorProcess(tokenIntervalSeconds: options.tokenIntervalSeconds)
    outside = OutsideClient(port: self.rabbitmq.port)
    prefix = "worker-\(name)-\(UInt32.random(in: 0 ... .max))"
    outcomesQueue = "\(prefix).analytics"
    adminPort = try LoopbackPort.free()
    folder = try TemporaryFolder("worker")
    configurationFile = folder.path("herald.yaml")
    try folder.write(configuration(), to: "herald.yaml")
    let declared = try herald(["enqueue", "/dev/null"])
    guard declared.status == 0 else { throw TestFailure("herald enqueue: \(declared.errors)") }
    try outside.bind(queue: outcomesQueue, to: "\(prefix).results")
  }

  /// The configuration file's text; given values replace the usual ones.
  func configuration(
    rabbitmqURL: String? = nil, redisURL: String? = nil, keyFile: String? = nil, production: String? = nil,
    furtherLines: String = ""
  ) -> String {
    let apns = "https://127.0.0.1:\(simulator.port)"
    return """
      rabbitmq: {url: "\(rabbitmqURL ?? rabbitmq.url)", prefix: "\(prefix)", prefetch: \(options.prefetch)}
      redis: {url: "\(redisURL ?? self.redisURL)", prefix: "\(prefix):", timeout_ms: \(options.redisTimeoutMilliseconds)}
      apns:
        production: "\(production ?? apns)"
        broadcast_production: "\(apns)"
        manage_production: "https://127.0.0.1:\(simulator.managePort)"
        ca_file: "\(simulator.authorityFile)"
        request_timeout_ms: 5000
      credentials:
        - name: main
          team_id: \(simulator.teamID)
          key_id: \(simulator.keyID)
          key_file: "\(keyFile ?? simulator.keyFile)"
          environments: [production]
          apps: [com.example.app]
      limits: {per_device_burst: 0}
      retry: {delays_s: [1, 2], attempts_max: 10, age_max_s: 300}
      lanes: \(options.lanes)
      drain_timeout_s: \(options.drainTimeoutSeconds)
      admin: {port: \(adminPort)}
      \(furtherLines)

      """
  }

  /// Our environment without the variables that would override the configuration.
  static let environment = ChildProcess.inheritedEnvironment(without: ["HERALD_"])

  /// Runs a command of herald to its end. `configuration`: a file's text in place of the usual one.
  func herald(
    _ arguments: [String], configuration: String? = nil, input: String? = nil, secondsAhead: Int = 0
  ) throws(TestFailure) -> ChildProcess.Output {
    var file = configurationFile
    if let configuration { file = try folder.write(configuration, to: "other.yaml") }
    var environment = Self.environment
    if secondsAhead != 0 {
      environment += try ShiftedClock.environment(millisecondsAhead: secondsAhead * 1_000, folder)
    }
    return try ChildProcess.run(
      [try BuiltProgram.path("herald")] + arguments + ["--config", file], environment: environment, input: input,
      timeoutMilliseconds: 60_000)
  }

  /// Starts `herald run`; it is killed with the value, should a test end early.
  /// - Parameters:
  ///   - secondsAhead: its wall clock is ahead of the machine's; negative: behind.
  ///   - command: what starts it; empty: this process.
  func startWorker(
    _ arguments: [String] = [], configuration: String? = nil, secondsAhead: Int = 0, within command: [String] = []
  ) throws(TestFailure) -> WorkerProcess {
    var file = configurationFile
    workerCount += 1
    // One file per worker: a worker may read its file after the next one was started.
    if let configuration { file = try folder.write(configuration, to: "worker-\(workerCount).yaml") }
    let name = "worker-\(workerCount).log"
    var environment = Self.environment
    if secondsAhead != 0 {
      environment += try ShiftedClock.environment(millisecondsAhead: secondsAhead * 1_000, folder)
    }
    let child = try ChildProcess(
      command + [try BuiltProgram.path("herald"), "run", "--config", file] + arguments, environment: environment,
      output: folder.path(name), errors: folder.path(name))
    return WorkerProcess(child: child, folder: folder, logName: name)
  }

  /// Runs a worker until there is nothing left to do.
  func runUntilEmpty(_ location: SourceLocation = #_sourceLocation) throws {
    let worker = try startWorker(["--until-empty"])
    #expect(worker.waitForExit(seconds: 60) == 0, "\(worker.log)", sourceLocation: location)
  }

  // MARK: jobs

  /// A job as a producer writes it. `token` begins the device token.
  func job(_ id: String, token: String = "00fc", number: Int = 0) -> String {
    let digits = String(number, radix: 16)
    let token = token + String(repeating: "0", count: 64 - token.count - digits.count) + digits
    return "{\"version\":1,\"id\":\"\(id)\",\"app\":\"com.example.app\",\"push_type\":\"alert\","
      + "\"to\":{\"token\":\"\(token)\"},\"payload\":{\"aps\":{\"alert\":{\"title\":\"Shipped\"}}}}"
  }

  /// A client's queue that refuses all that is published to it.
  func makeFullQueue() throws(TestFailure) -> String {
    let queue = "\(prefix).answers"
    try outside.bind(queue: queue, to: "amq.fanout")
    _ = try rabbitmq.rabbitmqctl([
      "set_policy", "--apply-to", "queues", queue, "^\(queue)$", #"{"max-length":1,"overflow":"reject-publish"}"#,
    ])
    for body in ["taken", "refused"] { try outside.publish(body, exchange: "amq.fanout", routingKey: "") }
    return queue
  }

  /// Lifts the limit of such a queue. RabbitMQ goes on refusing on a channel that it once told that the queue is full.
  func liftLimit(of queue: String) throws(TestFailure) {
    _ = try rabbitmq.rabbitmqctl(["clear_policy", queue])
  }

  func publish(_ body: String, routingKey: String = "transactional") throws(TestFailure) {
    try outside.publish(body, exchange: "\(prefix).jobs", routingKey: routingKey)
  }

  /// Publishes jobs `job-<number>`, each for another device. With confirms: if a client publishes many messages
  /// without confirms and then closes, a quorum queue loses the last ones.
  func publishJobs(_ numbers: Range<Int>, jobClass: String = "transactional") throws(TestFailure) {
    let lines = numbers.map { job("job-\($0)", number: $0) }.joined(separator: "\n") + "\n"
    let result = try herald(["enqueue", "--class", jobClass], input: lines)
    guard result.output == "\(numbers.count) of \(numbers.count) jobs confirmed\n" else {
      throw TestFailure("herald enqueue: \(result.output)\(result.errors)")
    }
  }

  // MARK: outcomes

  /// All outcomes published so far.
  func takeOutcomes() throws -> [Outcome] {
    for message in try outside.drain(outcomesQueue) {
      outcomes.append(try JSONDecoder().decode(Outcome.self, from: Data(message.body)))
    }
    return outcomes
  }

  /// Each of these jobs has the outcome `accepted`; returns the number of surplus outcomes.
  func expectAccepted(_ numbers: Range<Int>, _ location: SourceLocation = #_sourceLocation) throws -> Int {
    let outcomes = try takeOutcomes()
    let others = outcomes.filter { $0.outcome != "accepted" || $0.status != 200 }
    #expect(others.isEmpty, "\(others.prefix(3))", sourceLocation: location)
    let reported = Set(outcomes.compactMap(\.jobID))
    let missing = numbers.map { "job-\($0)" }.filter { !reported.contains($0) }
    #expect(missing.isEmpty, "\(missing.count) jobs without outcome: \(missing.prefix(5))", sourceLocation: location)
    #expect(reported.count == numbers.count, sourceLocation: location)
    return outcomes.count - reported.count
  }

  /// Waits until the simulator accepted this many different notifications.
  @discardableResult
  func waitForAccepted(
    _ count: Int, seconds: Int = 40, _ location: SourceLocation = #_sourceLocation
  ) throws -> Int {
    var accepted = 0
    let reached = ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 20) { () -> Bool? in
      accepted = (try? simulator.counters().acceptedIDs) ?? accepted
      return accepted >= count ? true : nil
    }
    try #require(reached != nil, "\(accepted) accepted, not \(count); \(gauges)\n\(log)", sourceLocation: location)
    return accepted
  }

  /// Waits until this many jobs have outcomes. A job whose delivery was lost has its outcome published when it comes back.
  func waitForOutcomes(_ count: Int, seconds: Int = 60, _ location: SourceLocation = #_sourceLocation) throws {
    var reported = 0
    let reached = ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 100) { () -> Bool? in
      reported = (try? Set(takeOutcomes().compactMap(\.jobID)).count) ?? reported
      return reported >= count ? true : nil
    }
    try #require(
      reached != nil, "\(reported) jobs have outcomes, not \(count); \(gauges)\n\(log)", sourceLocation: location)
  }

  /// The end of the last worker's log.
  private var log: Substring { folder.read("worker-\(workerCount).log").suffix(3_000) }

  /// How many of a running worker's jobs are at each step.
  private var gauges: String {
    let names = [
      "jobs_", "outcomes_", "apns_connections", "apns_streams", "responses", "retries", "unconfirmed", "connected",
      "redis",
    ]
    let lines = (admin("/metrics")?.body ?? "no metrics").split(separator: "\n").filter { !$0.hasPrefix("#") }
    return lines.filter { line in names.contains { line.hasPrefix("herald_\($0)") } }.joined(separator: "\n")
  }

  func admin(_ path: String) -> LoopbackHTTP.Answer? { LoopbackHTTP.request("GET", path, port: adminPort) }

  func waitUntilReady(seconds: Int = 20) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 50) {
      admin("/readyz")?.status == 200 ? true : nil
    } ?? false
  }
}
