import Foundation
import PushIO
import PushLane

/// A gateway as a process: Herald's, or one of scripts/peers.
final class GatewayProcess {
  /// What it announces itself with: a line of Herald's log, or the peer's only line.
  private struct Announcement: Decodable {
    var address: String?
    var port: UInt16?
  }

  private(set) var port: UInt16 = 0
  /// For the header `Authorization`.
  let key: String
  private let process = Process()
  private let folder: URL

  private static let startSeconds = 30.0

  /// - Parameter connectionsMaximum: clients at a time.
  static func herald(_ program: String, _ broker: BenchBroker, connectionsMaximum: Int) throws -> GatewayProcess {
    let folder = try newFolder()
    let file = folder.appending(path: "herald.yaml")
    let text = """
      rabbitmq: {url: "\(broker.url)", prefix: \(broker.topology.prefix)}
      redis: {url: "\(BenchRedis.url)", prefix: "\(broker.topology.prefix):"}
      results: {log: false}
      gateway: {port: 0, connections_max: \(connectionsMaximum)}
      log: {format: json}

      """
    try text.write(to: file, atomically: true, encoding: .utf8)
    let key = try output(
      of: program, ["keys", "create", "--app", "com.example.app", "--scope", "send", "--config", file.path()])
    return try GatewayProcess(program, ["gateway", "--config", file.path()], key: key, folder: folder)
  }

  /// - Parameter remembers: like Herald, it stores the ids of confirmed jobs in Redis.
  static func peer(_ program: String, _ broker: BenchBroker, remembers: Bool) throws -> GatewayProcess {
    let key = UUID().uuidString
    var arguments = [
      "--listen", "127.0.0.1:0", "--api-key", key, "--amqp", broker.url, "--exchange", broker.topology.jobsExchange,
    ]
    if remembers {
      arguments += ["--remember", "--redis", BenchRedis.url, "--key-prefix", "\(broker.topology.prefix):"]
    }
    return try GatewayProcess(program, arguments, key: key, folder: newFolder())
  }

  private init(_ program: String, _ arguments: [String], key: String, folder: URL) throws {
    self.key = key
    self.folder = folder
    let log = folder.appending(path: "log")
    try Data().write(to: log)
    let handle = try FileHandle(forWritingTo: log)
    process.executableURL = URL(filePath: program)
    process.arguments = arguments
    process.environment = GatewayProcess.environment
    process.standardOutput = handle
    process.standardError = handle
    try process.run()
    try waitUntilReady(log)
  }

  var processIdentifier: Int32 { process.processIdentifier }
  var residentBytes: Int64 { ProcessUsage.residentBytes(of: "\(process.processIdentifier)") ?? 0 }

  private func waitUntilReady(_ log: URL) throws {
    let deadline = Date.now.addingTimeInterval(GatewayProcess.startSeconds)
    while process.isRunning, Date.now < deadline {
      Thread.sleep(forTimeInterval: 0.05)
      guard let port = try GatewayProcess.port(in: log) else { continue }
      self.port = port
      // Until then it answers 503.
      let load = try? GatewayLoad(port: port, connections: 1)
      if let load, (try? load.runOnEach(LoadRequest(probe: "/readyz"))) != nil { return }
    }
    let text = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
    abandon()
    throw SimulatorProcess.Failure(description: "the gateway was not ready in time: \(text)")
  }

  private static func port(in log: URL) throws -> UInt16? {
    for line in try String(contentsOf: log, encoding: .utf8).split(separator: "\n") {
      guard let found = try? JSONDecoder().decode(Announcement.self, from: Data(line.utf8)) else { continue }
      if let port = found.port { return port }
      if let port = found.address?.split(separator: ":").last.flatMap({ UInt16($0) }) { return port }
    }
    return nil
  }

  /// Ends it with SIGTERM; it must exit 0.
  func stop() throws {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
    guard process.terminationStatus == 0 else {
      throw SimulatorProcess.Failure(description: "the gateway ended with \(process.terminationStatus)")
    }
  }

  /// After a failure.
  func abandon() {
    if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
  }

  private static var environment: [String: String] {
    ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("HERALD_") }
  }

  private static func newFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "herald-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
  }

  private static func output(of program: String, _ arguments: [String]) throws -> String {
    let process = Process()
    let pipe = Pipe()
    process.executableURL = URL(filePath: program)
    process.arguments = arguments
    process.environment = environment
    process.standardOutput = pipe
    try process.run()
    let text = String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw SimulatorProcess.Failure(description: "\(program) \(arguments[0]) ended with \(process.terminationStatus)")
    }
    return text.trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
