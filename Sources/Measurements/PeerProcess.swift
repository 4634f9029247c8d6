import Foundation
import PushCore
import PushIO
import PushLane

/// Another worker as a process, to compare Herald with: `scripts/peers` has them.
///
/// It takes the options below, does `--jobs` jobs and exits 0. On standard output it prints `{"event":"first"}` once the
/// first outcome is confirmed, and `{"event":"done","jobs":…,"resident_bytes":…}` once the last job is acknowledged.
struct PeerProcess {
  let program: String
  let jobs: Int
  let prefetch: Int

  struct Usage {
    var rate: Double
    var cpu: Double
    var residentBytes: Double
  }

  private struct Line: Decodable {
    var event: String
    var jobs: Int?
    var residentBytes: Double?

    private enum CodingKeys: String, CodingKey {
      case event, jobs
      case residentBytes = "resident_bytes"
    }
  }

  private static let secondsMaximum = 600

  /// CPU and rate count from the first outcome to the end, as for Herald.
  func measure(_ broker: BenchBroker, _ simulator: SimulatorProcess) throws -> Usage {
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(filePath: program)
    process.arguments = arguments(broker, simulator)
    process.standardOutput = output
    let earlier = ProcessUsage.endedChildren.cpuMicroseconds
    try process.run()
    let watch = Task.detached { [identifier = process.processIdentifier] in
      try await Task.sleep(for: .seconds(Self.secondsMaximum))
      kill(identifier, SIGKILL)
    }
    defer { watch.cancel() }

    let reader = output.fileHandleForReading
    let first = try Self.line(reader)
    let start = ContinuousClock.now
    let startCPU = ProcessUsage.cpuMicroseconds(of: process.processIdentifier)
    let last = try Self.line(reader)
    let wall = microseconds(since: start)
    process.waitUntilExit()
    guard process.terminationStatus == 0, first?.event == "first", let startCPU, let last, last.event == "done" else {
      throw SimulatorProcess.Failure(description: "\(program) did not end well: \(process.terminationStatus)")
    }
    guard last.jobs == jobs else {
      throw SimulatorProcess.Failure(description: "\(program) did \(last.jobs ?? 0) of \(jobs) jobs")
    }
    let used = ProcessUsage.endedChildren.cpuMicroseconds - earlier - startCPU
    let count = Double(jobs - 1)
    return Usage(rate: count / wall * 1e6, cpu: Double(used) / count, residentBytes: last.residentBytes ?? 0)
  }

  private func arguments(_ broker: BenchBroker, _ simulator: SimulatorProcess) -> [String] {
    let credential = simulator.ready.credential
    return [
      "--amqp", broker.url, "--queue", broker.topology.jobsQueue(.transactional),
      "--exchange", broker.topology.resultsExchange,
      "--redis", BenchRedis.url, "--key-prefix", "\(broker.topology.prefix):",
      "--apns", "127.0.0.1:\(simulator.ready.port)", "--ca-file", simulator.ready.caFile,
      "--team-id", credential.teamID, "--key-id", credential.keyID, "--key-file", credential.keyFile,
      "--jobs", "\(jobs)", "--prefetch", "\(prefetch)",
    ]
  }

  /// The next line; nil if the output ended or the line is neither of the two.
  private static func line(_ reader: FileHandle) throws -> Line? {
    var line = Data()
    while let byte = try reader.read(upToCount: 1), !byte.isEmpty, byte[0] != 0x0A { line += byte }
    return try? JSONDecoder().decode(Line.self, from: line)
  }
}
