import Foundation
import Glibc
import TestSupport
import Testing

/// A running `herald gateway` with its servers, and a client.
final class GatewayWorld {
  let rabbitmq: RabbitMQServer
  let outside: OutsideClient
  let prefix: String
  let port: UInt16
  let folder: TemporaryFolder
  private(set) var process: WorkerProcess
  /// Of com.example.app, with every scope.
  private(set) var key = ""
  private let configurationFile: String

  private static let environment = ChildProcess.inheritedEnvironment(without: ["HERALD_"])

  /// Starts the gateway and, if it speaks plain HTTP, waits until it is ready.
  /// - Parameters:
  ///   - rabbitmq, redisURL: nil: shared ones.
  ///   - prefix: of a worker's world, to share its queues and keys; nil: a new one.
  ///   - further: lines of the section `gateway`.
  ///   - isLogged: false: without the results log. RabbitMQ 3.10 does not find a stream again that was declared a second before a crash.
  ///   - isPlain: it speaks HTTP without TLS.
  ///   - descriptorsMaximum: that it may have; nil: as many as this process.
  ///   - millisecondsAhead: of its clock.
  ///   - hasHeartbeats: false: it keeps the connection to a RabbitMQ that is paused.
  init(
    _ name: String, rabbitmq: RabbitMQServer? = nil, redisURL: String? = nil, prefix: String? = nil,
    further: [String] = [], drainSeconds: Int = 20, isPlain: Bool = true, isLogged: Bool = true,
    descriptorsMaximum: Int? = nil, millisecondsAhead: Int = 0, hasHeartbeats: Bool = true
  ) throws {
    self.rabbitmq = try rabbitmq ?? .shared()
    outside = OutsideClient(port: self.rabbitmq.port)
    self.prefix = prefix ?? "gateway-\(name)-\(UInt32.random(in: 0 ... .max))"
    port = try LoopbackPort.free()
    folder = try TemporaryFolder("gateway")
    let lines = ["port: \(port)"] + further
    configurationFile = try folder.write(
      """
      rabbitmq: {url: "\(self.rabbitmq.url)\(hasHeartbeats ? "" : "?heartbeat=0")", prefix: "\(self.prefix)"}
      redis: {url: "\(try redisURL ?? RedisServer.shared().url)", prefix: "\(self.prefix):"}
      results: {log: \(isLogged)}
      drain_timeout_s: \(drainSeconds)
      apns: {request_timeout_ms: 1000}
      gateway:
        \(lines.joined(separator: "\n  "))

      """, to: "herald.yaml")
    process = try GatewayWorld.start(
      configurationFile, folder, descriptorsMaximum, millisecondsAhead: millisecondsAhead)
    key = try makeKey(["--app", "com.example.app", "--scope", "send,register,read,admin"])
    if isPlain { try #require(waitUntilReady(), "\(process.log)") }
  }

  private static func start(
    _ file: String, _ folder: TemporaryFolder, _ descriptorsMaximum: Int? = nil, millisecondsAhead: Int = 0
  ) throws(TestFailure) -> WorkerProcess {
    let log = folder.path("gateway.log")
    let clock =
      millisecondsAhead == 0 ? [] : try ShiftedClock.environment(millisecondsAhead: millisecondsAhead, folder)
    let limit = descriptorsMaximum.map { ["/bin/sh", "-c", "ulimit -n \($0); exec \"$0\" \"$@\""] } ?? []
    let child = try ChildProcess(
      limit + [try BuiltProgram.path("herald"), "gateway", "--config", file], environment: environment + clock,
      output: log, errors: log)
    return WorkerProcess(child: child, folder: folder, logName: "gateway.log")
  }

  func restart() throws {
    process = try GatewayWorld.start(configurationFile, folder)
    try #require(waitUntilReady(), "\(process.log)")
  }

  func waitUntilReady(seconds: Int = 30) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 50) {
      LoopbackHTTP.request("GET", "/readyz", port: port)?.status == 200 ? true : nil
    } ?? false
  }

  func herald(_ arguments: [String]) throws(TestFailure) -> ChildProcess.Output {
    try ChildProcess.run(
      [try BuiltProgram.path("herald")] + arguments + ["--config", configurationFile],
      environment: GatewayWorld.environment, timeoutMilliseconds: 60_000)
  }

  /// Starts a command of `herald`.
  func begin(_ arguments: [String]) throws -> ChildProcess {
    try ChildProcess(
      [try BuiltProgram.path("herald")] + arguments + ["--config", configurationFile],
      environment: GatewayWorld.environment, output: folder.path("commands.log"), errors: folder.path("commands.log"))
  }

  /// A sample of `/metrics`.
  /// - Parameter sample: with its labels.
  func metric(_ sample: String) -> Int? {
    let text = LoopbackHTTP.request("GET", "/metrics", port: port)?.body ?? ""
    return text.split(separator: "\n").first { $0.hasPrefix(sample + " ") }.flatMap {
      Int($0.dropFirst(sample.count + 1))
    }
  }

  /// Waits until a sample of `/metrics` has this value; false: it did not come in time.
  func waitForMetric(_ sample: String, _ value: Int, seconds: Int = 20) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 20) {
      metric(sample) == value ? true : nil
    } ?? false
  }

  func makeKey(_ options: [String]) throws -> String {
    let made = try herald(["keys", "create"] + options)
    try #require(made.status == 0, "\(made.errors)")
    return made.output.trimmingCharacters(in: .newlines)
  }

  /// One request on a connection of its own.
  func ask(
    _ method: String, _ path: String, key: String? = nil, headers: [String] = [], body: String = ""
  ) throws -> LoopbackHTTP.Answer {
    let type = headers.contains { $0.lowercased().hasPrefix("content-type") } ? [] : ["Content-Type: application/json"]
    return try #require(
      LoopbackHTTP.request(
        method, path, port: port, headers: ["Authorization: Bearer \(key ?? self.key)"] + type + headers, body: body,
        timeoutMilliseconds: 20_000), "\(process.log.suffix(2_000))")
  }

  /// Takes the messages of the transactional queue.
  func takeJobs(_ jobClass: String = "transactional") throws -> [OutsideClient.Message] {
    try outside.drain("\(prefix).jobs.\(jobClass)")
  }

  /// A job for one device, without what the key says.
  func job(_ members: String = "") -> String {
    let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
    return
      "{\(members)\"push_type\":\"alert\",\"to\":{\"token\":\"\(token)\"},\"payload\":{\"aps\":{\"alert\":\"hi\"}}}"
  }

  func id(_ answer: LoopbackHTTP.Answer) throws -> String {
    struct Body: Decodable { let id: String }
    return try JSONDecoder().decode(Body.self, from: Data(answer.body.utf8)).id
  }
}
