import Foundation
import PushIO

/// The Redis of a measurement: its own count of writes (a worker that spares Redis under load has not
/// done the same work), and the keys that a run left.
enum BenchRedis {
  static var url: String { ProcessInfo.processInfo.environment["HERALD_REDIS_URL"] ?? "redis://127.0.0.1:6379/0" }

  static func session(_ url: String = url) throws -> RedisSession {
    let configuration = try RedisConfiguration(url: url)
    return try RedisSession(configuration: configuration, tls: configuration.tls(caFile: nil))
  }

  /// Writes since the server started, including those of scripts.
  static func writeCount() throws -> Int {
    let session = try session()
    defer { session.close() }
    let text = try run(["INFO", "commandstats"], session).text ?? ""
    return count("set", in: text) + count("append", in: text)
  }

  /// The server's CPU so far, by its own count, microseconds.
  static func cpuMicroseconds(_ session: RedisSession) throws -> Double {
    let text = try run(["INFO", "cpu"], session).text ?? ""
    var sum = 0.0
    for line in text.split(whereSeparator: \.isNewline) {
      let parts = line.split(separator: ":")
      guard parts.count == 2, parts[0] == "used_cpu_sys" || parts[0] == "used_cpu_user" else { continue }
      sum += (Double(parts[1]) ?? 0) * 1e6
    }
    return sum
  }

  /// Stops the server like a crash: nothing is saved. Returns once it closed the connection.
  static func stop() throws {
    let session = try session()
    defer { session.close() }
    do {
      let reply = try run(["SHUTDOWN", "NOSAVE"], session)
      throw SimulatorProcess.Failure(description: "Redis at \(url) would not stop: \(reply)")
    } catch is RedisError {}
  }

  /// Deletes the keys of a run, so that they do not affect the next one.
  static func remove(prefix: String, from session: RedisSession) throws {
    var cursor = "0"
    repeat {
      guard case .array(let page) = try run(["SCAN", cursor, "MATCH", "\(prefix)*", "COUNT", "1000"], session),
        page.count == 2, let next = page[0].text, case .array(let keys) = page[1]
      else { throw SimulatorProcess.Failure(description: "Redis at \(url) answered SCAN with something else") }
      cursor = next
      if !keys.isEmpty { _ = try run(["UNLINK"] + keys.compactMap(\.text), session) }
    } while cursor != "0"
  }

  private static func run(_ command: [String], _ session: RedisSession) throws -> RedisReply {
    let replies = try session.run([RedisSession.Command(command, key: "")])
    guard let reply = replies.first else { throw SimulatorProcess.Failure(description: "no answer of Redis at \(url)") }
    return reply
  }

  /// `cmdstat_set:calls=12,usec=…`; a command that was never called has no line.
  private static func count(_ command: String, in text: String) -> Int {
    let head = "cmdstat_\(command):calls="
    guard let line = text.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(head) }) else { return 0 }
    return Int(line.dropFirst(head.count).prefix { $0.isNumber }) ?? 0
  }
}
