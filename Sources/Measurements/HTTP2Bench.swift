import ArgumentParser
import Foundation
import PushCore
import PushIO

struct HTTP2Bench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "http2",
    abstract:
      "POSTs over one TLS connection with 1000 streams to a fast simulator, beside h2load where it is installed.")

  @OptionGroup var options: BenchOptions

  func run() throws {
    let simulator = try SimulatorProcess()
    defer { simulator.stop() }
    let peer = Self.find("h2load")
    if peer == nil { FileHandle.standardError.write(Data("h2load is not installed: no comparison\n".utf8)) }
    var figures = Figures()
    for _ in 0..<options.runs {
      let ours = try measure(simulator)
      figures.add("herald", ours.cpu, "CPU µs/request")
      figures.add("herald rate", ours.rate, "requests/s")
      guard let peer, let theirs = try measure(peer, simulator) else { continue }
      figures.add("h2load", theirs.cpu, "CPU µs/request")
      figures.add("h2load rate", theirs.rate, "requests/s")
      figures.add("herald / h2load", ours.cpu / theirs.cpu, "ratio of CPU")
    }
    try figures.show("http2: \(options.jobs) requests, one connection, 1000 streams", json: options.json)
  }

  private func measure(_ simulator: SimulatorProcess) throws -> (cpu: Double, rate: Double) {
    let loop = try EventLoop()
    let tls = try TLSContext.client(alpn: ["h2"], caFile: simulator.ready.caFile)
    let connection = HTTP2ClientConnection.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: simulator.ready.port), tls: tls)
    var writer = APNsRequestWriter(authority: "127.0.0.1:\(simulator.ready.port)")
    let signer = try ProviderTokenSigner(file: simulator.ready.credential.keyFile)
    let token = try signer.sign(
      teamID: simulator.ready.credential.teamID, keyID: simulator.ready.credential.keyID,
      issuedAt: loop.now.unixSeconds)
    let authorization = Array("bearer ".utf8) + token
    var job = try Self.parsed(SampleJobs.body(1))
    let target = job.targets[0].range
    var sent = 0
    var answered = 0
    var failed = 0
    while !connection.isOpen, !connection.isClosed {
      loop.poll(maximumWaitMilliseconds: 50)
      while connection.nextEvent() != nil {}
      loop.flush()
    }
    let used = ProcessUsage.current.cpuMicroseconds
    let start = ContinuousClock.now
    while answered < options.jobs, !connection.isClosed {
      while sent < options.jobs, connection.availableStreams > 0 {
        Self.setToken(sent, at: target, in: &job)
        let id = UUIDValue(high: 0x8C1F_6F0E_3A57_4D0C, low: 0x9F0E_0000_0000_0000 | UInt64(sent))
        writer.writeDevice(job, target: 0, apnsID: id, authorization: authorization, isFirst: sent == 0)
        let ticket = Ticket(index: UInt32(sent), generation: 1)
        guard connection.submit(writer.headers, body: job.bytes, bodyRange: job.payload.range, ticket: ticket) else {
          break
        }
        sent += 1
      }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 100)
      while let event = connection.nextEvent() {
        switch event {
        case .response(_, let status):
          answered += 1
          if status != 200 { failed += 1 }
        case .lost, .notProcessed:
          answered += 1
          failed += 1
        case .opened, .settingsChanged, .goAway, .pingAcknowledged, .closed:
          break
        }
      }
    }
    let wall = microseconds(since: start)
    let cpu = Double(ProcessUsage.current.cpuMicroseconds - used) / Double(options.jobs)
    connection.abort()
    if failed > 0 || answered < options.jobs {
      throw SimulatorProcess.Failure(description: "\(failed) of \(answered) requests failed")
    }
    return (cpu, Double(options.jobs) / wall * 1e6)
  }

  /// The same requests from h2load: as many different paths, the same headers and body.
  private func measure(_ peer: String, _ simulator: SimulatorProcess) throws -> (cpu: Double, rate: Double)? {
    let folder = FileManager.default.temporaryDirectory.appending(path: "herald-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let job = try Self.parsed(SampleJobs.body(1))
    let body = folder.appending(path: "body")
    try Data(job.bytes[job.payload.range]).write(to: body)
    let paths = folder.appending(path: "paths")
    let base = "https://127.0.0.1:\(simulator.ready.port)/3/device/"
    try (0..<10_000).map { base + String(format: "%064x", $0) }.joined(separator: "\n").write(
      to: paths, atomically: true, encoding: .utf8)
    let signer = try ProviderTokenSigner(file: simulator.ready.credential.keyFile)
    let token = try signer.sign(
      teamID: simulator.ready.credential.teamID, keyID: simulator.ready.credential.keyID,
      issuedAt: Int64(Date.now.timeIntervalSince1970))
    let process = Process()
    process.executableURL = URL(filePath: peer)
    process.arguments = [
      "-n", "\(options.jobs)", "-c", "1", "-m", "1000", "-t", "1", "-d", body.path(), "-i", paths.path(),
      "-H", "authorization: bearer \(String(decoding: token, as: UTF8.self))", "-H", "apns-topic: com.example.app",
      "-H", "apns-push-type: alert", "-H", "apns-priority: 10", "-H", "apns-collapse-id: order-1",
      "-H", "apns-id: 8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11",
    ]
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    let used = ProcessUsage.endedChildren.cpuMicroseconds
    let start = ContinuousClock.now
    try process.run()
    let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    let wall = microseconds(since: start)
    guard text.contains("\(options.jobs) succeeded") else {
      FileHandle.standardError.write(Data("h2load: not all requests succeeded; left out\n\(text)".utf8))
      return nil
    }
    let cpu = Double(ProcessUsage.endedChildren.cpuMicroseconds - used) / Double(options.jobs)
    return (cpu, Double(options.jobs) / wall * 1e6)
  }

  private static func parsed(_ body: [UInt8]) throws -> PushJob {
    var parser = JobParser()
    var job = PushJob()
    job.bytes = body
    job.bodyCount = body.count
    let none: [UInt8] = []
    try parser.parse(into: &job, fallbackID: none.span)
    return job
  }

  /// Writes a number over the last digits of the job's device token.
  private static func setToken(_ number: Int, at range: Range<Int>, in job: inout PushJob) {
    var rest = number
    var place = range.upperBound - 1
    for _ in 0..<8 {
      let digit = UInt8(rest & 15)
      job.bytes[place] = digit < 10 ? 0x30 + digit : 0x57 + digit
      rest >>= 4
      place -= 1
    }
  }

  /// The path of a program in the search path.
  static func find(_ program: String) -> String? {
    let folders = ProcessInfo.processInfo.environment["PATH", default: "/usr/bin"].split(separator: ":")
    return folders.map { "\($0)/\(program)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }
}
