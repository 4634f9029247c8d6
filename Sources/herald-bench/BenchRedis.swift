import Foundation
import PushCore
import PushIO

/// How often Redis was asked, by its own count: a worker that spares Redis under load has not done the same work.
struct BenchRedis {
  static var url: String { ProcessInfo.processInfo.environment["HERALD_REDIS_URL"] ?? "redis://127.0.0.1:6379/0" }

  private static let waitMilliseconds: Int64 = 10_000

  /// SETs since the server started, those made inside scripts too.
  static func setCount() throws -> Int {
    let loop = try EventLoop()
    let address = try RedisConfiguration(url: url)
    let tls = try address.tls(caFile: nil)
    let connection = RedisConnection(loop: loop, configuration: address, tls: tls, scripts: [], seed: 1)
    defer {
      connection.close()
      loop.flush()
    }
    connection.connect()
    let deadline = loop.now.monotonic.adding(milliseconds: waitMilliseconds)
    while loop.now.monotonic < deadline {
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 50)
      while let event = connection.nextEvent() {
        switch event {
        case .ready:
          _ = connection.request(["INFO", "commandstats"])
        case .reply:
          let text = connection.copyReply().text ?? ""
          return count("set", in: text)
        case .lost, .disconnected:
          break
        }
      }
    }
    throw SimulatorProcess.Failure(description: "Redis at \(url) did not answer within \(waitMilliseconds) ms")
  }

  /// `cmdstat_set:calls=12,usec=…`; a command that was never called has no line.
  private static func count(_ command: String, in text: String) -> Int {
    let head = "cmdstat_\(command):calls="
    guard let line = text.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(head) }) else { return 0 }
    return Int(line.dropFirst(head.count).prefix { $0.isNumber }) ?? 0
  }
}
